package tablefmt;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.roaringbitmap.RoaringBitmap;

/**
 * Deleted rows of files, and the condition by which Spark filters them. Exists only on the driver:
 * the condition consists of Spark's own classes.
 *
 * All deleted rows are in one array of longs. A small array is sent with every task, a larger one
 * once to every executor. The array has a bit for each row of a file. If that is too large, it has
 * a long for each page of 4,096 rows, which points to the bits of the page if the page has any.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class DeletedRows {
  private static final int PAGE = 12;
  private static final int WORDS = 1 << (PAGE - 6);

  private final int[] files;
  private final long[] firsts;
  private volatile Function packed;
  private final boolean paged;
  private final long length;
  private final long taskBytes;
  private Expression array;

  /**
   * @param lines a line for each file with deleted rows: its index among all files, a tab, and its
   *     number of rows as written
   * @param taskBytes the largest array that is sent with every task
   * @param plainBytes the largest array with a bit for each row; a larger one uses pages
   */
  public DeletedRows(String lines, long taskBytes, long plainBytes) {
    String[] each = lines.split("\n");
    this.taskBytes = taskBytes;
    this.files = new int[each.length];
    long[] rows = new long[each.length];
    long words = 0L;
    for (int i = 0; i < each.length; i++) {
      int tab = each[i].indexOf('\t');
      this.files[i] = Integer.parseInt(each[i].substring(0, tab));
      rows[i] = Long.parseLong(each[i].substring(tab + 1));
      words += units(rows[i], 6);
    }
    this.paged = words * 8L > plainBytes;
    this.firsts = new long[each.length];
    long next = 0L;
    for (int i = 0; i < each.length; i++) {
      this.firsts[i] = next;
      next += units(rows[i], paged ? PAGE : 6);
    }
    this.length = next;
  }

  /**
   * Sets the function that returns the positions of the deleted rows.
   *
   * @param packed returns the positions as a byte[]: consecutive sets in Roaring's portable 64-bit
   *     format. It is called when a scan that needs them is planned
   */
  public void setPacked(Function packed) {
    this.packed = packed;
  }

  private static long units(long rows, int bits) {
    return rows + (1L << bits) - 1L >> bits;
  }

  /** Returns the indexes of the files with deleted rows, ascending. */
  public int[] files() {
    return files;
  }

  /** Returns where the bits of files()[i] begin in the array. */
  public long first(int i) {
    return firsts[i];
  }

  /** Returns a place outside of the array, for files without deleted rows. */
  long nowhere() {
    return Integer.MIN_VALUE;
  }

  /**
   * Returns an expression that is true for live rows, and never NULL.
   *
   * @param row position in the file
   * @param first where the file's bits begin, or nowhere()
   */
  public Expression left(final SparkContext context, final Expression row, final Expression first) {
    // Evaluated for every row, so without overflow checks. No overflow is possible.
    return (Expression) SparkSettings.withoutAnsi(
        new scala.runtime.AbstractFunction0() {
          public Object apply() {
            return there(context, SparkExpressions.notNull(row), first);
          }
        });
  }

  private Expression there(SparkContext context, Expression row, Expression first) {
    Expression word;
    if (paged) {
      Expression page =
          item(context, SparkExpressions.add(first, SparkExpressions.right(row, number(PAGE))));
      Expression within = SparkExpressions.bits(
          SparkExpressions.right(row, number(6)), number(WORDS - 1L));
      word = item(context, SparkExpressions.add(page, within));
    } else {
      word = item(context, SparkExpressions.add(first, SparkExpressions.right(row, number(6))));
    }
    // A shift uses only the last six bits of the distance.
    Expression far = SparkExpressions.integer(row);
    Expression bit = SparkExpressions.bits(SparkExpressions.right(word, far), number(1L));
    return SparkExpressions.differ(bit, number(1L));
  }

  private static Expression number(int value) {
    return SparkExpressions.number(value);
  }

  private static Expression number(long value) {
    return SparkExpressions.number(value);
  }

  /** Returns NULL after the array's end and before its start. */
  private Expression item(SparkContext context, Expression at) {
    return SparkExpressions.item(array(context), at);
  }

  private synchronized Expression array(SparkContext context) {
    if (array == null) {
      array = SparkExpressions.shared(context, paged ? pages() : words(), taskBytes);
    }
    return array;
  }

  private long[] words() {
    final long[] words = new long[(int) length];
    each(new Positions() {
      public void take(long first, long high, RoaringBitmap low) {
        org.roaringbitmap.PeekableIntIterator found = low.getIntIterator();
        while (found.hasNext()) {
          long position = high | Integer.toUnsignedLong(found.next());
          words[(int) (first + (position >> 6))] |= 1L << position;
        }
      }
    });
    return words;
  }

  private long[] pages() {
    final long[][] pages = new long[Math.toIntExact(length)][];
    final int[] used = new int[1];
    each(new Positions() {
      public void take(long first, long high, RoaringBitmap low) {
        org.roaringbitmap.PeekableIntIterator found = low.getIntIterator();
        while (found.hasNext()) {
          long position = high | Integer.toUnsignedLong(found.next());
          int page = (int) (first + (position >> PAGE));
          if (pages[page] == null) {
            pages[page] = new long[WORDS];
            used[0]++;
          }
          pages[page][(int) (position >> 6) & WORDS - 1] |= 1L << position;
        }
      }
    });
    long[] all = new long[Math.toIntExact(length + (long) used[0] * WORDS)];
    int next = pages.length;
    for (int page = 0; page < pages.length; page++) {
      // A word before the array's start is NULL.
      all[page] = pages[page] == null ? -WORDS : next;
      if (pages[page] != null) {
        System.arraycopy(pages[page], 0, all, next, WORDS);
        next += WORDS;
      }
    }
    return all;
  }

  private void each(Positions taking) {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(
        (byte[]) Bridge.checked(packed.apply(""))));
    try {
      for (int i = 0; i < files.length; i++) {
        long sets = Long.reverseBytes(in.readLong());
        for (long s = 0L; s < sets; s++) {
          long high = Integer.toUnsignedLong(Integer.reverseBytes(in.readInt())) << 32;
          RoaringBitmap low = new RoaringBitmap();
          low.deserialize(in);
          taking.take(firsts[i], high, low);
        }
      }
    } catch (IOException damaged) {
      throw new IllegalStateException(damaged);
    }
  }

  private interface Positions {
    void take(long first, long high, RoaringBitmap low);
  }
}
