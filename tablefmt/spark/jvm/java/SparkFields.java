package tablefmt;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;

/**
 * Access to Spark's internals: private fields of an existing Spark session. Spark accepts analyzer
 * rules, a catalog and a parser only while it creates a session.
 *
 * A field is found by its name, also behind a prefix: Scala writes the class and "$$" before the
 * name of a field that a subclass overrides. If a field is missing, the caller gets an IllegalStateException that
 * names it. spark_internals.py lists the fields, and what a session lacks without each.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkFields {
  private SparkFields() {}

  /**
   * Adds a rule to a list of the analyzer (Analyzer.postHocResolutionRules or hintResolutionRules).
   */
  static void addRule(SparkSession session, String list, Rule rule) {
    Object analyzer = session.sessionState().analyzer();
    scala.collection.immutable.Seq rules = (scala.collection.immutable.Seq) get(analyzer, list);
    for (int i = 0; i < rules.size(); i++) {
      if (rules.apply(i).getClass() == rule.getClass()) {
        return;
      }
    }
    set(analyzer, list, rules.prepended(rule));
  }

  /** Returns the catalog that a session falls back to (CatalogManager.defaultSessionCatalog). */
  static CatalogPlugin ownCatalog(SparkSession session) {
    return (CatalogPlugin) get(session.sessionState().catalogManager(), "defaultSessionCatalog");
  }

  static void setOwnCatalog(SparkSession session, CatalogPlugin catalog) {
    set(session.sessionState().catalogManager(), "defaultSessionCatalog", catalog);
  }

  /** Replaces the parser of a session (SessionState.sqlParser). */
  static void setParser(SparkSession session, ParserInterface parser) {
    set(session.sessionState(), "sqlParser", parser);
  }

  /**
   * Returns the text of a default value (DefaultValue.getSql). The declaring class of the method
   * differs between releases, and in some of them it is not public.
   */
  static Object sql(Object value) {
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

  private static Object get(Object owner, String name) {
    try {
      return field(owner.getClass(), name).get(owner);
    } catch (IllegalAccessException closed) {
      throw new IllegalStateException(closed);
    }
  }

  private static void set(Object owner, String name, Object value) {
    try {
      field(owner.getClass(), name).set(owner, value);
    } catch (IllegalAccessException closed) {
      throw new IllegalStateException(closed);
    }
  }

  private static Field field(Class owner, String name) {
    Field found = find(owner, name);
    if (found == null) {
      throw new IllegalStateException(owner.getName() + " has no field " + name);
    }
    found.setAccessible(true);
    return found;
  }

  /** Finds a field of a class or its superclasses by its name, with or without a prefix; null: none. */
  static Field find(Class owner, String name) {
    for (Class kind = owner; kind != null; kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        String full = fields[i].getName();
        if (full.equals(name) || full.endsWith("$$" + name)) {
          return fields[i];
        }
      }
    }
    return null;
  }
}
