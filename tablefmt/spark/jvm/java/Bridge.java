package tablefmt;

import java.util.function.Function;
import org.apache.spark.unsafe.Platform;

/**
 * Calls Python from Spark's driver. One function for the whole JVM answers every verb.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public final class Bridge {
  private static final String FAILED = "\u0000tablefmt ";
  private static volatile Function python;

  public void connect(Function answer) {
    python = answer;
  }

  /**
   * Calls a verb. Maps and arrays of text are sent as JSON, because Python would otherwise fetch
   * every element with a separate call.
   *
   * @param verb a verb of messages.schema.json, which defines its arguments
   * @return Python's answer. Python's errors are thrown here; a Java exception is rethrown as it is
   */
  public static Object call(String verb, Object[] arguments) {
    Function answer = python;
    if (answer == null) {
      throw new TablefmtException("Python is not connected: call tablefmt.spark.register(spark)");
    }
    Object[] request = new Object[] {verb, Messages.arguments(verb, arguments)};
    return checked(answer.apply(request));
  }

  /** Returns Python's answer, or throws the error in it. */
  static Object checked(Object result) {
    if (result instanceof Throwable) {
      Platform.throwException((Throwable) result);
    }
    if (result instanceof String && ((String) result).startsWith(FAILED)) {
      throw new TablefmtException(((String) result).substring(FAILED.length()));
    }
    return result;
  }
}
