package tablefmt;

import java.net.URI;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;
import org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus;

/**
 * Commit protocol of a write on a store where a rename is a copy. Tasks write each file at its final
 * name, which no other attempt has. The driver learns the files of the successful attempts from
 * Spark's messages, and not from a listing.
 *
 * The tasks run the protocol of Spark's own file sink, so executors need no class of ours.
 */
public class DirectFiles extends ManifestFileCommitProtocol {
  /** Setting of a job: a name that no other job has, by which `take` finds the files. */
  public static final String JOB = "tablefmt.direct.job";

  private static final ConcurrentHashMap PUBLISHED = new ConcurrentHashMap();

  private final String job;
  private final String folder;

  /** Spark makes one for each job, by the name of the class. */
  public DirectFiles(String job, String folder) {
    super(job, folder);
    this.job = job;
    this.folder = folder;
  }

  /**
   * Returns the files of a successful job once: a line for each, with the size, a tab and the path
   * below the job's folder. null if the job used another protocol, or failed.
   */
  static String take(String name) {
    return (String) PUBLISHED.remove(name);
  }

  public void setupJob(JobContext context) {
  }

  public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
  }

  public void commitJob(JobContext context, scala.collection.immutable.Seq messages) {
    int start = new Path(folder).toUri().getPath().length() + 1;
    StringBuilder lines = new StringBuilder();
    for (int i = 0; i < messages.size(); i++) {
      Object files = ((FileCommitProtocol.TaskCommitMessage) messages.apply(i)).obj();
      if (files == null) {
        continue;
      }
      scala.collection.immutable.Seq each = (scala.collection.immutable.Seq) files;
      for (int j = 0; j < each.size(); j++) {
        SinkFileStatus file = (SinkFileStatus) each.apply(j);
        lines.append(file.size()).append('\t');
        String path = URI.create(file.path()).getPath();
        lines.append(path.substring(start)).append('\n');
      }
    }
    PUBLISHED.put(context.getConfiguration().get(JOB), lines.toString());
  }

  /** Does nothing: the transaction removes its folder. */
  public void abortJob(JobContext context) {
  }

  /** Executors get Spark's own class. Not private: Janino makes private methods static. */
  protected Object writeReplace() {
    return new ManifestFileCommitProtocol(job, folder);
  }
}
