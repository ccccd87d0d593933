package tablefmt;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table of the session catalog, pinned to the snapshot that was there when a query named it.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotTable implements SupportsRead, SupportsWrite, TruncatableTable {
  protected final String name;
  protected final String uri;
  protected final Object storage;
  private final StructType schema;
  private final Transform[] partitioning;
  private final Map properties;
  private final SnapshotRelation relation;

  /** @param relation null for a table that is only about to be written */
  public SnapshotTable(String name, String uri, Object storage, StructType schema,
      Transform[] partitioning, Map properties, SnapshotRelation relation) {
    this.name = name;
    this.uri = uri;
    this.storage = storage;
    this.schema = schema;
    this.partitioning = partitioning;
    this.properties = properties;
    this.relation = relation;
  }

  SnapshotRelation relation() {
    return relation;
  }

  public String name() {
    return name;
  }

  public StructType schema() {
    return schema;
  }

  public Transform[] partitioning() {
    return partitioning;
  }

  public Map properties() {
    return new HashMap(properties);
  }

  public Set capabilities() {
    Set result = new Capabilities();
    result.add(TableCapability.BATCH_READ);
    result.add(TableCapability.V1_BATCH_WRITE);
    // Spark wants both for a dynamic overwrite, which NativeScan then puts in another form.
    result.add(TableCapability.BATCH_WRITE);
    result.add(TableCapability.OVERWRITE_DYNAMIC);
    result.add(TableCapability.TRUNCATE);
    result.add(TableCapability.OVERWRITE_BY_FILTER);
    return result;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Iterator names = options.keySet().iterator();
    while (names.hasNext()) {
      String option = (String) names.next();
      if (!option.equalsIgnoreCase("versionAsOf") && !option.equalsIgnoreCase("timestampAsOf")) {
        Bridge.call("options", new Object[] {new HashMap(options.asCaseSensitiveMap())});
      }
    }
    return new SnapshotScan(relation, relation.schema());
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new SnapshotWrite(this, new HashMap(info.options().asCaseSensitiveMap()));
  }

  public boolean truncateTable() {
    Bridge.call("truncate", new Object[] {SessionCatalog.session(), uri, storage});
    return true;
  }

  /** What to call for an append; a table that is being made refuses one that is there. */
  protected String appends() {
    return "append";
  }

  protected String[] partitionNames() {
    return SessionCatalog.names(partitioning);
  }

  /** Nobody but a stream asks for those of streams, and Spark's own refusal is vague. */
  private static class Capabilities extends HashSet {
    public boolean contains(Object asked) {
      if (asked == TableCapability.MICRO_BATCH_READ) {
        Bridge.call("refuse", new Object[] {"readStream"});
      }
      if (asked == TableCapability.STREAMING_WRITE) {
        Bridge.call("refuse", new Object[] {"writeStream"});
      }
      return super.contains(asked);
    }
  }

  public boolean equals(Object other) {
    return other instanceof SnapshotTable
        && relation != null && relation.equals(((SnapshotTable) other).relation);
  }

  public int hashCode() {
    return relation == null ? uri.hashCode() : relation.hashCode();
  }

  public String toString() {
    return name + (relation == null ? "" : " " + relation.index().described());
  }
}
