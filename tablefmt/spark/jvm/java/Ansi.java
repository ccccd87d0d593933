package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Analyses statements on our tables under ANSI, whatever the session's setting is (SQL-1).
 *
 * An analyzer rule that runs before names are resolved. It rebuilds expressions that the parser
 * built under the session's setting. A function reads the setting when it is looked up, and a
 * resolved expression keeps it.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class Ansi extends org.apache.spark.sql.catalyst.rules.Rule {
  private final SparkSession session;

  public Ansi(SparkSession session) {
    this.session = session;
  }

  public TreeNode apply(TreeNode given) {
    LogicalPlan plan = (LogicalPlan) given;
    LogicalPlan target = plan instanceof DeleteFromTable ? ((DeleteFromTable) plan).table()
        : plan instanceof UpdateTable ? ((UpdateTable) plan).table()
        : plan instanceof MergeIntoTable ? ((MergeIntoTable) plan).targetTable() : null;
    if (target == null || SparkSettings.isAnsi()
        || !RowTarget.isOurs(SparkQueries.resolved(session, target))) {
      return plan;
    }
    final LogicalPlan meant = (LogicalPlan) plan.resolveOperatorsUp(new Meant());
    return (LogicalPlan) SparkSettings.underAnsi(new scala.runtime.AbstractFunction0() {
      public Object apply() {
        return SparkQueries.resolved(session, meant);
      }
    });
  }

  /** Returns the session, or an ANSI copy of it if its own settings differ. */
  public static SparkSession session(SparkSession given) {
    return SparkQueries.ansi(given);
  }

  /** Returns the same rows as a query of another session. */
  public static Dataset moved(Dataset rows, SparkSession session) {
    return SparkQueries.of(session, SparkQueries.plan(rows));
  }

  private static class Meant extends scala.runtime.AbstractPartialFunction {
    private final Anew anew = new Anew(this);

    public boolean isDefinedAt(Object plan) {
      return plan instanceof LogicalPlan;
    }

    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
      return ((LogicalPlan) plan).mapExpressions(anew);
    }
  }

  /**
   * Rebuilds the operators that the parser built. The analyzer builds all other expressions.
   *
   * Spark's own transform is not used: it copies the old node's position in the text to the new
   * node, and an operator that cannot fail has no position.
   */
  private static class Anew extends scala.runtime.AbstractFunction1 {
    private final Meant plans;

    Anew(Meant plans) {
      this.plans = plans;
    }

    public Object apply(Object given) {
      final Expression node = (Expression) ((Expression) given).mapChildren(this);
      final scala.Function0 anew = new scala.runtime.AbstractFunction0() {
        public Object apply() {
          return made(node);
        }
      };
      return CurrentOrigin$.MODULE$.withOrigin(
          node.origin(), new scala.runtime.AbstractFunction0() {
            public Object apply() {
              return SparkSettings.underAnsi(anew);
            }
          });
    }

    private Expression made(Expression node) {
      if (node instanceof SubqueryExpression) {
        LogicalPlan inner = (LogicalPlan) ((SubqueryExpression) node).plan();
        return ((SubqueryExpression) node).withNewPlan(
            (LogicalPlan) inner.resolveOperatorsUp(plans));
      }
      return SparkExpressions.parsedAnew(node);
    }
  }
}
