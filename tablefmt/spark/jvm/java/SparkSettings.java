package tablefmt;

import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * Seam: settings of the session that this thread works for (SQLConf.get, withExistingConf, clone).
 * Spark reads them while it makes expressions, parses text and loads tables.
 *
 * All is compiled against Spark: where a method is missing, the classes cannot be compiled, and the
 * session reads and writes through Arrow.
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

  /** What a function gives under ANSI, and otherwise under the same settings. */
  static Object underAnsi(scala.Function0 work) {
    if (isAnsi()) {
      return work.apply();
    }
    SQLConf other = SQLConf$.MODULE$.get().clone();
    turnOnAnsi(other);
    return under(other, work);
  }

  /** What a function gives without checks for overflow. */
  static Object withoutAnsi(scala.Function0 work) {
    return with(SQLConf$.MODULE$.get(), ANSI, "false", work);
  }

  /**
   * What a function gives where times are written in UTC: in the session's zone an hour of every
   * autumn is written twice.
   */
  static Object inUtc(scala.Function0 work) {
    return with(SQLConf$.MODULE$.get(), ZONE, "UTC", work);
  }

  /** What a function gives under settings of which one is another. */
  static Object with(SQLConf conf, String name, String value, scala.Function0 work) {
    SQLConf other = conf.clone();
    other.setConfString(name, value);
    return under(other, work);
  }

  static Object under(SQLConf conf, scala.Function0 work) {
    return SQLConf$.MODULE$.withExistingConf(conf, work);
  }
}
