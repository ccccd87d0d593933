package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Analyzer rule that runs before names are resolved. It makes a read by name with options equal to
 * a read by path. Spark itself passes a catalog only the version or time, and would use the columns
 * of the table for its changes.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class NamedReads extends org.apache.spark.sql.catalyst.rules.Rule {
  private final SparkSession session;

  public NamedReads(SparkSession session) {
    this.session = session;
  }

  public TreeNode apply(TreeNode plan) {
    return ((LogicalPlan) plan).resolveOperatorsUp(new Reading());
  }

  private class Reading extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof UnresolvedRelation
          && !((UnresolvedRelation) node).options().isEmpty()
          && !((UnresolvedRelation) node).options().containsKey(
              UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      UnresolvedRelation read = (UnresolvedRelation) node;
      Object answer = Bridge.call("named", new Object[] {
          session, MetadataReads.texts(read.multipartIdentifier()),
          MetadataReads.texts(AnalysisContext$.MODULE$.get().catalogAndNamespace()),
          new HashMap(read.options().asCaseSensitiveMap()), Boolean.valueOf(read.isStreaming())});
      return answer == null ? read : with(read, Messages.answer("named", answer));
    }
  }

  private LogicalPlan with(UnresolvedRelation read, JsonNode said) {
    if (said.has("options")) {
      return new UnresolvedRelation(read.multipartIdentifier(),
          new CaseInsensitiveStringMap(map(said.get("options"))), false);
    }
    JsonNode name = (JsonNode) said.get("alias");
    Object[] alias = new Object[name.size()];
    for (int i = 0; i < alias.length; i++) {
      JsonNode part = (JsonNode) name.get(i);
      alias[i] = part.asText();
    }
    return SubqueryAlias$.MODULE$.apply(
        ScalaValues.seq(alias), loaded(session, said.get("load")));
  }

  /** Returns the plan of a read by path. */
  static LogicalPlan loaded(SparkSession session, Object options) {
    BaseRelation rows = (BaseRelation) Bridge.call(
        "load", new Object[] {session, map((JsonNode) options), null});
    return session.baseRelationToDataFrame(rows).queryExecution().logical();
  }

  private static Map map(JsonNode said) {
    Map result = new HashMap();
    Iterator names = said.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next();
      JsonNode value = (JsonNode) said.get(name);
      result.put(name, value.asText());
    }
    return result;
  }
}
