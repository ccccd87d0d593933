package tablefmt;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.Grouping;
import org.apache.spark.sql.catalyst.expressions.GroupingID;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.Metadata$;

/**
 * DELETE, UPDATE or MERGE on a table of ours, resolved: its expressions wait here until Python asks
 * for them, and Spark works them out over the rows that Python gives.
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
  private final List expressions = new ArrayList();
  private final Map described = new LinkedHashMap();
  private final scala.collection.immutable.Seq counts;
  /** Whether structs of the source may have other fields than the table's. */
  final boolean evolves;

  /** @return null for what is no such command, is not resolved, or is on another's table */
  static RowCommand of(LogicalPlan plan) {
    LogicalPlan target = null;
    if (plan instanceof DeleteFromTable) {
      target = ((DeleteFromTable) plan).table();
    } else if (plan instanceof UpdateTable) {
      target = ((UpdateTable) plan).table();
    } else if (plan instanceof MergeIntoTable) {
      target = ((MergeIntoTable) plan).targetTable();
    }
    if (target == null || !plan.resolved() && !isReady(plan)) {
      return null;
    }
    SnapshotTable table = table(target);
    if (table != null && !isWhole(target)) {
      refuseView(table.name());
    }
    if (table != null && !Ansi.isOn(SQLConf$.MODULE$.get())) {
      Bridge.call("lenient", new Object[0]);
    }
    return table == null ? null : new RowCommand(plan, target, table);
  }

  private static boolean isReady(LogicalPlan plan) {
    boolean ready = plan.childrenResolved();
    for (int i = 0; ready && i < plan.expressions().size(); i++) {
      ready = Assigned.isReady((Expression) plan.expressions().apply(i));
    }
    return ready;
  }

  /** Whether a resolved target is a table of ours as a whole. */
  static boolean isOurs(LogicalPlan target) {
    return isWhole(target) && table(target) != null;
  }

  // A view has rows and columns of its own: what is said of them must not be done to the table.
  private static boolean isWhole(LogicalPlan target) {
    LogicalPlan plan = target;
    while (plan instanceof SubqueryAlias || isPlain(plan)) {
      plan = (LogicalPlan) plan.children().head();
    }
    return plan.children().isEmpty();
  }

  private static boolean isPlain(LogicalPlan plan) {
    if (!(plan instanceof Project)) {
      return false;
    }
    scala.collection.immutable.Seq columns = ((Project) plan).projectList();
    for (int i = 0; i < columns.size(); i++) {
      if (!(columns.apply(i) instanceof Attribute)) {
        return false;
      }
    }
    return true;
  }

  /** @param of the table under it; null where only its path is known */
  private static void refuseView(String of) {
    Bridge.call("view", new Object[] {of});
  }

  private static SnapshotTable table(LogicalPlan target) {
    scala.collection.Iterator leaves = target.collectLeaves().iterator();
    while (leaves.hasNext()) {
      Object leaf = leaves.next();
      if (leaf instanceof LogicalRelation
          && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation
          && ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location()
              instanceof SnapshotFileIndex) {
        refuseView(null);
      }
      DataSourceV2Relation named = leaf instanceof DataSourceV2ScanRelation
          ? ((DataSourceV2ScanRelation) leaf).relation()
          : leaf instanceof DataSourceV2Relation ? (DataSourceV2Relation) leaf : null;
      if (named != null && named.table() instanceof SnapshotTable) {
        return (SnapshotTable) named.table();
      }
    }
    return null;
  }

  private RowCommand(LogicalPlan plan, LogicalPlan target, SnapshotTable table) {
    super(plan, new DefaultSource(), NO_OPTIONS, SaveMode.Append);
    this.target = target;
    this.table = table;
    scala.Option added = plan.getTagValue(MergeEvolution.ADDED);
    this.evolves = added.isDefined();
    described.put("added", evolves ? added.get() : null);
    described.put("columns", evolves ? target.schema().json() : null);
    LogicalPlan from = null;
    String[] counted = new String[] {"num_affected_rows"};
    if (plan instanceof DeleteFromTable) {
      this.verb = "DELETE";
      described.put("condition", condition("WHERE", ((DeleteFromTable) plan).condition(), null));
    } else if (plan instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) plan;
      this.verb = "UPDATE";
      described.put("condition", condition("WHERE", update.condition(), null));
      described.put("set", assignments("SET", update.assignments(), false));
    } else {
      MergeIntoTable merge = (MergeIntoTable) plan;
      this.verb = "MERGE";
      from = merge.sourceTable();
      counted = new String[] {"num_affected_rows", "num_updated_rows", "num_deleted_rows",
          "num_inserted_rows"};
      described.put("on", condition("ON", merge.mergeCondition(), from));
      List clauses = new ArrayList();
      clauses(clauses, "matched", merge.matchedActions(), from);
      clauses(clauses, "not_matched", merge.notMatchedActions(), from);
      clauses(clauses, "not_matched_by_source", merge.notMatchedBySourceActions(), from);
      described.put("clauses", clauses);
      described.put("source", numbers(from.output()));
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
      columns[i] = new AttributeReference(counted[i], LongType$.MODULE$, false,
          Metadata$.MODULE$.empty(), NamedExpression$.MODULE$.newExprId(), seq(new Object[0]));
    }
    this.counts = seq(columns);
  }

  // One that is added twice, but for how it is written, has one number.
  private Integer number(Expression given) {
    for (int i = 0; i < expressions.size(); i++) {
      Expression known = (Expression) expressions.get(i);
      if (known.deterministic() && known.semanticEquals(given)) {
        return Integer.valueOf(i);
      }
    }
    expressions.add(given);
    return Integer.valueOf(expressions.size() - 1);
  }

  private List numbers(scala.collection.immutable.Seq columns) {
    List result = new ArrayList();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.apply(i);
      List row = new ArrayList();
      row.add(column.name());
      row.add(number(column));
      result.add(row);
    }
    return result;
  }

  // What needs several rows at once has no value for one of them, and Spark does not look.
  private static void rowwise(String clause, Expression given) {
    if (given instanceof WindowExpression || given instanceof AggregateExpression
        || given instanceof Generator || given instanceof Grouping
        || given instanceof GroupingID) {
      Bridge.call("rowwise", new Object[] {clause, given.sql()});
    }
    for (int i = 0; i < given.children().size(); i++) {
      rowwise(clause, (Expression) given.children().apply(i));
    }
  }

  /** @param given an Expression, or an Option of one; null comes back for none */
  private Map condition(String clause, Object given, LogicalPlan from) {
    if (given instanceof scala.Option) {
      if (!((scala.Option) given).isDefined()) {
        return null;
      }
      return condition(clause, ((scala.Option) given).get(), from);
    }
    Expression whole = (Expression) given;
    rowwise(clause, whole);
    Conditions parts = new Conditions(target.outputSet(), from == null ? null : from.outputSet());
    parts.add(whole);
    List equated = new ArrayList();
    for (int i = 0; i < parts.equated.size(); i++) {
      Object[] pair = (Object[]) parts.equated.get(i);
      List row = new ArrayList();
      row.add(name((Attribute) pair[0]));
      row.add(number((Expression) pair[1]));
      row.add(pair[2]);
      equated.add(row);
    }
    Map result = new LinkedHashMap();
    result.put("number", number(whole));
    result.put("text", whole.sql());
    result.put("parts", parts.texts);
    result.put("unknown", Integer.valueOf(parts.unknown));
    result.put("equated", equated);
    result.put("deterministic", Boolean.valueOf(whole.deterministic()));
    result.put("columns", parts.columns(whole));
    return result;
  }

  private void clauses(
      List into, String side, scala.collection.immutable.Seq actions, LogicalPlan from) {
    for (int i = 0; i < actions.size(); i++) {
      MergeAction action = (MergeAction) actions.apply(i);
      Map clause = new LinkedHashMap();
      String when = "WHEN " + side.toUpperCase().replace('_', ' ');
      clause.put("side", side);
      clause.put("condition", condition(when, action.condition(), from));
      clause.put("star", Boolean.valueOf(MergeEvolution.isStar(action)));
      if (action instanceof UpdateAction) {
        clause.put("action", "update");
        clause.put("set",
            assignments(when + " THEN UPDATE SET", ((UpdateAction) action).assignments(), false));
      } else if (action instanceof InsertAction) {
        clause.put("action", "insert");
        clause.put("set",
            assignments(when + " THEN INSERT", ((InsertAction) action).assignments(), true));
      } else if (action instanceof DeleteAction) {
        clause.put("action", "delete");
      } else {
        throw new IllegalStateException(action.getClass().getName());
      }
      into.add(clause);
    }
  }

  /** By column the number of its new value. */
  private Map assignments(
      String clause, scala.collection.immutable.Seq given, boolean inserts) {
    for (int i = 0; i < given.size(); i++) {
      rowwise(clause, ((Assignment) given.apply(i)).value());
    }
    Map result = new LinkedHashMap();
    List columns = Assigned.of(given, this, inserts);
    for (int i = 0; i < columns.size(); i++) {
      Assigned column = (Assigned) columns.get(i);
      result.put(column.name(), number(column.value()));
    }
    return result;
  }

  // As the table has it: Spark takes over the case in which a statement writes a name.
  String name(Attribute column) {
    for (int i = 0; i < target.output().size(); i++) {
      Attribute there = (Attribute) target.output().apply(i);
      if (there.exprId().equals(column.exprId())) {
        return there.name();
      }
    }
    return column.name();
  }

  /** What it is, without the expressions: a JSON object, which sql_dml.py reads. */
  public String described() {
    try {
      return new ObjectMapper().writeValueAsString(described);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** An expression over the rows that `rows` and `sourceRows` give. */
  public Column column(int number) {
    return ExpressionUtils$.MODULE$.column((Expression) expressions.get(number));
  }

  /** The source's rows, as the query has them; null but for MERGE. */
  public Dataset sourceRows(SparkSession session) {
    return Dataset$.MODULE$.ofRows((org.apache.spark.sql.classic.SparkSession) session, source);
  }

  /**
   * Rows of the table under the names and ids by which the expressions know its columns.
   *
   * @param given the table's columns by name, and perhaps more, which stay
   */
  public Dataset rows(Dataset given) {
    return named(given, target.output(), false);
  }

  /** Rows of the source, stored somewhere: its columns in their order, and perhaps more. */
  public Dataset stored(Dataset given) {
    return named(given, source.output(), true);
  }

  private static Dataset named(
      Dataset given, scala.collection.immutable.Seq columns, boolean inOrder) {
    LogicalPlan plan = given.logicalPlan();
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
          chosen[i] = new Alias(there, wanted.name(), wanted.exprId(), seq(new Object[0]),
              (scala.Option) scala.None$.MODULE$, seq(new Object[0]));
        }
      }
    }
    return Dataset$.MODULE$.ofRows(
        (org.apache.spark.sql.classic.SparkSession) given.sparkSession(),
        new Project(seq(chosen), plan));
  }

  public scala.collection.immutable.Seq output() {
    return counts;
  }

  public scala.collection.immutable.Seq run(SparkSession session) {
    SparkSession ansi = Ansi.session((org.apache.spark.sql.classic.SparkSession) session);
    String[] found = ((String) Bridge.call("change", new Object[] {ansi, session, this}))
        .split(" ");
    if (!((org.apache.spark.sql.classic.SparkSession) session).sharedState().cacheManager()
        .isEmpty()) {
      session.catalog().refreshTable(table.name());
    }
    Object[] row = new Object[counts.size()];
    for (int i = 0; i < row.length; i++) {
      row[i] = Long.valueOf(found[i]);
    }
    return seq(new Object[] {RowFactory.create(row)});
  }

  // Nothing in it can change, and a copy would be made by a constructor that it does not have.
  public LogicalPlan clone() {
    return this;
  }

  public scala.collection.immutable.Seq innerChildren() {
    return seq(new Object[] {target});
  }

  public String nodeName() {
    return "tablefmt " + verb;
  }

  public String simpleString(int fields) {
    return text;
  }

  static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }
}
