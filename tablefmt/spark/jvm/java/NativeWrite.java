package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.Metadata$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorV2;

/**
 * One write of data files, step by step. Exists only on the driver. Python makes all decisions; the
 * steps are in Java because from Python each would cost a JVM call for every column of the table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NativeWrite {
  private final SparkSession session;
  private final SparkSession ansi;
  private Dataset rows;
  private String published;

  /**
   * @param rows the rows to write
   * @param settings session settings as a JSON object. They are set on a copy of the session, so
   *     that neither the user's session nor a concurrent query sees them
   */
  public NativeWrite(Dataset rows, String settings) throws Exception {
    this.session = ((SparkSession) rows.sparkSession()).cloneSession();
    JsonNode read = Messages.step("NativeWrite", settings);
    Iterator names = read.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next();
      session.conf().set(name, field(read, name).asText());
    }
    this.ansi = SparkQueries.ansi(session);
    this.rows = SparkQueries.of(session, SparkQueries.plan(rows));
  }

  /** Returns the current columns as Spark's JSON schema. */
  public String schema() {
    return rows.schema().json();
  }

  /**
   * Selects columns.
   *
   * @param columns a JSON array with an object for each column: `source`, or `value` as SQL text
   *     (neither: NULL), `name`, `type` (Spark's JSON type to cast to; absent: no cast), `metadata`
   */
  public void select(String columns) throws Exception {
    Column[] chosen = columns(Messages.step("NativeWrite.select", columns));
    this.rows = asked((Dataset) ours().select(chosen));
  }

  /**
   * Selects columns whose values are computed in UTC, whatever the session's time zone is, and keeps
   * the rows for which a condition is TRUE.
   *
   * @param columns as in `select`
   * @param condition SQL text; null for none
   */
  public void generate(String columns, String condition) throws Exception {
    Column[] chosen = columns(Messages.step("NativeWrite.generate", columns));
    SparkSession utc = ansi.cloneSession();
    utc.conf().set("spark.sql.session.timeZone", "UTC");
    Dataset made = (Dataset) Ansi.moved(rows, utc).select(chosen);
    if (condition != null) {
      made = (Dataset) made.filter(functions.expr(condition));
    }
    this.rows = Ansi.moved(made, session);
  }

  private static Column[] columns(JsonNode wanted) {
    Column[] chosen = new Column[wanted.size()];
    for (int i = 0; i < chosen.length; i++) {
      JsonNode one = (JsonNode) wanted.get(i);
      Column column = one.has("source") ? named(field(one, "source").asText())
          : one.has("value") ? functions.expr(field(one, "value").asText()) : functions.lit(null);
      if (one.has("type")) {
        column = column.cast(DataType$.MODULE$.fromJson(field(one, "type").toString()));
      }
      String name = field(one, "name").asText();
      chosen[i] = one.has("metadata")
          ? column.as(name, Metadata$.MODULE$.fromJson(
              field(one, "metadata").toString()))
          : column.as(name);
    }
    return chosen;
  }

  /** Keeps the rows for which a condition is TRUE. */
  public void filter(String condition) {
    this.rows = asked((Dataset) ours().filter(functions.expr(condition)));
  }

  /** Converts the columns to a schema, by name and by the rules of INSERT. */
  public void fit(String schema) {
    this.rows = asked((Dataset) ours().to((StructType) DataType$.MODULE$.fromJson(schema)));
  }

  // Our steps run under our settings. The query itself keeps the settings of the session.
  private Dataset ours() {
    return ansi == session ? rows : Ansi.moved(rows, ansi);
  }

  private Dataset asked(Dataset made) {
    return ansi == session ? made : Ansi.moved(made, session);
  }

  /**
   * Adds a hash column that distinguishes partitions, so that no value gets into a path. The hash
   * ignores NULL, so flags distinguish (NULL, 'a') from ('a', NULL).
   *
   * @param name the name of the new column
   * @param columns a JSON array of the names of the partition columns
   */
  public void group(String name, String columns) throws Exception {
    JsonNode names = Messages.step("NativeWrite.group", columns);
    Column[] parts = new Column[2 * names.size()];
    for (int i = 0; i < names.size(); i++) {
      Column column = named(((JsonNode) names.get(i)).asText());
      parts[2 * i] = column.isNull();
      parts[2 * i + 1] = column;
    }
    this.rows = (Dataset) rows.withColumn(name, functions.xxhash64(parts));
  }

  /**
   * Shuffles rows so that tasks are of similar size, and the rows of a partition are together.
   *
   * @param name the column of `group`; null if there is none
   * @param bytes the approximate number of shuffled bytes for each task
   */
  public void rebalance(String name, long bytes) {
    LogicalPlan plan = SparkQueries.plan(rows);
    Object[] by = name == null ? new Object[0] : new Object[] {column(plan, name)};
    LogicalPlan spread = new RebalancePartitions(
        seq(by), plan, scala.Option$.MODULE$.empty(), scala.Option$.MODULE$.apply(Long.valueOf(bytes)));
    this.rows = SparkQueries.of(session, spread);
  }

  /**
   * Keeps the query's order of rows inside a partition. Spark's own sort by partition would
   * replace a sort within tasks.
   *
   * @param name the column of `group`
   */
  public void keepOrder(String name) throws Exception {
    LogicalPlan plan = SparkQueries.plan(rows);
    scala.collection.immutable.Seq kept = plan.outputOrdering();
    if (kept.isEmpty()) {
      return;
    }
    Object[] orders = new Object[kept.size() + 1];
    orders[0] = SortOrder$.MODULE$.apply(column(plan, name), Ascending$.MODULE$, seq(new Object[0]));
    for (int i = 0; i < kept.size(); i++) {
      orders[i + 1] = kept.apply(i);
    }
    this.rows = SparkQueries.of(session, SparkNodes.sortWithinTasks(seq(orders), plan));
  }

  /**
   * Runs the query and writes its rows as Parquet.
   *
   * @param options the writer's options as a JSON object
   * @param group a column whose values get separate files; null for none
   * @param folder the folder to write to
   * @return the number of rows that the job's tasks report; negative if this Spark reports none
   */
  public long save(String options, String group, String folder) throws Exception {
    org.apache.spark.sql.DataFrameWriter writer = rows.write().format("parquet").mode("append");
    JsonNode read = Messages.step("NativeWrite.save", options);
    Iterator names = read.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next();
      writer = writer.option(name, field(read, name).asText());
    }
    if (group != null) {
      writer = writer.partitionBy(new String[] {group});
    }
    SessionState state = session.sessionState();
    QueryExecution done = state.executePlan(
        ((org.apache.spark.sql.classic.DataFrameWriter) writer).saveCommand(
            scala.Option$.MODULE$.apply(folder)),
        state.executePlan$default$2());
    try {
      done.assertCommandExecuted();
    } finally {
      if (read.has(DirectFiles.JOB)) {
        this.published = DirectFiles.take(field(read, DirectFiles.JOB).asText());
      }
    }
    return rowsWritten(done.commandExecuted());
  }

  /**
   * Returns the files of the job's successful tasks, as `DirectFiles.take`. null if the options name
   * no job.
   */
  public String published() {
    return published;
  }

  private static long rowsWritten(LogicalPlan result) {
    Object plan = result instanceof CommandResult
        ? ((CommandResult) result).commandPhysicalPlan() : null;
    if (plan instanceof AdaptiveSparkPlanExec) {
      plan = ((AdaptiveSparkPlanExec) plan).executedPlan();
    }
    if (plan instanceof QueryStageExec) {
      plan = ((QueryStageExec) plan).plan();
    }
    if (!(plan instanceof DataWritingCommandExec)) {
      return -1L;
    }
    scala.Option metric = ((DataWritingCommandExec) plan).cmd().metrics().get("numOutputRows");
    if (!metric.isDefined()) {
      return -1L;
    }
    // SQLMetric has two methods of that name, and Janino accepts neither.
    Object rows = ((AccumulatorV2) metric.get()).value();
    return ((Number) rows).longValue();
  }

  private static Attribute column(LogicalPlan plan, String name) {
    for (int i = 0; i < plan.output().size(); i++) {
      Attribute column = (Attribute) plan.output().apply(i);
      if (column.name().equals(name)) {
        return column;
      }
    }
    throw new IllegalArgumentException(name);
  }

  private static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  // Janino sees the bridge method that returns the supertype.
  private static JsonNode field(JsonNode of, String name) {
    return (JsonNode) of.get(name);
  }

  private static Column named(String name) {
    return functions.col("`" + name.replace("`", "``") + "`");
  }
}
