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
 * Seam: plan nodes that are made anew with other parts. How many parts a node has differs between
 * releases of Spark, so code that is compiled against one constructor would not do.
 *
 * Parts are found by their names (Product.productElementName), and a constructor by the values that
 * it is to take. Where no part or no constructor fits, the caller gets an IllegalStateException that
 * names the node: the statement fails, and no row is read or written.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkNodes {
  private SparkNodes() {}

  /** The part of a node that has this name; null if it has none. */
  static Object part(LogicalPlan node, String name) {
    int at = place(node, name);
    return at < 0 ? null : node.productElement(at);
  }

  /** The same node with another part. A node without a part of this name stays as it is. */
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

  /** A relation over another table, with other columns. */
  static DataSourceV2Relation relation(DataSourceV2Relation of, Object table, Object output) {
    LogicalPlan made = with(checked(of, "table"), "table", table);
    return (DataSourceV2Relation) with(checked(made, "output"), "output", output);
  }

  /** A sort within tasks. Releases differ in what may be left out at the end. */
  static LogicalPlan sortWithinTasks(Object orders, LogicalPlan child) {
    return made(Sort.class, new Object[] {orders, Boolean.FALSE, child});
  }

  /**
   * The append that hands the same rows to the same write. Both nodes begin with the same parts; an
   * append has the analysed query once more, at the end.
   */
  static LogicalPlan append(OverwritePartitionsDynamic given) {
    List parts = new ArrayList(java.util.Arrays.asList(parts(given)));
    parts.add(scala.Option.apply(given.query()));
    LogicalPlan made = made(AppendData.class, parts.toArray());
    String[] shared = new String[] {"table", "query", "writeOptions", "isByName", "write"};
    for (int i = 0; i < shared.length; i++) {
      if (part(checked(made, shared[i]), shared[i]) != part(given, shared[i])
          && !part(made, shared[i]).equals(part(given, shared[i]))) {
        throw new IllegalStateException("AppendData has another " + shared[i]);
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

  /** By the one constructor that takes these parts, and nothing or options behind them. */
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
      throw new IllegalStateException("no constructor of " + kind.getName() + " fits");
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
