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
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Adds a filter above every scan of files with deleted rows. The filter needs the position of a
 * row, which Spark's reader provides, and a column of the file that the plan above does not see.
 * Files without deleted rows are in the same scan, because a union of two scans would cost more.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class LiveRows extends scala.runtime.AbstractPartialFunction {
  // Spark's Parquet reader fills a column of this name itself.
  private static final String ROW = SparkScans.rowIndex();

  // Plans that `live` and `ahead` returned.
  private final Map made = new IdentityHashMap();

  public boolean isDefinedAt(Object node) {
    SnapshotFileIndex files = SparkScans.files(node);
    if (files != null) {
      return files.givesDeletedRows();
    }
    return node instanceof Filter && ((Filter) node).deterministic()
        && made.containsKey(((Filter) node).child());
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    return node instanceof Filter ? ahead((Filter) node) : live((LogicalPlan) node);
  }

  // The query's filter removes more rows at less cost than the filter of deleted rows.
  private LogicalPlan ahead(Filter above) {
    Expression first = NonFailingExpressions.parts(above.condition(), true);
    if (first == null) {
      return above;
    }
    Project columns = (Project) above.child();
    Filter left = (Filter) columns.child();
    LogicalPlan changed = new Project(columns.projectList(),
        new Filter(left.condition(), new Filter(first, left.child())));
    made.put(changed, changed);
    Expression rest = NonFailingExpressions.parts(above.condition(), false);
    return rest == null ? changed : new Filter(rest, changed);
  }

  private LogicalPlan live(LogicalPlan scan) {
    HadoopFsRelation all = SparkScans.ofFiles(scan);
    SnapshotFileIndex whole = SparkScans.files(scan);
    SnapshotFileIndex files = whole.guarded();
    scala.collection.immutable.Seq output = scan.output();
    StructField[] values = files.partitionSchema().fields();
    if (values.length == whole.partitionSchema().fields().length) {
      return SparkScans.with(scan, files, all.dataSchema(), output);
    }
    Attribute first = DataTypeUtils$.MODULE$.toAttribute(values[values.length - 1]);
    output = (scala.collection.immutable.Seq) output.appended(first);
    StructType columns = all.dataSchema();
    Expression row = row(scan.output());
    if (row == null) {
      StructField field = new StructField(ROW, DataTypes.LongType, true, Metadata.empty());
      row = DataTypeUtils$.MODULE$.toAttribute(field);
      output = (scala.collection.immutable.Seq) output.appended(row);
      columns = columns.add(field);
    }
    Expression there = files.deletedRows().left(all.sparkSession().sparkContext(), row, first);
    LogicalPlan live =
        new Project(scan.output(), new Filter(there, SparkScans.with(scan, files, columns, output)));
    made.put(live, live);
    return live;
  }

  /** Returns the row position if the scan already has it: Spark computes it once. */
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
