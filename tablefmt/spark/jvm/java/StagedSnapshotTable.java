package tablefmt;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.StructType;

/**
 * A table that is created or replaced, with or without the rows of a query. The change is one
 * commit. With rows, the table is created after the rows are written, so that a failed query
 * changes nothing.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class StagedSnapshotTable extends SnapshotTable implements StagedTable {
  private final SessionCatalog catalog;
  private final Identifier identifier;
  private final TableIdentifier known;
  private final boolean isNew;
  private final String verb;
  private final Map said;
  private boolean written;

  /**
   * @param isNew true if the catalog's entry was created for it
   * @param verb "create", which requires that no table exists; "replace", which replaces the table;
   *     "save", which overwrites its rows
   */
  public StagedSnapshotTable(SessionCatalog catalog, Identifier identifier, TableIdentifier known,
      boolean isNew, String verb, String uri, Object storage, StructType schema, TableInfo info) {
    super(identifier.toString(), uri, storage, schema, info.partitions(), info.properties(), null, null);
    this.catalog = catalog;
    this.identifier = identifier;
    this.known = known;
    this.isNew = isNew;
    this.verb = verb;
    this.said = TableChanges.statement(
        info.columns(), info.partitions(), info.properties(), info.constraints());
  }

  void insert(Dataset data, String mode, String where, Map options) {
    written = true;
    Bridge.call("rows", new Object[] {
        data.sparkSession(), uri, storage, data, verb, options, said});
  }

  public void commitStagedChanges() {
    Object[] arguments = new Object[] {SparkQueries.active(), uri, storage, said};
    Object schema = written
        ? Bridge.call("columns", new Object[] {SparkQueries.active(), uri, storage})
        : Bridge.call(verb.equals("create") ? "define" : "replace", arguments);
    try {
      catalog.staged(identifier, known, (StructType) schema,
          isNew || verb.equals("save") ? null : own());
    } catch (org.apache.spark.sql.AnalysisException dropped) {
      throw new IllegalStateException(dropped.getMessage(), dropped);
    }
  }

  // Returns the table's own properties among those that Spark passes.
  private Map own() {
    Map result = new HashMap();
    Iterator names = properties().keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      if (!name.startsWith("option.") && !name.equals("provider") && !name.equals("location")
          && !name.equals("owner") && !name.equals("external") && !name.equals("path")
          && !name.equals("is_managed_location") && !name.equals("collation")) {
        result.put(name, properties().get(name));
      }
    }
    return result;
  }

  // Janino does not see the default method of the interface.
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  public void abortStagedChanges() {
    if (isNew) {
      catalog.dropTable(identifier);
    }
  }
}
