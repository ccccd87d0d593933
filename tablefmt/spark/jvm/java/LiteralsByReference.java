package tablefmt;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BinaryOperator;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Plans the scans of DELETE, UPDATE and MERGE so that Spark's generated code refers to numbers
 * instead of containing them. A later statement that differs only in its numbers reuses the
 * compiled code. Files and row groups are selected earlier, with the numbers themselves.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class LiteralsByReference extends org.apache.spark.sql.execution.SparkStrategy {
  private static final scala.collection.immutable.Seq NOTHING =
      (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$;

  public scala.collection.immutable.Seq apply(LogicalPlan plan) {
    if (plan.children().isEmpty() || !isOfStatement(plan)) {
      return NOTHING;
    }
    scala.collection.immutable.Seq planned = FileSourceStrategy$.MODULE$.apply(plan);
    Object[] changed = new Object[planned.size()];
    for (int i = 0; i < changed.length; i++) {
      changed[i] = ((SparkPlan) planned.apply(i)).transformUp(new Steps());
    }
    return ScalaValues.seq(changed);
  }

  private static boolean isOfStatement(LogicalPlan plan) {
    LogicalPlan below = plan;
    while (below instanceof Project || below instanceof Filter) {
      below = (LogicalPlan) below.children().head();
    }
    SnapshotFileIndex files = SparkScans.files(below);
    return files != null && files.isOfStatement();
  }

  /** Converts each part of a condition. The filter of deleted rows has the same text anyway. */
  static Expression referring(Expression condition) {
    if (condition instanceof And) {
      And both = (And) condition;
      return new And(referring(both.left()), referring(both.right()));
    }
    return condition.exists(new IsItem())
        ? condition : (Expression) ((TreeNode) condition).transformUp(new Operands());
  }

  private static Expression reference(Expression operand) {
    if (!(operand instanceof Literal)) {
      return operand;
    }
    Literal literal = (Literal) operand;
    DataType type = literal.dataType();
    if (literal.value() == null || !isInCode(type)) {
      return operand;
    }
    StructType one = new StructType(
        new StructField[] {new StructField("value", type, false, Metadata.empty())});
    InternalRow row = new GenericInternalRow(new Object[] {literal.value()});
    return new GetStructField(new Literal(row, one), 0, (scala.Option) scala.None$.MODULE$);
  }

  /** Returns true for types whose values Spark writes into the code instead of referring to. */
  private static boolean isInCode(DataType type) {
    return type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType)
        || type.equals(DataTypes.DateType) || type.equals(DataTypes.TimestampType)
        || type.equals(DataTypes.TimestampNTZType) || type.equals(DataTypes.ShortType)
        || type.equals(DataTypes.ByteType) || type.equals(DataTypes.DoubleType)
        || type.equals(DataTypes.FloatType);
  }

  private static class IsItem extends scala.runtime.AbstractFunction1 {
    public Object apply(Object node) {
      return Boolean.valueOf(SparkExpressions.isItem(node));
    }
  }

  private static class Operands extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof BinaryOperator || node instanceof In;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      scala.collection.immutable.Seq given = ((Expression) node).children();
      Object[] operands = new Object[given.size()];
      boolean same = true;
      for (int i = 0; i < operands.length; i++) {
        operands[i] = reference((Expression) given.apply(i));
        same &= operands[i] == given.apply(i);
      }
      return same ? node : ((TreeNode) node).withNewChildren(ScalaValues.seq(operands));
    }
  }

  private static class Steps extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof FilterExec || node instanceof ProjectExec;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof FilterExec) {
        FilterExec filter = (FilterExec) node;
        return new FilterExec(referring(filter.condition()), filter.child());
      }
      if (!(node instanceof ProjectExec)) {
        return otherwise.apply(node);
      }
      ProjectExec project = (ProjectExec) node;
      Object[] columns = new Object[project.projectList().size()];
      for (int i = 0; i < columns.length; i++) {
        columns[i] = referring((Expression) project.projectList().apply(i));
      }
      return new ProjectExec(ScalaValues.seq(columns), project.child());
    }
  }
}
