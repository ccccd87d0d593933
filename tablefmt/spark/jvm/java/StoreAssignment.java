package tablefmt;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The value that SET or an INSERT assigns to a column, or the values for parts of the column. A
 * struct that is set in parts is built from the new parts and its other old fields, as in Spark's
 * AssignmentUtils.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
class StoreAssignment {
  private final Expression place;
  private final String name;
  private Expression value;
  private final boolean evolves;
  private final Map parts = new LinkedHashMap();

  private StoreAssignment(Expression place, String name, boolean evolves) {
    this.place = place;
    this.name = name;
    this.evolves = evolves;
  }

  /**
   * Groups assignments by column.
   *
   * @param names maps a column to its name in the table
   * @param inserts true for an INSERT, which has no parts
   */
  static List of(scala.collection.immutable.Seq given, RowDescription names, boolean inserts) {
    Map columns = new LinkedHashMap();
    for (int i = 0; i < given.size(); i++) {
      Assignment one = (Assignment) given.apply(i);
      List path = new ArrayList();
      Expression at = one.key();
      while (at instanceof GetStructField) {
        path.add(0, at);
        at = ((GetStructField) at).child();
      }
      if (!(at instanceof Attribute)) {
        Bridge.call("refuse", new Object[] {"SET of something inside an array or a map"});
      }
      if (inserts && !path.isEmpty()) {
        Bridge.call("refuse", new Object[] {"INSERT of a part of a nested column"});
      }
      String name = names.name((Attribute) at);
      StoreAssignment column = (StoreAssignment) columns.get(name);
      if (column == null) {
        column = new StoreAssignment(at, name, names.evolves);
        columns.put(name, column);
      }
      column.add(path, one.value());
    }
    return new ArrayList(columns.values());
  }

  private void add(List path, Expression given) {
    if (value != null || (path.isEmpty() && !parts.isEmpty())) {
      Bridge.call("twice", new Object[] {name});
    }
    if (path.isEmpty()) {
      value = given;
      return;
    }
    GetStructField first = (GetStructField) path.get(0);
    Integer ordinal = Integer.valueOf(first.ordinal());
    StoreAssignment part = (StoreAssignment) parts.get(ordinal);
    if (part == null) {
      StructField field = ((StructType) place.dataType()).fields()[first.ordinal()];
      part = new StoreAssignment(first, name + "." + field.name(), evolves);
      parts.put(ordinal, part);
    }
    part.add(path.subList(1, path.size()), given);
  }

  /** Returns the name of the column. */
  String name() {
    return name;
  }

  /** Returns the new value. It keeps its own type if its fields have other names. */
  Expression value() {
    if (value != null) {
      return fitting();
    }
    StructField[] fields = ((StructType) place.dataType()).fields();
    Object[] made = new Object[2 * fields.length];
    for (int i = 0; i < fields.length; i++) {
      StoreAssignment part = (StoreAssignment) parts.get(Integer.valueOf(i));
      made[2 * i] = Literal$.MODULE$.apply(fields[i].name());
      made[2 * i + 1] = part == null
          ? new GetStructField(place, i, scala.Option.apply(fields[i].name()))
          : part.value();
    }
    return new CreateNamedStruct(ScalaValues.seq(made));
  }

  private Expression fitting() {
    Expression given = plain(value);
    DataType wanted = place.dataType();
    boolean same = names(given.dataType(), wanted, true);
    if (same ? !Cast$.MODULE$.canANSIStoreAssign(given.dataType(), wanted)
        : !evolves && !names(given.dataType(), wanted, false)) {
      Bridge.call("misfit", new Object[] {name, wanted.sql(), given.dataType().sql()});
    }
    if (!same) {
      return given;
    }
    return (Expression) value.transform(new Unasserted());
  }

  // Spark's cast matches fields by position, so it is used only if all field names match there.
  private static boolean names(DataType given, DataType wanted, boolean inOrder) {
    if (given instanceof StructType && wanted instanceof StructType) {
      StructField[] ours = ((StructType) wanted).fields();
      StructField[] theirs = ((StructType) given).fields();
      boolean same = ours.length == theirs.length;
      for (int i = 0; same && i < ours.length; i++) {
        int at = inOrder ? i : place(theirs, ours[i].name());
        same = at >= 0 && ours[i].name().equalsIgnoreCase(theirs[at].name())
            && names(theirs[at].dataType(), ours[i].dataType(), inOrder);
      }
      return same;
    }
    if (given instanceof ArrayType && wanted instanceof ArrayType) {
      return names(
          ((ArrayType) given).elementType(), ((ArrayType) wanted).elementType(), inOrder);
    }
    if (given instanceof MapType && wanted instanceof MapType) {
      return names(((MapType) given).keyType(), ((MapType) wanted).keyType(), inOrder)
          && names(((MapType) given).valueType(), ((MapType) wanted).valueType(), inOrder);
    }
    return true;
  }

  private static int place(StructField[] fields, String name) {
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equalsIgnoreCase(name)) {
        return i;
      }
    }
    return -1;
  }

  /** Returns true if all is resolved except Spark's casts that match fields by position. */
  static boolean isReady(Expression given) {
    if (given.resolved()) {
      return true;
    }
    if (given instanceof Assignment) {
      return ((Assignment) given).key().resolved() && plain(((Assignment) given).value()).resolved();
    }
    boolean ready = given instanceof UpdateAction || given instanceof InsertAction;
    for (int i = 0; ready && i < given.children().size(); i++) {
      ready = isReady((Expression) given.children().apply(i));
    }
    return ready;
  }

  // Returns the value without the cast and the NULL check that Spark added. The table refuses a
  // NULL in a NOT NULL column, and names the column.
  private static Expression plain(Expression value) {
    if (value instanceof Cast
        && ((Cast) value).getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined()) {
      return plain(((Cast) value).child());
    }
    return value instanceof AssertNotNull ? plain(((AssertNotNull) value).child()) : value;
  }

  private static class Unasserted extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof AssertNotNull;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((AssertNotNull) node).child() : otherwise.apply(node);
    }
  }
}
