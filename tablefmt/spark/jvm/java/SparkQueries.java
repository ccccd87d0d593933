package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.SparkSession$;

/**
 * Seam: sessions and queries of Spark Classic, behind the public Dataset and SparkSession: the plan
 * of a query (Dataset.logicalPlan, queryExecution), a query of a plan (Dataset.ofRows), the analyzer
 * (SessionState.analyzer), copies of sessions.
 *
 * All is compiled against Spark: where a method is missing, the classes cannot be compiled, and the
 * session reads and writes through Arrow.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkQueries {
  private SparkQueries() {}

  /** The session that the thread works for. */
  static SparkSession active() {
    return (SparkSession) SparkSession$.MODULE$.active();
  }

  /** A plan as a query of a session. */
  static Dataset of(org.apache.spark.sql.SparkSession session, LogicalPlan plan) {
    return Dataset$.MODULE$.ofRows((SparkSession) session, plan);
  }

  /** The plan of a query, as it was made. */
  static LogicalPlan plan(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).logicalPlan();
  }

  static LogicalPlan analyzed(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).queryExecution().analyzed();
  }

  static LogicalPlan optimized(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).queryExecution().optimizedPlan();
  }

  /** A plan with its names resolved. */
  static LogicalPlan resolved(SparkSession session, LogicalPlan plan) {
    return (LogicalPlan) session.sessionState().analyzer().execute(plan);
  }

  /** The rows of a query as it is planned already, as another query. */
  static Dataset planned(org.apache.spark.sql.Dataset rows, boolean streaming) {
    Dataset given = (Dataset) rows;
    return ((SparkSession) given.sparkSession()).internalCreateDataFrame(
        given.queryExecution().toRdd(), given.schema(), streaming);
  }

  /** The session, or a copy of it where its settings are not those of ANSI. */
  static SparkSession ansi(SparkSession given) {
    if (SparkSettings.isAnsi(given.sessionState().conf())) {
      return given;
    }
    SparkSession other = given.cloneSession();
    SparkSettings.turnOnAnsi(other.sessionState().conf());
    return other;
  }

  /** Whether something is cached, in whatever session. */
  static boolean isAnythingCached(org.apache.spark.sql.SparkSession session) {
    return !((SparkSession) session).sharedState().cacheManager().isEmpty();
  }
}
