package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * Conditions that give a value for whatever row: they may look at rows that are gone, and fail for
 * none. What is not known here counts as one that may fail.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class NonFailingExpressions {
  private NonFailingExpressions() {}

  /** The AND-ed parts of a condition that never fail, or those that may, as one; or null. */
  static Expression parts(Expression condition, boolean neverFail) {
    List found = new ArrayList();
    split(condition, neverFail, found);
    Expression whole = null;
    for (int i = 0; i < found.size(); i++) {
      Expression part = (Expression) found.get(i);
      whole = whole == null ? part : new And(whole, part);
    }
    return whole;
  }

  private static void split(Expression condition, boolean neverFail, List into) {
    if (condition instanceof And) {
      split(((And) condition).left(), neverFail, into);
      split(((And) condition).right(), neverFail, into);
    } else if (is(condition) == neverFail) {
      into.add(condition);
    }
  }

  private static boolean is(Expression given) {
    for (int i = 0; i < given.children().size(); i++) {
      if (!is((Expression) given.children().apply(i))) {
        return false;
      }
    }
    return SparkExpressions.neverFails(given);
  }
}
