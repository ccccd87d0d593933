package tablefmt;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.types.LongType$;

/**
 * A resolved DELETE, UPDATE or MERGE on one of our tables. It holds the expressions until Python
 * requests them. Spark evaluates them over the rows that Python provides.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class RowCommand extends SaveIntoDataSourceCommand {
  private static final scala.collection.immutable.Map NO_OPTIONS =
      (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();

  private final String verb;
  private final SnapshotTable table;
  private final LogicalPlan target;
  private final LogicalPlan source;
  private final String text;
  private final RowDescription description;
  private final Map described = new LinkedHashMap();
  private final scala.collection.immutable.Seq counts;

  /** @return null for other commands, unresolved commands, and other formats' tables */
  static RowCommand of(LogicalPlan plan) {
    LogicalPlan target = null;
    if (plan instanceof DeleteFromTable) {
      target = ((DeleteFromTable) plan).table();
    } else if (plan instanceof UpdateTable) {
      target = ((UpdateTable) plan).table();
    } else if (plan instanceof MergeIntoTable) {
      target = ((MergeIntoTable) plan).targetTable();
    }
    if (target == null || !plan.resolved() && !RowTarget.isReady(plan)) {
      return null;
    }
    SnapshotTable table = RowTarget.table(target);
    if (table != null && !RowTarget.isWhole(target)) {
      RowTarget.refuseView(table.name());
    }
    if (table != null && RowTarget.usesMetadata(target, table)) {
      Bridge.call("refuse", new Object[] {
          SparkScans.metadata() + " of the table that DELETE, UPDATE or MERGE changes",
          "find the values of columns with a query first, and use them in the condition"});
    }
    if (table != null && !SparkSettings.isAnsi()) {
      Bridge.call("lenient", new Object[0]);
    }
    return table == null ? null : new RowCommand(plan, target, table);
  }

  private RowCommand(LogicalPlan plan, LogicalPlan target, SnapshotTable table) {
    super(plan, new DefaultSource(), NO_OPTIONS, SaveMode.Append);
    this.target = target;
    this.table = table;
    scala.Option added = plan.getTagValue(MergeEvolution.ADDED);
    RowDescription says = new RowDescription(target, added.isDefined());
    this.description = says;
    described.put("added", says.evolves ? added.get() : null);
    described.put("columns", says.evolves ? target.schema().json() : null);
    LogicalPlan from = null;
    String[] counted = new String[] {"num_affected_rows"};
    if (plan instanceof DeleteFromTable) {
      this.verb = "DELETE";
      Expression where = ((DeleteFromTable) plan).condition();
      described.put("condition", says.condition("WHERE", where, null));
    } else if (plan instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) plan;
      this.verb = "UPDATE";
      described.put("condition", says.condition("WHERE", update.condition(), null));
      described.put("set", says.assignments("SET", update.assignments(), false));
    } else {
      MergeIntoTable merge = (MergeIntoTable) plan;
      this.verb = "MERGE";
      from = merge.sourceTable();
      counted = new String[] {"num_affected_rows", "num_updated_rows", "num_deleted_rows",
          "num_inserted_rows"};
      described.put("on", says.condition("ON", merge.mergeCondition(), from));
      List clauses = new ArrayList();
      says.clauses(clauses, "matched", merge.matchedActions(), from);
      says.clauses(clauses, "not_matched", merge.notMatchedActions(), from);
      says.clauses(clauses, "not_matched_by_source", merge.notMatchedBySourceActions(), from);
      described.put("clauses", clauses);
      described.put("source", says.numbers(from.output()));
      if (merge.withSchemaEvolution()) {
        Bridge.call("refuse", new Object[] {
            "MERGE WITH SCHEMA EVOLUTION, where Spark's analyzer takes no rule,"});
      }
    }
    this.source = from;
    described.put("verb", verb);
    described.put("name", table.name());
    described.put("uri", table.uri);
    described.put("storage", table.storage);
    this.text = verb + " " + table;
    Object[] columns = new Object[counted.length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = SparkExpressions.column(counted[i], LongType$.MODULE$, false);
    }
    this.counts = ScalaValues.seq(columns);
  }

  /** Describes the command without its expressions, as a JSON object for sql_commands.py. */
  public String described() {
    return Messages.json("RowCommand.described", "#command", described);
  }

  /** Returns an expression over the rows of `rows` and `sourceRows`. */
  public Column column(int number) {
    return description.column(number);
  }

  /** Returns the source's rows as in the query; null if this is no MERGE. */
  public Dataset sourceRows(SparkSession session) {
    return SparkQueries.of(session, source);
  }

  /**
   * Returns rows of the table with the column names and ids that the expressions use.
   *
   * @param given rows with the table's columns by name; further columns are kept
   */
  public Dataset rows(Dataset given) {
    return named(given, target.output(), false);
  }

  /** Returns stored rows of the source: its columns in order, perhaps with further columns. */
  public Dataset stored(Dataset given) {
    return named(given, source.output(), true);
  }

  private static Dataset named(
      Dataset given, scala.collection.immutable.Seq columns, boolean inOrder) {
    LogicalPlan plan = SparkQueries.plan(given);
    int count = plan.output().size();
    Object[] chosen = new Object[count];
    for (int i = 0; i < count; i++) {
      Attribute there = (Attribute) plan.output().apply(i);
      chosen[i] = there;
      for (int c = 0; c < columns.size(); c++) {
        Attribute wanted = (Attribute) columns.apply(c);
        if (inOrder ? c == i : wanted.name().equals(there.name())) {
          if (!inOrder && !wanted.dataType().catalogString().equals(
              there.dataType().catalogString())) {
            Bridge.call("changed", new Object[] {there.name()});
          }
          chosen[i] = SparkExpressions.named(there, wanted);
        }
      }
    }
    return SparkQueries.of(given.sparkSession(),
        new Project(ScalaValues.seq(chosen), plan));
  }

  public scala.collection.immutable.Seq output() {
    return counts;
  }

  public scala.collection.immutable.Seq run(SparkSession session) {
    SparkSession ansi = SparkQueries.ansi((org.apache.spark.sql.classic.SparkSession) session);
    String[] found = ((String) Bridge.call("change", new Object[] {ansi, session, this}))
        .split(" ");
    if (SparkQueries.isAnythingCached(session)) {
      session.catalog().refreshTable(table.name());
    }
    Object[] row = new Object[counts.size()];
    for (int i = 0; i < row.length; i++) {
      row[i] = Long.valueOf(found[i]);
    }
    return ScalaValues.seq(new Object[] {RowFactory.create(row)});
  }

  // Immutable. Spark's copy would need a constructor that this class does not have.
  public LogicalPlan clone() {
    return this;
  }

  public scala.collection.immutable.Seq innerChildren() {
    return ScalaValues.seq(new Object[] {target});
  }

  public String nodeName() {
    return "tablefmt " + verb;
  }

  public String simpleString(int fields) {
    return text;
  }

}
