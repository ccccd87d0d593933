package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Puts a condition over every scan of files of which rows are gone. It needs the position of a row,
 * which Spark's reader knows, and a column of the file, which the plan above does not see.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class LiveRows extends scala.runtime.AbstractPartialFunction {
  // A column of this name Spark's Parquet reader makes itself.
  static final String ROW = "_tmp_metadata_row_index";

  public boolean isDefinedAt(Object node) {
    if (!(node instanceof LogicalRelation)
        || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) {
      return false;
    }
    HadoopFsRelation found = (HadoopFsRelation) ((LogicalRelation) node).relation();
    return found.location() instanceof SnapshotFileIndex
        && ((SnapshotFileIndex) found.location()).givesDeletedRows();
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    LogicalRelation scan = (LogicalRelation) node;
    HadoopFsRelation whole = (HadoopFsRelation) scan.relation();
    SnapshotFileIndex files = ((SnapshotFileIndex) whole.location()).marked();
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
    Expression left =
        files.deletedRows().left(whole.sparkSession().sparkContext(), row, first);
    LogicalRelation below = new LogicalRelation(SnapshotRelation.with(whole, files, columns),
        output, scan.catalogTable(), false, (scala.Option) scala.None$.MODULE$);
    return new Project(scan.output(), new Filter(left, below));
  }

  /** The position of a row, where the scan gives it already; Spark makes it once. */
  private static Expression row(scala.collection.immutable.Seq output) {
    for (int i = 0; i < output.size(); i++) {
      AttributeReference column = (AttributeReference) output.apply(i);
      if (column.name().equals(ROW)) {
        return column;
      }
      if (column.name().equals("_metadata") && column.dataType() instanceof StructType) {
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
