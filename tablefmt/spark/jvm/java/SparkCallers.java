package tablefmt;

/**
 * Seam: decisions by who calls. Spark asks a table, a relation or a source the same question from
 * several places, and hands nothing over by which the places differ. So the answer goes by the
 * methods on this thread's stack.
 *
 * Each decision is one method here. It says what happens where Spark has renamed the caller; the
 * check at register compares the names with Spark's classes (internals.py), and
 * tests/spark/jvm/test_callers.py runs each decision on every supported Spark.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class SparkCallers {
  private static final String EXECUTION = "org.apache.spark.sql.execution.";
  private static final String V2 = EXECUTION + "datasources.v2.";
  private static final String CLASSIC = "org.apache.spark.sql.classic.";

  private SparkCallers() {}

  /**
   * Whether df.write.saveAsTable asks, which keeps what the rows do not say, and not REPLACE TABLE.
   * Unknown: saveAsTable replaces the table's properties and constraints too.
   */
  static boolean isSave() {
    return isCalledBy(CLASSIC + "DataFrameWriter", null);
  }

  /**
   * Whether df.writeStream asks, whose sink is always ours.
   * Unknown: a stream into a table of the catalog reads the catalog's entry anew, and loses the
   * options of its storage; by path on a store that Spark does not read, it is refused.
   */
  static boolean isStreamWriter() {
    return isCalledBy(CLASSIC + "DataStreamWriter", null);
  }

  /**
   * Whether df.writeStream.toTable makes the sink that is made now.
   * Unknown: the sink of a table of the catalog does without the options of its storage.
   */
  static boolean isStreamToTable() {
    return isCalledBy(CLASSIC + "DataStreamWriter", "writeToV1Table");
  }

  /**
   * Whether INSERT asks for the partition columns of a relation: it would put files of its own into
   * the folder of a relation that has some.
   * Unknown: INSERT into a view of a partitioned table is refused for its columns.
   *
   * @param caller of the method that is asked: analysis asks it too often for a look at the stack
   */
  static boolean isInsertion(Class caller) {
    return caller.getName().startsWith(EXECUTION + "datasources.PreprocessTableInsertion");
  }

  /**
   * Whether a query that starts again asks once more for its last batch, which is committed.
   * Unknown: the batch is planned again and not run, which fails where its files are gone.
   */
  static boolean isRecovery() {
    return isCalledBy(EXECUTION + "streaming.runtime.MicroBatchExecution", "populateStartOffsets");
  }

  /**
   * Whether SHOW TBLPROPERTIES asks, which shows CHECKs as Delta does.
   * Unknown: it does not show them.
   */
  static boolean showsProperties() {
    return isCalledBy(V2 + "ShowTablePropertiesExec", null);
  }

  /**
   * Whether DESCRIBE or SHOW CREATE TABLE asks for the CHECKs.
   * Unknown: they do not show them. Python enforces them in any case.
   */
  static boolean showsConstraints() {
    return isCalledBy(V2 + "DescribeTableExec", null)
        || isCalledBy(V2 + "ShowCreateTableExec", null);
  }

  /**
   * @param kind a class, whose own inner classes and object count too
   * @param method whose name begins so; null: any
   */
  private static boolean isCalledBy(String kind, String method) {
    StackTraceElement[] callers = Thread.currentThread().getStackTrace();
    for (int i = 0; i < callers.length; i++) {
      String name = callers[i].getClassName();
      if ((name.equals(kind) || name.startsWith(kind + "$"))
          && (method == null || callers[i].getMethodName().contains(method))) {
        return true;
      }
    }
    return false;
  }
}
