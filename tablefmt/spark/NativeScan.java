package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Optimizer rule: scans of catalog tables become scans of their files by Spark itself, and every
 * scan below a condition keeps the files that can hold matching rows.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NativeScan extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

  public TreeNode apply(TreeNode plan) {
    refuse((LogicalPlan) plan);
    return ((LogicalPlan) plan).transformUpWithSubqueries(new Swap());
  }

  private static void refuse(LogicalPlan plan) {
    String verb = null;
    LogicalPlan target = null;
    if (plan instanceof DeleteFromTable) {
      verb = "DELETE";
      target = ((DeleteFromTable) plan).table();
    } else if (plan instanceof UpdateTable) {
      verb = "UPDATE";
      target = ((UpdateTable) plan).table();
    } else if (plan instanceof MergeIntoTable) {
      verb = "MERGE";
      target = ((MergeIntoTable) plan).targetTable();
    }
    if (verb != null) {
      scala.collection.Iterator leaves = target.collectLeaves().iterator();
      while (leaves.hasNext()) {
        Object leaf = leaves.next();
        DataSourceV2Relation named = leaf instanceof DataSourceV2ScanRelation
            ? ((DataSourceV2ScanRelation) leaf).relation()
            : leaf instanceof DataSourceV2Relation ? (DataSourceV2Relation) leaf : null;
        if (named != null && named.table() instanceof SnapshotTable) {
          Bridge.call("refuse", new Object[] {verb});
        }
      }
    }
  }

  private static SnapshotRelation relation(Object node) {
    if (node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof SnapshotRelation) {
      return (SnapshotRelation) ((LogicalRelation) node).relation();
    }
    return null;
  }

  private static class Swap extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (node instanceof DataSourceV2ScanRelation) {
        return ((DataSourceV2ScanRelation) node).scan() instanceof SnapshotScan;
      }
      if (node instanceof Filter) {
        SnapshotRelation below = relation(((Filter) node).child());
        return below != null && !below.index().isNarrowed();
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
        SnapshotRelation whole = relation(scan);
        SnapshotFileIndex files = whole.index().narrowed(filter.condition());
        return new Filter(filter.condition(), new LogicalRelation(
            whole.with(files, whole.dataSchema()), scan.output(), scan.catalogTable(), false,
            NONE));
      }
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) node;
      SnapshotScan asked = (SnapshotScan) scan.scan();
      SnapshotRelation whole = asked.relation();
      return new LogicalRelation(
          whole.with(whole.index(), asked.readSchema()), scan.output(), NONE, false, NONE);
    }
  }
}
