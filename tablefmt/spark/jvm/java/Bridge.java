package tablefmt;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.unsafe.Platform;

/**
 * The way from Spark's driver into Python. One function for the whole JVM answers every verb.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public final class Bridge {
  private static final String FAILED = "\u0000tablefmt ";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static volatile Function python;

  public void connect(Function answer) {
    python = answer;
  }

  /**
   * @param verb what to do: see bridge.py
   * @return what Python answered; its errors are thrown here, a Java exception as it was
   */
  public static Object call(String verb, Object[] arguments) {
    Function answer = python;
    if (answer == null) {
      throw new TablefmtException("Python is not connected: call tablefmt.spark.register(spark)");
    }
    Object[] request = new Object[] {verb, plain(arguments)};
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

  /** Maps and arrays of text as JSON: Python would ask for every element with a call of its own. */
  private static Object[] plain(Object[] arguments) {
    Object[] plain = new Object[arguments.length];
    for (int i = 0; i < plain.length; i++) {
      Object given = arguments[i];
      plain[i] = given instanceof Map || given instanceof String[] ? json(given) : given;
    }
    return plain;
  }

  private static String json(Object given) {
    try {
      return JSON.writeValueAsString(given);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }
}
