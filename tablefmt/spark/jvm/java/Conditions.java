package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;

/**
 * Splits a resolved condition into parts about the rows of the table. Python decides which parts
 * it understands.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class Conditions {
  /** Texts of the parts that use only the table: times in UTC, names without a qualifier. */
  final List texts = new ArrayList();
  /**
   * Parts `column = expression over the source`, each as Object[] {Attribute, Expression, Boolean}.
   * The Boolean is true for `<=>`.
   */
  final List equated = new ArrayList();
  /** The number of parts that are neither. */
  int unknown = 0;

  private final AttributeSet table;
  private final AttributeSet source;

  /** @param source null if there is none */
  Conditions(AttributeSet table, AttributeSet source) {
    this.table = table;
    this.source = source;
  }

  void add(Expression part) {
    if (part instanceof And) {
      add(((And) part).left());
      add(((And) part).right());
    } else if (!part.deterministic() || SparkExpressions.hasSubquery(part)) {
      unknown++;
    } else if (part.references().subsetOf(table)) {
      texts.add(text(part));
    } else if (part instanceof EqualTo) {
      pair(((EqualTo) part).left(), ((EqualTo) part).right(), Boolean.FALSE);
    } else if (part instanceof EqualNullSafe) {
      pair(((EqualNullSafe) part).left(), ((EqualNullSafe) part).right(), Boolean.TRUE);
    } else {
      unknown++;
    }
  }

  /**
   * Returns the names of the table's columns that the condition uses, besides the source's
   * columns. Returns null if the condition has sub-queries, user-defined functions, or parts that
   * are not deterministic.
   */
  List columns(Expression whole) {
    if (!whole.deterministic() || SparkExpressions.hasSubquery(whole)
        || ofUser(whole)) {
      return null;
    }
    List names = new ArrayList();
    scala.collection.Iterator named = whole.references().iterator();
    while (named.hasNext()) {
      Attribute one = (Attribute) named.next();
      if (table.contains(one)) {
        names.add(one.name());
      }
    }
    return names;
  }

  private static boolean ofUser(Expression given) {
    if (given instanceof UserDefinedExpression || !Folded.isLasting(given)) {
      return true;
    }
    for (int i = 0; i < given.children().size(); i++) {
      if (ofUser((Expression) given.children().apply(i))) {
        return true;
      }
    }
    return false;
  }

  private void pair(Expression left, Expression right, Boolean nullSafe) {
    if (!match(left, right, nullSafe) && !match(right, left, nullSafe)) {
      unknown++;
    }
  }

  private boolean match(Expression column, Expression value, Boolean nullSafe) {
    if (source == null || !(column instanceof Attribute) || !table.contains((Attribute) column)
        || !value.references().subsetOf(source)) {
      return false;
    }
    equated.add(new Object[] {column, value, nullSafe});
    return true;
  }

  private static String text(final Expression given) {
    final Expression folded = (Expression) given.transformDown(new Folded());
    return (String) SparkSettings.inUtc(new scala.runtime.AbstractFunction0() {
      public Object apply() {
        return ConditionText.plainText(folded);
      }
    });
  }

  /** Replaces constant expressions with their values, so that the text needs no type rules. */
  private static class Folded extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Expression && ((Expression) node).foldable()
          && !(node instanceof Literal) && isLasting((Expression) node);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      try {
        return new Literal(((Expression) node).eval(null), ((Expression) node).dataType());
      } catch (RuntimeException wrong) {
        // The expression may fail when the query runs, or not be evaluated at all.
        return node;
      }
    }

    static boolean isLasting(Expression given) {
      String name = given.getClass().getSimpleName();
      if (name.startsWith("Current") || name.startsWith("Now") || name.startsWith("Local")) {
        return false;
      }
      for (int i = 0; i < given.children().size(); i++) {
        if (!isLasting((Expression) given.children().apply(i))) {
          return false;
        }
      }
      return true;
    }
  }
}
