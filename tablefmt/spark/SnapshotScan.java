package tablefmt;

import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/**
 * A scan that only carries what the rule NativeScan puts in its place.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotScan
    implements ScanBuilder, Scan, SupportsPushDownRequiredColumns, SupportsReportStatistics {
  private final SnapshotRelation relation;
  private StructType columns;

  public SnapshotScan(SnapshotRelation relation, StructType columns) {
    this.relation = relation;
    this.columns = columns;
  }

  public void pruneColumns(StructType required) {
    this.columns = required;
  }

  public Scan build() {
    return this;
  }

  public StructType readSchema() {
    return columns;
  }

  public SnapshotRelation relation() {
    return relation;
  }

  public String description() {
    return "tablefmt " + relation.index().described();
  }

  public Statistics estimateStatistics() {
    return new Size(relation.index().sizeInBytes(), relation.index().rows());
  }

  private static class Size implements Statistics {
    private final long bytes;
    private final long rows;

    Size(long bytes, long rows) {
      this.bytes = bytes;
      this.rows = rows;
    }

    public OptionalLong sizeInBytes() {
      return OptionalLong.of(bytes);
    }

    public OptionalLong numRows() {
      return rows < 0L ? OptionalLong.empty() : OptionalLong.of(rows);
    }
  }
}
