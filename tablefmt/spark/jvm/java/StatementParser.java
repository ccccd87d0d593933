package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.VariableSubstitution;
import scala.Product;

/**
 * Wraps the parser of a session. It turns statements of Delta and Iceberg on our tables that Spark's
 * grammar lacks into commands: see table_statements.py. The previous parser reads every other text,
 * and these statements on other tables.
 *
 * A proxy, because the methods of a parser differ between releases of Spark.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class StatementParser implements InvocationHandler {
  // Python parses the text. This pattern avoids the call for nearly all texts.
  private static final Pattern OURS = Pattern.compile(
      "(?:DESC(?:RIBE)?\\b.*\\b(?:HISTORY|DETAIL)|OPTIMIZE|VACUUM|RESTORE|CONVERT|REORG"
          + "|GENERATE|CALL|(?:CREATE|REPLACE)\\b.*\\bCLONE"
          + "|ALTER\\b.*\\b(?:SYNC|TAG|BRANCH|WRITE|IDENTIFIER|FEATURE|PARTITION\\s+FIELD))\\b.*",
      Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  private final VariableSubstitution variables = new VariableSubstitution();
  private SparkSession session;
  private ParserInterface inner;

  /** Wraps a session's parser, once. */
  public void install(SparkSession session) {
    this.session = session;
    this.inner = session.sessionState().sqlParser();
    if (Proxy.isProxyClass(inner.getClass())
        && Proxy.getInvocationHandler(inner) instanceof StatementParser) {
      return;
    }
    SparkFields.setParser(session, (ParserInterface) Proxy.newProxyInstance(
        StatementParser.class.getClassLoader(), new Class[] {ParserInterface.class}, this));
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getReturnType() == LogicalPlan.class && arguments != null
        && arguments[0] instanceof String) {
      // Spark's parser does the same.
      String text = variables.substitute((String) arguments[0]);
      if (OURS.matcher(text.substring(begin(text))).matches()) {
        Boolean parameters = Boolean.valueOf(arguments.length > 1 && !isEmpty(arguments[1]));
        String described =
            (String) Bridge.call("statement", new Object[] {session, text, parameters});
        if (described != null) {
          return new TableStatement(
              text, described, columns(Messages.answer("statement", described)));
        }
      }
    }
    try {
      return method.invoke(inner, arguments);
    } catch (InvocationTargetException failed) {
      throw failed.getCause();
    }
  }

  private static String columns(JsonNode said) {
    JsonNode columns = (JsonNode) said.get("columns");
    return columns.asText();
  }

  /** Returns the start of the first word, after blanks and comments. Block comments nest. */
  private static int begin(String text) {
    int at = 0;
    int depth = 0;
    while (at < text.length()) {
      if (text.startsWith("/*", at)) {
        depth += 1;
        at += 2;
      } else if (depth > 0) {
        boolean closes = text.startsWith("*/", at);
        depth -= closes ? 1 : 0;
        at += closes ? 2 : 1;
      } else if (text.startsWith("--", at)) {
        int end = text.indexOf('\n', at);
        while (end > 0 && text.charAt(end - 1) == '\\') {
          end = text.indexOf('\n', end + 1);
        }
        at = end < 0 ? text.length() : end;
      } else if (Character.isWhitespace(text.charAt(at))) {
        at += 1;
      } else {
        return at;
      }
    }
    return at;
  }

  /** Returns true if there are no parameters, named or positional. */
  private static boolean isEmpty(Object parameters) {
    return parameters instanceof Product && ((Product) parameters).productArity() > 0
        && ((Product) parameters).productElement(0) instanceof scala.collection.Iterable
        && ((scala.collection.Iterable) ((Product) parameters).productElement(0)).isEmpty();
  }
}
