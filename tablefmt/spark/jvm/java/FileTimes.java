package tablefmt;

import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;

/**
 * The times at which files of a store were written, for _metadata.file_modification_time. Costs a
 * request for each file, so only scans of queries that use the times ask. Exists only on the
 * driver.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class FileTimes {
  private static final int AT_ONCE = 32;

  /** Marks scans of queries that use no times. */
  private static final FileTimes UNUSED = new FileTimes(null);

  private final Configuration hadoop;

  private FileTimes(Configuration hadoop) {
    this.hadoop = hadoop;
  }

  /** Returns the times of files in ms; 0 for null and for a missing file. */
  long[] of(Path[] paths) {
    long[] times = new long[paths.length];
    if (hadoop == null) {
      return times;
    }
    ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE);
    try {
      List asked = new ArrayList();
      for (int i = 0; i < paths.length; i++) {
        asked.add(paths[i] == null ? null : threads.submit(new One(paths[i], hadoop)));
      }
      for (int i = 0; i < times.length; i++) {
        times[i] = asked.get(i) == null ? 0L : ((Long) ((Future) asked.get(i)).get()).longValue();
      }
    } catch (Exception failed) {
      org.apache.spark.unsafe.Platform.throwException(
          failed.getCause() == null ? failed : failed.getCause());
    } finally {
      threads.shutdownNow();
    }
    return times;
  }

  private static final class One implements Callable {
    private final Path path;
    private final Configuration hadoop;

    One(Path path, Configuration hadoop) {
      this.path = path;
      this.hadoop = hadoop;
    }

    public Object call() throws Exception {
      try {
        return Long.valueOf(
            path.getFileSystem(hadoop).getFileStatus(path).getModificationTime());
      } catch (FileNotFoundException missing) {
        return Long.valueOf(0L);
      }
    }
  }

  /** Decides for each scan of a store whether the plan uses the times of its files. */
  static class Use extends scala.runtime.AbstractPartialFunction {
    private final LogicalPlan plan;

    Use(LogicalPlan plan) {
      this.plan = plan;
    }

    public boolean isDefinedAt(Object node) {
      SnapshotFileIndex files = SparkScans.files(node);
      return files != null && files.isRemote() && files.fileTimes() == null
          && SparkScans.metadata((LogicalPlan) node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      LogicalPlan scan = (LogicalPlan) node;
      HadoopFsRelation relation = SparkScans.ofFiles(node);
      FileTimes times = UNUSED;
      if (isUsed(plan, scan, SparkScans.metadata(scan))) {
        times = new FileTimes(relation.sparkSession().sessionState().newHadoopConfWithOptions(
            relation.options()));
      }
      return SparkScans.with(
          node, SparkScans.files(node).timed(times), relation.dataSchema(), scan.output());
    }

    private static boolean isUsed(LogicalPlan node, LogicalPlan scan, AttributeReference column) {
      if (node == scan) {
        return false;
      }
      for (int i = 0; i < node.expressions().size(); i++) {
        if (isUsed((Expression) node.expressions().apply(i), column)) {
          return true;
        }
      }
      for (int i = 0; i < node.children().size(); i++) {
        if (isUsed((LogicalPlan) node.children().apply(i), scan, column)) {
          return true;
        }
      }
      return false;
    }

    private static boolean isUsed(Expression given, AttributeReference column) {
      if (given instanceof AttributeReference) {
        return ((AttributeReference) given).exprId().equals(column.exprId());
      }
      if (given instanceof GetStructField
          && ((GetStructField) given).child() instanceof AttributeReference) {
        return isUsed(((GetStructField) given).child(), column)
            && ((GetStructField) given).extractFieldName().equals(SparkScans.modificationTime());
      }
      for (int i = 0; i < given.children().size(); i++) {
        if (isUsed((Expression) given.children().apply(i), column)) {
          return true;
        }
      }
      return false;
    }
  }
}
