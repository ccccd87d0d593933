package tablefmt;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.roaringbitmap.RoaringBitmap;

/**
 * Rows that are gone from files, and the condition by which Spark leaves them out. Lives on the
 * driver alone: the condition is made of Spark's own classes.
 *
 * All is in one array of longs. It goes with every task while it is small, and otherwise once to
 * every executor. A file has a bit a row there; where that would be too large, a long for every page
 * of 4,096 rows, which tells where the bits of the page are, if a row of it is gone at all.
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
   * @param lines a line a file of which rows are gone: its place among all, tab, its rows as written
   * @param taskBytes what may go with every task
   * @param plainBytes what a bit a row may take; above it there are pages
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
   * Who says which rows they are.
   *
   * @param packed gives their positions as a byte[], one set behind the other, in Roaring's portable
   *     64-bit form; asked when a scan is planned that needs them
   */
  public void setPacked(Function packed) {
    this.packed = packed;
  }

  private static long units(long rows, int bits) {
    return rows + (1L << bits) - 1L >> bits;
  }

  /** Places of the files of which rows are gone, ascending. */
  public int[] files() {
    return files;
  }

  /** Where in the array the rows of files()[i] begin. */
  public long first(int i) {
    return firsts[i];
  }

  /** Where none of the array is: the rows of a file of which none is gone. */
  long nowhere() {
    return Integer.MIN_VALUE;
  }

  /**
   * True for rows that are there, and never NULL.
   *
   * @param row position in the file
   * @param first of the file, or nowhere()
   */
  public Expression left(final SparkContext context, final Expression row, final Expression first) {
    // It is worked out for every row: without checks for overflow, of which there is none.
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
    // A shift looks at the last six bits of how far alone.
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

  /** NULL where the array ends, and before it begins. */
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
      // A word before the array begins is NULL.
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
