package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * Optimizer rule. It replaces scans of catalog tables with Spark's own scans of their files, prunes
 * the files of every scan below a condition, and filters deleted rows. It replaces a dynamic
 * overwrite of a catalog table with one that the table supports.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NativeScan extends org.apache.spark.sql.catalyst.rules.Rule {
  public TreeNode apply(TreeNode plan) {
    // Needed if the analyzer rule could not be added.
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
    wanted = (LogicalPlan) wanted.transformUpWithSubqueries(new Swap());
    wanted = (LogicalPlan) wanted.transformUp(new FileTimes.Use(wanted));
    return wanted.transformUpWithSubqueries(new LiveRows());
  }

  // Spark passes a dynamic overwrite only to writers in tasks, but an append also to a relation. So
  // the rows are appended to the relation. Its write knows which old rows to remove.
  private static LogicalPlan insertion(OverwritePartitionsDynamic given) {
    if (!given.write().isDefined() || !(given.write().get() instanceof SnapshotWrite)) {
      return given;
    }
    // The query is already optimised, which the analyzer does not expect.
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
      if (whole.rows() != null) {
        return ChangesRelation.selected(
            SparkQueries.optimized(whole.rows()), ((LogicalPlan) node).output());
      }
      return SparkScans.ofFiles(node, SparkScans.with(
          whole, whole.index().ofColumns(asked.fileSchema(), whole.schema()), asked.fileSchema()));
    }
  }
}
