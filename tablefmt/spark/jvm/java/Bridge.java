package tablefmt;

import java.util.function.Function;
import org.apache.spark.unsafe.Platform;

/**
 * The way from Spark's driver into Python. One function for the whole JVM answers every verb.
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
   * Maps and arrays of text go as JSON: Python would ask for every element with a call of its own.
   *
   * @param verb what to do, and with what: see messages.schema.json
   * @return what Python answered; its errors are thrown here, a Java exception as it was
   */
  public static Object call(String verb, Object[] arguments) {
    Function answer = python;
    if (answer == null) {
      throw new TablefmtException("Python is not connected: call tablefmt.spark.register(spark)");
    }
    Object[] request = new Object[] {verb, Messages.arguments(verb, arguments)};
    return checked(answer.apply(request));
  }

  /** What Python answered, or the error that it says. */
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
