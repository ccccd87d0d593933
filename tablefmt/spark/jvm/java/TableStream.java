package tablefmt;

import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;

/**
 * A table as the source of a stream. Python decides the end and the content of a batch. Offsets are
 * Python's text, and this class passes them on unchanged.
 *
 * Janino compiles this: no lambdas, no generic inference, no default methods of traits.
 */
public class TableStream implements Source, SupportsTriggerAvailableNow {
  private final StructType schema;
  private final String described;
  private volatile Function python;

  public TableStream(StructType schema, String described) {
    this.schema = schema;
    this.described = described;
  }

  /** @param python takes an Object[] of a step and its arguments: see stream_verbs.py */
  public void setPython(Function python) {
    this.python = python;
  }

  private Object ask(Object[] request) {
    Function answer = python;
    if (answer == null) {
      throw new IllegalStateException("the stream was stopped");
    }
    return Bridge.checked(answer.apply(request));
  }

  public StructType schema() {
    return schema;
  }

  public ReadLimit getDefaultReadLimit() {
    // The number is not used: Python applies the limits.
    return ReadLimit.maxFiles(1);
  }

  public void prepareForTriggerAvailableNow() {
    ask(new Object[] {"available"});
  }

  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    return new TextOffset((String) ask(new Object[] {
        "latest", start == null ? null : start.json(),
        Boolean.valueOf(!(limit instanceof ReadAllAvailable))}));
  }

  public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
    return null;
  }

  public Dataset getBatch(scala.Option start, Offset end) {
    String first = start.isDefined() ? ((Offset) start.get()).json() : null;
    if (SparkCallers.isRecovery()) {
      // Spark requests the last batch again, which is already committed. Other sources need this.
      first = end.json();
    }
    return StreamRows.of((Dataset) ask(new Object[] {"batch", first, end.json()}));
  }

  public scala.Option getOffset() {
    throw new UnsupportedOperationException("call latestOffset() instead");
  }

  public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
    throw new UnsupportedOperationException("latestOffset() begins");
  }

  public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String json) {
    return new TextOffset(json);
  }

  public void commit(Offset end) {}

  public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {}

  public void stop() {
    python = null;
  }

  public String toString() {
    return described;
  }

  /** An offset that is equal to another one with the same text. */
  private static class TextOffset extends Offset {
    private final String text;

    TextOffset(String text) {
      this.text = text;
    }

    public String json() {
      return text;
    }
  }
}
