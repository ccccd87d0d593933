package tablefmt;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;

/**
 * The sink of a streaming query. Python commits each batch.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class StreamSink implements Sink {
  /** Storage options of the catalog table that this thread has just looked up. */
  private static final ThreadLocal LEFT = new ThreadLocal();

  private final Map options;
  private final String mode;
  private final String[] partitionBy;
  private String table;

  public StreamSink(SQLContext context, Map options, String[] partitionBy, OutputMode mode) {
    this.options = options;
    Object[] left = (Object[]) LEFT.get();
    LEFT.remove();
    // Spark may have refused the table that left these options. This sink may be for its path.
    if (left != null && SparkCallers.isStreamToTable() && left[0].equals(options.get("path"))) {
      Map stored = new HashMap((Map) left[1]);
      stored.putAll(options);
      options.putAll(stored);
    }
    this.mode = mode.toString();
    this.partitionBy = partitionBy;
    this.table = (String) Bridge.call("sink_start", new Object[] {
        context.sparkSession(), this.mode, options, partitionBy});
  }

  /** Leaves storage options for the sink: Spark passes it only the path of a catalog table. */
  static void leave(String uri, Map storage) {
    LEFT.set(new Object[] {uri, storage});
  }

  public void addBatch(long number, Dataset data) {
    SparkSession session = data.sparkSession();
    // The batch was planned for this batch number, with its state and watermarks. It must not be
    // planned again.
    Dataset rows = SparkQueries.planned(data, false);
    this.table = (String) Bridge.call("sink_batch", new Object[] {
        session, mode, options, partitionBy, rows, Long.valueOf(number),
        session.sparkContext().getLocalProperty("sql.streaming.queryId"),
        session.sparkContext().getLocalProperty("spark.jobGroup.id"), table});
  }

  public String name() {
    return toString();
  }

  public StructType schema() {
    return new StructType();
  }

  public Set capabilities() {
    return new HashSet();
  }

  public String toString() {
    return "tablefmt " + options.get("path");
  }
}
