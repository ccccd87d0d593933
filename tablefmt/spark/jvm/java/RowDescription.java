package tablefmt;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.classic.ExpressionUtils$;

/**
 * Describes a RowCommand as JSON. Expressions are numbers, by which Python requests them.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class RowDescription {
  private final LogicalPlan target;
  private final List expressions = new ArrayList();
  /** True if structs of the source may have other fields than the table's. */
  final boolean evolves;

  RowDescription(LogicalPlan target, boolean evolves) {
    this.target = target;
    this.evolves = evolves;
  }

  // Equal expressions have one number, even if they are written differently.
  Integer number(Expression given) {
    for (int i = 0; i < expressions.size(); i++) {
      Expression known = (Expression) expressions.get(i);
      if (known.deterministic() && known.semanticEquals(given)) {
        return Integer.valueOf(i);
      }
    }
    expressions.add(given);
    return Integer.valueOf(expressions.size() - 1);
  }

  List numbers(scala.collection.immutable.Seq columns) {
    List result = new ArrayList();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.apply(i);
      List row = new ArrayList();
      row.add(column.name());
      row.add(number(column));
      result.add(row);
    }
    return result;
  }

  // Windows and aggregates have no value for a single row. Spark does not check this here.
  private static void rowwise(String clause, Expression given) {
    if (SparkExpressions.needsSeveralRows(given)) {
      Bridge.call("rowwise", new Object[] {clause, given.sql()});
    }
    for (int i = 0; i < given.children().size(); i++) {
      rowwise(clause, (Expression) given.children().apply(i));
    }
  }

  /** @param given an Expression, or an Option of one; the result is null for none */
  Map condition(String clause, Object given, LogicalPlan from) {
    if (given instanceof scala.Option) {
      if (!((scala.Option) given).isDefined()) {
        return null;
      }
      return condition(clause, ((scala.Option) given).get(), from);
    }
    Expression whole = (Expression) given;
    rowwise(clause, whole);
    Conditions parts = new Conditions(target.outputSet(), from == null ? null : from.outputSet());
    parts.add(whole);
    List equated = new ArrayList();
    for (int i = 0; i < parts.equated.size(); i++) {
      Object[] pair = (Object[]) parts.equated.get(i);
      List row = new ArrayList();
      row.add(name((Attribute) pair[0]));
      row.add(number((Expression) pair[1]));
      row.add(pair[2]);
      equated.add(row);
    }
    Map result = new LinkedHashMap();
    result.put("number", number(whole));
    result.put("text", whole.sql());
    result.put("parts", parts.texts);
    result.put("unknown", Integer.valueOf(parts.unknown));
    result.put("equated", equated);
    result.put("deterministic", Boolean.valueOf(whole.deterministic()));
    result.put("columns", parts.columns(whole));
    return result;
  }

  void clauses(
      List into, String side, scala.collection.immutable.Seq actions, LogicalPlan from) {
    for (int i = 0; i < actions.size(); i++) {
      MergeAction action = (MergeAction) actions.apply(i);
      Map clause = new LinkedHashMap();
      String when = "WHEN " + side.toUpperCase().replace('_', ' ');
      clause.put("side", side);
      clause.put("condition", condition(when, action.condition(), from));
      clause.put("star", Boolean.valueOf(MergeEvolution.isStar(action)));
      if (action instanceof UpdateAction) {
        clause.put("action", "update");
        clause.put("set",
            assignments(when + " THEN UPDATE SET", ((UpdateAction) action).assignments(), false));
      } else if (action instanceof InsertAction) {
        clause.put("action", "insert");
        clause.put("set",
            assignments(when + " THEN INSERT", ((InsertAction) action).assignments(), true));
      } else if (action instanceof DeleteAction) {
        clause.put("action", "delete");
      } else {
        throw new IllegalStateException(action.getClass().getName());
      }
      into.add(clause);
    }
  }

  /** Returns, for each column, the number of its new value. */
  Map assignments(
      String clause, scala.collection.immutable.Seq given, boolean inserts) {
    for (int i = 0; i < given.size(); i++) {
      rowwise(clause, ((Assignment) given.apply(i)).value());
    }
    Map result = new LinkedHashMap();
    List columns = StoreAssignment.of(given, this, inserts);
    for (int i = 0; i < columns.size(); i++) {
      StoreAssignment column = (StoreAssignment) columns.get(i);
      result.put(column.name(), number(column.value()));
    }
    return result;
  }

  // Returns the table's spelling: Spark keeps the case in which a statement writes a name.
  String name(Attribute column) {
    for (int i = 0; i < target.output().size(); i++) {
      Attribute there = (Attribute) target.output().apply(i);
      if (there.exprId().equals(column.exprId())) {
        return there.name();
      }
    }
    return column.name();
  }

  Column column(int number) {
    return ExpressionUtils$.MODULE$.column((Expression) expressions.get(number));
  }
}
