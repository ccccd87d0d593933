package tablefmt;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.DataTypes;

/**
 * Maps the rows that several commits changed in a file to their commits, by file and position. The
 * mapping is a filter and columns above a scan of the files. They consist of Spark's own classes,
 * so executors need none of ours. A join would need a separate query that lists every row.
 *
 * There are two longs for every 64 rows of a file. One counts the changed rows of all files before
 * them, the other marks the changed rows among the 64. This gives a row a number, and the number
 * gives its commit.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class ChangeRowMapping {
  private final long[] words;
  private final long[] firsts;
  private final int[] turns;
  private final String[] marks;
  private final long taskBytes;

  /**
   * @param encoded little-endian ints: the number of files; for each file its rows and the number of
   *     changed rows; the positions of changed rows, ascending, file by file; and for each of these
   *     the number of its commit
   * @param marks a line for each commit: kind, version and time in microseconds, separated by tabs
   * @param taskBytes the largest array that is sent with every task; every executor gets a larger
   *     one once
   */
  public ChangeRowMapping(byte[] packed, String marks, long taskBytes) {
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
      // The last word may have bits without a row.
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
   * Returns the changed rows, with the columns of their commits instead of their positions.
   *
   * @param rows rows of the files; the last two columns are the position in a file and its start
   * @param names the names of the commit columns, separated by tabs
   */
  public Dataset marked(final Dataset rows, final String names) {
    // The numbers are small, so overflow checks are not needed.
    LogicalPlan plan = (LogicalPlan) SparkSettings.withoutAnsi(
        new scala.runtime.AbstractFunction0() {
          public Object apply() {
            return project(rows, names.split("\t"));
          }
        });
    return SparkQueries.of(rows.sparkSession(), plan);
  }

  private LogicalPlan project(Dataset rows, String[] names) {
    LogicalPlan below = SparkQueries.analyzed(rows);
    scala.collection.immutable.Seq output = below.output();
    int given = output.size() - 2;
    SparkContext context = rows.sparkSession().sparkContext();
    Expression row = SparkExpressions.notNull((Attribute) output.apply(given));
    Expression far = SparkExpressions.integer(row);
    Expression sixth = SparkExpressions.right(row, number(6));
    Expression begin = item(SparkExpressions.constant(firsts, DataTypes.LongType),
        (Attribute) output.apply(given + 1));
    Expression word = SparkExpressions.add(begin, SparkExpressions.left(sixth, number(1)));
    Expression all = SparkExpressions.shared(context, words, taskBytes);
    Expression bits = item(all, SparkExpressions.add(word, number(1L)));
    // A shift uses only the last six bits of the distance.
    Expression meant = SparkExpressions.equal(
        SparkExpressions.bits(SparkExpressions.right(bits, far), number(1L)), number(1L));
    Expression lower =
        SparkExpressions.subtract(SparkExpressions.left(number(1L), far), number(1L));
    Expression within = SparkExpressions.bitCount(SparkExpressions.bits(bits, lower));
    Expression at =
        SparkExpressions.add(SparkExpressions.integer(item(all, word)), within);
    Expression turn = item(SparkExpressions.shared(context, turns, taskBytes), at);
    Object[] columns = new Object[given + names.length];
    for (int i = 0; i < given; i++) {
      columns[i] = output.apply(i);
    }
    for (int i = 0; i < names.length; i++) {
      columns[given + i] = SparkExpressions.named(item(ofCommits(i), turn), names[i]);
    }
    return new Project(ScalaValues.seq(columns), new Filter(meant, below));
  }

  private Expression ofCommits(int column) {
    long[] numbers = new long[marks.length];
    String[] kinds = new String[marks.length];
    for (int i = 0; i < marks.length; i++) {
      String cell = marks[i].split("\t")[column];
      if (column == 0) {
        kinds[i] = cell;
      } else {
        numbers[i] = Long.parseLong(cell);
      }
    }
    return column == 0 ? SparkExpressions.constant(kinds) : SparkExpressions.constant(
        numbers, column == 1 ? DataTypes.LongType : DataTypes.TimestampType);
  }

  private static Expression item(Expression array, Expression at) {
    return SparkExpressions.notNull(SparkExpressions.item(array, at));
  }

  private static Expression number(int value) {
    return SparkExpressions.number(value);
  }

  private static Expression number(long value) {
    return SparkExpressions.number(value);
  }
}
