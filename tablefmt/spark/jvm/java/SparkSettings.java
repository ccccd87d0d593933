package tablefmt;

import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * Access to Spark's internals: settings of this thread's session (SQLConf.get, withExistingConf,
 * clone). Spark reads them while it builds expressions, parses text and loads tables.
 *
 * The code is compiled against Spark. If a method is missing, compilation fails, and the session
 * reads and writes through Arrow.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkSettings {
  private static final String ZONE = "spark.sql.session.timeZone";
  private static final String ANSI = "spark.sql.ansi.enabled";
  private static final String POLICY = "spark.sql.storeAssignmentPolicy";

  private SparkSettings() {}

  static String text(String name, String otherwise) {
    return SQLConf$.MODULE$.get().getConfString(name, otherwise);
  }

  static String zone() {
    return SQLConf$.MODULE$.get().sessionLocalTimeZone();
  }

  static boolean isAnsi() {
    return isAnsi(SQLConf$.MODULE$.get());
  }

  static boolean isAnsi(SQLConf conf) {
    return conf.ansiEnabled() && conf.storeAssignmentPolicy().toString().equals("ANSI");
  }

  static void turnOnAnsi(SQLConf conf) {
    conf.setConfString(ANSI, "true");
    conf.setConfString(POLICY, "ANSI");
  }

  /** Calls a function under ANSI, with otherwise the same settings. */
  static Object underAnsi(scala.Function0 work) {
    if (isAnsi()) {
      return work.apply();
    }
    SQLConf other = SQLConf$.MODULE$.get().clone();
    turnOnAnsi(other);
    return under(other, work);
  }

  /** Calls a function without overflow checks. */
  static Object withoutAnsi(scala.Function0 work) {
    return with(SQLConf$.MODULE$.get(), ANSI, "false", work);
  }

  /**
   * Calls a function with UTC as the time zone. In the session's zone, the texts of one hour each
   * autumn are ambiguous.
   */
  static Object inUtc(scala.Function0 work) {
    return with(SQLConf$.MODULE$.get(), ZONE, "UTC", work);
  }

  /** Calls a function with one changed setting. */
  static Object with(SQLConf conf, String name, String value, scala.Function0 work) {
    SQLConf other = conf.clone();
    other.setConfString(name, value);
    return under(other, work);
  }

  static Object under(SQLConf conf, scala.Function0 work) {
    return SQLConf$.MODULE$.withExistingConf(conf, work);
  }
}
