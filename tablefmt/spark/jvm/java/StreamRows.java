package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.classic.Dataset;

/**
 * Marks the rows of a query as rows of a streaming batch. Spark plans the operators above
 * accordingly, for example an aggregate with its state.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class StreamRows {
  private StreamRows() {}

  static Dataset of(org.apache.spark.sql.Dataset rows) {
    LogicalPlan plan = SparkQueries.analyzed(rows);
    if (aggregates(plan)) {
      // An aggregate inside the query must not become part of the stream's plan.
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
