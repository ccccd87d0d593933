package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * Recognises conditions that never fail for any row, so that they may also be evaluated on deleted
 * rows. An unknown expression counts as one that may fail.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class NonFailingExpressions {
  private NonFailingExpressions() {}

  /** Returns the AND-ed parts that never fail, or the other parts, as one condition; or null. */
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
