package tablefmt;

import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Divide;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IntegralDivide;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * Statements on tables of ours run under ANSI, whatever the session says (SQL-1).
 *
 * As an analyzer rule, before names are resolved: a statement is analysed with that setting. What
 * the parser made with the session's own is made anew; a function takes the setting when it is
 * looked up, and a resolved expression keeps it.
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
    if (target == null || isOn(SQLConf$.MODULE$.get())
        || !RowTarget.isOurs((LogicalPlan) session.sessionState().analyzer().execute(target))) {
      return plan;
    }
    final LogicalPlan meant = (LogicalPlan) plan.resolveOperatorsUp(new Meant());
    return (LogicalPlan) under(SQLConf$.MODULE$.get(), new scala.runtime.AbstractFunction0() {
      public Object apply() {
        return session.sessionState().analyzer().execute(meant);
      }
    });
  }

  static boolean isOn(SQLConf conf) {
    return conf.ansiEnabled()
        && conf.storeAssignmentPolicy().toString().equals("ANSI");
  }

  private static void turnOn(SQLConf conf) {
    conf.setConfString("spark.sql.ansi.enabled", "true");
    conf.setConfString("spark.sql.storeAssignmentPolicy", "ANSI");
  }

  /** What a function gives under these settings, but for those. */
  static Object under(SQLConf conf, scala.Function0 made) {
    if (isOn(conf)) {
      return made.apply();
    }
    SQLConf other = conf.clone();
    turnOn(other);
    return SQLConf$.MODULE$.withExistingConf(other, made);
  }

  /** The session, or a copy of it where its own settings are others. */
  public static SparkSession session(SparkSession given) {
    if (isOn(given.sessionState().conf())) {
      return given;
    }
    SparkSession other = given.cloneSession();
    turnOn(other.sessionState().conf());
    return other;
  }

  /** The same rows as a query of another session. */
  public static Dataset moved(Dataset rows, SparkSession session) {
    return Dataset$.MODULE$.ofRows(session, rows.logicalPlan());
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
   * What the parser makes of operators: everything else it leaves to the analyzer.
   *
   * Not a transformation of Spark's: that hands the old node's place in the text on to the new one,
   * and an operator that cannot fail has none.
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
              return under(SQLConf$.MODULE$.get(), anew);
            }
          });
    }

    private Expression made(Expression node) {
      if (node instanceof SubqueryExpression) {
        LogicalPlan inner = (LogicalPlan) ((SubqueryExpression) node).plan();
        return ((SubqueryExpression) node).withNewPlan(
            (LogicalPlan) inner.resolveOperatorsUp(plans));
      }
      if (node instanceof Cast) {
        Cast cast = (Cast) node;
        if (!cast.evalMode().equals(EvalMode$.MODULE$.LEGACY())) {
          return node;
        }
        Cast made = new Cast(
            cast.child(), cast.dataType(), cast.timeZoneId(), EvalMode$.MODULE$.ANSI());
        if (cast.getTagValue(Cast$.MODULE$.USER_SPECIFIED_CAST()).isDefined()) {
          made.setTagValue(
              Cast$.MODULE$.USER_SPECIFIED_CAST(), scala.runtime.BoxedUnit.UNIT);
        }
        return made;
      }
      if (node instanceof UnaryMinus) {
        return new UnaryMinus((Expression) node.children().apply(0));
      }
      if (!(node instanceof BinaryArithmetic)) {
        return node;
      }
      Expression left = (Expression) node.children().apply(0);
      Expression right = (Expression) node.children().apply(1);
      return node instanceof Add ? new Add(left, right)
          : node instanceof Subtract ? new Subtract(left, right)
          : node instanceof Multiply ? new Multiply(left, right)
          : node instanceof Divide ? new Divide(left, right)
          : node instanceof IntegralDivide ? new IntegralDivide(left, right)
          : node instanceof Remainder ? (Expression) new Remainder(left, right) : node;
    }
  }
}
