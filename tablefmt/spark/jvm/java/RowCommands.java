package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Analyzer rule. It replaces DELETE, UPDATE and MERGE on our tables with our commands, and a read
 * of a table's changes with the query that reads them. It marks what INSERT must compute.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class RowCommands extends org.apache.spark.sql.catalyst.rules.Rule {
  public TreeNode apply(TreeNode plan) {
    LogicalPlan made = RowCommand.of((LogicalPlan) plan);
    if (made == null) {
      made = TableCommand.of((LogicalPlan) plan);
    }
    return made == null ? GeneratedInserts.marked((LogicalPlan) ((LogicalPlan) plan)
        .resolveOperatorsUp(new ChangesRelation.Unfolding(false))) : made;
  }

  /**
   * Adds the rules to a session's analyzer. Spark accepts rules only when it creates a session, and
   * this session already exists. Without this rule the optimizer rule does the same, but commands
   * return no row counts, because their columns are fixed by the analyzer. Without the other rules,
   * MERGE WITH SCHEMA EVOLUTION, statements in a session that is not ANSI, and reads of changes by
   * name are refused, and there are no metadata tables.
   *
   * @param metadata the last words of names that may be metadata tables
   */
  public void install(SparkSession session, String[] metadata) {
    SparkFields.addRule(session, "postHocResolutionRules", this);
    SparkFields.addRule(session, "hintResolutionRules", new MergeEvolution(session));
    SparkFields.addRule(session, "hintResolutionRules", new NamedReads(session));
    SparkFields.addRule(session, "hintResolutionRules", new MetadataReads(session, metadata));
    SparkFields.addRule(session, "hintResolutionRules", new Ansi(session));
  }
}
