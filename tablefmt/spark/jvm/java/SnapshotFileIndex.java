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
 * The files of one snapshot, as Spark plans scans over them. Lives on the driver alone.
 *
 * Holds no files but those that a scan was planned over: which files a condition leaves, and what
 * they are, the callback says. A condition that it cannot make use of leaves all of them.
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

  // The texts of the conditions that told files apart, and what they left; null: nothing was asked.
  private final Set conditions;
  private final FileList left;
  private final String note;

  // Whether a scan leaves out rows that are gone, and the column by which, if any of them is.
  private final boolean guarded;
  private final String first;

  /**
   * @param identity two indexes of the same identity hold the same files
   * @param scheme of the file system, without a colon
   * @param authority the bucket; null on a local disk
   * @param root the table's absolute path, as it is: nothing in it is escaped
   * @param count of all files
   * @param bytes in all of them
   * @param rows in all of them; negative: unknown
   * @param columns the data columns that conditions may name
   * @param partitions columns whose value is that of the file's group
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
  }

  private SnapshotFileIndex(SnapshotFileIndex of, Set conditions, FileList left, String note,
      boolean guarded, String first) {
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
  }

  /**
   * Who says which files there are.
   *
   * @param survivors from condition text, "" for none, to a byte[] as FileList reads it; null when
   *     the text is of no use
   */
  public void setSurvivors(Function survivors) {
    this.survivors = survivors;
  }

  /** Rows that a scan of the files has to leave out. By default there are none. */
  public void setDeletedRows(DeletedRows deleted) {
    this.deleted = deleted;
  }

  DeletedRows deletedRows() {
    return deleted;
  }

  /** That the files are those of one statement that changes rows. */
  public void setOfStatement() {
    this.statement = true;
  }

  boolean isOfStatement() {
    return statement;
  }

  /** Whether a scan would give rows that are gone. */
  boolean givesDeletedRows() {
    return deleted != null && !guarded;
  }

  /**
   * The same files, for a scan that leaves out rows that are gone: with the column, the last one,
   * that deletedRows() wants; or, where none of the files has such rows, without it.
   */
  SnapshotFileIndex guarded() {
    String name = files().touchedBy(deleted) ? "__tablefmt_first" : null;
    while (name != null
        && (ConditionText.has(columns, name) || ConditionText.has(partitions, name))) {
      name += "_";
    }
    return new SnapshotFileIndex(this, conditions, left, note, true, name);
  }

  /** The files that can hold rows for which a condition holds. */
  public SnapshotFileIndex narrowed(Expression condition) {
    List parts = new ArrayList();
    ConditionText.split(condition, parts);
    Set texts = texts(seq(parts.toArray()));
    FileList found = texts.isEmpty() ? null : asked(texts);
    if (found == null) {
      String why = ", by no condition tells files apart";
      return guarded ? this : new SnapshotFileIndex(this, conditions, left, why, false, null);
    }
    return new SnapshotFileIndex(this, texts, found, ", by " + joined(texts), guarded, first);
  }

  public boolean isNarrowed() {
    return !note.isEmpty();
  }

  /** The identity of all of the snapshot's files. */
  String snapshot() {
    return identity.substring(0, identity.length() - note.length());
  }

  /** For people: which version, how many of its files, and why. */
  public String described() {
    String snapshot = snapshot();
    return "version " + snapshot.substring(snapshot.lastIndexOf('@') + 1) + ": "
        + (left == null ? count : left.count()) + " of " + count + " files" + note;
  }

  public long rows() {
    return rows;
  }

  public scala.collection.immutable.Seq rootPaths() {
    // EXPLAIN shows these. And with more than one Spark refuses to write files of its own here.
    Path[] paths = new Path[] {
      new Path("tablefmt", null, "/" + described()),
      new Path(scheme, authority, root.isEmpty() ? "/" : root)
    };
    return seq(paths);
  }

  // The constructor of three parts is the one that takes a path as it is.
  Path path(String name) {
    return new Path(scheme, authority, root + "/" + name);
  }

  /** What looks at the files before they are read; null where the store has none but plain ones. */
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

  // Spark does not look at partition filters again, so the answer here is final.
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

  /** The files of this index. */
  private FileList files() {
    FileList found = left == null ? answer("") : left;
    if (found == null) {
      throw new IllegalStateException("the files of " + described() + " are not known");
    }
    return found;
  }

  /** What the conditions leave of all files; null: they are of no use. */
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

  private static void warn(Throwable problem) {
    org.slf4j.LoggerFactory.getLogger(SnapshotFileIndex.class)
        .warn("no files could be left out, all are read: " + problem);
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

  /** The last answers are kept, as far as they are not too many files. */
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
    return bytes;
  }

  public StructType partitionSchema() {
    return first == null ? partitions : partitions.add(first, DataTypes.LongType, false);
  }

  public boolean equals(Object other) {
    return other instanceof SnapshotFileIndex
        && identity.equals(((SnapshotFileIndex) other).identity)
        && guarded == ((SnapshotFileIndex) other).guarded;
  }

  public int hashCode() {
    return identity.hashCode();
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
