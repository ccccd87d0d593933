package tablefmt;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The files of one snapshot, as Spark plans scans over them. Lives on the driver alone.
 *
 * Janino compiles this: no lambdas, no generic inference. Which files a condition leaves is decided
 * by the callback; whatever goes wrong there keeps every file, so it can cost time but no rows.
 */
public class SnapshotFileIndex implements FileIndex {
  private static final int REMEMBERED = 64;

  private final String identity;
  private final String scheme;
  private final String authority;
  private final String root;
  private final String[] names;
  private final long[] sizes;
  private final int[] groups;
  private final InternalRow[] values;
  private final StructType columns;
  private final StructType partitions;
  private volatile Function survivors;
  private volatile DeletedRows deleted;
  private final boolean guarded;
  private final Map answers;
  private final long total;
  private final long rows;
  private final byte[] chosen;
  private final String note;

  /**
   * @param identity two indexes of the same identity hold the same files
   * @param scheme of the file system, without a colon
   * @param authority the bucket; null on a local disk
   * @param root the table's absolute path, as it is: nothing in it is escaped
   * @param files a line a file: size, tab, ordinal of its group, tab, path below the root
   * @param rows in all files; negative: unknown
   * @param groups a line a group: its partition values, tabs between; see groups.py
   * @param columns the data columns that filters may name
   * @param partitions columns whose value is that of the file's group
   */
  public SnapshotFileIndex(String identity, String scheme, String authority, String root,
      String files, long rows, String groups, StructType columns, StructType partitions) {
    this.identity = identity;
    this.scheme = scheme;
    this.authority = authority;
    this.root = root;
    this.columns = columns;
    this.partitions = partitions;
    String[] lines = files.isEmpty() ? new String[0] : files.split("\n");
    this.names = new String[lines.length];
    this.sizes = new long[lines.length];
    this.groups = new int[lines.length];
    long sum = 0L;
    for (int i = 0; i < lines.length; i++) {
      String line = lines[i];
      int first = line.indexOf('\t');
      int second = line.indexOf('\t', first + 1);
      this.sizes[i] = Long.parseLong(line.substring(0, first));
      this.groups[i] = Integer.parseInt(line.substring(first + 1, second));
      this.names[i] = line.substring(second + 1);
      sum += this.sizes[i];
    }
    this.total = sum;
    this.rows = rows;
    this.values = lines.length == 0 ? new InternalRow[0] : GroupValues.read(groups, partitions);
    this.answers = Collections.synchronizedMap(new Answers());
    this.guarded = false;
    this.chosen = null;
    this.note = "";
  }

  private SnapshotFileIndex(SnapshotFileIndex whole, byte[] chosen, String note) {
    this.identity = whole.identity + note;
    this.scheme = whole.scheme;
    this.authority = whole.authority;
    this.root = whole.root;
    this.names = whole.names;
    this.sizes = whole.sizes;
    this.groups = whole.groups;
    this.values = whole.values;
    this.columns = whole.columns;
    this.partitions = whole.partitions;
    this.survivors = whole.survivors;
    this.deleted = whole.deleted;
    this.guarded = whole.guarded;
    this.answers = whole.answers;
    this.chosen = chosen;
    this.note = note;
    long sum = 0L;
    for (int i = 0; i < names.length; i++) {
      if (has(chosen, i)) {
        sum += sizes[i];
      }
    }
    this.total = sum;
    this.rows = chosen == null ? whole.rows : -1L;
  }

