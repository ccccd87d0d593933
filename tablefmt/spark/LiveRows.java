package tablefmt;

import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Puts a condition over every scan of files of which rows are gone. It needs the position of a row,
 * which Spark's reader knows, and a column of the file, which the plan above does not see. The other
 * files are scanned beside them without one, and projections and filters go below the union.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class LiveRows extends scala.runtime.AbstractPartialFunction {
  // A column of this name Spark's Parquet reader makes itself.
  private static final String ROW = "_tmp_metadata_row_index";
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

  private final Map made = new IdentityHashMap();
  // Scans of files of which rows are gone, as `left` makes them.
  private final Map lefts = new IdentityHashMap();

  public boolean isDefinedAt(Object node) {
    if (node instanceof LogicalRelation) {
      return ((LogicalRelation) node).relation() instanceof HadoopFsRelation
          && files((LogicalRelation) node) instanceof SnapshotFileIndex
          && ((SnapshotFileIndex) files((LogicalRelation) node)).givesDeletedRows();
    }
    if (node instanceof Project || node instanceof Filter) {
      LogicalPlan above = (LogicalPlan) node;
      Object child = above.children().head();
      return above.deterministic()
          && (made.containsKey(child) || node instanceof Filter && lefts.containsKey(child));
    }
    return false;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    if (node instanceof LogicalRelation) {
      return live((LogicalRelation) node);
    }
    LogicalPlan above = (LogicalPlan) node;
    return made.containsKey(above.children().head()) ? below(above) : ahead((Filter) above);
  }

  private static FileIndex files(LogicalRelation scan) {
    return ((HadoopFsRelation) scan.relation()).location();
  }

  // Files of which no row is gone are scanned as ever; both scans read the same columns.
  private LogicalPlan live(LogicalRelation scan) {
    SnapshotFileIndex all = (SnapshotFileIndex) files(scan);
    SnapshotFileIndex whole = all.whole();
    SnapshotFileIndex touched = all.touched();
    HadoopFsRelation relation = (HadoopFsRelation) scan.relation();
    LogicalPlan rest = new LogicalRelation(
        SnapshotRelation.with(relation, whole, relation.dataSchema()), scan.output(),
        scan.catalogTable(), false, NONE);
    if (touched.isEmpty()) {
      return rest;
    }
    LogicalPlan left = left(scan, relation, touched);
    return whole.isEmpty() ? left : union(rest, left);
  }

  // Spark's own rules that would bring these below a union ran before.
  private LogicalPlan below(LogicalPlan above) {
    scala.collection.immutable.Seq parts = ((LogicalPlan) above.children().head()).children();
    LogicalPlan[] pushed = new LogicalPlan[parts.size()];
    for (int i = 0; i < pushed.length; i++) {
      scala.collection.immutable.Seq child = seq(new Object[] {parts.apply(i)});
      pushed[i] = (LogicalPlan) above.withNewChildren(child);
      if (above instanceof Filter && lefts.containsKey(parts.apply(i))) {
        pushed[i] = ahead((Filter) pushed[i]);
      }
    }
    return union(pushed[0], pushed[1]);
  }

  // What the query asks for leaves out more rows, at less cost, than those that are gone.
  private LogicalPlan ahead(Filter above) {
    Expression first = Harmless.parts(above.condition(), true);
    if (first == null) {
      return above;
    }
    Project columns = (Project) above.child();
    Filter left = (Filter) columns.child();
    LogicalPlan changed = new Project(columns.projectList(),
        new Filter(left.condition(), new Filter(first, left.child())));
    lefts.put(changed, changed);
    Expression rest = Harmless.parts(above.condition(), false);
    return rest == null ? changed : new Filter(rest, changed);
  }

  private LogicalPlan union(LogicalPlan rest, LogicalPlan left) {
    LogicalPlan both = new Union(seq(new Object[] {rest, left}), false, false);
    made.put(both, both);
    return both;
  }

  private static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  private LogicalPlan left(
      LogicalRelation scan, HadoopFsRelation whole, SnapshotFileIndex files) {
    StructField[] partitions = files.partitionSchema().fields();
    Attribute first = DataTypeUtils$.MODULE$.toAttribute(partitions[partitions.length - 1]);
    scala.collection.immutable.Seq output =
        (scala.collection.immutable.Seq) scan.output().appended(first);
    StructType columns = whole.dataSchema();
    Expression row = row(scan.output());
    if (row == null) {
      StructField field = new StructField(ROW, DataTypes.LongType, true, Metadata.empty());
      row = DataTypeUtils$.MODULE$.toAttribute(field);
      output = (scala.collection.immutable.Seq) output.appended(row);
      columns = columns.add(field);
    }
    Expression there =
        files.deletedRows().left(whole.sparkSession().sparkContext(), row, first);
    LogicalRelation below = new LogicalRelation(SnapshotRelation.with(whole, files, columns),
        output, scan.catalogTable(), false, NONE);
    LogicalPlan made = new Project(scan.output(), new Filter(there, below));
    lefts.put(made, made);
    return made;
  }

  /** The position of a row, where the scan gives it already; Spark makes it once. */
  private static Expression row(scala.collection.immutable.Seq output) {
    for (int i = 0; i < output.size(); i++) {
      AttributeReference column = (AttributeReference) output.apply(i);
      if (column.name().equals(ROW)) {
        return column;
      }
      if (FileSourceMetadataAttribute$.MODULE$.isValid(column.metadata())
          && column.dataType() instanceof StructType) {
        StructField[] parts = ((StructType) column.dataType()).fields();
        for (int p = 0; p < parts.length; p++) {
          if (parts[p].name().equals("row_index")) {
            return new GetStructField(column, p, (scala.Option) scala.None$.MODULE$);
          }
        }
      }
    }
    return null;
  }
}
