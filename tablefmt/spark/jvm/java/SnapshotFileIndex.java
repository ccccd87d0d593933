package tablefmt;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The files of one snapshot for Spark's scan planning. Exists only on the driver.
 *
 * Holds only the files that scans were planned over. Python returns the files that remain after
 * pruning by a condition. A condition that it cannot use prunes no file.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotFileIndex implements FileIndex {
  private static final int ANSWERS = 64;
  private static final int ANSWERED_FILES = 1 << 20;

  private final String identity;
  private final String scheme;
  private final String authority;
  private final String root;
  private final StructType columns;
  private final StructType partitions;
  private final long count;
  private final long bytes;
  private final long rows;
  private final Map answers;
  private volatile Function survivors;
  private volatile DeletedRows deleted;
  private volatile boolean statement;

  // The texts of the conditions that pruned files, and the remaining files; null: not requested
  // yet.
  private final Set conditions;
  private final FileList left;
  private final String note;

  // Whether a scan filters deleted rows, and the column that it uses if there are any.
  private final boolean guarded;
  private final String first;

  // Asks for the times of files; null: no scan uses them, or the check of local files has them.
  private final FileTimes times;

  // The share of a row's width that a scan of some columns reads.
  private final double share;

  /**
   * @param identity two indexes of the same identity hold the same files
   * @param scheme of the file system, without a colon
   * @param authority the bucket; null on a local disk
   * @param root the table's absolute path, without escapes
   * @param count the number of all files
   * @param bytes the bytes of all files
   * @param rows the rows of all files; negative: unknown
   * @param columns the data columns that conditions may name
   * @param partitions columns whose value comes from the file's group
   */
  public SnapshotFileIndex(String identity, String scheme, String authority, String root,
      long count, long bytes, long rows, StructType columns, StructType partitions) {
    this.identity = identity;
    this.scheme = scheme;
    this.authority = authority;
    this.root = root;
    this.count = count;
    this.bytes = bytes;
    this.rows = rows;
    this.columns = columns;
    this.partitions = partitions;
    this.answers = Collections.synchronizedMap(new LinkedHashMap());
    this.conditions = new LinkedHashSet();
    this.left = null;
    this.note = "";
    this.guarded = false;
    this.first = null;
    this.times = null;
    this.share = 1.0;
  }

  private SnapshotFileIndex(SnapshotFileIndex of, Set conditions, FileList left, String note,
      boolean guarded, String first, FileTimes times, double share) {
    this.identity = of.snapshot() + note;
    this.scheme = of.scheme;
    this.authority = of.authority;
    this.root = of.root;
    this.columns = of.columns;
    this.partitions = of.partitions;
    this.count = of.count;
    this.bytes = left == null ? of.bytes : left.bytes();
    this.rows = left == null ? of.rows : -1L;
    this.answers = of.answers;
    this.survivors = of.survivors;
    this.deleted = of.deleted;
    this.statement = of.statement;
    this.conditions = conditions;
    this.left = left;
    this.note = note;
    this.guarded = guarded;
    this.first = first;
    this.times = times;
    this.share = share;
  }

  /**
   * Sets the function that returns the files.
   *
   * @param survivors maps a condition's text ("" for none) to a byte[] for FileList; returns null
   *     if the condition cannot be used
   */
  public void setSurvivors(Function survivors) {
    this.survivors = survivors;
  }

  /** Sets the deleted rows that a scan must filter. By default there are none. */
  public void setDeletedRows(DeletedRows deleted) {
    this.deleted = deleted;
  }

  DeletedRows deletedRows() {
    return deleted;
  }

  /** Marks the files as those of a statement that changes rows. */
  public void setOfStatement() {
    this.statement = true;
  }

  boolean isOfStatement() {
    return statement;
  }

  /** Returns true if a scan would return deleted rows. */
  boolean givesDeletedRows() {
    return deleted != null && !guarded;
  }

  /**
   * Returns the same files for a scan that filters deleted rows. If any of the files has deleted
   * rows, the last column is the one that deletedRows() requires.
   */
  SnapshotFileIndex guarded() {
    String name = files().touchedBy(deleted) ? "__tablefmt_first" : null;
    while (name != null
        && (ConditionText.has(columns, name) || ConditionText.has(partitions, name))) {
      name += "_";
    }
    return new SnapshotFileIndex(this, conditions, left, note, true, name, times, share);
  }

  /** Returns the files that may have matching rows. */
  public SnapshotFileIndex narrowed(Expression condition) {
    List parts = new ArrayList();
    ConditionText.split(condition, parts);
    Set texts = texts(seq(parts.toArray()));
    FileList found = texts.isEmpty() ? null : asked(texts);
    if (found == null) {
      String why = ", no condition prunes files";
      return guarded ? this
          : new SnapshotFileIndex(this, conditions, left, why, false, null, times, share);
    }
    return new SnapshotFileIndex(
        this, texts, found, ", pruned by " + joined(texts), guarded, first, times, share);
  }

  /** Returns the same files for a scan that uses the times at which they were written, or not. */
  SnapshotFileIndex timed(FileTimes asked) {
    return new SnapshotFileIndex(this, conditions, left, note, guarded, first, asked, share);
  }

  /**
   * Returns the same files for a scan of some columns. Spark estimates the size of a join's side by
   * the widths of its columns, if it removes columns itself. Here it would not know the others.
   */
  SnapshotFileIndex ofColumns(StructType read, StructType all) {
    double part = (8.0 + read.defaultSize()) / (8.0 + all.defaultSize());
    return new SnapshotFileIndex(
        this, conditions, left, note, guarded, first, times, Math.min(part, 1.0));
  }

  /** Returns what asks for the times of files; null: nothing does. */
  FileTimes fileTimes() {
    return times;
  }

  /** Returns true if only requests to the store tell when a file was written. */
  boolean isRemote() {
    return !"file".equals(scheme);
  }

  public boolean isNarrowed() {
    return !note.isEmpty();
  }

  /** Returns the identity of all of the snapshot's files. */
  String snapshot() {
    return identity.substring(0, identity.length() - note.length());
  }

  /** Describes the version, the number of files, and the conditions that pruned, for people. */
  public String described() {
    String snapshot = snapshot();
    return "version " + snapshot.substring(snapshot.lastIndexOf('@') + 1) + ": "
        + (left == null ? count : left.count()) + " of " + count + " files" + note;
  }

  public long rows() {
    return rows;
  }

  public scala.collection.immutable.Seq rootPaths() {
    // EXPLAIN shows these paths. With more than one, Spark refuses to write its own files here.
    Path[] paths = new Path[] {
      new Path("tablefmt", null, "/" + described()),
      new Path(scheme, authority, root.isEmpty() ? "/" : root)
    };
    return seq(paths);
  }

  // Only the constructor with three parts does not interpret escapes in the path.
  Path path(String name) {
    return new Path(scheme, authority, root + "/" + name);
  }

  /** Returns the check of the files before reads; null if the store has only regular files. */
  PlainFiles plainFiles() {
    return "file".equals(scheme) ? new PlainFiles(root) : null;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    if (givesDeletedRows()) {
      Bridge.call("unguarded", new Object[0]);
    }
    Set texts = new LinkedHashSet(conditions);
    texts.addAll(texts(partitionFilters));
    texts.addAll(texts(dataFilters));
    FileList found = texts.equals(conditions) ? null : asked(texts);
    if (found == null) {
      found = files();
    }
    if (first != null) {
      found = found.with(deleted, partitions);
    }
    boolean[] marked = groupsThatMatch(partitionFilters, found.values());
    return seq(found.directories(marked, this).toArray());
  }

  static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  // Spark does not evaluate partition filters again, so this result is final.
  private boolean[] groupsThatMatch(scala.collection.immutable.Seq filters, InternalRow[] values) {
    boolean[] wanted = new boolean[values.length];
    java.util.Arrays.fill(wanted, true);
    for (int f = 0; f < filters.size(); f++) {
      Expression filter = (Expression) filters.apply(f);
      if (SparkExpressions.hasSubquery(filter)) {
        continue;
      }
      Expression bound = (Expression) filter.transform(new Binding(partitionSchema()));
      BasePredicate predicate =
          org.apache.spark.sql.catalyst.expressions.Predicate$.MODULE$.createInterpreted(bound);
      for (int g = 0; g < values.length; g++) {
        wanted[g] = wanted[g] && predicate.eval(values[g]);
      }
    }
    return wanted;
  }

  private Set texts(scala.collection.immutable.Seq filters) {
    try {
      return filters.isEmpty() ? new LinkedHashSet() : ConditionText.of(filters, columns);
    } catch (Throwable problem) {
      warn(problem);
      return new LinkedHashSet();
    }
  }

  private static String joined(Set texts) {
    StringBuilder text = new StringBuilder();
    Iterator each = texts.iterator();
    while (each.hasNext()) {
      text.append(text.length() == 0 ? "" : " AND ").append((String) each.next());
    }
    return text.toString();
  }

  /** Returns the files of this index. */
  private FileList files() {
    FileList found = left == null ? answer("") : left;
    if (found == null) {
      throw new IllegalStateException("the list of files of " + described() + " is not available");
    }
    return found;
  }

  /** Returns the files that remain after pruning; null if the conditions cannot be used. */
  private FileList asked(Set texts) {
    if (count == 0L) {
      return null;
    }
    try {
      return answer(joined(texts));
    } catch (Throwable problem) {
      warn(problem);
      return null;
    }
  }

  /** Logs the problem, unless it must end the query: an interrupt, or an error of the JVM. */
  private static void warn(Throwable problem) {
    // A method that this release of Spark lacks is no reason to fail.
    if (!(problem instanceof LinkageError)
        && !scala.util.control.NonFatal$.MODULE$.apply(problem)) {
      org.apache.spark.unsafe.Platform.throwException(problem);
    }
    org.slf4j.LoggerFactory.getLogger(SnapshotFileIndex.class)
        .warn("no files were pruned, all are read: " + problem);
  }

  private FileList answer(String text) {
    FileList known = (FileList) answers.get(text);
    if (known == null) {
      byte[] said = (byte[]) survivors.apply(text);
      if (said == null) {
        return null;
      }
      known = FileList.read(said, partitions);
      keep(text, known);
    }
    return known;
  }

  /** Caches the latest results, up to a number of files. */
  private void keep(String text, FileList found) {
    synchronized (answers) {
      answers.put(text, found);
      long held = 0L;
      Iterator each = answers.values().iterator();
      while (each.hasNext()) {
        held += ((FileList) each.next()).count();
      }
      Iterator oldest = answers.values().iterator();
      while (answers.size() > 1 && (held > ANSWERED_FILES || answers.size() > ANSWERS)) {
        held -= ((FileList) oldest.next()).count();
        oldest.remove();
      }
    }
  }

  public String[] inputFiles() {
    return files().uris(this);
  }

  public void refresh() {}

  public long sizeInBytes() {
    return bytes == 0L ? 0L : Math.max(1L, (long) (bytes * share));
  }

  public StructType partitionSchema() {
    return first == null ? partitions : partitions.add(first, DataTypes.LongType, false);
  }

  /** Returns true for the same files, whatever conditions pruned the others. */
  public boolean equals(Object other) {
    return other instanceof SnapshotFileIndex
        && snapshot().equals(((SnapshotFileIndex) other).snapshot())
        && guarded == ((SnapshotFileIndex) other).guarded
        && times == ((SnapshotFileIndex) other).times
        && hasFilesOf((SnapshotFileIndex) other);
  }

  private boolean hasFilesOf(SnapshotFileIndex other) {
    boolean whole = left == null || left.count() == count;
    boolean otherWhole = other.left == null || other.left.count() == other.count;
    return whole || otherWhole ? whole && otherWhole : left.isSame(other.left);
  }

  public int hashCode() {
    return snapshot().hashCode();
  }

  public String toString() {
    return "SnapshotFileIndex(" + identity + ")";
  }

  private static class Binding extends scala.runtime.AbstractPartialFunction {
    private final StructType partitions;

    Binding(StructType partitions) {
      this.partitions = partitions;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      AttributeReference named = (AttributeReference) node;
      StructField[] fields = partitions.fields();
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].name().equalsIgnoreCase(named.name())) {
          return new BoundReference(i, fields[i].dataType(), true);
        }
      }
      throw new IllegalStateException("no partition column " + named.name());
    }
  }
}