  /** The same files for a scan that leaves out rows that are gone; with `first` a column more. */
  private SnapshotFileIndex(SnapshotFileIndex all, String first) {
    this.identity = all.identity;
    this.scheme = all.scheme;
    this.authority = all.authority;
    this.root = all.root;
    this.names = all.names;
    this.sizes = all.sizes;
    this.columns = all.columns;
    this.survivors = all.survivors;
    this.deleted = all.deleted;
    this.answers = all.answers;
    this.chosen = all.chosen;
    this.note = all.note;
    this.total = all.total;
    this.rows = all.rows;
    this.guarded = true;
    if (first == null) {
      this.partitions = all.partitions;
      this.groups = all.groups;
      this.values = all.values;
      return;
    }
    int[] touched = deleted.files();
    int known = all.values.length;
    this.partitions = all.partitions.add(first, DataTypes.LongType, false);
    this.groups = java.util.Arrays.copyOf(all.groups, all.groups.length);
    this.values = new InternalRow[known + touched.length];
    for (int g = 0; g < known; g++) {
      values[g] = GroupValues.with(
          all.values[g], all.partitions, Long.valueOf(deleted.nowhere()));
    }
    for (int i = 0; i < touched.length; i++) {
      values[known + i] = GroupValues.with(all.values[all.groups[touched[i]]], all.partitions,
          Long.valueOf(deleted.first(i)));
      groups[touched[i]] = known + i;
    }
  }

  /** Rows that a scan of the files has to leave out. By default there are none. */
  public void setDeletedRows(DeletedRows deleted) {
    this.deleted = deleted;
  }

  DeletedRows deletedRows() {
    return deleted;
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
    int[] touched = deleted.files();
    int found = 0;
    for (int i = 0; i < touched.length; i++) {
      found += has(chosen, touched[i]) ? 1 : 0;
    }
    String name = found == 0 ? null : "__tablefmt_first";
    while (name != null && (has(columns, name) || has(partitions, name))) {
      name += "_";
    }
    return new SnapshotFileIndex(this, name);
  }

  /** The files that can hold rows for which a condition holds. */
  public SnapshotFileIndex narrowed(Expression condition) {
    List parts = new ArrayList();
    split(condition, parts);
    scala.collection.immutable.Seq filters = seq(parts.toArray());
    byte[] bits = askedFor(filters);
    if (bits == null && guarded) {
      return this;
    }
    String why = bits == null ? "no condition tells files apart" : conditionText(filters);
    return new SnapshotFileIndex(this, bits, ", by " + why);
  }

  private static void split(Expression condition, List parts) {
    if (condition instanceof And) {
      split(((And) condition).left(), parts);
      split(((And) condition).right(), parts);
    } else if (condition.deterministic()) {
      parts.add(condition);
    }
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
    int kept = 0;
    for (int i = 0; i < names.length; i++) {
      kept += has(chosen, i) ? 1 : 0;
    }
    int end = identity.length() - note.length();
    int at = identity.lastIndexOf('@', end - 1);
    return "version " + identity.substring(at + 1, end) + ": " + kept + " of " + names.length
        + " files" + note;
  }

  public long rows() {
    return rows;
  }

  private static boolean has(byte[] bits, int i) {
    return bits == null || (bits[i >> 3] >> (i & 7) & 1) != 0;
  }

  /**
   * Who decides which files a condition leaves; until then all of them.
   *
   * @param survivors from condition text (times in UTC) to a byte[] with a bit a file, the lowest
   *     first; null when the text is of no use
   */
  public void setSurvivors(Function survivors) {
    this.survivors = survivors;
  }

  public scala.collection.immutable.Seq rootPaths() {
    // EXPLAIN shows these. And with more than one Spark refuses to write files of its own here.
    Path[] paths = new Path[] {
      new Path("tablefmt", null, "/" + described()),
      new Path(scheme, authority, root.isEmpty() ? "/" : root)
    };
    return seq(paths);
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    if (givesDeletedRows()) {
      Bridge.call("unguarded", new Object[0]);
    }
    boolean[] wanted = groupsThatMatch(partitionFilters);
    byte[] bits = askedFor(dataFilters);
    List[] found = new List[values.length];
    for (int i = 0; i < names.length; i++) {
      if (has(chosen, i) && has(bits, i) && wanted[groups[i]]) {
        if (found[groups[i]] == null) {
          found[groups[i]] = new ArrayList();
        }
        found[groups[i]].add(status(i));
      }
    }
    List directories = new ArrayList();
    for (int g = 0; g < found.length; g++) {
      if (found[g] != null) {
        directories.add(new PartitionDirectory(values[g], seq(found[g].toArray())));
      }
    }
    return seq(directories.toArray());
  }

