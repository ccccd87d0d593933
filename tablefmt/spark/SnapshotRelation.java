package tablefmt;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;

/**
 * One snapshot of a table, scanned by Spark's own Parquet reader. INSERT goes to the table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotRelation extends HadoopFsRelation implements InsertableRelation {
  private final SnapshotFileIndex index;
  private final String uri;
  private final Object storage;
  private final String[] partitionBy;

  /**
   * @param uri where INSERT writes; null for what is no table
   * @param storage storage options, as Python wants them back
   * @param partitionBy the table's partition columns; the files hold them too
   */
  public SnapshotRelation(SnapshotFileIndex index, StructType columns,
      scala.collection.immutable.Map options, SparkSession session, String uri, Object storage,
      String[] partitionBy) {
    super(index, index.partitionSchema(), columns, (scala.Option) scala.None$.MODULE$,
        new ParquetFileFormat(), options, session);
    this.index = index;
    this.uri = uri;
    this.storage = storage;
    this.partitionBy = partitionBy;
  }

  public SnapshotFileIndex index() {
    return index;
  }

  public String uri() {
    return uri;
  }

  public Object storage() {
    return storage;
  }

  public String[] partitionBy() {
    return partitionBy;
  }

  /** The same files through another index, or with other columns. */
  public SnapshotRelation with(SnapshotFileIndex files, StructType columns) {
    return new SnapshotRelation(
        files, columns, options(), sparkSession(), uri, storage, partitionBy);
  }

  public void insert(Dataset data, boolean overwrite) {
    Bridge.call("insert", new Object[] {
        data.sparkSession(), uri, storage, data, overwrite ? "overwrite" : "append", null, null,
        new String[0]});
  }
}
