package tablefmt;

import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.BitwiseCount;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Divide;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.Grouping;
import org.apache.spark.sql.catalyst.expressions.GroupingID;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IntegralDivide;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.ShiftLeft;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.StringPredicate;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata$;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Access to Spark's internals: kinds of expressions. Builds the expressions of our conditions and
 * columns, and classifies given expressions.
 *
 * The code is compiled against Spark. If a class or a constructor is missing, compilation fails,
 * and the session reads and writes through Arrow. A kind that a later Spark adds is in none of the
 * lists here. Each list says what that means.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkExpressions {
  private static final scala.collection.immutable.Seq NOTHING =
      (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$;
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;

  private SparkExpressions() {}

  // --- Columns.

  /** Returns a new column that no other expression refers to. */
  static AttributeReference column(String name, DataType type, boolean nullable) {
    return new AttributeReference(name, type, nullable, Metadata$.MODULE$.empty(),
        NamedExpression$.MODULE$.newExprId(), NOTHING);
  }

  static Expression named(Expression value, String name) {
    return named(value, name, NamedExpression$.MODULE$.newExprId());
  }

  /** Returns a value with the name and the id of a column that other expressions use. */
  static Expression named(Expression value, Attribute as) {
    return named(value, as.name(), as.exprId());
  }

  private static Expression named(Expression value, String name, ExprId id) {
    return new Alias(value, name, id, NOTHING, NONE, NOTHING);
  }

  // --- Numbers.

  static Expression number(int value) {
    return new Literal(Integer.valueOf(value), DataTypes.IntegerType);
  }

  static Expression number(long value) {
    return new Literal(Long.valueOf(value), DataTypes.LongType);
  }

  static Expression add(Expression left, Expression right) {
    return new Add(left, right);
  }

  static Expression subtract(Expression left, Expression right) {
    return new Subtract(left, right);
  }

  static Expression bits(Expression left, Expression right) {
    return new BitwiseAnd(left, right);
  }

  static Expression bitCount(Expression of) {
    return new BitwiseCount(of);
  }

  static Expression left(Expression value, Expression by) {
    return new ShiftLeft(value, by);
  }

  static Expression right(Expression value, Expression by) {
    return new ShiftRight(value, by);
  }

  static Expression integer(Expression value) {
    return new Cast(value, DataTypes.IntegerType, NONE);
  }

  /** Returns a value as a point in time, in the session's time zone. */
  static Expression time(Expression value) {
    return new Cast(value, DataTypes.TimestampType, NONE);
  }

  static Expression equal(Expression left, Expression right) {
    return new EqualTo(left, right);
  }

  /** Compares two values; the result is never NULL. */
  static Expression differ(Expression left, Expression right) {
    return new Not(new EqualNullSafe(left, right));
  }

  static Expression notNull(Expression value) {
    return new KnownNotNull(value);
  }

  // --- Arrays.

  /** Returns an element of an array; NULL before its start and after its end. */
  static Expression item(Expression array, Expression at) {
    return new GetArrayItem(array, at, false);
  }

  static boolean isItem(Object node) {
    return node instanceof GetArrayItem;
  }

  static Expression constant(long[] values, DataType kind) {
    return new Constant(UnsafeArrayData.fromPrimitiveArray(values), new ArrayType(kind, false));
  }

  static Expression constant(String[] values) {
    Object[] texts = new Object[values.length];
    for (int i = 0; i < texts.length; i++) {
      texts[i] = UTF8String.fromString(values[i]);
    }
    return new Constant(
        new GenericArrayData(texts), new ArrayType(DataTypes.StringType, false));
  }

  /** Returns an array that is sent with every task up to a size, else once to each executor. */
  static Expression shared(SparkContext context, long[] values, long taskBytes) {
    return shared(context, UnsafeArrayData.fromPrimitiveArray(values),
        new ArrayType(DataTypes.LongType, false), taskBytes);
  }

  static Expression shared(SparkContext context, int[] values, long taskBytes) {
    return shared(context, UnsafeArrayData.fromPrimitiveArray(values),
        new ArrayType(DataTypes.IntegerType, false), taskBytes);
  }

  private static Expression shared(
      SparkContext context, UnsafeArrayData all, ArrayType type, long taskBytes) {
    if (all.getSizeInBytes() <= taskBytes) {
      return new Constant(all, type);
    }
    Broadcast shared = JavaSparkContext.fromSparkContext(context).broadcast(all);
    Expression known = new Literal(shared, new ObjectType(Broadcast.class));
    // Otherwise the optimizer would put the array itself into the plan, and so into every task.
    return new Invoke(new KnownNotNull(known), "value", type, NOTHING, NOTHING, true, false, true);
  }

  /** A literal that is cheap to compare and to print. Executors get a plain literal. */
  public static final class Constant extends Literal {
    Constant(Object value, DataType type) {
      super(value, type);
    }

    public boolean equals(Object other) {
      return this == other;
    }

    public int hashCode() {
      return System.identityHashCode(this);
    }

    public String toString() {
      return "deleted";
    }

    // Not private: Janino would make it static in a nested class, and Java would not call it.
    protected Object writeReplace() {
      return new Literal(value(), dataType());
    }
  }

  // --- Kinds.

  static boolean hasSubquery(Expression given) {
    return SubqueryExpression$.MODULE$.hasSubquery(given);
  }

  /**
   * Returns true if an expression needs several rows. An unknown kind counts as one that needs a
   * single row; Spark then refuses it when the query runs.
   */
  static boolean needsSeveralRows(Expression given) {
    return given instanceof WindowExpression || given instanceof AggregateExpression
        || given instanceof Generator || given instanceof Grouping
        || given instanceof GroupingID;
  }

  /**
   * Returns true if an expression itself, without its children, never fails for any row. An unknown
   * kind may fail.
   */
  static boolean neverFails(Expression given) {
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

  /**
   * Rebuilds an operator or a cast as the parser builds it under the current settings. An unknown
   * kind is returned unchanged: the analyzer builds functions later.
   */
  static Expression parsedAnew(Expression node) {
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
    if (node.children().size() != 2) {
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
