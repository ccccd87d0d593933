package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog with support for tables USING tablefmt. Such a table is read at the
 * newest version when a query names it, or at a requested version, and is written in commits. All
 * other tables go to Spark's own catalog unchanged.
 *
 * A session may have another catalog (Delta's, Iceberg's). That catalog delegates tables that are
 * not its own to the session's own catalog, and this class replaces the latter.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  private static final String CATALOG = "spark.sql.catalog.spark_catalog";
  // The table knows its partitioning. Spark's catalog would require partition columns to be last.
  private static final Transform[] UNPARTITIONED = new Transform[0];

  private SparkSession owner;

  /**
   * Replaces a session's own catalog. Spark selects the catalog by a setting, which it reads from
   * the session of the current thread. A thread that Spark created has no session, and a thread of
   * another session has the wrong one.
   */
  public void install(SparkSession session) {
    CatalogPlugin there = SparkFields.ownCatalog(session);
    if (!(there instanceof SessionCatalog)) {
      owner = session;
      initialize("spark_catalog", CaseInsensitiveStringMap.empty());
      setDelegateCatalog(there);
      SparkFields.setOwnCatalog(session, this);
    }
    standBelow(session, SparkFields.ownCatalog(session));
  }

  /** Makes another catalog delegate to this one. Its delegate was set when it was loaded. */
  private static void standBelow(final SparkSession session, CatalogPlugin own) {
    SQLConf conf = session.sessionState().conf();
    if (!isAnothers(conf)) {
      return;
    }
    Object anothers = SparkSettings.under(
        conf, new scala.runtime.AbstractFunction0() {
          public Object apply() {
            return session.sessionState().catalogManager().catalog("spark_catalog");
          }
        });
    if (!(anothers instanceof CatalogExtension)) {
      throw new IllegalStateException("it delegates to no other catalog");
    }
    ((CatalogExtension) anothers).setDelegateCatalog(own);
  }

  private static boolean isAnothers(SQLConf conf) {
    String setting = conf.getConfString(CATALOG, "builtin");
    return !setting.equals("builtin") && !setting.equals("tablefmt.SessionCatalog");
  }

  /** Returns the session of this catalog; the thread's session if the copy is not known. */
  private SparkSession own() {
    if (owner != null) {
      return owner;
    }
    return delegate instanceof SessionCatalog ? ((SessionCatalog) delegate).own() : SparkQueries.active();
  }

  private TableCatalog inner() {
    return delegate instanceof SessionCatalog
        ? ((SessionCatalog) delegate).inner() : (TableCatalog) delegate;
  }

  private Table at(Identifier ident, String version, Long timestamp) {
    String name = ident.namespace()[0] + ".`" + ident.name().replace("`", "``") + "`";
    return load(name, ident.name(), new HashMap(), null, version, timestamp);
  }

  public boolean tableExists(Identifier ident) {
    if (!CatalogEntries.isPath(ident)) {
      return inner().tableExists(ident);
    }
    return Boolean.TRUE.equals(Bridge.call("exists", new Object[] {ident.name()}));
  }

  public boolean dropTable(Identifier ident) {
    if (CatalogEntries.isPath(ident)) {
      Bridge.call("refuse", new Object[] {
          "DROP TABLE of a path", "it is in no catalog; use DELETE to delete its rows"});
    }
    return inner().dropTable(ident);
  }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    if (CatalogEntries.isPath(ident)) {
      return at(ident, null, null);
    }
    CatalogTable entry = entry(ident);
    return entry == null ? untouched(ident) : load(ident, entry, null, null);
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    if (CatalogEntries.isPath(ident)) {
      return at(ident, version, null);
    }
    CatalogTable entry = entry(ident);
    return entry == null
        ? inner().loadTable(ident, version) : load(ident, entry, version, null);
  }

  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    if (CatalogEntries.isPath(ident)) {
      return at(ident, null, Long.valueOf(timestamp));
    }
    CatalogTable entry = entry(ident);
    return entry == null
        ? inner().loadTable(ident, timestamp)
        : load(ident, entry, null, Long.valueOf(timestamp));
  }

  /** Returns the entry of one of our tables; null for another format's table. */
  private CatalogTable entry(Identifier ident) throws NoSuchTableException {
    Table found = loaded(ident, "tablefmt.SessionCatalog");
    if (found instanceof V1Table) {
      CatalogTable entry = ((V1Table) found).v1Table();
      if (entry.provider().isDefined() && CatalogEntries.ours(entry.provider().get())) {
        return entry;
      }
    }
    return null;
  }

  private Table untouched(Identifier ident) throws NoSuchTableException {
    return loaded(ident, "builtin");
  }

  // Spark's catalog reads the setting, and loads tables differently if a catalog like this one is
  // configured.
  private Table loaded(final Identifier ident, String setting) throws NoSuchTableException {
    SQLConf conf = own().sessionState().conf();
    if (isAnothers(conf)) {
      // Spark's catalog must see this setting, so that callers get tables as they are in the
      // catalog.
      setting = conf.getConfString(CATALOG, "builtin");
    }
    return (Table) SparkSettings.with(conf, CATALOG, setting, new scala.runtime.AbstractFunction0() {
      public Object apply() {
        try {
          return inner().loadTable(ident);
        } catch (NoSuchTableException missing) {
          org.apache.spark.unsafe.Platform.throwException(missing);
          return null;
        }
      }
    });
  }

  private Table load(Identifier ident, CatalogTable entry, String version, Long timestamp) {
    String name = entry.identifier().quotedString();
    String uri = new Path(entry.location()).toString();
    return load(name, uri, CatalogEntries.options(entry), entry, version, timestamp);
  }

  /** @param entry the catalog's entry; null for a table that is named by its path */
  private Table load(String name, String uri, Map storage, CatalogTable entry, String version,
      Long timestamp) {
    SnapshotRelation relation = (SnapshotRelation) Bridge.call("open", new Object[] {
        own(), name, uri, storage, entry == null ? null : entry.schema().json(), version,
        timestamp});
    return new SnapshotTable(name, uri, storage, CatalogEntries.insertable(relation),
        CatalogEntries.partitioning(
            java.util.Arrays.asList(relation.partitionBy()), relation.written()),
        CatalogEntries.properties(relation, uri, entry), relation, entry);
  }

  /** ALTER TABLE changes the table itself, then the columns in Spark's catalog. */
  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    if (CatalogEntries.isPath(ident)) {
      altered(ident.name(), new HashMap(), changes);
      return loadTable(ident);
    }
    CatalogTable entry = entry(ident);
    if (entry == null) {
      return inner().alterTable(ident, changes);
    }
    if (changes.length == 0) {
      return loadTable(ident);
    }
    String uri = new Path(entry.location()).toString();
    follow(entry.identifier(), altered(uri, CatalogEntries.options(entry), changes));
    properties(ident, changes);
    return loadTable(ident);
  }

  private StructType altered(String uri, Map storage, TableChange[] changes) {
    Map arguments = new HashMap();
    arguments.put("changes", TableChanges.described(changes));
    return (StructType) Bridge.call("alter", new Object[] {own(), uri, storage, arguments});
  }

  private void follow(TableIdentifier name, StructType schema) {
    own().sessionState().catalog().alterTableSchema(name, schema);
  }

  // Copies properties to the catalog for commands that read only the catalog (SHOW TABLE EXTENDED).
  private void properties(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    List some = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      if (changes[i] instanceof TableChange.SetProperty
          || changes[i] instanceof TableChange.RemoveProperty) {
        some.add(changes[i]);
      }
    }
    if (!some.isEmpty()) {
      inner().alterTable(ident, (TableChange[]) some.toArray(new TableChange[some.size()]));
    }
  }

  private String location(Identifier ident, Map properties) {
    if (CatalogEntries.isPath(ident)) {
      CatalogEntries.stays(properties, ident.name(), "the path of a table");
      return ident.name();
    }
    Object given = properties.get(TableCatalog.PROP_LOCATION);
    if (given != null) {
      CatalogEntries.requireAbsolute(given.toString());
      return given.toString();
    }
    String[] space = ident.namespace();
    scala.Option database = space.length == 0
        ? (scala.Option) scala.None$.MODULE$ : scala.Option.apply(space[space.length - 1]);
    return new Path(own().sessionState().catalog().defaultTablePath(
        new TableIdentifier(ident.name(), database))).toString();
  }

  public Set capabilities() {
    Set result = new HashSet(inner().capabilities());
    result.add(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
    result.add(TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS);
    result.add(TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS);
    return result;
  }

  public Table createTable(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!CatalogEntries.ours(info.properties().get(TableCatalog.PROP_PROVIDER))) {
      refuseGenerated(info.columns());
      return inner().createTable(ident, info);
    }
    return create(ident, info.columns(), info.partitions(), info.properties(), info.constraints());
  }

  public Table createTable(Identifier ident, Column[] columns, Transform[] partitioning,
      Map properties) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!CatalogEntries.ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      refuseGenerated(columns);
      return inner().createTable(ident, columns, partitioning, properties);
    }
    return create(ident, columns, partitioning, properties, null);
  }

  // Spark's own catalog would ignore the expression: it relies on the capability to refuse it.
  private void refuseGenerated(Column[] columns) {
    for (int i = 0; i < columns.length; i++) {
      if (columns[i].generationExpression() != null && !inner().capabilities().contains(
          TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS)) {
        Bridge.call("refuse", new Object[] {
            "GENERATED ALWAYS AS in a table that is not a tablefmt table", "add USING tablefmt"});
      }
      if (columns[i].identityColumnSpec() != null && !inner().capabilities().contains(
          TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS)) {
        Bridge.call("refuse", new Object[] {
            "AS IDENTITY in a table that is not a tablefmt table", "add USING tablefmt"});
      }
    }
  }

  /** The older form, to which Delta's catalog delegates. */
  public Table createTable(Identifier ident, StructType schema, Transform[] partitioning,
      Map properties) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    return createTable(ident, CatalogEntries.columns(schema), partitioning, properties);
  }

  private Table create(Identifier ident, Column[] columns, Transform[] partitioning,
      Map properties, Constraint[] constraints) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map said = TableChanges.statement(columns, partitioning, properties, constraints);
    create(ident, columns, properties, "define", new Object[] {
        own(), location(ident, properties), CatalogEntries.storage(properties), said});
    if (!isAnothers(own().sessionState().conf())) {
      return null;
    }
    try {
      // Spark does not need the table as a result. Iceberg's catalog does.
      return loadTable(ident);
    } catch (NoSuchTableException missing) {
      org.apache.spark.unsafe.Platform.throwException(missing);
      return null;
    }
  }

  /** Creates a table by a Python verb, which returns its columns, and the catalog's entry. */
  private Table create(Identifier ident, Column[] columns, Map properties, String verb,
      Object[] arguments) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (CatalogEntries.isPath(ident)) {
      Bridge.call(verb, arguments);
      return null;
    }
    if (properties.get(TableCatalog.PROP_LOCATION) == null) {
      // Spark requires the location of a managed table to be empty.
      inner().createTable(ident, columns, UNPARTITIONED, properties);
      try {
        follow(CatalogEntries.name(ident), (StructType) Bridge.call(verb, arguments));
      } catch (Throwable failed) {
        // Scala also throws checked exceptions that it does not declare, such as AnalysisException.
        inner().dropTable(ident);
        org.apache.spark.unsafe.Platform.throwException(failed);
      }
      return null;
    }
    StructType schema = (StructType) Bridge.call(verb, arguments);
    return inner().createTable(ident, CatalogEntries.columns(schema), UNPARTITIONED, properties);
  }

  /** Adds an entry for a clone, which Python then makes at its location. */
  void makeClone(JsonNode entry, String described) {
    JsonNode words = (JsonNode) entry.get("name");
    Identifier ident = Identifier.of(
        new String[] {((JsonNode) words.get(0)).asText()}, ((JsonNode) words.get(1)).asText());
    Map properties = new HashMap();
    java.util.Iterator given = ((JsonNode) entry.get("properties")).fields();
    while (given.hasNext()) {
      Map.Entry field = (Map.Entry) given.next();
      properties.put(field.getKey(), ((JsonNode) field.getValue()).asText());
    }
    StructType schema = (StructType) org.apache.spark.sql.types.DataType$.MODULE$.fromJson(
        ((JsonNode) entry.get("columns")).asText());
    try {
      create(ident, CatalogEntries.columns(schema), properties, "clone",
          new Object[] {own(), described, location(ident, properties)});
    } catch (Exception failed) {
      org.apache.spark.unsafe.Platform.throwException(failed);
    }
  }

  public StagedTable stageCreate(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    return stageNew(ident, info, "create");
  }

  private StagedTable stageNew(Identifier ident, TableInfo info, String verb) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map properties = info.properties();
    if (!CatalogEntries.ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      refuseGenerated(info.columns());
      inner().createTable(ident, info.columns(), info.partitions(), properties);
      return null;
    }
    StructType schema = CatalogEntries.selected(info.columns());
    if (CatalogEntries.isPath(ident)) {
      return new StagedSnapshotTable(
          this, ident, null, false, verb, location(ident, properties),
          CatalogEntries.storage(properties), schema, info);
    }
    String uri = location(ident, properties);
    inner().createTable(ident, CatalogEntries.columns(schema), UNPARTITIONED,
        CatalogEntries.kept(properties));
    return new StagedSnapshotTable(this, ident, CatalogEntries.name(ident), true, verb,
        uri, CatalogEntries.storage(properties), schema, info);
  }

  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    try {
      if (CatalogEntries.isPath(ident) || !inner().tableExists(ident)) {
        return stageNew(ident, info, "replace");
      }
      return stageReplace(ident, info);
    } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException raced) {
      throw new IllegalStateException(raced.getMessage(), raced);
    } catch (NoSuchTableException raced) {
      throw new IllegalStateException(raced.getMessage(), raced);
    }
  }

  public StagedTable stageReplace(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException, NoSuchTableException {
    Map properties = info.properties();
    if (CatalogEntries.isPath(ident)) {
      try {
        return stageNew(ident, info, "replace");
      } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException never) {
        throw new IllegalStateException(never.getMessage(), never);
      }
    }
    CatalogTable there = entry(ident);
    if (there == null || !CatalogEntries.ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      // The old table would have to be dropped before the new rows are written. A query that fails,
      // or reads the old table, would leave no table.
      Bridge.call("foreign", new Object[] {CatalogEntries.name(ident).quotedString()});
    }
    String uri = new Path(there.location()).toString();
    CatalogEntries.stays(properties, uri, "REPLACE TABLE");
    if (!CatalogEntries.options(there).entrySet().containsAll(
        CatalogEntries.storage(CatalogEntries.kept(properties)).entrySet())) {
      Bridge.call("refuse", new Object[] {"REPLACE TABLE with other OPTIONS"});
    }
    return new StagedSnapshotTable(this, ident, there.identifier(), false,
        SparkCallers.isSave() ? "save" : "replace", uri, CatalogEntries.options(there),
        CatalogEntries.selected(info.columns()), info);
  }

  /** Updates the catalog's entry after a staged change was committed to the table. */
  void staged(Identifier ident, TableIdentifier name, StructType schema, Map properties) throws
      NoSuchTableException, org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (name == null) {
      return;
    }
    follow(name, schema);
    if (properties == null) {
      return;
    }
    List changes = new ArrayList();
    java.util.Iterator known = ScalaValues.map(
        own().sessionState().catalog().getTableMetadata(name).properties()).keySet().iterator();
    while (known.hasNext()) {
      changes.add(TableChange.removeProperty((String) known.next()));
    }
    java.util.Iterator entries = properties.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry one = (Map.Entry) entries.next();
      changes.add(TableChange.setProperty((String) one.getKey(), (String) one.getValue()));
    }
    properties(ident, (TableChange[]) changes.toArray(new TableChange[changes.size()]));
  }

  /** CREATE TABLE LIKE. Spark 4.2 and later calls catalogs for it, for V2 sources. */
  public Table createTableLike(Identifier ident, TableInfo info, Table source) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map properties = new HashMap(info.properties());
    Object provider = properties.get(TableCatalog.PROP_PROVIDER);
    boolean fromOurs = source instanceof SnapshotTable;
    if (CatalogEntries.ours(provider) || provider == null && fromOurs) {
      properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
      return fromOurs
          ? like(ident, properties, ((SnapshotTable) source).uri, ((SnapshotTable) source).storage,
              CatalogEntries.columns(source.schema()))
          : create(ident, source.columns(), source.partitioning(), properties, null);
    }
    return inner().createTable(
        ident, CatalogEntries.partitionsLast(source), source.partitioning(), properties);
  }

  /** CREATE TABLE LIKE a catalog table or a view; the result is one of our tables. */
  void like(Identifier ident, Map properties, CatalogTable source) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (source.provider().isDefined() && CatalogEntries.ours(source.provider().get())) {
      like(ident, properties, new Path(source.location()).toString(),
          CatalogEntries.options(source), CatalogEntries.columns(source.schema()));
      return;
    }
    List names = new ArrayList();
    for (int i = 0; i < source.partitionColumnNames().size(); i++) {
      names.add(source.partitionColumnNames().apply(i));
    }
    Transform[] by = CatalogEntries.partitioning(names, source.schema());
    if (source.comment().isDefined() && !properties.containsKey(TableCatalog.PROP_COMMENT)) {
      properties.put(TableCatalog.PROP_COMMENT, source.comment().get());
    }
    create(ident, CatalogEntries.columns(source.schema()), by, properties, null);
  }

  private Table like(
      Identifier ident, Map properties, String uri, Object storage, Column[] columns) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map said = TableChanges.statement(new Column[0], UNPARTITIONED, properties, null);
    return create(ident, columns, properties, "like", new Object[] {
        own(), location(ident, properties), CatalogEntries.storage(properties), uri, storage, said});
  }
}
