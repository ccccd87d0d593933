package tablefmt;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;

/**
 * A data source relation that stands for a query. The analyzer or the optimizer replaces it with
 * the query.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class ChangesRelation extends BaseRelation {
  private final Dataset rows;

  public ChangesRelation(Dataset rows) {
    this.rows = rows;
  }

  /** Returns a query's columns, by their names, as the output of a scan that it replaces. */
  static LogicalPlan selected(LogicalPlan query, scala.collection.immutable.Seq output) {
    Object[] columns = new Object[output.size()];
    for (int i = 0; i < columns.length; i++) {
      Attribute wanted = (Attribute) output.apply(i);
      for (int c = 0; c < query.output().size(); c++) {
        Attribute found = (Attribute) query.output().apply(c);
        if (found.name().equals(wanted.name())) {
          columns[i] = SparkExpressions.named(found, wanted);
        }
      }
      if (columns[i] == null) {
        throw new IllegalStateException("no column " + wanted.name());
      }
    }
    return new Project(ScalaValues.seq(columns), query);
  }

  public SQLContext sqlContext() {
    return rows.sparkSession().sqlContext();
  }

  public StructType schema() {
    return rows.schema();
  }

  /** Replaces relations with their queries, either analysed or already optimised. */
  static class Unfolding extends scala.runtime.AbstractPartialFunction {
    private final boolean optimised;

    Unfolding(boolean optimised) {
      this.optimised = optimised;
    }

    public boolean isDefinedAt(Object node) {
      return SparkScans.changes(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      LogicalPlan scan = (LogicalPlan) node;
      Dataset rows = SparkScans.changes(node).rows;
      LogicalPlan query = optimised ? SparkQueries.optimized(rows) : SparkQueries.analyzed(rows);
      Object[] columns = new Object[scan.output().size()];
      for (int i = 0; i < columns.length; i++) {
        Attribute wanted = (Attribute) scan.output().apply(i);
        columns[i] = SparkExpressions.named((Attribute) query.output().apply(i), wanted);
      }
      return new Project(ScalaValues.seq(columns), query);
    }
  }
}
