package tablefmt;

import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Analyzer rule that runs before names are resolved. It removes the stars of MERGE WITH SCHEMA
 * EVOLUTION into our tables. Spark would require every column of the table in the source, or alter
 * the table while it only analyses the statement. The command expands a star when it runs. Columns
 * that a clause names and only the source has are resolved against the evolved schema.
 *
 * A clause without assignments replaces a star. SQL has no syntax for such a clause.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class MergeEvolution extends org.apache.spark.sql.catalyst.rules.Rule {
  /** Tag of a MERGE with schema evolution: the columns that the table lacks, as JSON. */
  static final TreeNodeTag ADDED = new TreeNodeTag("tablefmt.added");

  private final SparkSession session;

  public MergeEvolution(SparkSession session) {
    this.session = session;
  }

  public TreeNode apply(TreeNode plan) {
    LogicalPlan given = InsertEvolution.applied(session, (LogicalPlan) plan);
    if (!given.containsPattern(TreePattern$.MODULE$.COMMAND())) {
      return given;
    }
    return given.resolveOperators(new Starless());
  }

  static boolean isStar(MergeAction action) {
    return action instanceof UpdateAction && ((UpdateAction) action).assignments().isEmpty()
        || action instanceof InsertAction && ((InsertAction) action).assignments().isEmpty();
  }

  private class Starless extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof MergeIntoTable
          && (((MergeIntoTable) node).withSchemaEvolution() || InsertEvolution.isSetBySession())
          && isOurs(((MergeIntoTable) node).targetTable());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      MergeIntoTable merge = (MergeIntoTable) node;
      LogicalPlan target = merge.targetTable();
      SchemaEvolution evolved = new SchemaEvolution(analysed(target), analysed(merge.sourceTable()));
      evolved.add(merge.matchedActions());
      evolved.add(merge.notMatchedActions());
      MergeIntoTable made = new MergeIntoTable(evolved.isMore() ? evolved.target() : target,
          merge.sourceTable(), merge.mergeCondition(), starless(merge.matchedActions()),
          starless(merge.notMatchedActions()), merge.notMatchedBySourceActions(), false);
      made.setTagValue(ADDED, evolved.added());
      return made;
    }
  }

  private LogicalPlan analysed(LogicalPlan plan) {
    return plan.analyzed() ? plan : SparkQueries.resolved(session, plan);
  }

  private boolean isOurs(LogicalPlan target) {
    return RowTarget.isOurs(SparkQueries.resolved(session, target));
  }

  private static scala.collection.immutable.Seq starless(scala.collection.immutable.Seq actions) {
    Object[] made = new Object[actions.size()];
    for (int i = 0; i < made.length; i++) {
      MergeAction action = (MergeAction) actions.apply(i);
      made[i] = action;
      if (action instanceof UpdateStarAction) {
        made[i] = new UpdateAction(action.condition(), ScalaValues.seq(new Object[0]), true);
      } else if (action instanceof InsertStarAction) {
        made[i] = new InsertAction(action.condition(), ScalaValues.seq(new Object[0]));
      }
    }
    return ScalaValues.seq(made);
  }
}
