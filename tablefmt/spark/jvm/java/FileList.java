package tablefmt;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

/**
 * The files of a snapshot that remain after pruning, as Python returned them, and the values that
 * all rows of a file share.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class FileList {
  private final long[] places;
  private final String[] names;
  private final long[] sizes;
  private final int[] groups;
  private final InternalRow[] values;

  private FileList(long[] places, String[] names, long[] sizes, int[] groups,
      InternalRow[] values) {
    this.places = places;
    this.names = names;
    this.sizes = sizes;
    this.groups = groups;
    this.values = values;
  }

  /**
   * @param text UTF-8: the number of groups, a line for each group (see relation_columns.py), and a
   *     line for each file: its index among all files of the snapshot (ascending), size, ordinal of
   *     its group, path below the root
   * @param partitions columns whose value comes from the file's group
   */
  static FileList read(byte[] text, StructType partitions) {
    String all = new String(text, StandardCharsets.UTF_8);
    String[] lines = all.split("\n", -1);
    int known = Integer.parseInt(lines[0]);
    int count = lines.length - 1 - known;
    long[] places = new long[count];
    String[] names = new String[count];
    long[] sizes = new long[count];
    int[] groups = new int[count];
    for (int i = 0; i < count; i++) {
      String line = lines[1 + known + i];
      int first = line.indexOf('\t');
      int second = line.indexOf('\t', first + 1);
      int third = line.indexOf('\t', second + 1);
      places[i] = Long.parseLong(line.substring(0, first));
      sizes[i] = Long.parseLong(line.substring(first + 1, second));
      groups[i] = Integer.parseInt(line.substring(second + 1, third));
      names[i] = line.substring(third + 1);
    }
    String[] texts = new String[known];
    System.arraycopy(lines, 1, texts, 0, known);
    return new FileList(places, names, sizes, groups, GroupValues.read(texts, partitions));
  }

  int count() {
    return names.length;
  }

  long bytes() {
    long sum = 0L;
    for (int i = 0; i < sizes.length; i++) {
      sum += sizes[i];
    }
    return sum;
  }

  /** Returns true if another list of the same snapshot has the same files. */
  boolean isSame(FileList other) {
    return java.util.Arrays.equals(places, other.places);
  }

  InternalRow[] values() {
    return values;
  }

  /** Returns true if one of the files has deleted rows. */
  boolean touchedBy(DeletedRows deleted) {
    int[] touched = deleted.files();
    for (int t = 0; t < touched.length; t++) {
      if (java.util.Arrays.binarySearch(places, touched[t]) >= 0) {
        return true;
      }
    }
    return false;
  }

  /** Returns the same files with one more value: where the bits of the file's rows begin. */
  FileList with(DeletedRows deleted, StructType partitions) {
    int[] touched = deleted.files();
    List more = new ArrayList();
    for (int g = 0; g < values.length; g++) {
      more.add(GroupValues.with(values[g], partitions, Long.valueOf(deleted.nowhere())));
    }
    int[] moved = java.util.Arrays.copyOf(groups, groups.length);
    for (int t = 0; t < touched.length; t++) {
      int at = java.util.Arrays.binarySearch(places, touched[t]);
      if (at >= 0) {
        moved[at] = more.size();
        more.add(GroupValues.with(
            values[groups[at]], partitions, Long.valueOf(deleted.first(t))));
      }
    }
    InternalRow[] all = (InternalRow[]) more.toArray(new InternalRow[0]);
    return new FileList(places, names, sizes, moved, all);
  }

  /** Returns the files of the marked groups for Spark's scan, with the values of their group. */
  List directories(boolean[] marked, SnapshotFileIndex index) {
    List[] found = new List[values.length];
    PlainFiles plain = index.plainFiles();
    long[] times = index.fileTimes() == null ? null : times(marked, index);
    for (int i = 0; i < names.length; i++) {
      if (marked[groups[i]]) {
        long modified = plain != null ? plain.check(names[i]) : times != null ? times[i] : 0L;
        if (found[groups[i]] == null) {
          found[groups[i]] = new ArrayList();
        }
        found[groups[i]].add(status(i, modified, index));
      }
    }
    List directories = new ArrayList();
    for (int g = 0; g < found.length; g++) {
      if (found[g] != null) {
        directories.add(
            new PartitionDirectory(values[g], SnapshotFileIndex.seq(found[g].toArray())));
      }
    }
    return directories;
  }

  /** Asks the store for the times of the files of the marked groups. */
  private long[] times(boolean[] marked, SnapshotFileIndex index) {
    Path[] paths = new Path[names.length];
    for (int i = 0; i < names.length; i++) {
      paths[i] = marked[groups[i]] ? index.path(names[i]) : null;
    }
    return index.fileTimes().of(paths);
  }

  private Object status(int i, long modified, SnapshotFileIndex index) {
    Path path = index.path(names[i]);
    FileStatus status = new FileStatus(sizes[i], false, 1, 134217728L, modified, path);
    return new FileStatusWithMetadata(
        status, (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
  }

  String[] uris(SnapshotFileIndex index) {
    String[] result = new String[names.length];
    for (int i = 0; i < names.length; i++) {
      result[i] = index.path(names[i]).toUri().toString();
    }
    return result;
  }
}
