package tablefmt;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.util.V2ExpressionSQLBuilder;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.sources.InsertableRelation;

/**
 * INSERT INTO, INSERT OVERWRITE and the rows of CREATE TABLE AS SELECT: one commit of Python's.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotWrite
    implements WriteBuilder, SupportsOverwriteV2, V1Write, InsertableRelation {
  private final SnapshotTable table;
  private final Map options;
  private String mode;
  private String where;

  public SnapshotWrite(SnapshotTable table, Map options) {
    this.table = table;
    this.options = options;
    this.mode = table.appends();
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
    SQLConf conf = SQLConf$.MODULE$.get().clone();
    conf.setConfString("spark.sql.session.timeZone", "UTC");
    this.where = (String) SQLConf$.MODULE$.withExistingConf(conf,
        new scala.runtime.AbstractFunction0() {
          public Object apply() {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < predicates.length; i++) {
              text.append(i == 0 ? "(" : " AND (").append(new Text().build(predicates[i]))
                  .append(')');
            }
            return text.toString();
          }
        });
    return this;
  }

  public Write build() {
    return this;
  }

  public InsertableRelation toInsertableRelation() {
    return this;
  }

  public void insert(Dataset data, boolean overwrite) {
    Bridge.call("insert", new Object[] {
        data.sparkSession(), table.uri, table.storage, data, mode, where, options,
        table.partitionNames()});
  }

  public String description() {
    return "tablefmt " + mode + (where == null ? "" : " where " + where);
  }

  /** Spark's text of a condition, with its values as SQL and not as JDBC wants them. */
  private static class Text extends V2ExpressionSQLBuilder {
    protected String visitLiteral(Literal literal) {
      return new org.apache.spark.sql.catalyst.expressions.Literal(
          literal.value(), literal.dataType()).sql();
    }
  }
}
