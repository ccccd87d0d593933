package tablefmt;

import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Lists the snapshots of our tables that a query reads, including sub-queries and cached plans.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SourceVersions {
  private static final Set PYTHON_SOURCES =
      new LinkedHashSet(java.util.Arrays.asList(new String[] {"tablefmt", "tablefmt_arrow"}));

  /**
   * @return one per line: identities of files that Spark itself reads, names of functions that read
   *     through Arrow, and paths that the Python data source scans
   */
  public String of(Dataset query) {
    Set found = new LinkedHashSet();
    add(SparkQueries.plan(query), found);
    StringBuilder lines = new StringBuilder();
    java.util.Iterator each = found.iterator();
    while (each.hasNext()) {
      lines.append((String) each.next()).append('\n');
    }
    return lines.toString();
  }

  /** Returns true if a query reads one of our tables, also as a stream. */
  public boolean isOurs(Dataset query) {
    Set found = new LinkedHashSet();
    add(SparkQueries.plan(query), found);
    return !found.isEmpty() || SparkQueries.plan(query).toString().contains("StreamingRelation tablefmt");
  }

  private static void add(QueryPlan plan, Set found) {
    if (SparkScans.files(plan) != null) {
      found.add(SparkScans.files(plan).snapshot());
    } else if (SparkScans.named(plan) != null) {
      table(SparkScans.named(plan), found);
    } else if (plan instanceof InMemoryRelation) {
      add(((InMemoryRelation) plan).cacheBuilder().logicalPlan(), found);
    }
    scala.collection.immutable.Seq expressions = plan.expressions();
    for (int i = 0; i < expressions.size(); i++) {
      add((Expression) expressions.apply(i), found);
    }
    scala.collection.immutable.Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      add((QueryPlan) children.apply(i), found);
    }
  }

  private static void add(Expression given, Set found) {
    if (given instanceof PythonUDF && ((PythonUDF) given).name().startsWith("tablefmt_arrow_")) {
      found.add(((PythonUDF) given).name());
    }
    if (given instanceof PlanExpression) {
      Object inner = ((PlanExpression) given).plan();
      if (inner instanceof LogicalPlan) {
        add((QueryPlan) inner, found);
      }
    }
    for (int i = 0; i < given.children().size(); i++) {
      add((Expression) given.children().apply(i), found);
    }
  }

  private static void table(DataSourceV2Relation named, Set found) {
    if (named.table() instanceof SnapshotTable) {
      SnapshotRelation relation = ((SnapshotTable) named.table()).relation();
      if (relation != null) {
        found.add(relation.index().snapshot());
      }
    } else if (PYTHON_SOURCES.contains(named.table().name())) {
      found.add("scan " + named.options().get("path"));
    }
  }
}
