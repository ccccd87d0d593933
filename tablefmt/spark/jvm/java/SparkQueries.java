package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.SparkSession$;
import org.apache.spark.sql.types.DataTypes;

/**
 * Access to Spark's internals: sessions and queries of Spark Classic, behind the public Dataset and
 * SparkSession. This is the plan of a query (Dataset.logicalPlan, queryExecution), a query of a
 * plan (Dataset.ofRows), the analyzer (SessionState.analyzer), and copies of sessions.
 *
 * The code is compiled against Spark. If a method is missing, compilation fails, and the session
 * reads and writes through Arrow.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkQueries {
  private SparkQueries() {}

  /** Returns the session of this thread. */
  static SparkSession active() {
    return (SparkSession) SparkSession$.MODULE$.active();
  }

  /** Returns a plan as a query of a session. */
  static Dataset of(org.apache.spark.sql.SparkSession session, LogicalPlan plan) {
    return Dataset$.MODULE$.ofRows((SparkSession) session, plan);
  }

  /** Returns the plan of a query as it was created. */
  static LogicalPlan plan(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).logicalPlan();
  }

  static LogicalPlan analyzed(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).queryExecution().analyzed();
  }

  static LogicalPlan optimized(org.apache.spark.sql.Dataset rows) {
    return ((Dataset) rows).queryExecution().optimizedPlan();
  }

  /** Returns a plan with resolved names. */
  static LogicalPlan resolved(SparkSession session, LogicalPlan plan) {
    return (LogicalPlan) session.sessionState().analyzer().execute(plan);
  }

  /**
   * Returns the values of expressions as literals; null if one of them is no constant. Runs no job.
   *
   * @param asTimes true to convert each value to a point in time; false: only dates and local times
   */
  static List constants(
      SparkSession session, scala.collection.immutable.Seq expressions, boolean asTimes) {
    Object[] values = new Object[expressions.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = SparkExpressions.named((Expression) expressions.apply(i), "v" + i);
    }
    LogicalPlan plan = resolved(
        session, new Project(ScalaValues.seq(values), new OneRowRelation()));
    if (!plan.resolved()) {
      return null;
    }
    for (int i = 0; i < values.length; i++) {
      Attribute value = (Attribute) plan.output().apply(i);
      boolean isTime = asTimes || value.dataType().equals(DataTypes.DateType)
          || value.dataType().equals(DataTypes.TimestampNTZType);
      values[i] = SparkExpressions.named(isTime ? SparkExpressions.time(value) : value, "v" + i);
    }
    LogicalPlan found = optimized(of(session, new Project(ScalaValues.seq(values), plan)));
    List result = new ArrayList();
    for (int i = 0; found instanceof Project && i < values.length; i++) {
      Object value = ((Project) found).projectList().apply(i);
      if (value instanceof Alias && ((Alias) value).child() instanceof Literal) {
        result.add(((Alias) value).child());
      }
    }
    return result.size() == values.length ? result : null;
  }

  /** Returns the rows of an already planned query as another query. */
  static Dataset planned(org.apache.spark.sql.Dataset rows, boolean streaming) {
    Dataset given = (Dataset) rows;
    return ((SparkSession) given.sparkSession()).internalCreateDataFrame(
        given.queryExecution().toRdd(), given.schema(), streaming);
  }

  /** Returns the session, or an ANSI copy of it if its settings are not ANSI. */
  static SparkSession ansi(SparkSession given) {
    if (SparkSettings.isAnsi(given.sessionState().conf())) {
      return given;
    }
    SparkSession other = given.cloneSession();
    SparkSettings.turnOnAnsi(other.sessionState().conf());
    return other;
  }

  /** Returns true if any session has cached data. */
  static boolean isAnythingCached(org.apache.spark.sql.SparkSession session) {
    return !((SparkSession) session).sharedState().cacheManager().isEmpty();
  }
}
