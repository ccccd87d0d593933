package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;

/**
 * Classifies the target of a DELETE, UPDATE or MERGE: one of our tables as a whole, a view of one,
 * or another format's table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class RowTarget {
  private RowTarget() {}

  /** Returns true if a statement is resolved, except for the parts that we resolve. */
  static boolean isReady(LogicalPlan plan) {
    boolean ready = plan.childrenResolved();
    for (int i = 0; ready && i < plan.expressions().size(); i++) {
      ready = StoreAssignment.isReady((Expression) plan.expressions().apply(i));
    }
    return ready;
  }

  /** Returns true if a resolved target is one of our tables as a whole. */
  static boolean isOurs(LogicalPlan target) {
    return isWhole(target) && table(target) != null;
  }

  // A view has other rows and columns, so a statement on it must not change the table.
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

  /** Returns true if a statement names _metadata of its target, which is no column of the table. */
  static boolean usesMetadata(LogicalPlan target, SnapshotTable table) {
    LogicalPlan leaf = (LogicalPlan) target.collectLeaves().head();
    for (int i = 0; i < leaf.output().size(); i++) {
      if (((Attribute) leaf.output().apply(i)).name().equals(SparkScans.metadata())) {
        return !table.schema().getFieldIndex(SparkScans.metadata()).isDefined();
      }
    }
    return false;
  }

  /** @param of the table under the view; null if only its path is known */
  static void refuseView(String of) {
    Bridge.call("view", new Object[] {of});
  }

  /** @return null for another format's table */
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
