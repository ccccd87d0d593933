package tablefmt;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;

/**
 * Decides whether a repeated task of a query returns the same rows.
 *
 * It has a list of repeatable nodes and expressions. All others may differ: Python functions, JDBC,
 * LIMIT, files of other programs.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class RepeatableRows {
  private static final String BUILT_IN = "org.apache.spark.sql.catalyst.expressions.";
  private static final String OF_OBJECTS = BUILT_IN + "objects.";
  private static final Set NODES =
      new HashSet(
          Arrays.asList(
              new String[] {
                "LocalRelation", "OneRowRelation", "Range", "Project", "Filter", "SubqueryAlias",
                "View", "Union"
              }));

  /** Returns true only if every node and every expression of the query is on the list. */
  public boolean of(Dataset query) {
    return holds(SparkQueries.plan(query));
  }

  private static boolean holds(LogicalPlan plan) {
    if (!isKnown(plan)) {
      return false;
    }
    scala.collection.immutable.Seq expressions = plan.expressions();
    for (int i = 0; i < expressions.size(); i++) {
      if (!holds((Expression) expressions.apply(i))) {
        return false;
      }
    }
    scala.collection.immutable.Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (!holds((LogicalPlan) children.apply(i))) {
        return false;
      }
    }
    return true;
  }

  private static boolean isKnown(LogicalPlan plan) {
    if (SparkScans.files(plan) != null) {
      return true;
    }
    SnapshotTable table = SparkScans.table(plan);
    if (table != null) {
      return table.relation() != null;
    }
    return NODES.contains(plan.getClass().getSimpleName());
  }

  private static boolean holds(Expression given) {
    String name = given.getClass().getName();
    if (!given.deterministic()
        || given instanceof UserDefinedExpression
        || given instanceof PlanExpression
        || !name.startsWith(BUILT_IN)
        || name.startsWith(OF_OBJECTS)) {
      return false;
    }
    for (int i = 0; i < given.children().size(); i++) {
      if (!holds((Expression) given.children().apply(i))) {
        return false;
      }
    }
    return true;
  }
}
