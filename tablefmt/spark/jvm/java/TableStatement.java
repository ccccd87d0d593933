package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructType;

/**
 * A statement on a table as a whole. Python executes it and returns its result rows.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class TableStatement extends SaveIntoDataSourceCommand {
  private static final scala.collection.immutable.Map NO_OPTIONS =
      (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();

  private final String text;
  private final String described;
  private final scala.collection.immutable.Seq columns;

  /**
   * @param described the statement for Python when it runs: see statement_verbs.py
   * @param columns the columns of the result, as a StructType in JSON
   */
  TableStatement(String text, String described, String columns) {
    super(new OneRowRelation(), new DefaultSource(), NO_OPTIONS, SaveMode.Append);
    this.text = text;
    this.described = described;
    this.columns =
        DataTypeUtils$.MODULE$.toAttributes((StructType) DataType$.MODULE$.fromJson(columns));
  }

  public scala.collection.immutable.Seq output() {
    return columns;
  }

  public scala.collection.immutable.Seq run(SparkSession session) {
    JsonNode entry = (JsonNode) Messages.answer("statement", described).get("entry");
    if (entry != null) {
      ((SessionCatalog) SparkFields.ownCatalog((org.apache.spark.sql.classic.SparkSession) session))
          .makeClone(entry, described);
    }
    Dataset rows = (Dataset) Bridge.call("maintain", new Object[] {session, described});
    return ScalaValues.seq((Object[]) rows.collect());
  }

  // Immutable. Spark's copy would need a constructor that this class does not have.
  public org.apache.spark.sql.catalyst.plans.logical.LogicalPlan clone() {
    return this;
  }

  public scala.collection.immutable.Seq innerChildren() {
    return ScalaValues.seq(new Object[0]);
  }

  public String nodeName() {
    return "tablefmt statement";
  }

  public String simpleString(int fields) {
    return "tablefmt " + text.trim();
  }
}
