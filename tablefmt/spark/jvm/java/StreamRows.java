package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.classic.Dataset;

/**
 * Rows of a query as rows of a batch of a stream: Spark plans what is above by that, an aggregate
 * with its state for one.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class StreamRows {
  private StreamRows() {}

  static Dataset of(org.apache.spark.sql.Dataset rows) {
    LogicalPlan plan = SparkQueries.analyzed(rows);
    if (aggregates(plan)) {
      // An aggregate of the rows themselves is no part of the stream's.
      return SparkQueries.planned(rows, true);
    }
    return SparkQueries.of(
        rows.sparkSession(), (LogicalPlan) plan.transformUp(new Streaming()));
  }

  private static boolean aggregates(LogicalPlan plan) {
    if (plan instanceof Aggregate) {
      return true;
    }
    scala.collection.immutable.Seq below = plan.children();
    for (int i = 0; i < below.size(); i++) {
      if (aggregates((LogicalPlan) below.apply(i))) {
        return true;
      }
    }
    return false;
  }

  private static class Streaming extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Range || SparkScans.ofFiles(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      if (node instanceof Range) {
        Range tasks = (Range) node;
        return new Range(tasks.start(), tasks.end(), tasks.step(), tasks.numSlices(),
            tasks.output(), true);
      }
      return SparkScans.streaming(node);
    }
  }
}
