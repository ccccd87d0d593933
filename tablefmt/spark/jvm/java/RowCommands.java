package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Analyzer rule: DELETE, UPDATE and MERGE on tables of ours become commands of ours, and changes of
 * a table the query that reads them.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class RowCommands extends org.apache.spark.sql.catalyst.rules.Rule {
  public TreeNode apply(TreeNode plan) {
    LogicalPlan made = RowCommand.of((LogicalPlan) plan);
    if (made == null) {
      made = TableCommand.of((LogicalPlan) plan);
    }
    return made == null
        ? ((LogicalPlan) plan).resolveOperatorsUp(new ChangesRelation.Unfolding(false)) : made;
  }

  /**
   * Have a session's analyzer apply the rules. Spark lets rules be added when a session is made, and
   * ours is there already. Without this one the optimizer's rule does the same, and the commands
   * give no numbers of rows: their columns are fixed when they are analysed. Without the others
   * MERGE WITH SCHEMA EVOLUTION, statements in a session that is not ANSI, and reads of changes by
   * name are refused.
   */
  public void install(SparkSession session) {
    SparkFields.addRule(session, "postHocResolutionRules", this);
    SparkFields.addRule(session, "hintResolutionRules", new MergeEvolution(session));
    SparkFields.addRule(session, "hintResolutionRules", new NamedReads(session));
    SparkFields.addRule(session, "hintResolutionRules", new Ansi(session));
  }
}