  private Object status(int i) {
    FileStatus status = new FileStatus(sizes[i], false, 1, 134217728L, 0L, path(i));
    return new FileStatusWithMetadata(
        status, (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
  }

  // The constructor of three parts is the one that takes a path as it is.
  private Path path(int i) {
    return new Path(scheme, authority, root + "/" + names[i]);
  }

  private static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  // Spark does not look at partition filters again, so the answer here is final.
  private boolean[] groupsThatMatch(scala.collection.immutable.Seq filters) {
    boolean[] wanted = new boolean[values.length];
    java.util.Arrays.fill(wanted, true);
    for (int f = 0; f < filters.size(); f++) {
      Expression filter = (Expression) filters.apply(f);
      if (SubqueryExpression$.MODULE$.hasSubquery(filter)) {
        continue;
      }
      Expression bound = (Expression) filter.transform(new Binding(partitions));
      BasePredicate predicate =
          org.apache.spark.sql.catalyst.expressions.Predicate$.MODULE$.createInterpreted(bound);
      for (int g = 0; g < values.length; g++) {
        wanted[g] = wanted[g] && predicate.eval(values[g]);
      }
    }
    return wanted;
  }

  private byte[] askedFor(scala.collection.immutable.Seq filters) {
    if (survivors == null || names.length == 0 || filters.isEmpty()) {
      return null;
    }
    try {
      String text = conditionText(filters);
      if (text.isEmpty()) {
        return null;
      }
      byte[] known = (byte[]) answers.get(text);
      if (known == null) {
        known = (byte[]) survivors.apply(text);
        if (known == null || known.length != (names.length + 7) / 8) {
          return null;
        }
        answers.put(text, known);
      }
      return known;
    } catch (Throwable problem) {
      org.slf4j.LoggerFactory.getLogger(SnapshotFileIndex.class)
          .warn("no files could be left out, all are read: " + problem);
      return null;
    }
  }

  // Literals of instants are written in the session's zone, where an hour of every autumn is
  // written twice; in UTC none is.
  private String conditionText(final scala.collection.immutable.Seq filters) {
    SQLConf conf = SQLConf$.MODULE$.get().clone();
    conf.setConfString("spark.sql.session.timeZone", "UTC");
    return (String) SQLConf$.MODULE$.withExistingConf(conf, new scala.runtime.AbstractFunction0() {
      public Object apply() {
        StringBuilder text = new StringBuilder();
        for (int f = 0; f < filters.size(); f++) {
          Expression filter = (Expression) filters.apply(f);
          if (SubqueryExpression$.MODULE$.hasSubquery(filter) || !namesOnly(filter)) {
            continue;
          }
          if (text.length() > 0) {
            text.append(" AND ");
          }
          text.append('(').append(plainText(filter)).append(')');
        }
        return text.toString();
      }
    });
  }

  private boolean namesOnly(Expression filter) {
    scala.collection.Iterator named = filter.references().iterator();
    while (named.hasNext()) {
      if (!has(columns, ((Attribute) named.next()).name())) {
        return false;
      }
    }
    return true;
  }

  private static boolean has(StructType columns, String name) {
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(name)) {
        return true;
      }
    }
    return false;
  }

  public String[] inputFiles() {
    List result = new ArrayList();
    for (int i = 0; i < names.length; i++) {
      if (has(chosen, i)) {
        result.add(path(i).toUri().toString());
      }
    }
    return (String[]) result.toArray(new String[0]);
  }

  public void refresh() {}

  public long sizeInBytes() {
    return total;
  }

  public StructType partitionSchema() {
    return partitions;
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

  private static class Answers extends LinkedHashMap {
    protected boolean removeEldestEntry(Map.Entry eldest) {
      return size() > REMEMBERED;
    }
  }

  /** Text of a condition on columns by their bare names, which are quoted whatever they are. */
  static String plainText(Expression given) {
    // Spark leaves words such as null or current_date unquoted; a mark in the name makes it quote.
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
