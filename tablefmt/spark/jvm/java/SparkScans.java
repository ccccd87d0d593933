package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
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
  static LogicalRelation ofFiles(Object node, HadoopFsRelation files) {
    return new LogicalRelation(
        files, ((DataSourceV2ScanRelation) node).output(), NONE, false, NONE);
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
