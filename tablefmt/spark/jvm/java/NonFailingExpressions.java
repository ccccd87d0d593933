package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.StringPredicate;

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
    if (given instanceof Remainder) {
      Expression by = ((Remainder) given).right();
      return by instanceof Literal && ((Literal) by).value() instanceof Number
          && ((Number) ((Literal) by).value()).doubleValue() != 0.0;
    }
    if (given instanceof Cast) {
      return Cast$.MODULE$.canUpCast(((Cast) given).child().dataType(), given.dataType());
    }
    return given instanceof AttributeReference || given instanceof Literal
        || given instanceof And || given instanceof Or || given instanceof Not
        || given instanceof BinaryComparison || given instanceof In || given instanceof InSet
        || given instanceof IsNull || given instanceof IsNotNull || given instanceof IsNaN
        || given instanceof Coalesce || given instanceof StringPredicate;
  }
}
