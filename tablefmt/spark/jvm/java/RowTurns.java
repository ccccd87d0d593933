package tablefmt;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.BitwiseCount;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.ShiftLeft;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rows of files out of which several commits took some, and what happened to each, by file and
 * position: a condition and columns over a scan of the files. They are made of Spark's own classes,
 * so executors need none of ours; a join would have to be told of every row by a query of its own.
 *
 * Of every 64 rows of a file there are two longs: how many rows of all files before them are meant,
 * and which of the 64 are. So a row has a number, and by that its commit.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class RowTurns {
  private static final scala.collection.immutable.Seq NOTHING =
      (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$;
  private static final scala.Option NONE = (scala.Option) scala.None$.MODULE$;
  private static final ArrayType LONGS = new ArrayType(DataTypes.LongType, false);

  private final long[] words;
  private final long[] firsts;
  private final int[] turns;
  private final String[] marks;
  private final long taskBytes;

  /**
   * @param packed little-endian ints: how many files; of each its rows and how many are meant; the
   *     positions of these, ascending, file by file; and of each the number of its commit
   * @param marks a line a commit: kind, version and time in microseconds, tabs between
   * @param taskBytes what may go with every task; above it every executor gets it once
   */
  public RowTurns(byte[] packed, String marks, long taskBytes) {
    IntBuffer in = ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
    int[] rows = new int[in.get()];
    int[] counts = new int[rows.length];
    firsts = new long[rows.length];
    int length = 0;
    int count = 0;
    for (int i = 0; i < rows.length; i++) {
      rows[i] = in.get();
      counts[i] = in.get();
      firsts[i] = length;
      // Some of the last word is of no row.
      length = Math.addExact(length, 2 * ((rows[i] >>> 6) + 1));
      count += counts[i];
    }
    words = new long[length];
    for (int i = 0; i < rows.length; i++) {
      for (int n = 0; n < counts[i]; n++) {
        int position = in.get();
        words[(int) firsts[i] + 2 * (position >>> 6) + 1] |= 1L << position;
      }
    }
    long before = 0L;
    for (int at = 0; at < length; at += 2) {
      words[at] = before;
      before += Long.bitCount(words[at + 1]);
    }
    turns = new int[count];
    in.get(turns);
    this.marks = marks.split("\n");
    this.taskBytes = taskBytes;
  }

  /**
   * The rows that are meant, with the marks of their commits instead of their places.
   *
   * @param rows of the files; the position in a file and its place are the last two columns
   * @param names of the columns of marks, tabs between
   */
  public Dataset marked(final Dataset rows, final String names) {
    // Numbers are small: without checks for overflow.
    SQLConf plain = SQLConf$.MODULE$.get().clone();
    plain.setConfString("spark.sql.ansi.enabled", "false");
    LogicalPlan plan = (LogicalPlan) SQLConf$.MODULE$.withExistingConf(
        plain, new scala.runtime.AbstractFunction0() {
          public Object apply() {
            return project(rows, names.split("\t"));
          }
        });
    return Dataset$.MODULE$.ofRows(rows.sparkSession(), plan);
  }

  private LogicalPlan project(Dataset rows, String[] names) {
    LogicalPlan below = rows.queryExecution().analyzed();
    scala.collection.immutable.Seq output = below.output();
    int given = output.size() - 2;
    Expression row = new KnownNotNull((Attribute) output.apply(given));
    Expression far = new Cast(row, DataTypes.IntegerType, NONE);
    Expression sixth = new ShiftRight(row, number(6));
    Expression word = new Add(item(constant(firsts, LONGS), (Attribute) output.apply(given + 1)),
        new ShiftLeft(sixth, number(1)));
    Expression all = shared(rows, UnsafeArrayData.fromPrimitiveArray(words), LONGS);
    Expression bits = item(all, new Add(word, number(1L)));
    // A shift looks at the last six bits of how far alone.
    Expression meant = new EqualTo(
        new BitwiseAnd(new ShiftRight(bits, far), number(1L)), number(1L));
    Expression lower = new Subtract(new ShiftLeft(number(1L), far), number(1L));
    Expression within = new BitwiseCount(new BitwiseAnd(bits, lower));
    Expression at = new Add(new Cast(item(all, word), DataTypes.IntegerType, NONE), within);
    ArrayType kind = new ArrayType(DataTypes.IntegerType, false);
    Expression turn = item(shared(rows, UnsafeArrayData.fromPrimitiveArray(turns), kind), at);
    Object[] columns = new Object[given + names.length];
    for (int i = 0; i < given; i++) {
      columns[i] = output.apply(i);
    }
    for (int i = 0; i < names.length; i++) {
      columns[given + i] = new Alias(item(ofCommits(i), turn), names[i],
          NamedExpression$.MODULE$.newExprId(), NOTHING, NONE, NOTHING);
    }
    return new Project(ScalaValues.seq(columns), new Filter(meant, below));
  }

  private Expression ofCommits(int column) {
    long[] numbers = new long[marks.length];
    Object[] kinds = new Object[marks.length];
    for (int i = 0; i < marks.length; i++) {
      String cell = marks[i].split("\t")[column];
      if (column == 0) {
        kinds[i] = UTF8String.fromString(cell);
      } else {
        numbers[i] = Long.parseLong(cell);
      }
    }
    if (column == 0) {
      return new DeletedRows.Constant(
          new GenericArrayData(kinds), new ArrayType(DataTypes.StringType, false));
    }
    DataType kind = column == 1 ? DataTypes.LongType : DataTypes.TimestampType;
    return constant(numbers, new ArrayType(kind, false));
  }

  private static Expression constant(long[] numbers, ArrayType kind) {
    return new DeletedRows.Constant(UnsafeArrayData.fromPrimitiveArray(numbers), kind);
  }

  private Expression shared(Dataset rows, UnsafeArrayData all, ArrayType kind) {
    if (all.getSizeInBytes() <= taskBytes) {
      return new DeletedRows.Constant(all, kind);
    }
    return DeletedRows.broadcast(rows.sparkSession().sparkContext(), all, kind);
  }

  private static Expression item(Expression array, Expression at) {
    return new KnownNotNull(new GetArrayItem(array, at, false));
  }

  private static Expression number(int value) {
    return new Literal(Integer.valueOf(value), DataTypes.IntegerType);
  }

  private static Expression number(long value) {
    return new Literal(Long.valueOf(value), DataTypes.LongType);
  }
}
