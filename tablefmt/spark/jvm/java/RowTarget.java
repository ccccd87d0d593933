package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

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
      if (leaf instanceof LogicalRelation
          && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation
          && ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location()
              instanceof SnapshotFileIndex) {
        refuseView(null);
      }
      DataSourceV2Relation named = leaf instanceof DataSourceV2ScanRelation
          ? ((DataSourceV2ScanRelation) leaf).relation()
          : leaf instanceof DataSourceV2Relation ? (DataSourceV2Relation) leaf : null;
      if (named != null && named.table() instanceof SnapshotTable) {
        return (SnapshotTable) named.table();
      }
    }
    return null;
  }
}
