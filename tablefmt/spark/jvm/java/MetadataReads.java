package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext$;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegralType;

/**
 * Analyzer rule that runs before names are resolved. It replaces metadata tables of our tables, such
 * as db.t.files, with their rows, and table_changes('db.t', …) with the query that reads changes.
 *
 * A table or function of the session that really has the name is not replaced.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class MetadataReads extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final Set FUNCTIONS =
      new HashSet(Arrays.asList(new Object[] {"table_changes", "table_changes_by_path"}));

  private final SparkSession session;
  private final Set kinds;

  /** @param kinds the last words of names that may be metadata tables */
  public MetadataReads(SparkSession session, String[] kinds) {
    this.session = session;
    this.kinds = new HashSet(Arrays.asList(kinds));
  }

  public TreeNode apply(TreeNode plan) {
    return ((LogicalPlan) plan).resolveOperatorsUp(new Reading());
  }

  private class Reading extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return isMetadata(node)
          || node instanceof RelationTimeTravel && isMetadata(((RelationTimeTravel) node).relation())
          || node instanceof UnresolvedTableValuedFunction
          && isFunction((UnresolvedTableValuedFunction) node);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      Object made = !isDefinedAt(node) ? null
          : node instanceof UnresolvedRelation ? rows((UnresolvedRelation) node, null, null)
          : node instanceof RelationTimeTravel ? rows((RelationTimeTravel) node)
          : changes((UnresolvedTableValuedFunction) node);
      return made == null ? otherwise.apply(node) : made;
    }
  }

  // --- Metadata tables.

  private boolean isMetadata(Object node) {
    if (!(node instanceof UnresolvedRelation)) {
      return false;
    }
    UnresolvedRelation read = (UnresolvedRelation) node;
    int count = read.multipartIdentifier().size();
    if (count < 2 || read.isStreaming()) {
      return false;
    }
    String last = word(read.multipartIdentifier().apply(count - 1));
    if (last.startsWith("branch_")) {
      // Python refuses it, for reads and for writes.
      return true;
    }
    if (read.options().containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES())) {
      return false;
    }
    if (last.startsWith("tag_")) {
      return true;
    }
    return kinds.contains(last) || count == 2 && kinds.contains(last.substring(last.lastIndexOf('#') + 1));
  }

  private LogicalPlan rows(RelationTimeTravel read) {
    Long micros = null;
    if (read.timestamp().isDefined()) {
      List found = SparkQueries.constants(
          session, ScalaValues.seq(new Object[] {read.timestamp().get()}), true);
      if (found == null || !(((Literal) found.get(0)).value() instanceof Long)) {
        return null;
      }
      micros = (Long) ((Literal) found.get(0)).value();
    }
    return rows((UnresolvedRelation) read.relation(),
        read.version().isDefined() ? (String) read.version().get() : null, micros);
  }

  private LogicalPlan rows(UnresolvedRelation read, String version, Long micros) {
    Dataset rows = (Dataset) Bridge.call("metadata", new Object[] {
        session, texts(read.multipartIdentifier()), within(),
        new HashMap(read.options().asCaseSensitiveMap()), version, micros});
    return rows == null ? null : SubqueryAlias$.MODULE$.apply(
        read.multipartIdentifier(), SparkQueries.plan(rows));
  }

  // --- Functions.

  private boolean isFunction(UnresolvedTableValuedFunction call) {
    return call.name().size() == 1 && FUNCTIONS.contains(word(call.name().apply(0)))
        && !call.isStreaming() && !isAnothers(word(call.name().apply(0)));
  }

  /** Returns true if the session has its own function of this name, except Delta's. */
  private boolean isAnothers(String name) {
    if (!isKnown(name)) {
      return false;
    }
    scala.Option known = session.sessionState().catalog().lookupBuiltinOrTempTableFunction(name);
    return !known.isDefined() || !((ExpressionInfo) known.get()).getClassName()
        .contains(".sql.delta.");
  }

  private boolean isKnown(String name) {
    return session.sessionState().catalog().functionExists(new FunctionIdentifier(name));
  }

  private LogicalPlan changes(UnresolvedTableValuedFunction call) {
    List found = SparkQueries.constants(session, call.functionArgs(), false);
    if (found == null) {
      return null;
    }
    List arguments = new ArrayList();
    for (int i = 0; i < found.size(); i++) {
      arguments.add(described((Literal) found.get(i)));
    }
    JsonNode said = Messages.answer("table_changes", Bridge.call("table_changes", new Object[] {
        session, word(call.name().apply(0)), within(), arguments,
        Boolean.valueOf(isKnown(word(call.name().apply(0))))}));
    return said == null ? null : NamedReads.loaded(session, said.get("load"));
  }

  private static Map described(Literal given) {
    Object value = given.value();
    String kind = value == null ? "null"
        : given.dataType().equals(DataTypes.StringType) ? "text"
        : given.dataType() instanceof IntegralType ? "version"
        : given.dataType().equals(DataTypes.TimestampType) ? "micros" : "other";
    Map result = new HashMap();
    result.put("kind", kind);
    result.put("value", kind.equals("other") ? given.dataType().sql() : String.valueOf(value));
    return result;
  }

  private static String word(Object given) {
    return ((String) given).toLowerCase(Locale.ROOT);
  }

  private static String[] within() {
    return texts(AnalysisContext$.MODULE$.get().catalogAndNamespace());
  }

  static String[] texts(scala.collection.immutable.Seq given) {
    String[] result = new String[given.size()];
    for (int i = 0; i < result.length; i++) {
      result[i] = (String) given.apply(i);
    }
    return result;
  }
}
