package tablefmt;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * A table of the session catalog, fixed to the newest snapshot when a query named it.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotTable implements SupportsRead, SupportsWrite, TruncatableTable,
    SupportsAtomicPartitionManagement, SupportsMetadataColumns, V2TableWithV1Fallback {
  protected final String name;
  protected final String uri;
  protected final Object storage;
  private final StructType schema;
  private final Transform[] partitioning;
  private final Map properties;
  private final SnapshotRelation relation;
  private final CatalogTable entry;
  private boolean wider;

  /**
   * @param relation null for a table that is only written
   * @param entry the catalog's entry; null for a table that is named by its path
   */
  public SnapshotTable(String name, String uri, Object storage, StructType schema,
      Transform[] partitioning, Map properties, SnapshotRelation relation, CatalogTable entry) {
    this.name = name;
    this.uri = uri;
    this.storage = storage;
    this.schema = schema;
    this.partitioning = partitioning;
    this.properties = properties;
    this.relation = relation;
    this.entry = entry;
  }

  /** Returns the same table for a write with more columns or wider types. */
  SnapshotTable wider(StructType columns) {
    SnapshotTable made =
        new SnapshotTable(name, uri, storage, columns, partitioning, properties, relation, entry);
    made.wider = true;
    return made;
  }

  boolean isWider() {
    return wider;
  }

  SnapshotRelation relation() {
    return relation;
  }

  public String name() {
    return name;
  }

  public StructType schema() {
    // Differs only for columns with a length, and for generated columns that are NOT NULL, which
    // INSERT may leave out.
    boolean other = relation != null && !wider
        && (schema != relation.written() || relation.hasLengths());
    return other && SparkCallers.showsConstraints() ? relation.shown() : schema;
  }

  public Transform[] partitioning() {
    return partitioning;
  }

  /** Returns _metadata with facts of a row's file, as in reads by path. */
  public MetadataColumn[] metadataColumns() {
    DataType type = relation == null || relation.rows() != null
        ? null : SparkScans.metadata(relation);
    return type == null
        ? new MetadataColumn[0] : new MetadataColumn[] {new OfFile(SparkScans.metadata(), type)};
  }

  private static final class OfFile implements MetadataColumn {
    private final String name;
    private final DataType type;

    OfFile(String name, DataType type) {
      this.name = name;
      this.type = type;
    }

    public String name() {
      return name;
    }

    public DataType dataType() {
      return type;
    }

    public boolean isNullable() {
      return false;
    }
  }

  public Map properties() {
    Map result = new HashMap(properties);
    if (relation != null && SparkCallers.showsProperties()) {
      Map checks = relation.said("constraints");
      Iterator names = checks.keySet().iterator();
      while (names.hasNext()) {
        String name = (String) names.next();
        result.put("constraints." + name, checks.get(name));
      }
    }
    if (relation != null && SparkCallers.showsGenerated()) {
      Iterator columns = generated().keySet().iterator();
      while (columns.hasNext()) {
        String column = (String) columns.next();
        result.put("generated." + column, generated().get(column));
      }
    }
    return result;
  }

  /** Returns the expressions of the generated columns by name; none for a table that is only written. */
  Map generated() {
    return relation == null || relation.described() == null
        ? new HashMap() : relation.said("generated");
  }

  public Set capabilities() {
    Set result = new HashSet();
    result.add(TableCapability.BATCH_READ);
    result.add(TableCapability.V1_BATCH_WRITE);
    // Spark requires both for a dynamic overwrite, which NativeScan then replaces.
    result.add(TableCapability.BATCH_WRITE);
    result.add(TableCapability.OVERWRITE_DYNAMIC);
    result.add(TableCapability.TRUNCATE);
    result.add(TableCapability.OVERWRITE_BY_FILTER);
    return result;
  }

  /** Lets streams read and write a catalog table in the same way as its path. */
  public CatalogTable v1Table() {
    if (entry == null) {
      Bridge.call("refuse", new Object[] {
          "a stream of a table that SQL names by its path", "pass the path to start() or load()"});
    }
    if (SparkCallers.isStreamWriter()) {
      StreamSink.leave(uri, (Map) storage);
      return entry;
    }
    try {
      // The entry's columns may have changed with the table meanwhile.
      return SparkQueries.active().sessionState().catalog().getTableMetadata(
          entry.identifier());
    } catch (Exception gone) {
      Platform.throwException(gone);
      return null;
    }
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Iterator names = options.keySet().iterator();
    boolean unread = false;
    while (names.hasNext()) {
      String option = (String) names.next();
      unread = unread || !option.equalsIgnoreCase("versionAsOf")
          && !option.equalsIgnoreCase("timestampAsOf");
    }
    if (unread) {
      Bridge.call("options", new Object[] {new HashMap(options.asCaseSensitiveMap())});
    }
    return new SnapshotScan(relation, relation.schema());
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new SnapshotWrite(this, new HashMap(info.options().asCaseSensitiveMap()));
  }

  public boolean truncateTable() {
    Bridge.call("truncate", new Object[] {SparkQueries.active(), uri, storage, null});
    return true;
  }

  // --- Partitions: each exists as long as it has rows.

  /** Returns the partition columns, and hidden partition fields such as days(ts) by their names. */
  public StructType partitionSchema() {
    StructType result = new StructType();
    if (relation == null || relation.described() == null) {
      return result;
    }
    Map fields = relation.said("partitions");
    Iterator names = fields.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      result = schema.getFieldIndex(name).isDefined() ? result.add(schema.apply(name))
          : result.add(name, DataType.fromDDL((String) fields.get(name)));
    }
    return result;
  }

  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow wanted) {
    StructType by = partitionSchema();
    String text = (String) Bridge.call("partitions", new Object[] {
        SparkQueries.active(), uri, storage});
    List found = new ArrayList();
    InternalRow[] rows = text == null ? new InternalRow[0] : GroupValues.read(text, by);
    for (int i = 0; i < rows.length; i++) {
      boolean fits = true;
      for (int n = 0; n < names.length; n++) {
        int at = by.fieldIndex(names[n]);
        Object one = rows[i].get(at, by.fields()[at].dataType());
        Object other = wanted.get(n, by.fields()[at].dataType());
        fits = fits && (one instanceof byte[] && other instanceof byte[]
            ? Arrays.equals((byte[]) one, (byte[]) other) : java.util.Objects.equals(one, other));
      }
      if (fits) {
        found.add(rows[i]);
      }
    }
    return (InternalRow[]) found.toArray(new InternalRow[0]);
  }

  public Map loadPartitionMetadata(InternalRow partition) {
    return new HashMap();
  }

  public boolean truncatePartition(InternalRow partition) {
    return truncatePartitions(new InternalRow[] {partition});
  }

  public boolean truncatePartitions(InternalRow[] partitions) {
    if (partitions.length > 0) {
      Bridge.call("truncate", new Object[] {
          SparkQueries.active(), uri, storage, condition(partitions)});
    }
    return true;
  }

  public boolean dropPartition(InternalRow partition) {
    return truncatePartition(partition);
  }

  public boolean dropPartitions(InternalRow[] partitions) {
    return truncatePartitions(partitions);
  }

  public boolean purgePartition(InternalRow partition) {
    return refuse("DROP PARTITION … PURGE",
        "omit PURGE: older versions keep their rows until a vacuum");
  }

  public boolean purgePartitions(InternalRow[] partitions) {
    return refuse("DROP PARTITION … PURGE",
        "omit PURGE: older versions keep their rows until a vacuum");
  }

  public void createPartition(InternalRow partition, Map properties) {
    refuse("ADD PARTITION", "a partition exists once it has a row");
  }

  public void createPartitions(InternalRow[] partitions, Map[] properties) {
    refuse("ADD PARTITION", "a partition exists once it has a row");
  }

  public void replacePartitionMetadata(InternalRow partition, Map properties) {
    refuse("properties of a partition", "set properties of the table instead");
  }

  public boolean renamePartition(InternalRow from, InternalRow to) {
    return refuse("RENAME PARTITION", "use UPDATE to set another partition value");
  }

  private static boolean refuse(String what, String instead) {
    Bridge.call("refuse", new Object[] {what, instead});
    return false;
  }

  private String condition(InternalRow[] partitions) {
    StructField[] by = partitionSchema().fields();
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < partitions.length; i++) {
      text.append(i == 0 ? "(" : " OR (");
      for (int c = 0; c < by.length; c++) {
        Object value = partitions[i].get(c, by[c].dataType());
        text.append(c == 0 ? "`" : " AND `").append(by[c].name().replace("`", "``")).append('`')
            .append(value == null ? " IS NULL"
                : " = " + SnapshotWrite.text(new Literal(value, by[c].dataType())));
      }
      text.append(')');
    }
    return text.toString();
  }

  protected String[] partitionNames() {
    return CatalogEntries.names(partitioning);
  }

  /** Writes rows to the table in one commit by Python. */
  void insert(Dataset data, String mode, String where, Map options) {
    if (isWider()) {
      options.put("mergeSchema", "true");
    }
    Bridge.call("insert", new Object[] {data.sparkSession(), uri, storage, data, mode, where,
        options, partitionNames(), isWider() ? name : null});
  }

  /**
   * Returns the CHECKs for commands that show them. Spark's writers get none: Python enforces them,
   * and they would be evaluated twice.
   */
  public Constraint[] constraints() {
    Map checks = relation == null || !SparkCallers.showsConstraints()
        ? new HashMap() : relation.said("constraints");
    Constraint[] result = new Constraint[checks.size()];
    Iterator names = checks.keySet().iterator();
    for (int i = 0; i < result.length; i++) {
      String name = (String) names.next();
      Check.Builder builder = Constraint.check(name);
      builder.predicateSql((String) checks.get(name));
      result[i] = (Constraint) builder.build();
    }
    return result;
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
