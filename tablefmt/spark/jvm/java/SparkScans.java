package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructType;

/**
 * Seam: the leaves of a plan that read a table of ours. Spark has four kinds: a relation of files
 * (LogicalRelation over HadoopFsRelation), another relation (LogicalRelation), and a table of a
 * catalog before and after its scan was made (DataSourceV2Relation, DataSourceV2ScanRelation).
 *
 * All is compiled against Spark: where a method is missing, the classes cannot be compiled, and the
 * session reads and writes through Arrow.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkScans {
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

  private SparkScans() {}

  /** The column that Spark's Parquet reader fills with the position of a row in its file. */
  static String rowIndex() {
    return ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();
  }

  /** The relation of files that a leaf reads; null: it reads none. */
  static HadoopFsRelation ofFiles(Object node) {
    return node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof HadoopFsRelation
        ? (HadoopFsRelation) ((LogicalRelation) node).relation() : null;
  }

  /** The files of a snapshot that a leaf reads; null: it reads none. */
  static SnapshotFileIndex files(Object node) {
    HadoopFsRelation found = ofFiles(node);
    return found != null && found.location() instanceof SnapshotFileIndex
        ? (SnapshotFileIndex) found.location() : null;
  }

  /** The changes that a leaf stands for; null: none. */
  static ChangesRelation changes(Object node) {
    return node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof ChangesRelation
        ? (ChangesRelation) ((LogicalRelation) node).relation() : null;
  }

  /** The table of a catalog that a leaf names, scanned or not; null: it names none. */
  static DataSourceV2Relation named(Object node) {
    return node instanceof DataSourceV2ScanRelation
        ? ((DataSourceV2ScanRelation) node).relation()
        : node instanceof DataSourceV2Relation ? (DataSourceV2Relation) node : null;
  }

  /** The table of ours that a leaf names; null: another's, or none. */
  static SnapshotTable table(Object node) {
    DataSourceV2Relation found = named(node);
    return found != null && found.table() instanceof SnapshotTable
        ? (SnapshotTable) found.table() : null;
  }

  /** The first leaf of a plan that names a table of ours; null: none does. */
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

  /** The scan of ours that a leaf carries; null: it carries none. */
  static SnapshotScan scan(Object node) {
    return node instanceof DataSourceV2ScanRelation
        && ((DataSourceV2ScanRelation) node).scan() instanceof SnapshotScan
        ? (SnapshotScan) ((DataSourceV2ScanRelation) node).scan() : null;
  }

  /** A scan by Spark's own reader in the place of one that a catalog's table has made. */
  static LogicalRelation ofFiles(Object node, HadoopFsRelation files) {
    return new LogicalRelation(
        files, ((DataSourceV2ScanRelation) node).output(), NONE, false, NONE);
  }

  /** The same scan of a relation through another index, or with other columns. */
  static LogicalRelation with(Object node, SnapshotFileIndex files, StructType columns,
      scala.collection.immutable.Seq output) {
    LogicalRelation scan = (LogicalRelation) node;
    return new LogicalRelation(with(ofFiles(node), files, columns), output,
        scan.catalogTable(), scan.isStreaming(), scan.stream());
  }

  /** The files of a relation through another index, or with other columns. */
  static HadoopFsRelation with(
      HadoopFsRelation whole, SnapshotFileIndex files, StructType columns) {
    return new HadoopFsRelation(files, files.partitionSchema(), columns, whole.bucketSpec(),
        whole.fileFormat(), whole.options(), whole.sparkSession());
  }

  /** The same scan as a batch of a stream. */
  static LogicalRelation streaming(Object node) {
    LogicalRelation scan = (LogicalRelation) node;
    return new LogicalRelation(
        scan.relation(), scan.output(), scan.catalogTable(), true, scan.stream());
  }
}
