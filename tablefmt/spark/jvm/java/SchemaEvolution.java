package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Schema evolution of a MERGE: the target with the added columns and nested fields. These are the
 * ones that the clauses name and that only the source has.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
class SchemaEvolution {
  private final LogicalPlan target;
  private final StructType given;
  private final boolean isPlain;
  private StructType columns;
  private StructType added = new StructType();

  /** @param target an analysed plan, like the source */
  SchemaEvolution(LogicalPlan target, LogicalPlan source) {
    this.target = target;
    LogicalPlan leaf = target;
    while (leaf instanceof SubqueryAlias) {
      leaf = ((SubqueryAlias) leaf).child();
    }
    this.isPlain = leaf instanceof DataSourceV2Relation && source.resolved();
    this.columns = isPlain ? leaf.schema() : new StructType();
    this.given = source.resolved() ? source.schema() : new StructType();
  }

  /** Adds the columns that these clauses name. */
  void add(scala.collection.immutable.Seq actions) {
    for (int i = 0; isPlain && i < actions.size(); i++) {
      Object action = actions.apply(i);
      scala.collection.immutable.Seq set = action instanceof UpdateAction
          ? ((UpdateAction) action).assignments()
          : action instanceof InsertAction ? ((InsertAction) action).assignments() : null;
      for (int a = 0; set != null && a < set.size(); a++) {
        add((Assignment) set.apply(a));
      }
    }
  }

  boolean isMore() {
    return added.length() > 0;
  }

  /** Returns the added columns as Spark's JSON schema. */
  String added() {
    return added.json();
  }

  private void add(Assignment one) {
    if (!(one.key() instanceof UnresolvedAttribute)) {
      return;
    }
    List path = parts(one.key());
    if (path.size() > 1 && within(columns, (String) path.get(0)) == null
        && within(given, (String) path.get(0)) == null && isName((String) path.get(0))) {
      path = path.subList(1, path.size());
    }
    DataType theirs = at(given, path);
    DataType ours = at(columns, path);
    if (theirs == null || ours != null && !(ours instanceof StructType
        && theirs instanceof StructType && isSame(one.value(), path))) {
      return;
    }
    StructType more = with(columns, path, theirs);
    if (more != null && !more.equals(columns)) {
      columns = more;
      added = with(added, path, theirs);
    }
  }

  private static List parts(Expression name) {
    scala.collection.immutable.Seq given = ((UnresolvedAttribute) name).nameParts();
    List parts = new ArrayList();
    for (int i = 0; i < given.size(); i++) {
      parts.add(given.apply(i));
    }
    return parts;
  }

  /** Returns true if this is the target's name. */
  private boolean isName(String name) {
    scala.collection.immutable.Seq of = ((Attribute) target.output().head()).qualifier();
    return !of.isEmpty() && name.equalsIgnoreCase((String) of.last());
  }

  /** Returns true if the value is a column or field with this name. */
  private static boolean isSame(Expression value, List path) {
    if (!(value instanceof UnresolvedAttribute)) {
      return false;
    }
    List named = parts(value);
    int more = named.size() - path.size();
    for (int i = 0; more >= 0 && i < path.size(); i++) {
      if (!((String) named.get(more + i)).equalsIgnoreCase((String) path.get(i))) {
        return false;
      }
    }
    return more >= 0;
  }

  private static StructField within(StructType of, String name) {
    StructField[] fields = of.fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equalsIgnoreCase(name)) {
        return fields[i];
      }
    }
    return null;
  }

  private static DataType at(DataType of, List path) {
    for (int i = 0; i < path.size(); i++) {
      StructField field = of instanceof StructType
          ? within((StructType) of, (String) path.get(i)) : null;
      if (field == null) {
        return null;
      }
      of = field.dataType();
    }
    return of;
  }

  /** Adds the source's column at a path; null if its parent in the target is not a struct. */
  private static StructType with(StructType base, List path, DataType leaf) {
    StructField there = within(base, (String) path.get(0));
    List rest = path.subList(1, path.size());
    if (there == null) {
      DataType inner = rest.isEmpty() ? leaf : (DataType) with(new StructType(), rest, leaf);
      return base.add((String) path.get(0), inner, true);
    }
    if (rest.isEmpty() && !(leaf instanceof StructType)) {
      return base;
    }
    if (!(there.dataType() instanceof StructType)) {
      return null;
    }
    StructType inner = (StructType) there.dataType();
    if (rest.isEmpty()) {
      StructField[] more = ((StructType) leaf).fields();
      for (int i = 0; inner != null && i < more.length; i++) {
        List one = new ArrayList();
        one.add(more[i].name());
        inner = with(inner, one, more[i].dataType());
      }
    } else {
      inner = with(inner, rest, leaf);
    }
    if (inner == null) {
      return null;
    }
    StructField[] fields = (StructField[]) base.fields().clone();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i] == there) {
        fields[i] = new StructField(there.name(), inner, there.nullable(), there.metadata());
      }
    }
    return new StructType(fields);
  }

  /** Returns the target with these columns. It is only used to resolve names, and not read. */
  LogicalPlan target() {
    return regrown(target);
  }

  private LogicalPlan regrown(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias) {
      SubqueryAlias alias = (SubqueryAlias) plan;
      return new SubqueryAlias(alias.identifier(), regrown(alias.child()));
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) plan;
    StructField[] fields = columns.fields();
    Object[] output = new Object[fields.length];
    for (int i = 0; i < fields.length; i++) {
      if (i < relation.output().size()) {
        Attribute there = (Attribute) relation.output().apply(i);
        output[i] = there.dataType().equals(fields[i].dataType())
            ? there : there.withDataType(fields[i].dataType());
      } else {
        output[i] = SparkExpressions.column(fields[i].name(), fields[i].dataType(), true);
      }
    }
    return SparkNodes.relation(relation, relation.table(), ScalaValues.seq(output));
  }
}
