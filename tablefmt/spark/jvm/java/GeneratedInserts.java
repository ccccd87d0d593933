package tablefmt;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.trees.TreePattern$;

/**
 * Marks the generated columns that an INSERT leaves out. Spark puts NULL in their place while it
 * resolves the statement. The write drops these columns again, and computes them.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class GeneratedInserts {
  /** Option of a write with the names of the columns to compute, one in a line. */
  static final String OPTION = "tablefmt.generated";

  private GeneratedInserts() {}

  static LogicalPlan marked(LogicalPlan plan) {
    return plan.containsPattern(TreePattern$.MODULE$.COMMAND())
        ? (LogicalPlan) plan.resolveOperatorsUp(new Marking()) : plan;
  }

  private static class Marking extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof V2WriteCommand)) {
        return false;
      }
      LogicalPlan write = (LogicalPlan) node;
      SnapshotTable table = SparkScans.table(((V2WriteCommand) node).table());
      return table != null && ((V2WriteCommand) node).query() instanceof Project
          && !table.generated().isEmpty() && SparkNodes.part(write, "writeOptions") != null
          && !InsertEvolution.options(write).containsKey(OPTION);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      LogicalPlan write = (LogicalPlan) node;
      Map generated = SparkScans.table(((V2WriteCommand) node).table()).generated();
      scala.collection.immutable.Seq chosen =
          ((Project) ((V2WriteCommand) node).query()).projectList();
      StringBuilder names = new StringBuilder();
      for (int i = 0; i < chosen.size(); i++) {
        Object one = chosen.apply(i);
        if (one instanceof Alias && generated.containsKey(((Alias) one).name())
            && isNull(((Alias) one).child())) {
          names.append(names.length() == 0 ? "" : "\n").append(((Alias) one).name());
        }
      }
      if (names.length() == 0) {
        return node;
      }
      scala.collection.immutable.Map given =
          (scala.collection.immutable.Map) SparkNodes.part(write, "writeOptions");
      return SparkNodes.with(
          write, "writeOptions", given.updated(OPTION, names.toString()));
    }
  }

  private static boolean isNull(Expression given) {
    if (given instanceof Cast) {
      return isNull(((Cast) given).child());
    }
    return given instanceof Literal && ((Literal) given).value() == null;
  }
}
