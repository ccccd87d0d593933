package tablefmt;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Access to Spark's internals: copies of plan nodes with other parts. The number of parts of a node
 * differs between releases of Spark, so code cannot be compiled against one constructor.
 *
 * Parts are found by their names (Product.productElementName), and a constructor by its arguments.
 * If no part or no constructor matches, the caller gets an IllegalStateException that names the
 * node: the statement fails, and no row is read or written.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkNodes {
  private SparkNodes() {}

  /** Returns the part of a node with this name; null if there is none. */
  static Object part(LogicalPlan node, String name) {
    int at = place(node, name);
    return at < 0 ? null : node.productElement(at);
  }

  /** Returns a copy of a node with another part; the node itself if it has no such part. */
  static LogicalPlan with(LogicalPlan node, String name, Object part) {
    int at = place(node, name);
    if (at < 0) {
      return node;
    }
    Object[] parts = parts(node);
    parts[at] = part;
    LogicalPlan made = made(node.getClass(), parts);
    made.copyTagsFrom(node);
    return made;
  }

  /** Returns a relation over another table, with other columns. */
  static DataSourceV2Relation relation(DataSourceV2Relation of, Object table, Object output) {
    LogicalPlan made = with(checked(of, "table"), "table", table);
    return (DataSourceV2Relation) with(checked(made, "output"), "output", output);
  }

  /** Returns a sort within tasks. Releases differ in the optional last arguments. */
  static LogicalPlan sortWithinTasks(Object orders, LogicalPlan child) {
    return made(Sort.class, new Object[] {orders, Boolean.FALSE, child});
  }

  /**
   * Returns the append that passes the same rows to the same write. Both nodes start with the same
   * parts. An append has the analysed query again at the end.
   */
  static LogicalPlan append(OverwritePartitionsDynamic given) {
    List parts = new ArrayList(java.util.Arrays.asList(parts(given)));
    parts.add(scala.Option.apply(given.query()));
    LogicalPlan made = made(AppendData.class, parts.toArray());
    String[] shared = new String[] {"table", "query", "writeOptions", "isByName", "write"};
    for (int i = 0; i < shared.length; i++) {
      if (part(checked(made, shared[i]), shared[i]) != part(given, shared[i])
          && !part(made, shared[i]).equals(part(given, shared[i]))) {
        throw new IllegalStateException("AppendData has a different " + shared[i]);
      }
    }
    return made;
  }

  private static LogicalPlan checked(LogicalPlan node, String name) {
    if (place(node, name) < 0) {
      throw new IllegalStateException(node.getClass().getName() + " has no part " + name);
    }
    return node;
  }

  private static int place(LogicalPlan node, String name) {
    for (int i = 0; i < node.productArity(); i++) {
      if (node.productElementName(i).equals(name)) {
        return i;
      }
    }
    return -1;
  }

  private static Object[] parts(LogicalPlan node) {
    Object[] parts = new Object[node.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = node.productElement(i);
    }
    return parts;
  }

  /** Creates a node by the constructor that takes these parts, and optionally options. */
  private static LogicalPlan made(Class kind, Object[] parts) {
    Constructor found = null;
    Constructor[] all = kind.getConstructors();
    for (int i = 0; i < all.length; i++) {
      if (takes(all[i].getParameterTypes(), parts) && (found == null
          || all[i].getParameterTypes().length < found.getParameterTypes().length)) {
        found = all[i];
      }
    }
    if (found == null) {
      throw new IllegalStateException(kind.getName() + " has no matching constructor");
    }
    Object[] given = new Object[found.getParameterTypes().length];
    for (int i = 0; i < given.length; i++) {
      given[i] = i < parts.length ? parts[i] : scala.Option$.MODULE$.empty();
    }
    try {
      return (LogicalPlan) found.newInstance(given);
    } catch (InvocationTargetException failed) {
      throw new IllegalStateException(failed.getCause());
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException(other);
    }
  }

  private static boolean takes(Class[] wanted, Object[] parts) {
    if (wanted.length < parts.length) {
      return false;
    }
    for (int i = 0; i < wanted.length; i++) {
      boolean fits = i >= parts.length ? wanted[i] == scala.Option.class
          : wanted[i].isPrimitive() ? parts[i] instanceof Boolean || parts[i] instanceof Number
          : parts[i] == null || wanted[i].isInstance(parts[i]);
      if (!fits) {
        return false;
      }
    }
    return true;
  }
}
