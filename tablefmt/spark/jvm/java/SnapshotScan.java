package tablefmt;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A placeholder scan with the relation that the rule NativeScan replaces it with.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotScan implements ScanBuilder, Scan, SupportsPushDownRequiredColumns,
    SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final SnapshotRelation relation;
  private StructType columns;

  public SnapshotScan(SnapshotRelation relation, StructType columns) {
    this.relation = relation;
    this.columns = columns;
  }

  /**
   * Keeps partition columns: they cost nothing, and a scan of files has all of them. Keeps
   * _metadata as a whole, because the replacing scan has all of its fields.
   */
  public void pruneColumns(StructType required) {
    List kept = new ArrayList(java.util.Arrays.asList(required.fields()));
    for (int i = 0; i < kept.size(); i++) {
      StructField field = (StructField) kept.get(i);
      if (isMetadata(field.name())) {
        kept.set(i, new StructField(
            field.name(), SparkScans.metadata(relation), field.nullable(), field.metadata()));
      }
    }
    StructField[] partitions = relation.partitionSchema().fields();
    for (int i = 0; i < partitions.length; i++) {
      boolean has = false;
      for (int c = 0; c < required.fields().length; c++) {
        has = has || required.fields()[c].name().equals(partitions[i].name());
      }
      if (!has) {
        kept.add(partitions[i]);
      }
    }
    this.columns = new StructType((StructField[]) kept.toArray(new StructField[0]));
  }

  /**
   * Columns by which Spark may prune at run time. It then asks the replacing scan, not this one.
   */
  public NamedReference[] filterAttributes() {
    StructField[] partitions = relation.partitionSchema().fields();
    NamedReference[] result = new NamedReference[partitions.length];
    for (int i = 0; i < result.length; i++) {
      result[i] = Expressions.column(
          "`" + partitions[i].name().replace("`", "``") + "`");
    }
    return result;
  }

  public void filter(Predicate[] predicates) {}

  public Predicate[] pushedPredicates() {
    return new Predicate[0];
  }

  public boolean supportsIterativePushdown() {
    return false;
  }

  public Scan build() {
    return this;
  }

  public StructType readSchema() {
    return columns;
  }

  /** Returns the columns to read from the files. */
  StructType fileSchema() {
    List kept = new ArrayList();
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      if (!isMetadata(fields[i].name())) {
        kept.add(fields[i]);
      }
    }
    return new StructType((StructField[]) kept.toArray(new StructField[0]));
  }

  private boolean isMetadata(String name) {
    return name.equals(SparkScans.metadata()) && !relation.schema().getFieldIndex(name).isDefined();
  }

  public SnapshotRelation relation() {
    return relation;
  }

  public String description() {
    return "tablefmt " + relation.index().described();
  }

  public Statistics estimateStatistics() {
    SnapshotFileIndex read = relation.index().ofColumns(fileSchema(), relation.schema());
    return new Size(read.sizeInBytes(), relation.index().rows());
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
