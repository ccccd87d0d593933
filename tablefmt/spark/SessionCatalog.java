package tablefmt;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
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
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataType;
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
        Bridge.call("refuse", new Object[] {"PARTITIONED BY " + partitioning[i].describe()});
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
    return load(name, ident.name(), new HashMap(), null, new HashMap(), version, timestamp);
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
    Map storage = Plain.map(entry.storage().properties());
    storage.remove("path");
    storage.remove("serialization.format");
    return load(name, uri, storage, entry.schema().json(), Plain.map(entry.properties()), version,
        timestamp);
  }

  private Table load(String name, String uri, Map storage, String columns, Map properties,
      String version, Long timestamp) {
    SnapshotRelation relation = (SnapshotRelation) Bridge.call("open", new Object[] {
        own(), name, uri, storage, columns, version, timestamp});
    properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
    properties.put(TableCatalog.PROP_LOCATION, uri);
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
    Map storage = Plain.map(entry.storage().properties());
    storage.remove("path");
    storage.remove("serialization.format");
    StructType schema = altered(new Path(entry.location()).toString(), storage, changes);
    own().sessionState().catalog().alterTableSchema(entry.identifier(), schema);
    return loadTable(ident);
  }

  private StructType altered(String uri, Map storage, TableChange[] changes) {
    List described = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      described.add(described(changes[i]));
    }
    Map arguments = new HashMap();
    arguments.put("changes", described);
    return (StructType) Bridge.call("alter", new Object[] {own(), uri, storage, arguments});
  }

  private static Map described(TableChange change) {
    Map result = new HashMap();
    result.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) {
      result.put("path", ((TableChange.ColumnChange) change).fieldNames());
    }
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn add = (TableChange.AddColumn) change;
      result.put("type", tree(add.dataType()));
      result.put("nullable", Boolean.valueOf(add.isNullable()));
      result.put("default", sql(add.defaultValue()));
      place(result, add.position());
    } else if (change instanceof TableChange.RenameColumn) {
      result.put("to", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      place(result, ((TableChange.UpdateColumnPosition) change).position());
    } else if (change instanceof TableChange.UpdateColumnType) {
      result.put("type", tree(((TableChange.UpdateColumnType) change).newDataType()));
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      result.put("nullable",
          Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
    } else if (change instanceof TableChange.UpdateColumnDefaultValue) {
      result.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    } else if (change instanceof TableChange.SetProperty) {
      result.put("name", ((TableChange.SetProperty) change).property());
      result.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) {
      result.put("name", ((TableChange.RemoveProperty) change).property());
      result.put("value", null);
    }
    return result;
  }

  // Where the method is declared differs by release, and in some its class is not public.
  private static Object sql(Object value) {
    if (value == null) {
      return null;
    }
    try {
      Method text = value.getClass().getMethod("getSql", new Class[0]);
      text.setAccessible(true);
      return text.invoke(value, new Object[0]);
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException(other);
    }
  }

  private static void place(Map result, TableChange.ColumnPosition position) {
    result.put("first", Boolean.valueOf(position instanceof TableChange.First));
    result.put("after", position instanceof TableChange.After
        ? ((TableChange.After) position).column() : null);
  }

  private static JsonNode tree(DataType type) {
    try {
      return (JsonNode) new ObjectMapper().readTree(type.json());
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  private String location(Identifier ident, Map properties) {
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
      result[i] = Column.create(fields[i].name(), fields[i].dataType(), fields[i].nullable());
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

  public Table createTable(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    return createTable(ident, info.columns(), info.partitions(), info.properties());
  }

  public Table createTable(Identifier ident, Column[] columns, Transform[] partitioning,
      Map properties) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    if (!ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      return inner().createTable(ident, columns, partitioning, properties);
    }
    if (isPath(ident)) {
      Bridge.call("define", new Object[] {own(), ident.name(), storage(properties),
          CatalogV2Util.v2ColumnsToStructType(columns).json(), names(partitioning),
          new HashMap(properties)});
      return null;
    }
    boolean located = properties.get(TableCatalog.PROP_LOCATION) != null;
    String uri = location(ident, properties);
    Object[] arguments = new Object[] {own(), uri, storage(properties),
        CatalogV2Util.v2ColumnsToStructType(columns).json(), names(partitioning),
        new HashMap(properties)};
    if (!located) {
      // Spark wants the place of a table that it manages to be empty.
      inner().createTable(ident, columns, UNPARTITIONED, properties);
      try {
        Bridge.call("define", arguments);
      } catch (RuntimeException failed) {
        inner().dropTable(ident);
        throw failed;
      }
      return null;
    }
    StructType schema = (StructType) Bridge.call("define", arguments);
    return inner().createTable(ident, columns(schema), UNPARTITIONED, properties);
  }

  public StagedTable stageCreate(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException,
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    Map properties = info.properties();
    if (!ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      inner().createTable(ident, info.columns(), info.partitions(), properties);
      return null;
    }
    StructType schema = selected(info.columns());
    if (isPath(ident)) {
      return new StagedSnapshotTable(this, ident, false, ident.name(), storage(properties), schema,
          info.partitions(), properties);
    }
    inner().createTable(ident, columns(schema), UNPARTITIONED, properties);
    return new StagedSnapshotTable(this, ident, true, location(ident, properties),
        storage(properties), schema, info.partitions(), properties);
  }

  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) throws
      org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException {
    try {
      if (!inner().tableExists(ident)) {
        return stageCreate(ident, info);
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
    CatalogTable there = entry(ident);
    if (there != null && ours(properties.get(TableCatalog.PROP_PROVIDER))) {
      Map options = Plain.map(there.storage().properties());
      options.remove("path");
      options.remove("serialization.format");
      return new StagedSnapshotTable(this, ident, false,
          new Path(there.location()).toString(), options, selected(info.columns()),
          info.partitions(), properties);
    }
    inner().dropTable(ident);
    try {
      return stageCreate(ident, info);
    } catch (org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException raced) {
      throw new IllegalStateException(raced.getMessage());
    }
  }
}
