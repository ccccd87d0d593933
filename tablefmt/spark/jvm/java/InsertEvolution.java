package tablefmt;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Resolves INSERT WITH SCHEMA EVOLUTION, and writes to a table by name with the option mergeSchema,
 * against the evolved schema. The commit with the rows changes the table; this class alters
 * nothing.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class InsertEvolution {
  private static final String OPTION = "mergeschema";
  private static final String ASKED = "withSchemaEvolution";

  private InsertEvolution() {}

  /** Returns the unresolved plan, with the evolved schema for writes that request it. */
  static LogicalPlan applied(SparkSession session, LogicalPlan plan) {
    return (LogicalPlan) plan.resolveOperators(new Wider(session));
  }

  private static class Wider extends scala.runtime.AbstractPartialFunction {
    private final SparkSession session;

    Wider(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      if (node instanceof InsertIntoStatement) {
        LogicalPlan table = ((InsertIntoStatement) node).table();
        return table instanceof UnresolvedRelation && (asked((LogicalPlan) node)
            || isSetBySession() || isSet(((UnresolvedRelation) table).options().asCaseSensitiveMap()));
      }
      if (node instanceof V2WriteCommand) {
        LogicalPlan table = (LogicalPlan) ((V2WriteCommand) node).table();
        return !isWider(table) && (asked((LogicalPlan) node) || isSetBySession()
            || isSet(options((LogicalPlan) node)));
      }
      return false;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      LogicalPlan given = node instanceof InsertIntoStatement
          ? ((InsertIntoStatement) node).table() : (LogicalPlan) ((V2WriteCommand) node).table();
      LogicalPlan target = SparkQueries.resolved(session, given);
      DataSourceV2Relation found = relation(target);
      if (found == null) {
        return node;
      }
      LogicalPlan query = node instanceof InsertIntoStatement
          ? ((InsertIntoStatement) node).query() : ((V2WriteCommand) node).query();
      if (!query.resolved()) {
        query = SparkQueries.resolved(session, query);
      }
      SnapshotTable table = (SnapshotTable) found.table();
      StructType columns = table.schema();
      if (query.resolved()) {
        String wider = (String) Bridge.call("evolve", new Object[] {
            session, table.uri, table.storage, query.schema().json(), said(node)});
        columns = (StructType) DataType.fromJson(wider);
      }
      LogicalPlan made = SparkNodes.with((LogicalPlan) node, "table", SparkNodes.relation(
          found, table.wider(columns), DataTypeUtils$.MODULE$.toAttributes(columns)));
      return SparkNodes.with(made, ASKED, Boolean.FALSE);
    }
  }

  /** Describes how the columns of the query map to those of the table. */
  private static Map said(Object node) {
    Map said = new HashMap();
    if (node instanceof V2WriteCommand) {
      said.put("byName", Boolean.valueOf(((V2WriteCommand) node).isByName()));
      return said;
    }
    InsertIntoStatement insert = (InsertIntoStatement) node;
    said.put("byName", Boolean.valueOf(insert.byName()));
    said.put("columns", texts(insert.userSpecifiedCols().iterator()));
    java.util.List fixed = new java.util.ArrayList();
    scala.collection.Iterator spec = insert.partitionSpec().iterator();
    while (spec.hasNext()) {
      scala.Tuple2 pair = (scala.Tuple2) spec.next();
      if (((scala.Option) pair._2()).isDefined()) {
        fixed.add(pair._1());
      }
    }
    said.put("fixed", fixed);
    return said;
  }

  private static java.util.List texts(scala.collection.Iterator given) {
    java.util.List found = new java.util.ArrayList();
    while (given.hasNext()) {
      found.add(given.next());
    }
    return found;
  }

  private static DataSourceV2Relation relation(LogicalPlan target) {
    if (!RowTarget.isOurs(target)) {
      return null;
    }
    return SparkScans.named(target.collectLeaves().head());
  }

  private static boolean isWider(LogicalPlan table) {
    SnapshotTable named = SparkScans.table(table);
    return named != null && named.isWider();
  }

  /** Returns true if a setting of Delta or Iceberg requests it: see delta_settings.py. */
  static boolean isSetBySession() {
    return isTrue("spark.databricks.delta.schema.autoMerge.enabled")
        || isTrue("spark.sql.iceberg.merge-schema");
  }

  private static boolean isTrue(String setting) {
    return "true".equalsIgnoreCase(SparkSettings.text(setting, "false"));
  }

  private static boolean isSet(Map options) {
    Iterator names = options.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      if (name.toLowerCase(java.util.Locale.ROOT).replace("_", "").equals(OPTION)) {
        return "true".equalsIgnoreCase(String.valueOf(options.get(name)));
      }
    }
    return false;
  }

  static Map options(LogicalPlan write) {
    Object given = SparkNodes.part(write, "writeOptions");
    return given == null
        ? new HashMap() : ScalaValues.map((scala.collection.immutable.Map) given);
  }

  // Which commands have this flag, and where, differs between releases of Spark.
  private static boolean asked(LogicalPlan command) {
    return Boolean.TRUE.equals(SparkNodes.part(command, ASKED));
  }
}
