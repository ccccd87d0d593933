package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * Optimizer rule: scans of catalog tables become scans of their files by Spark itself, every scan
 * below a condition keeps the files that can hold matching rows, rows that are gone are left out,
 * and a dynamic overwrite of a catalog table becomes one that the table can do.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NativeScan extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

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
    // Both have the same parts, in every release of Spark; an append has the query once more.
    Object[] parts = new Object[given.productArity() + 1];
    for (int i = 0; i < given.productArity(); i++) {
      parts[i] = given.productElement(i);
    }
    parts[parts.length - 1] = scala.Option.apply(given.query());
    try {
      return (LogicalPlan) AppendData.class.getConstructors()[0].newInstance(parts);
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException(other);
    }
  }

  // Spark's own rules make plain relations of ours.
  private static HadoopFsRelation relation(Object node) {
    if (node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof HadoopFsRelation) {
      HadoopFsRelation found = (HadoopFsRelation) ((LogicalRelation) node).relation();
      return found.location() instanceof SnapshotFileIndex ? found : null;
    }
    return null;
  }

  private static class Swap extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (node instanceof DataSourceV2ScanRelation) {
        return ((DataSourceV2ScanRelation) node).scan() instanceof SnapshotScan;
      }
      if (node instanceof Filter) {
        HadoopFsRelation below = relation(((Filter) node).child());
        return below != null && !((SnapshotFileIndex) below.location()).isNarrowed();
      }
      return false;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      if (node instanceof Filter) {
        Filter filter = (Filter) node;
        LogicalRelation scan = (LogicalRelation) filter.child();
        HadoopFsRelation whole = relation(scan);
        SnapshotFileIndex files =
            ((SnapshotFileIndex) whole.location()).narrowed(filter.condition());
        if (files == whole.location()) {
          return node;
        }
        return new Filter(filter.condition(), new LogicalRelation(
            SnapshotRelation.with(whole, files, whole.dataSchema()), scan.output(),
            scan.catalogTable(), scan.isStreaming(), scan.stream()));
      }
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) node;
      SnapshotScan asked = (SnapshotScan) scan.scan();
      SnapshotRelation whole = asked.relation();
      return new LogicalRelation(
          SnapshotRelation.with(whole, whole.index(), asked.readSchema()), scan.output(), NONE,
          false, NONE);
    }
  }
}
