package tablefmt;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * One snapshot of a table, scanned by Spark's own Parquet reader. INSERT writes to the table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotRelation extends HadoopFsRelation implements InsertableRelation {
  private static final StackWalker CALLERS =
      StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE);

  private final SnapshotFileIndex index;
  private final String uri;
  private final Object storage;
  private final String[] partitionBy;
  private final StructType written;
  private volatile String described;
  private volatile Map lengths;
  private volatile Dataset rows;

  /**
   * @param format the format that reads the files
   * @param uri the table that INSERT writes to; null if there is none
   * @param storage storage options, passed back to Python unchanged
   * @param partitionBy the table's partition columns; the files hold them too
   * @param written the columns, with their defaults for INSERT
   */
  public SnapshotRelation(SnapshotFileIndex index, StructType columns,
      ParquetFileFormat format, scala.collection.immutable.Map options, SparkSession session,
      String uri, Object storage, String[] partitionBy, StructType written) {
    super(index, index.partitionSchema(), columns, (scala.Option) scala.None$.MODULE$, format,
        options, session);
    this.index = index;
    this.uri = uri;
    this.storage = storage;
    this.partitionBy = partitionBy;
    this.written = written;
  }

  /**
   * Returns the columns with one value for each file, so that Spark prunes by them. INSERT gets
   * none: it would treat the table as a folder of files, and write its own files there.
   */
  public StructType partitionSchema() {
    return SparkCallers.isInsertion(CALLERS.getCallerClass())
        ? new StructType() : super.partitionSchema();
  }

  /** @param described a JSON object with the values of `said` */
  public void describe(String described) {
    Messages.step("SnapshotRelation.describe", described);
    this.described = described;
    this.lengths = said("lengths");
  }

  /** Returns the columns as SHOW CREATE TABLE prints them, such as VARCHAR(5). */
  StructType shown() {
    StructField[] fields = (StructField[]) written.fields().clone();
    for (int i = 0; i < fields.length; i++) {
      Object type = lengths == null ? null : lengths.get(fields[i].name());
      if (type != null) {
        fields[i] = new StructField(fields[i].name(), fields[i].dataType(), fields[i].nullable(),
            new MetadataBuilder().withMetadata(fields[i].metadata())
                .putString("__CHAR_VARCHAR_TYPE_STRING", (String) type).build());
      }
    }
    return new StructType(fields);
  }

  /** Returns whether `shown` differs from the columns. */
  boolean hasLengths() {
    return lengths != null && !lengths.isEmpty();
  }

  public String described() {
    return described;
  }

  /** Returns a named map of values that SHOW and DESCRIBE print. */
  Map said(String what) {
    try {
      Map all = (Map) new ObjectMapper().readValue(described, LinkedHashMap.class);
      return (Map) all.get(what);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Sets a query that returns the rows, for files that Spark's own reader cannot read. */
  public void setRows(Dataset rows) {
    this.rows = rows;
  }

  /** Returns the query that returns the rows; null: Spark's own reader reads the files. */
  public Dataset rows() {
    return rows;
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

  public StructType written() {
    return written;
  }

  public void insert(Dataset data, boolean overwrite) {
    Bridge.call("insert", new Object[] {
        data.sparkSession(), uri, storage, data, overwrite ? "overwrite as set" : "append", null,
        null, new String[0]});
  }
}
