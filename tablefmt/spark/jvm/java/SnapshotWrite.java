package tablefmt;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.util.V2ExpressionSQLBuilder;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.TimestampType;

/**
 * Writes INSERT INTO, INSERT OVERWRITE and the rows of CREATE TABLE AS SELECT in one commit by
 * Python.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotWrite
    implements WriteBuilder, SupportsOverwriteV2, SupportsDynamicOverwrite, V1Write,
    InsertableRelation {
  private final SnapshotTable table;
  private final Map options;
  private String mode;
  private String where;

  public SnapshotWrite(SnapshotTable table, Map options) {
    this.table = table;
    this.options = options;
    this.mode = "append";
  }

  public WriteBuilder truncate() {
    this.mode = "overwrite";
    return this;
  }

  public boolean canOverwrite(Predicate[] predicates) {
    return true;
  }

  public WriteBuilder overwrite(final Predicate[] predicates) {
    this.mode = "overwrite";
    final String zone = SparkSettings.zone();
    this.where = (String) SparkSettings.inUtc(new scala.runtime.AbstractFunction0() {
      public Object apply() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < predicates.length; i++) {
          text.append(i == 0 ? "(" : " AND (").append(new Text(zone).build(predicates[i]))
              .append(')');
        }
        return text.toString();
      }
    });
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    this.mode = "overwrite";
    options.put("partitionOverwriteMode", "dynamic");
    return this;
  }

  public Write build() {
    return this;
  }

  public InsertableRelation toInsertableRelation() {
    return this;
  }

  public void insert(Dataset data, boolean overwrite) {
    table.insert(data, mode, where, options);
  }

  public String description() {
    return "tablefmt " + mode + (where == null ? "" : " where " + where);
  }

  /** Writes a time with its zone, because the reader may be in another zone. */
  private static String zoned(org.apache.spark.sql.catalyst.expressions.Literal literal) {
    String text = literal.sql();
    return literal.dataType() instanceof TimestampType && text.endsWith("'")
        ? text.substring(0, text.length() - 1) + "Z'" : text;
  }

  /** Returns a value as SQL, with times in UTC. */
  static String text(final org.apache.spark.sql.catalyst.expressions.Literal literal) {
    return (String) SparkSettings.inUtc(new scala.runtime.AbstractFunction0() {
      public Object apply() {
        return zoned(literal);
      }
    });
  }

  /** Spark's text of a condition, with values in SQL syntax instead of JDBC's. */
  private static class Text extends V2ExpressionSQLBuilder {
    private final String zone;

    Text(String zone) {
      this.zone = zone;
    }

    public String build(Expression given) {
      if (given instanceof Predicate && ((Predicate) given).name().equals("<=>")) {
        // Spark's text tests whether a constant is NULL.
        Expression[] sides = given.children();
        String value = build(sides[1]);
        return build(sides[0]) + (value.startsWith("NULL") || value.startsWith("CAST(NULL")
            ? " IS NULL" : " = " + value);
      }
      if (given instanceof Cast && ((Cast) given).expression() instanceof Literal) {
        Cast cast = (Cast) given;
        Object value = org.apache.spark.sql.catalyst.expressions.Cast$.MODULE$.apply(
            plain((Literal) cast.expression()), cast.dataType(), scala.Option.apply(zone), true)
            .eval(null);
        return zoned(
            new org.apache.spark.sql.catalyst.expressions.Literal(value, cast.dataType()));
      }
      return super.build(given);
    }

    protected String visitLiteral(Literal literal) {
      return zoned(plain(literal));
    }

    private static org.apache.spark.sql.catalyst.expressions.Literal plain(Literal literal) {
      return new org.apache.spark.sql.catalyst.expressions.Literal(
          literal.value(), literal.dataType());
    }
  }
}
