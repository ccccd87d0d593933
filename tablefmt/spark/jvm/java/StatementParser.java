package tablefmt;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SessionState;

/**
 * Stands before the parser of a session: DESCRIBE HISTORY and DETAIL, OPTIMIZE, VACUUM and RESTORE of
 * tables of ours are commands; every other text, and these of other tables, the parser reads that
 * was there.
 *
 * A proxy, since what a parser can do differs between releases of Spark.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class StatementParser implements InvocationHandler {
  private static final Pattern OURS = Pattern.compile(
      "(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*+"
          + "(?:DESC(?:RIBE)?\\s+(?:HISTORY|DETAIL)|OPTIMIZE|VACUUM|RESTORE)\\s.*",
      Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  private SparkSession session;
  private ParserInterface inner;

  /** Stand before a session's parser; once is enough. */
  public void install(SparkSession session) throws IllegalAccessException {
    this.session = session;
    this.inner = session.sessionState().sqlParser();
    if (Proxy.isProxyClass(inner.getClass())
        && Proxy.getInvocationHandler(inner) instanceof StatementParser) {
      return;
    }
    for (Class kind = session.sessionState().getClass(); kind != null;
        kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].getType() == ParserInterface.class) {
          fields[i].setAccessible(true);
          fields[i].set(session.sessionState(), Proxy.newProxyInstance(
              StatementParser.class.getClassLoader(), new Class[] {ParserInterface.class}, this));
          return;
        }
      }
    }
    throw new IllegalStateException("the session has no parser that could be changed");
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getReturnType() == LogicalPlan.class && arguments != null
        && arguments[0] instanceof String && OURS.matcher((String) arguments[0]).matches()) {
      String columns = (String) Bridge.call("statement", new Object[] {session, arguments[0]});
      if (columns != null) {
        return new TableStatement((String) arguments[0], columns);
      }
    }
    try {
      return method.invoke(inner, arguments);
    } catch (InvocationTargetException failed) {
      throw failed.getCause();
    }
  }
}
