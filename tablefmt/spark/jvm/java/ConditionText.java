package tablefmt;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Writes conditions as text that Python understands: bare column names, times in UTC.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class ConditionText {
  private ConditionText() {}

  /** Collects the AND-ed parts of a condition, except parts that are not deterministic. */
  static void split(Expression condition, List parts) {
    if (condition instanceof And) {
      split(((And) condition).left(), parts);
      split(((And) condition).right(), parts);
    } else if (condition.deterministic()) {
      parts.add(condition);
    }
  }

  /** Returns one text per condition that uses only these columns and no sub-query, in order. */
  static Set of(final scala.collection.immutable.Seq filters, final StructType columns) {
    return (Set) SparkSettings.inUtc(new scala.runtime.AbstractFunction0() {
      public Object apply() {
        Set texts = new LinkedHashSet();
        for (int f = 0; f < filters.size(); f++) {
          Expression filter = (Expression) filters.apply(f);
          if (!SparkExpressions.hasSubquery(filter) && isOn(columns, filter)) {
            texts.add("(" + plainText(filter) + ")");
          }
        }
        return texts;
      }
    });
  }

  private static boolean isOn(StructType columns, Expression filter) {
    scala.collection.Iterator named = filter.references().iterator();
    while (named.hasNext()) {
      if (!has(columns, ((Attribute) named.next()).name())) {
        return false;
      }
    }
    return true;
  }

  static boolean has(StructType columns, String name) {
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(name)) {
        return true;
      }
    }
    return false;
  }

  /** Returns the text of a condition with bare column names, which are always quoted. */
  static String plainText(Expression given) {
    // Spark does not quote names such as null or current_date; a marker in the name forces quotes.
    String mark = "\ufdd0";
    String text = given.sql();
    while (text.indexOf(mark) >= 0) {
      mark += "\ufdd0";
    }
    return ((Expression) given.transform(new Unqualified(mark))).sql().replace(mark, "");
  }

  private static class Unqualified extends scala.runtime.AbstractPartialFunction {
    private final String mark;

    Unqualified(String mark) {
      this.mark = mark;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      AttributeReference bare =
          ((AttributeReference) node)
              .withQualifier(
                  (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$);
      return bare.withName(bare.name() + mark);
    }
  }
}
