package tablefmt;

import java.lang.reflect.Field;
import java.net.URI;
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
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.SparkSession$;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
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
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog, which knows what is USING tablefmt: such a table is read at the version
 * that is newest when a query names it, or at one asked for, and written in commits. Everything
 * else goes to Spark's own catalog as if this were not here.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  private static final String CATALOG = "spark.sql.catalog.spark_catalog";
  // The table itself knows; and Spark's catalog keeps partition columns only at the end.
  private static final Transform[] UNPARTITIONED = new Transform[0];

  private SparkSession owner;

  /**
   * Stand in the place of a session's own catalog. Spark asks a setting which catalog to take, and
   * looks that up in the session that the thread knows: one of its own making knows none, and another
   * session's thread the wrong one.
   */
  public void install(SparkSession session) throws IllegalAccessException {
    Object manager = session.sessionState().catalogManager();
    for (Class kind = manager.getClass(); kind != null; kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].getName().endsWith("defaultSessionCatalog")) {
          fields[i].setAccessible(true);
          Object there = fields[i].get(manager);
          if (!(there instanceof SessionCatalog)) {
            owner = session;
            initialize("spark_catalog", CaseInsensitiveStringMap.empty());
            setDelegateCatalog((CatalogPlugin) there);
            fields[i].set(manager, this);
          }
          return;
        }
      }
    }
    throw new IllegalStateException("the session has no catalog of its own");
  }

  /** The session that the thread works for. */
  static SparkSession session() {
    return (SparkSession) SparkSession$.MODULE$.active();
  }

  /** The session whose catalog this is; of a copy of a session that is not known, the thread's. */
  private SparkSession own() {
    if (owner != null) {
      return owner;
    }
    return delegate instanceof SessionCatalog ? ((SessionCatalog) delegate).own() : session();
  }

  static String[] names(Transform[] partitioning) {
    String[] result = new String[partitioning.length];
    for (int i = 0; i < result.length; i++) {
      if (!partitioning[i].name().equals("identity")) {
        String said = partitioning[i].name().equals("cluster_by")
            ? "CLUSTER BY" : "PARTITIONED BY " + partitioning[i].describe();
        Bridge.call("refuse", new Object[] {said});
      }
      String[] parts = partitioning[i].references()[0].fieldNames();
      result[i] = parts[parts.length - 1];
    }
    return result;
  }

  private TableCatalog inner() {
    return delegate instanceof SessionCatalog
        ? ((SessionCatalog) delegate).inner() : (TableCatalog) delegate;
  }

  private static boolean ours(Object provider) {
    return provider != null && "tablefmt".equalsIgnoreCase(provider.toString());
  }

  /** tablefmt.`/place` names a table that the catalog does not know. */
  private static boolean isPath(Identifier ident) {
    String[] space = ident.namespace();
    String name = ident.name();
    return space.length == 1 && ours(space[0])
        && (name.startsWith("/") || name.matches("[A-Za-z][A-Za-z0-9+.-]*:/.*"));
  }

  private Table at(Identifier ident, String version, Long timestamp) {
    String name = ident.namespace()[0] + ".`" + ident.name().replace("`", "``") + "`";
    return load(name, ident.name(), new HashMap(), null, version, timestamp);
  }

  public boolean tableExists(Identifier ident) {
    if (!isPath(ident)) {
      return inner().tableExists(ident);
    }
    return Boolean.TRUE.equals(Bridge.call("exists", new Object[] {ident.name()}));
  }

  public boolean dropTable(Identifier ident) {
    if (isPath(ident)) {
      Bridge.call("refuse", new Object[] {
          "DROP TABLE of a path", "no catalog has it; DELETE takes its rows"});
    }
    return inner().dropTable(ident);
  }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    if (isPath(ident)) {
      return at(ident, null, null);
    }
    CatalogTable entry = entry(ident);
    return entry == null ? untouched(ident) : load(ident, entry, null, null);
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    if (isPath(ident)) {
      return at(ident, version, null);
    }
    CatalogTable entry = entry(ident);
    return entry == null
        ? inner().loadTable(ident, version) : load(ident, entry, version, null);
  }

  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    if (isPath(ident)) {
      return at(ident, null, Long.valueOf(timestamp));
    }
    CatalogTable entry = entry(ident);
    return entry == null
        ? inner().loadTable(ident, timestamp)
        : load(ident, entry, null, Long.valueOf(timestamp));
  }

  /** The catalog's entry of a table of ours; null for another's. */
  private CatalogTable entry(Identifier ident) throws NoSuchTableException {
    Table found = loaded(ident, "tablefmt.SessionCatalog");
    if (found instanceof V1Table) {
      CatalogTable entry = ((V1Table) found).v1Table();
      if (entry.provider().isDefined() && ours(entry.provider().get())) {
        return entry;
      }
    }
    return null;
  }

  private Table untouched(Identifier ident) throws NoSuchTableException {
    return loaded(ident, "builtin");
  }

  // Spark's catalog looks at the setting, and loads tables in another way when there is a catalog
  // such as this one.
  private Table loaded(final Identifier ident, String setting) throws NoSuchTableException {
    SQLConf conf = own().sessionState().conf();
    if (!setting.equals(conf.getConfString(CATALOG, "builtin"))) {
      conf = conf.clone();
      conf.setConfString(CATALOG, setting);
    }
    return (Table) SQLConf$.MODULE$.withExistingConf(conf, new scala.runtime.AbstractFunction0() {
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
    return load(name, uri, options(entry), entry, version, timestamp);
  }

  /** @param entry of the catalog; null for a table that is named by its path */
  private Table load(String name, String uri, Map storage, CatalogTable entry, String version,
      Long timestamp) {
    SnapshotRelation relation = (SnapshotRelation) Bridge.call("open", new Object[] {
        own(), name, uri, storage, entry == null ? null : entry.schema().json(), version,
        timestamp});
    // What the catalog keeps of the table's own properties may be out of date.
    Map properties = (Map) relation.said("properties");
    properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
    properties.put(TableCatalog.PROP_LOCATION, uri);
    if (entry == null) {
      properties.put(TableCatalog.PROP_EXTERNAL, "true");
    } else {
      Object owner = Plain.map(entry.properties()).get(TableCatalog.PROP_OWNER);
      if (owner != null || !entry.owner().isEmpty()) {
        properties.put(TableCatalog.PROP_OWNER, owner == null ? entry.owner() : owner);
      }
      boolean managed = entry.tableType().equals(CatalogTableType.MANAGED());
      properties.put(
          managed ? TableCatalog.PROP_IS_MANAGED_LOCATION : TableCatalog.PROP_EXTERNAL, "true");
    }
    String[] by = relation.partitionBy();
    Transform[] partitioning = new Transform[by.length];
    for (int i = 0; i < by.length; i++) {
      partitioning[i] = Expressions.identity("`" + by[i].replace("`", "``") + "`");
    }
    return new SnapshotTable(
        name, uri, storage, relation.written(), partitioning, properties, relation);
  }

  /** ALTER TABLE changes the table itself; the columns in Spark's catalog follow. */
  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    if (isPath(ident)) {
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
    follow(entry.identifier(), altered(uri, options(entry), changes));
    properties(ident, changes);
    return loadTable(ident);
  }

  private StructType altered(String uri, Map storage, TableChange[] changes) {
    Map arguments = new HashMap();
    arguments.put("changes", TableChanges.described(changes));
    return (StructType) Bridge.call("alter", new Object[] {own(), uri, storage, arguments});
  }

  /** The options of the storage that the catalog keeps. */
  private static Map options(CatalogTable entry) {
    Map storage = Plain.map(entry.storage().properties());
    storage.remove("path");
    storage.remove("serialization.format");
    return storage;
  }

  private static void follow(TableIdentifier name, StructType schema) {
    session().sessionState().catalog().alterTableSchema(name, schema);
  }

  // Who asks the catalog alone, as SHOW TABLE EXTENDED does, is to see them too.
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
    if (isPath(ident)) {
      stays(properties, ident.name(), "the path of a table");
      return ident.name();
    }
    Object given = properties.get(TableCatalog.PROP_LOCATION);
    if (given != null) {
      return given.toString();
    }
    String[] space = ident.namespace();
    scala.Option database = space.length == 0
        ? (scala.Option) scala.None$.MODULE$ : scala.Option.apply(space[space.length - 1]);
    return new Path(own().sessionState().catalog().defaultTablePath(
        new TableIdentifier(ident.name(), database))).toString();
  }

  // What CatalogV2Util has for this takes other arguments in every release of Spark.
  private static Column[] columns(StructType schema) {
    StructField[] fields = schema.fields();
    Column[] result = new Column[fields.length];
    for (int i = 0; i < fields.length; i++) {
      scala.Option said = fields[i].getComment();
      result[i] = Column.create(fields[i].name(), fields[i].dataType(), fields[i].nullable(),
          said.isDefined() ? (String) said.get() : null, (String) null);
    }
    return result;
  }

  // Of what a query selects Spark says CHAR(n) here, where the query itself says STRING.
  private static StructType selected(Column[] columns) {
    return CharVarcharUtils$.MODULE$.replaceCharVarcharWithStringInSchema(
        CatalogV2Util.v2ColumnsToStructType(columns));
  }

  private static Map storage(Map properties) {
    Map result = new HashMap();
    java.util.Iterator names = properties.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      if (name.startsWith(TableCatalog.OPTION_PREFIX)) {
        result.put(name.substring(TableCatalog.OPTION_PREFIX.length()), properties.get(name));
      }
    }
    result.remove("path");
    return result;
  }

  public Set capabilities() {
    Set result = new HashSet(inner().capabilities());
    result.add(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
    return result;
  }

  public Table createTable(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!ours(info.properties().get(TableCatalog.PROP_PROVIDER))) {
      return inner().createTable(ident, info);
    }
    return create(ident, info.columns(), info.partitions(), info.properties(), info.constraints());
  }

  public Table createTable(Identifier ident, Column[] columns, Transform[] partitioning,
      Map properties) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      return inner().createTable(ident, columns, partitioning, properties);
    }
    return create(ident, columns, partitioning, properties, null);
  }

  private Table create(Identifier ident, Column[] columns, Transform[] partitioning,
      Map properties, Constraint[] constraints) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map said = TableChanges.statement(columns, partitioning, properties, constraints);
    return create(ident, columns, properties, "define", new Object[] {
        session(), location(ident, properties), storage(properties), said});
  }

  /** Make a table by a verb of Python's, which gives its columns, and the catalog's entry. */
  private Table create(Identifier ident, Column[] columns, Map properties, String verb,
      Object[] arguments) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (isPath(ident)) {
      Bridge.call(verb, arguments);
      return null;
    }
    if (properties.get(TableCatalog.PROP_LOCATION) == null) {
      // Spark wants the place of a table that it manages to be empty.
      inner().createTable(ident, columns, UNPARTITIONED, properties);
      try {
        follow(name(ident), (StructType) Bridge.call(verb, arguments));
      } catch (RuntimeException failed) {
        inner().dropTable(ident);
        throw failed;
      }
      return null;
    }
    StructType schema = (StructType) Bridge.call(verb, arguments);
    return inner().createTable(ident, columns(schema), UNPARTITIONED, properties);
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
    if (!ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      inner().createTable(ident, info.columns(), info.partitions(), properties);
      return null;
    }
    StructType schema = selected(info.columns());
    if (isPath(ident)) {
      return new StagedSnapshotTable(
          this, ident, null, false, verb, location(ident, properties), storage(properties), schema,
          info);
    }
    inner().createTable(ident, columns(schema), UNPARTITIONED, properties);
    return new StagedSnapshotTable(this, ident, name(ident), true, verb,
        location(ident, properties), storage(properties), schema, info);
  }

  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    try {
      if (isPath(ident) || !inner().tableExists(ident)) {
        return stageNew(ident, info, "replace");
      }
      return stageReplace(ident, info);
    } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException raced) {
      throw new IllegalStateException(raced.getMessage());
    } catch (NoSuchTableException raced) {
      throw new IllegalStateException(raced.getMessage());
    }
  }

  public StagedTable stageReplace(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException, NoSuchTableException {
    Map properties = info.properties();
    if (isPath(ident)) {
      try {
        return stageNew(ident, info, "replace");
      } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException never) {
        throw new IllegalStateException(never.getMessage());
      }
    }
    CatalogTable there = entry(ident);
    if (there == null || !ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      // It would have to go before the rows are there, and a query that fails, or reads it, would
      // leave nothing.
      Bridge.call("foreign", new Object[] {name(ident).quotedString()});
    }
    String uri = new Path(there.location()).toString();
    stays(properties, uri, "REPLACE TABLE");
    if (!options(there).entrySet().containsAll(storage(properties).entrySet())) {
      Bridge.call("refuse", new Object[] {"REPLACE TABLE with other OPTIONS"});
    }
    return new StagedSnapshotTable(this, ident, there.identifier(), false,
        isSave() ? "save" : "replace", uri, options(there), selected(info.columns()), info);
  }

  private static void stays(Map properties, String there, String what) {
    Object given = properties.get(TableCatalog.PROP_LOCATION);
    if (given != null && !same(given.toString(), there)) {
      Bridge.call("refuse", new Object[] {what + " with another LOCATION"});
    }
  }

  private static boolean same(String given, String there) {
    URI one = new Path(given).toUri();
    URI two = new Path(there).toUri();
    return one.getPath().equals(two.getPath()) && scheme(one).equals(scheme(two))
        && String.valueOf(one.getAuthority()).equals(String.valueOf(two.getAuthority()));
  }

  private static String scheme(URI of) {
    return of.getScheme() == null ? "file" : of.getScheme().equals("s3a") ? "s3" : of.getScheme();
  }

  // Spark asks for the same where a statement says REPLACE TABLE and where a DataFrame is saved
  // over a table, which keeps what the rows do not say.
  private static boolean isSave() {
    StackTraceElement[] callers = Thread.currentThread().getStackTrace();
    for (int i = 0; i < callers.length; i++) {
      if (callers[i].getClassName().equals("org.apache.spark.sql.classic.DataFrameWriter")) {
        return true;
      }
    }
    return false;
  }

  /** A staged change is in the table: the catalog's entry follows. */
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
    java.util.Iterator known = Plain.map(
        session().sessionState().catalog().getTableMetadata(name).properties()).keySet().iterator();
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

  private static TableIdentifier name(Identifier ident) {
    String[] space = ident.namespace();
    return new TableIdentifier(ident.name(), space.length == 0
        ? (scala.Option) scala.None$.MODULE$ : scala.Option.apply(space[space.length - 1]));
  }

  /** CREATE TABLE LIKE, where Spark asks catalogs: from 4.2 on, for sources that it calls V2. */
  public Table createTableLike(Identifier ident, TableInfo info, Table source) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map properties = new HashMap(info.properties());
    Object provider = properties.get(TableCatalog.PROP_PROVIDER);
    boolean fromOurs = source instanceof SnapshotTable;
    if (ours(provider) || provider == null && fromOurs) {
      properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
      return fromOurs
          ? like(ident, properties, ((SnapshotTable) source).uri, ((SnapshotTable) source).storage,
              columns(source.schema()))
          : create(ident, source.columns(), source.partitioning(), properties, null);
    }
    return inner().createTable(ident, partitionsLast(source), source.partitioning(), properties);
  }

  // Where Spark's own tables have them.
  private static Column[] partitionsLast(Table source) {
    List by = java.util.Arrays.asList(names(source.partitioning()));
    List result = new ArrayList();
    for (int last = 0; last < 2; last++) {
      for (int i = 0; i < source.columns().length; i++) {
        if (by.contains(source.columns()[i].name()) == (last == 1)) {
          result.add(source.columns()[i]);
        }
      }
    }
    return (Column[]) result.toArray(new Column[result.size()]);
  }

  /** CREATE TABLE LIKE a table of the catalog, or a view, with a table of ours as the result. */
  void like(Identifier ident, Map properties, CatalogTable source) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (source.provider().isDefined() && ours(source.provider().get())) {
      like(ident, properties, new Path(source.location()).toString(), options(source),
          columns(source.schema()));
      return;
    }
    Transform[] by = new Transform[source.partitionColumnNames().size()];
    for (int i = 0; i < by.length; i++) {
      String column = (String) source.partitionColumnNames().apply(i);
      by[i] = Expressions.identity("`" + column.replace("`", "``") + "`");
    }
    if (source.comment().isDefined() && !properties.containsKey(TableCatalog.PROP_COMMENT)) {
      properties.put(TableCatalog.PROP_COMMENT, source.comment().get());
    }
    create(ident, columns(source.schema()), by, properties, null);
  }

  private Table like(
      Identifier ident, Map properties, String uri, Object storage, Column[] columns) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map said = TableChanges.statement(new Column[0], UNPARTITIONED, properties, null);
    return create(ident, columns, properties, "like", new Object[] {
        session(), location(ident, properties), storage(properties), uri, storage, said});
  }
}
