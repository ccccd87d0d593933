package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * Optimizer rule: scans of catalog tables become scans of their files by Spark itself, every scan
 * below a condition keeps the files that can hold matching rows, rows that are gone are left out,
 * and a dynamic overwrite of a catalog table becomes one that the table can do.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NativeScan extends org.apache.spark.sql.catalyst.rules.Rule {
  public TreeNode apply(TreeNode plan) {
    // Where the analyzer's rule could not be added.
    LogicalPlan command = RowCommand.of((LogicalPlan) plan);
    if (command == null) {
      command = TableCommand.of((LogicalPlan) plan);
    }
    if (command != null) {
      return command;
    }
    LogicalPlan wanted = plan instanceof OverwritePartitionsDynamic
        ? insertion((OverwritePartitionsDynamic) plan) : (LogicalPlan) plan;
    wanted = (LogicalPlan) wanted.transformUpWithSubqueries(new ChangesRelation.Unfolding(true));
    return ((LogicalPlan) wanted.transformUpWithSubqueries(new Swap()))
        .transformUpWithSubqueries(new LiveRows());
  }

  // Spark hands a dynamic overwrite to writers in tasks alone, and an append to a relation too. The
  // rows go to the relation; what becomes of others there the write knows.
  private static LogicalPlan insertion(OverwritePartitionsDynamic given) {
    if (!given.write().isDefined() || !(given.write().get() instanceof SnapshotWrite)) {
      return given;
    }
    // It is optimised, which no analyzer expects.
    given.query().setAnalyzed();
    return SparkNodes.append(given);
  }

  private static class Swap extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (node instanceof Filter) {
        SnapshotFileIndex below = SparkScans.files(((Filter) node).child());
        return below != null && !below.isNarrowed();
      }
      return SparkScans.scan(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      if (node instanceof Filter) {
        Filter filter = (Filter) node;
        SnapshotFileIndex whole = SparkScans.files(filter.child());
        SnapshotFileIndex files = whole.narrowed(filter.condition());
        if (files == whole) {
          return node;
        }
        LogicalPlan scan = filter.child();
        return new Filter(filter.condition(), SparkScans.with(
            scan, files, SparkScans.ofFiles(scan).dataSchema(), scan.output()));
      }
      SnapshotScan asked = SparkScans.scan(node);
      SnapshotRelation whole = asked.relation();
      return SparkScans.ofFiles(node, SparkScans.with(whole, whole.index(), asked.readSchema()));
    }
  }
}
