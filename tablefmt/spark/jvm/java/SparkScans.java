package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.FileFormat$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Access to Spark's internals: the leaves of a plan that read our tables. Spark has four kinds: a
 * relation of files (LogicalRelation over HadoopFsRelation), another relation (LogicalRelation),
 * and a catalog table before and after its scan is built (DataSourceV2Relation,
 * DataSourceV2ScanRelation).
 *
 * The code is compiled against Spark. If a method is missing, compilation fails, and the session
 * reads and writes through Arrow.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkScans {
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

  private SparkScans() {}

  /** Returns the column that Spark's Parquet reader fills with a row's position in its file. */
  static String rowIndex() {
    return ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();
  }

  /** Returns the name of the column with facts of a row's file. */
  static String metadata() {
    return FileFormat$.MODULE$.METADATA_NAME();
  }

  /** Returns the field of that column with the time at which a file was written. */
  static String modificationTime() {
    return FileFormat$.MODULE$.FILE_MODIFICATION_TIME();
  }

  /** Returns that column of a scan of files; null if the scan has none. */
  static AttributeReference metadata(LogicalPlan scan) {
    for (int i = 0; i < scan.output().size(); i++) {
      AttributeReference column = (AttributeReference) scan.output().apply(i);
      if (FileSourceMetadataAttribute$.MODULE$.isValid(column.metadata())
          && column.dataType() instanceof StructType) {
        return column;
      }
    }
    return null;
  }

  /** Returns the type of that column of a relation; null if the table has its own of the name. */
  static DataType metadata(HadoopFsRelation relation) {
    LogicalRelation scan = new LogicalRelation(
        relation, DataTypeUtils$.MODULE$.toAttributes(relation.schema()), NONE, false, NONE);
    AttributeReference found = metadata(scan.withMetadataColumns());
    return found != null && found.name().equals(metadata()) ? found.dataType() : null;
  }

  /** Returns the relation of files that a leaf reads; null: none. */
  static HadoopFsRelation ofFiles(Object node) {
    return node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof HadoopFsRelation
        ? (HadoopFsRelation) ((LogicalRelation) node).relation() : null;
  }

  /** Returns the files of a snapshot that a leaf reads; null: none. */
  static SnapshotFileIndex files(Object node) {
    HadoopFsRelation found = ofFiles(node);
    return found != null && found.location() instanceof SnapshotFileIndex
        ? (SnapshotFileIndex) found.location() : null;
  }

  /** Returns the changes relation of a leaf; null: none. */
  static ChangesRelation changes(Object node) {
    return node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof ChangesRelation
        ? (ChangesRelation) ((LogicalRelation) node).relation() : null;
  }

  /** Returns the catalog table that a leaf names, scanned or not; null: none. */
  static DataSourceV2Relation named(Object node) {
    return node instanceof DataSourceV2ScanRelation
        ? ((DataSourceV2ScanRelation) node).relation()
        : node instanceof DataSourceV2Relation ? (DataSourceV2Relation) node : null;
  }

  /** Returns the table of ours that a leaf names; null: none, or another format's. */
  static SnapshotTable table(Object node) {
    DataSourceV2Relation found = named(node);
    return found != null && found.table() instanceof SnapshotTable
        ? (SnapshotTable) found.table() : null;
  }

  /** Returns the first leaf of a plan that names one of our tables; null: none. */
  static DataSourceV2Relation relation(LogicalPlan plan) {
    scala.collection.Iterator leaves = plan.collectLeaves().iterator();
    while (leaves.hasNext()) {
      Object leaf = leaves.next();
      if (table(leaf) != null) {
        return named(leaf);
      }
    }
    return null;
  }

  /** Returns the scan of ours in a leaf; null: none. */
  static SnapshotScan scan(Object node) {
    return node instanceof DataSourceV2ScanRelation
        && ((DataSourceV2ScanRelation) node).scan() instanceof SnapshotScan
        ? (SnapshotScan) ((DataSourceV2ScanRelation) node).scan() : null;
  }

  /** Returns a scan by Spark's own reader that replaces the scan of a catalog table. */
  static LogicalPlan ofFiles(Object node, HadoopFsRelation files) {
    scala.collection.immutable.Seq output = ((DataSourceV2ScanRelation) node).output();
    List columns = new ArrayList();
    for (int i = 0; i < output.size(); i++) {
      if (files.schema().getFieldIndex(((Attribute) output.apply(i)).name()).isDefined()) {
        columns.add(output.apply(i));
      }
    }
    if (columns.size() == output.size()) {
      return new LogicalRelation(files, output, NONE, false, NONE);
    }
    // The other column is that of metadata().
    LogicalPlan scan = new LogicalRelation(
        files, ScalaValues.seq(columns.toArray()), NONE, false, NONE).withMetadataColumns();
    Object[] named = new Object[output.size()];
    for (int i = 0; i < named.length; i++) {
      named[i] = columns.contains(output.apply(i)) ? output.apply(i)
          : SparkExpressions.named(metadata(scan), (Attribute) output.apply(i));
    }
    return new Project(ScalaValues.seq(named), scan);
  }

  /** Returns the same scan of a relation with another index or other columns. */
  static LogicalRelation with(Object node, SnapshotFileIndex files, StructType columns,
      scala.collection.immutable.Seq output) {
    LogicalRelation scan = (LogicalRelation) node;
    return new LogicalRelation(with(ofFiles(node), files, columns), output,
        scan.catalogTable(), scan.isStreaming(), scan.stream());
  }

  /** Returns a relation of files with another index or other columns. */
  static HadoopFsRelation with(
      HadoopFsRelation whole, SnapshotFileIndex files, StructType columns) {
    return new HadoopFsRelation(files, files.partitionSchema(), columns, whole.bucketSpec(),
        whole.fileFormat(), whole.options(), whole.sparkSession());
  }

  /** Returns the same scan as a batch of a stream. */
  static LogicalRelation streaming(Object node) {
    LogicalRelation scan = (LogicalRelation) node;
    return new LogicalRelation(
        scan.relation(), scan.output(), scan.catalogTable(), true, scan.stream());
  }
}
