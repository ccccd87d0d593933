package tablefmt;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.StructType;

/**
 * A table that is made, or replaced, with the rows of a query. Its files come before its first
 * version, so that a query which fails leaves no table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class StagedSnapshotTable extends SnapshotTable implements StagedTable {
  private final SessionCatalog catalog;
  private final Identifier identifier;
  private final boolean isNew;

  public StagedSnapshotTable(SessionCatalog catalog, Identifier identifier, boolean isNew,
      String uri, Object storage, StructType schema, Transform[] partitioning, Map properties) {
    super(identifier.toString(), uri, storage, schema, partitioning, properties, null);
    this.catalog = catalog;
    this.identifier = identifier;
    this.isNew = isNew;
  }

  protected String appends() {
    return "error";
  }

  public void commitStagedChanges() {}

  // Janino does not see that the interface has one.
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  public void abortStagedChanges() {
    if (isNew) {
      catalog.dropTable(identifier);
    }
  }
}
