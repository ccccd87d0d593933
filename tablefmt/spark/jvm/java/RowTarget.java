package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;

/**
 * What a DELETE, UPDATE or MERGE changes: a table of ours as a whole, a view of one, or another's.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class RowTarget {
  private RowTarget() {}

  /** Whether a statement is resolved but for what we resolve ourselves. */
  static boolean isReady(LogicalPlan plan) {
    boolean ready = plan.childrenResolved();
    for (int i = 0; ready && i < plan.expressions().size(); i++) {
      ready = Assigned.isReady((Expression) plan.expressions().apply(i));
    }
    return ready;
  }

  /** Whether a resolved target is a table of ours as a whole. */
  static boolean isOurs(LogicalPlan target) {
    return isWhole(target) && table(target) != null;
  }

  // A view has rows and columns of its own: what is said of them must not be done to the table.
  static boolean isWhole(LogicalPlan target) {
    LogicalPlan plan = target;
    while (plan instanceof SubqueryAlias || isSelection(plan)) {
      plan = (LogicalPlan) plan.children().head();
    }
    return plan.children().isEmpty();
  }

  private static boolean isSelection(LogicalPlan plan) {
    if (!(plan instanceof Project)) {
      return false;
    }
    scala.collection.immutable.Seq columns = ((Project) plan).projectList();
    for (int i = 0; i < columns.size(); i++) {
      if (!(columns.apply(i) instanceof Attribute)) {
        return false;
      }
    }
    return true;
  }

  /** @param of the table under it; null where only its path is known */
  static void refuseView(String of) {
    Bridge.call("view", new Object[] {of});
  }

  /** @return null for another's table */
  static SnapshotTable table(LogicalPlan target) {
    scala.collection.Iterator leaves = target.collectLeaves().iterator();
    while (leaves.hasNext()) {
      Object leaf = leaves.next();
      if (SparkScans.files(leaf) != null) {
        refuseView(null);
      }
      if (SparkScans.table(leaf) != null) {
        return SparkScans.table(leaf);
      }
    }
    return null;
  }
}
