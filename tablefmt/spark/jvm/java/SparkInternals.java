package tablefmt;

import java.lang.reflect.Method;

/**
 * Checks that the parts of Spark exist that are used by name. spark_internals.py has the list.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public final class SparkInternals {
  /**
   * @param lines a line for each class: its name, and members that it or a superclass must have
   * @return a line for each missing part: a class, or a class, `#` and a member
   */
  public String missing(String lines) {
    StringBuilder missing = new StringBuilder();
    String[] each = lines.split("\n");
    for (int i = 0; i < each.length; i++) {
      String[] parts = each[i].split("\t");
      Class kind = found(parts[0]);
      if (kind == null) {
        missing.append(parts[0]).append('\n');
      }
      for (int m = 1; kind != null && m < parts.length; m++) {
        if (SparkFields.find(kind, parts[m]) == null && !hasMethod(kind, parts[m])) {
          missing.append(parts[0]).append('#').append(parts[m]).append('\n');
        }
      }
    }
    return missing.toString();
  }

  private static Class found(String name) {
    try {
      return Class.forName(name, false, SparkInternals.class.getClassLoader());
    } catch (ClassNotFoundException missing) {
      return null;
    } catch (LinkageError broken) {
      return null;
    }
  }

  // getMethods includes inherited methods and those of interfaces. Private ones may be the caller.
  private static boolean hasMethod(Class kind, String name) {
    return isAmong(kind.getMethods(), name) || isAmong(kind.getDeclaredMethods(), name);
  }

  private static boolean isAmong(Method[] methods, String name) {
    for (int i = 0; i < methods.length; i++) {
      String found = methods[i].getName();
      if (found.equals(name) || found.startsWith(name + "$")) {
        return true;
      }
    }
    return false;
  }
}
