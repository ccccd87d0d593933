package tablefmt;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/**
 * A table that can neither be read nor written. Spark requires a table in places where it then uses
 * another interface. SQL in a session that is not registered sees this table; its name says what to
 * do.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class PlaceholderTable implements Table {
  private final StructType schema;
  private final Transform[] partitioning;

  public PlaceholderTable(StructType schema, Transform[] partitioning) {
    this.schema = schema;
    this.partitioning = partitioning;
  }

  public String name() {
    return "tablefmt, in a session without tablefmt.spark.register(spark)";
  }

  public StructType schema() {
    return schema;
  }

  public Transform[] partitioning() {
    return partitioning;
  }

  public Set capabilities() {
    return new HashSet();
  }
}
