package tablefmt;

import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils$;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads a table's catalog entry: its format, location, options, columns and partitions.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class CatalogEntries {
  private CatalogEntries() {}

  private static final String CLUSTER_BY = "cluster_by";

  private static final java.util.regex.Pattern CALL =
      java.util.regex.Pattern.compile("([a-z]+)\\((?:([0-9]+), )?(.*)\\)", 32);

  /** Returns the partitioning as texts: a column's name, or a call such as days(ts). */
  static String[] names(Transform[] partitioning) {
    List result = new ArrayList();
    for (int i = 0; i < partitioning.length; i++) {
      if (partitioning[i].name().equals(CLUSTER_BY)) {
        continue;
      }
      if (!partitioning[i].name().equals("identity")) {
        result.add(partitioning[i].describe());
        continue;
      }
      String[] parts = partitioning[i].references()[0].fieldNames();
      result.add(parts[parts.length - 1]);
    }
    return (String[]) result.toArray(new String[result.size()]);
  }

  /** Returns the columns of CLUSTER BY. */
  static String[] clustering(Transform[] partitioning) {
    for (int i = 0; i < partitioning.length; i++) {
      if (partitioning[i].name().equals(CLUSTER_BY)) {
        return names(partitioning[i].references());
      }
    }
    return new String[0];
  }

  /** Returns columns by their paths, with dots. */
  static String[] names(NamedReference[] columns) {
    String[] result = new String[columns.length];
    for (int i = 0; i < result.length; i++) {
      result[i] = String.join(".", columns[i].fieldNames());
    }
    return result;
  }

  static boolean ours(Object provider) {
    return provider != null && "tablefmt".equalsIgnoreCase(provider.toString());
  }

  /** Returns true for tablefmt.`/path`, which names a table that is not in the catalog. */
  static boolean isPath(Identifier ident) {
    String[] space = ident.namespace();
    String name = ident.name();
    return space.length == 1 && ours(space[0])
        && (name.startsWith("/") || name.matches("[A-Za-z][A-Za-z0-9+.-]*:/.*"));
  }

  /** Returns the storage options of the entry. */
  static Map options(CatalogTable entry) {
    Map storage = ScalaValues.map(entry.storage().properties());
    storage.remove("path");
    storage.remove("serialization.format");
    return storage;
  }

  // The method of CatalogV2Util for this has other arguments in every release of Spark.
  static Column[] columns(StructType schema) {
    StructField[] fields = schema.fields();
    Column[] result = new Column[fields.length];
    for (int i = 0; i < fields.length; i++) {
      scala.Option said = fields[i].getComment();
      result[i] = Column.create(fields[i].name(), fields[i].dataType(), fields[i].nullable(),
          said.isDefined() ? (String) said.get() : null, (String) null);
    }
    return result;
  }

  // For the columns of a query, Spark reports CHAR(n) here, but the query itself has STRING.
  static StructType selected(Column[] columns) {
    return CharVarcharUtils$.MODULE$.replaceCharVarcharWithStringInSchema(
        CatalogV2Util.v2ColumnsToStructType(columns));
  }

  static Map storage(Map properties) {
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

  /** Returns the properties that the entry keeps. Write options belong to a single write. */
  static Map kept(Map properties) {
    Map result = new HashMap(properties);
    java.util.Iterator names = properties.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      if (name.startsWith(TableCatalog.OPTION_PREFIX)) {
        String option = name.substring(TableCatalog.OPTION_PREFIX.length());
        String folded = option.toLowerCase(java.util.Locale.ROOT);
        if (!folded.startsWith("storage") && !folded.equals("path")) {
          result.remove(name);
          result.remove(option);
        }
      }
    }
    return result;
  }

  static void stays(Map properties, String there, String what) {
    Object given = properties.get(TableCatalog.PROP_LOCATION);
    if (given != null && !Boolean.TRUE.equals(
        Bridge.call("is_same_place", new Object[] {given.toString(), there}))) {
      Bridge.call("refuse", new Object[] {what + " with another LOCATION"});
    }
  }

  /** Refuses a relative path: Spark's entry would point below the warehouse, the table would not. */
  static void requireAbsolute(String given) {
    if (!given.startsWith("/") && given.indexOf(":") < 0) {
      Bridge.call("refuse", new Object[] {
          "CREATE TABLE with the relative path " + given, "use an absolute path or a URI"});
    }
  }

  static TableIdentifier name(Identifier ident) {
    String[] space = ident.namespace();
    return new TableIdentifier(ident.name(), space.length == 0
        ? (scala.Option) scala.None$.MODULE$ : scala.Option.apply(space[space.length - 1]));
  }

  // Puts partition columns last, as in Spark's own tables.
  static Column[] partitionsLast(Table source) {
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

  /** Returns the columns for INSERT, which may leave out generated ones, even if they are NOT NULL. */
  static StructType insertable(SnapshotRelation relation) {
    Map generated = relation.said("generated");
    StructField[] fields = (StructField[]) relation.written().fields().clone();
    boolean changed = false;
    for (int i = 0; i < fields.length; i++) {
      if (generated.containsKey(fields[i].name()) && !fields[i].nullable()) {
        fields[i] = new StructField(
            fields[i].name(), fields[i].dataType(), true, fields[i].metadata());
        changed = true;
      }
    }
    return changed ? new StructType(fields) : relation.written();
  }

  /** Returns the partitioning that texts of `names` declare. */
  static Transform[] partitioning(List texts, StructType columns) {
    Transform[] result = new Transform[texts.size()];
    for (int i = 0; i < result.length; i++) {
      String text = (String) texts.get(i);
      java.util.regex.Matcher call = CALL.matcher(text);
      if (columns.getFieldIndex(text).isDefined() || !call.matches()) {
        result[i] = Expressions.identity("`" + text.replace("`", "``") + "`");
        continue;
      }
      List arguments = new ArrayList();
      if (call.group(2) != null) {
        arguments.add(Expressions.literal(Integer.valueOf(call.group(2))));
      }
      arguments.add(Expressions.column(call.group(3)));
      result[i] = Expressions.apply(call.group(1),
          (org.apache.spark.sql.connector.expressions.Expression[]) arguments.toArray(
              new org.apache.spark.sql.connector.expressions.Expression[arguments.size()]));
    }
    return result;
  }

  /**
   * Returns the properties of a table for Spark. The table's own properties come from the table,
   * because their copy in the catalog may be out of date.
   *
   * @param entry null for a table that is named by its path
   */
  static Map properties(SnapshotRelation relation, String uri, CatalogTable entry) {
    Map properties = (Map) relation.said("properties");
    properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
    properties.put(TableCatalog.PROP_LOCATION, uri);
    if (entry == null) {
      properties.put(TableCatalog.PROP_EXTERNAL, "true");
      return properties;
    }
    Object owner = ScalaValues.map(entry.properties()).get(TableCatalog.PROP_OWNER);
    if (owner != null || !entry.owner().isEmpty()) {
      properties.put(TableCatalog.PROP_OWNER, owner == null ? entry.owner() : owner);
    }
    boolean managed = entry.tableType().equals(CatalogTableType.MANAGED());
    properties.put(
        managed ? TableCatalog.PROP_IS_MANAGED_LOCATION : TableCatalog.PROP_EXTERNAL, "true");
    return properties;
  }
}
