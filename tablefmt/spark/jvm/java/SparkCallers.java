package tablefmt;

/**
 * Access to Spark's internals: decisions by the calling method. Spark calls the same method of a
 * table, a relation or a source from several places, without an argument that distinguishes them.
 * So the decision uses the methods on this thread's stack.
 *
 * Each decision is one method here, and its comment says what happens if Spark renamed the caller.
 * The check at register compares the names with Spark's classes (spark_internals.py).
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
   * Returns true if the caller is df.write.saveAsTable and not REPLACE TABLE. saveAsTable keeps the
   * table's properties and constraints.
   * If the caller is not recognised, saveAsTable replaces the properties and constraints too.
   */
  static boolean isSave() {
    return isCalledBy(CLASSIC + "DataFrameWriter", null);
  }

  /**
   * Returns true if the caller is df.writeStream, whose sink is always ours.
   * If the caller is not recognised, a stream into a catalog table reads the catalog's entry again
   * and loses its storage options. A stream into a path on a store that Spark cannot read is
   * refused.
   */
  static boolean isStreamWriter() {
    return isCalledBy(CLASSIC + "DataStreamWriter", null);
  }

  /**
   * Returns true if df.writeStream.toTable creates the current sink.
   * If the caller is not recognised, the sink of a catalog table lacks its storage options.
   */
  static boolean isStreamToTable() {
    return isCalledBy(CLASSIC + "DataStreamWriter", "writeToV1Table");
  }

  /**
   * Returns true if INSERT asks for the partition columns of a relation. It would write its own
   * files into the folder of a relation with partition columns.
   * If the caller is not recognised, INSERT into a view of a partitioned table is refused for its
   * columns.
   *
   * @param caller the direct caller, because analysis calls this too often to inspect the stack
   */
  static boolean isInsertion(Class caller) {
    return caller.getName().startsWith(EXECUTION + "datasources.PreprocessTableInsertion");
  }

  /**
   * Returns true if a restarted query requests its last batch again, which is already committed.
   * If the caller is not recognised, the batch is planned again and not run. Planning fails if its
   * files no longer exist.
   */
  static boolean isRecovery() {
    return isCalledBy(EXECUTION + "streaming.runtime.MicroBatchExecution", "populateStartOffsets");
  }

  /**
   * Returns true if the caller is SHOW TBLPROPERTIES, which shows CHECKs as Delta does.
   * If the caller is not recognised, it does not show them.
   */
  static boolean showsProperties() {
    return isCalledBy(V2 + "ShowTablePropertiesExec", null);
  }

  /**
   * Returns true if SHOW TBLPROPERTIES, DESCRIBE or SHOW CREATE TABLE asks for generated columns.
   * If the caller is not recognised, it does not show them. Python computes them in any case.
   */
  static boolean showsGenerated() {
    return showsProperties() || showsConstraints();
  }

  /**
   * Returns true if DESCRIBE or SHOW CREATE TABLE asks for the CHECKs.
   * If the caller is not recognised, they do not show them. Python enforces them in any case.
   */
  static boolean showsConstraints() {
    return isCalledBy(V2 + "DescribeTableExec", null)
        || isCalledBy(V2 + "ShowCreateTableExec", null);
  }

  /**
   * @param kind a class; its inner classes and its companion object count too
   * @param method a part of the method's name; null: any method
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
