"""Operations of Delta Lake's documentation for Spark (docs.delta.io)."""

from __future__ import annotations

from tests.compat.documented.operation import (
    ORDERS,
    Documentation,
    Refused,
    SameError,
    SparkError,
    python,
    read_stream,
    sql,
    write_stream,
)

UPDATED = [(1, "EU", 10.0), (2, "US", 25.0), (3, "EU", 30.0), (4, "US", 40.0)]
MERGED = [*UPDATED, (5, "EU", 50.0)]
LAST = [(4, "US", 40.0, "insert", 2)]
NEW = [(7, "EU", 70.0)]

QUICK_START = (
    sql(
        "create by path from a query",
        "CREATE TABLE delta.`/data/new` USING delta AS SELECT col1 AS id FROM VALUES 0, 1, 2;"
        "SELECT * FROM delta.`/data/new`",
        [(0,), (1,), (2,)],
    ),
    python(
        "write a DataFrame",
        """
spark.range(3).write.format("delta").save("/data/new")
spark.read.format("delta").load("/data/new")""",
        [(0,), (1,), (2,)],
    ),
    sql("read by path", "SELECT * FROM delta.`/data/orders`", ORDERS),
    sql(
        "overwrite by path",
        "INSERT OVERWRITE delta.`/data/orders` SELECT 7, 'EU', 70.0;"
        "SELECT * FROM delta.`/data/orders`",
        NEW,
    ),
    python(
        "overwrite with a DataFrame",
        """
spark.range(2).write.format("delta").save("/data/new")
spark.range(5, 7).write.format("delta").mode("overwrite").save("/data/new")
spark.read.format("delta").load("/data/new")""",
        [(5,), (6,)],
    ),
    sql(
        "update by path",
        "UPDATE delta.`/data/orders` SET id = id + 100 WHERE id % 2 == 0;"
        "SELECT id FROM delta.`/data/orders`",
        [(1,), (3,), (102,), (104,)],
    ),
    sql(
        "delete by path",
        "DELETE FROM delta.`/data/orders` WHERE id % 2 == 0; SELECT id FROM orders",
        [(1,), (3,)],
    ),
    sql(
        "merge by path",
        "MERGE INTO delta.`/data/orders` AS old USING updates AS new ON old.id = new.id "
        "WHEN MATCHED THEN UPDATE SET amount = new.amount "
        "WHEN NOT MATCHED THEN INSERT (id, region, amount) VALUES (new.id, new.region, new.amount);"
        "SELECT * FROM orders",
        MERGED,
    ),
    python(
        "update, delete and merge with DeltaTable",
        """
from delta.tables import *
from pyspark.sql.functions import *
table = DeltaTable.forPath(spark, "/data/orders")
table.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
table.delete(condition=expr("id % 2 == 0"))
new = spark.range(0, 4)
table.alias("old").merge(new.alias("new"), "old.id = new.id") \\
    .whenMatchedUpdate(set={"id": col("new.id")}) \\
    .whenNotMatchedInsert(values={"id": col("new.id")}) \\
    .execute()
table.toDF().select("id")""",
        [(0,), (1,), (2,), (3,)],
    ),
    sql(
        "the version of a creation",
        "SELECT * FROM delta.`/data/orders` VERSION AS OF 0",
        Refused("version 1"),
    ),
    python(
        "the first version of a DataFrame",
        """
spark.range(2).write.format("delta").save("/data/new")
spark.range(9, 10).write.format("delta").mode("overwrite").save("/data/new")
spark.read.format("delta").option("versionAsOf", 0).load("/data/new").count()""",
        Refused("version 1"),
    ),
    python(
        "write a stream",
        """
frame = spark.readStream.schema("id BIGINT").parquet("/data/parquet")
query = frame.writeStream.format("delta").option("checkpointLocation", "/data/checkpoint") \\
    .trigger(availableNow=True).start("/data/new")
query.awaitTermination()
spark.read.format("delta").load("/data/new")""",
        [(1,), (2,), (3,)],
    ),
    read_stream("read a stream", 'format("delta").load("/data/orders")', ORDERS),
    python(
        "a session with the extension",
        """
from delta import *
builder = spark.builder.appName("shop")
configure_spark_with_delta_pip(builder).getOrCreate().range(1)""",
        [(0,)],
    ),
)

BATCH = (
    sql(
        "create if it is not there",
        "CREATE TABLE IF NOT EXISTS made (id INT, name STRING COMMENT 'full') USING delta;"
        "SELECT * FROM made",
        [],
    ),
    sql(
        "create or replace",
        "CREATE OR REPLACE TABLE orders (n INT) USING delta; SELECT * FROM orders",
        [],
    ),
    sql(
        "create or replace by path",
        "CREATE OR REPLACE TABLE delta.`/data/orders` (n INT) USING delta;"
        "SELECT * FROM delta.`/data/orders`",
        [],
    ),
    python(
        "save as a table",
        """
spark.table("updates").write.format("delta").saveAsTable("made")
spark.table("made").count()""",
        2,
    ),
    python(
        "the builder by name",
        """
from delta.tables import *
DeltaTable.createIfNotExists(spark).tableName("made").addColumn("id", "INT") \\
    .addColumn("name", "STRING", comment="full").execute()
spark.table("made").columns""",
        ["id", "name"],
    ),
    python(
        "the builder by path, with a property",
        """
from delta.tables import *
DeltaTable.createOrReplace(spark).addColumn("id", "INT").addColumn("name", "STRING") \\
    .property("description", "people").location("/data/new").execute().toDF().columns""",
        ["id", "name"],
    ),
    sql(
        "partitioned",
        "CREATE TABLE made (id INT, region STRING) USING delta PARTITIONED BY (region);"
        "INSERT INTO made VALUES (1, 'EU'); SHOW PARTITIONS made",
        [("region=EU",)],
    ),
    python(
        "partitioned DataFrame",
        """
spark.table("updates").write.format("delta").partitionBy("region").saveAsTable("made")
spark.sql("SHOW PARTITIONS made")""",
        [("region=EU",), ("region=US",)],
    ),
    python(
        "partitioned by the builder",
        """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("id", "INT") \\
    .addColumn("region", "STRING").partitionedBy("region").execute()
spark.sql("DESCRIBE DETAIL made").select("partitionColumns").first()[0]""",
        ["region"],
    ),
    sql("is there a partition", "SELECT COUNT(*) > 0 FROM sales WHERE region = 'EU'", [(True,)]),
    sql(
        "a table at a location",
        "CREATE TABLE made USING delta LOCATION '/data/orders';SELECT * FROM made",
        ORDERS,
    ),
    python(
        "a generated column",
        """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("at", "TIMESTAMP_NTZ") \\
    .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)").partitionedBy("day").execute()
spark.sql("INSERT INTO made (at) VALUES (TIMESTAMP_NTZ '2026-01-02 03:04:05')")
spark.sql("SELECT CAST(day AS STRING) FROM made")""",
        [("2026-01-02",)],
    ),
    python(
        "generated columns of parts of a time",
        """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("at", "TIMESTAMP_NTZ") \\
    .addColumn("year", "INT", generatedAlwaysAs="YEAR(at)") \\
    .addColumn("month", "INT", generatedAlwaysAs="MONTH(at)") \\
    .addColumn("day", "INT", generatedAlwaysAs="DAY(at)") \\
    .partitionedBy("year", "month", "day").execute()
spark.sql("INSERT INTO made (at) VALUES (TIMESTAMP_NTZ '2026-01-02 03:04:05')")
spark.sql("SELECT year, month, day FROM made WHERE at >= '2026-01-01'")""",
        [(2026, 1, 2)],
    ),
    python(
        "a generated column of a session's time",
        """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("at", "TIMESTAMP") \\
    .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)").execute()
spark.sql("INSERT INTO made (at) VALUES (TIMESTAMP '2026-01-02 12:04:05')")
spark.sql("SELECT CAST(day AS STRING) FROM made")""",
        [("2026-01-02",)],
    ),
    python(
        "identity columns",
        """
from delta.tables import DeltaTable, IdentityGenerator
from pyspark.sql.types import LongType
DeltaTable.create(spark).tableName("made") \\
    .addColumn("a", dataType=LongType(), generatedAlwaysAs=IdentityGenerator()) \\
    .addColumn("b", dataType=LongType(), generatedByDefaultAs=IdentityGenerator(start=-1, step=1)) \\
    .addColumn("v", "STRING").execute()
spark.sql("INSERT INTO made (v) VALUES ('x')")
spark.table("made")""",
        [(1, -1, "x")],
    ),
    python(
        "an identity column that takes values",
        """
from delta.tables import DeltaTable, IdentityGenerator
DeltaTable.create(spark).tableName("made") \\
    .addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator(start=5, step=1)) \\
    .addColumn("region", "STRING").execute()
spark.table("updates").select("id", "region").write.format("delta").mode("append").saveAsTable("made")
spark.table("updates").where("id = 2").select("region").write.format("delta").mode("append") \\
    .saveAsTable("made")
spark.table("made").count()""",
        3,
    ),
    sql(
        "default properties",
        "SET spark.databricks.delta.properties.defaults.appendOnly = true;"
        "CREATE TABLE made (id INT) USING delta; SHOW TBLPROPERTIES made ('appendOnly')",
        [("appendOnly", "true")],
    ),
    sql("read by name", "SELECT * FROM orders", ORDERS),
    python("read by path", 'spark.read.format("delta").load("/data/orders")', ORDERS),
    sql("time travel by a version", "SELECT * FROM orders VERSION AS OF 1", ORDERS[:3]),
    sql(
        "time travel by a version and a path",
        "SELECT * FROM delta.`/data/orders` VERSION AS OF 1",
        ORDERS[:3],
    ),
    sql("time travel by a time", "SELECT * FROM orders TIMESTAMP AS OF 'TIME_1'", ORDERS[:3]),
    sql(
        "time travel by an expression",
        "SELECT * FROM orders TIMESTAMP AS OF current_timestamp()",
        ORDERS,
    ),
    python(
        "the option versionAsOf",
        'spark.read.format("delta").option("versionAsOf", 1).load("/data/orders")',
        ORDERS[:3],
    ),
    python(
        "the option timestampAsOf",
        'spark.read.format("delta").option("timestampAsOf", "TIME_1").load("/data/orders")',
        ORDERS[:3],
    ),
    python(
        "the newest version of the history",
        """
history = spark.sql("DESCRIBE HISTORY delta.`/data/orders`")
newest = history.selectExpr("max(version)").collect()
spark.read.format("delta").option("versionAsOf", newest[0][0]).load("/data/orders")""",
        ORDERS,
    ),
    python(
        "merge an older version",
        """
spark.sql("DELETE FROM orders WHERE id = 2")
spark.read.format("delta").option("versionAsOf", 2).load("/data/orders") \\
    .createOrReplaceTempView("before")
spark.sql('''MERGE INTO delta.`/data/orders` t USING before s ON s.id = t.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *''')
spark.table("orders")""",
        ORDERS,
    ),
    sql(
        "append by SQL",
        "INSERT INTO orders SELECT 7, 'EU', 70.0; SELECT * FROM orders",
        [*ORDERS, *NEW],
    ),
    python(
        "append by path",
        """
spark.table("updates").write.format("delta").mode("append").save("/data/orders")
spark.table("orders").count()""",
        6,
    ),
    python(
        "append by name",
        """
spark.table("updates").write.format("delta").mode("append").saveAsTable("orders")
spark.table("orders").count()""",
        6,
    ),
    sql(
        "overwrite by SQL",
        "INSERT OVERWRITE TABLE orders SELECT 7, 'EU', 70.0; SELECT * FROM orders",
        NEW,
    ),
    python(
        "overwrite by name",
        """
spark.table("updates").write.format("delta").mode("overwrite").saveAsTable("orders")
spark.table("orders").count()""",
        2,
    ),
    sql(
        "replace where",
        "INSERT INTO TABLE orders REPLACE WHERE region = 'EU' SELECT 7, 'EU', 70.0;"
        "SELECT * FROM orders",
        [(2, "US", 20.0), (4, "US", 40.0), *NEW],
    ),
    python(
        "the option replaceWhere",
        """
spark.table("updates").where("region = 'EU'").write.format("delta").mode("overwrite") \\
    .option("replaceWhere", "region = 'EU' AND amount >= 0").save("/data/orders")
spark.table("orders").select("id")""",
        [(2,), (4,), (5,)],
    ),
    python(
        "replaceWhere without its check",
        """
spark.conf.set("spark.databricks.delta.replaceWhere.constraintCheck.enabled", False)
spark.table("updates").write.format("delta").mode("overwrite") \\
    .option("replaceWhere", "region = 'EU'").save("/data/orders")
spark.table("orders")""",
        [(2, "US", 20.0), (2, "US", 25.0), (4, "US", 40.0), (5, "EU", 50.0)],
    ),
    python(
        "replaceWhere of partitions alone",
        """
spark.conf.set("spark.databricks.delta.replaceWhere.dataColumns.enabled", False)
spark.table("updates").where("id = 5").write.format("delta").mode("overwrite") \\
    .option("replaceWhere", "region = 'EU'").save("/data/sales")
spark.table("sales")""",
        [(2, "US", 20.0), (4, "US", 40.0), (5, "EU", 50.0)],
    ),
    python(
        "replaceUsing",
        """
spark.table("updates").where("id = 5").write.format("delta").mode("overwrite") \\
    .option("replaceUsing", "region").saveAsTable("orders")
spark.table("orders")""",
        [(2, "US", 20.0), (4, "US", 40.0), (5, "EU", 50.0)],
    ),
    python(
        "replaceOn",
        """
spark.table("updates").alias("s").write.format("delta").mode("overwrite") \\
    .option("targetAlias", "t").option("replaceOn", "s.id <=> t.id").saveAsTable("orders")
spark.table("orders")""",
        MERGED,
    ),
    sql(
        "overwrite of partitions by SQL",
        "SET spark.sql.sources.partitionOverwriteMode = dynamic;"
        "INSERT OVERWRITE TABLE sales SELECT 7, 'EU', 70.0; SELECT id FROM sales",
        [(2,), (4,), (7,)],
    ),
    python(
        "overwrite of partitions by an option",
        """
spark.table("updates").where("id = 5").write.format("delta").mode("overwrite") \\
    .option("partitionOverwriteMode", "dynamic").saveAsTable("sales")
spark.table("sales").select("id")""",
        [(2,), (4,), (5,)],
    ),
    python(
        "rows of a file",
        """
spark.range(4).repartition(1).write.format("delta").option("maxRecordsPerFile", "2").save("/data/new")
spark.sql("DESCRIBE DETAIL delta.`/data/new`").first().numFiles""",
        2,
    ),
    python(
        "a write that is applied once",
        """
for _ in range(2):
    spark.table("updates").write.format("delta").mode("append").option("txnAppId", "job") \\
        .option("txnVersion", 7).save("/data/orders")
spark.table("orders").count()""",
        6,
    ),
    python(
        "a write that is applied once, by settings",
        """
spark.conf.set("spark.databricks.delta.write.txnAppId", "job")
spark.conf.set("spark.databricks.delta.write.txnVersion", "7")
for _ in range(2):
    spark.table("updates").write.format("delta").mode("append").save("/data/orders")
spark.table("orders").count()""",
        6,
    ),
    python(
        "metadata of a commit",
        """
spark.table("updates").write.format("delta").mode("append").option("userMetadata", "mended") \\
    .save("/data/orders")
spark.sql("DESCRIBE HISTORY orders LIMIT 1").select("userMetadata").first()[0]""",
        '{"userMetadata":"mended"}',
    ),
    python(
        "metadata of a commit, by a setting",
        """
spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "mended")
spark.sql("INSERT OVERWRITE orders SELECT * FROM updates")
spark.sql("DELETE FROM orders WHERE id = 5")
spark.sql("DESCRIBE HISTORY orders LIMIT 2").select("operation", "userMetadata")""",
        [("DELETE", '{"userMetadata":"mended"}'), ("OVERWRITE", '{"userMetadata":"mended"}')],
    ),
    sql(
        "add columns",
        "ALTER TABLE orders ADD COLUMNS (note STRING COMMENT 'free' AFTER id, n INT);"
        "SELECT * FROM orders WHERE id = 1",
        [(1, None, "EU", 10.0, None)],
    ),
    sql(
        "add a nested column",
        "CREATE TABLE made (a STRING, b STRUCT<x: INT, y: INT>) USING delta;"
        "ALTER TABLE made ADD COLUMNS (b.z INT AFTER x); INSERT INTO made VALUES ('p', (1, 2, 3));"
        "SELECT b.z FROM made",
        [(2,)],
    ),
    sql(
        "change a column's place and comment",
        "ALTER TABLE orders ALTER COLUMN amount COMMENT 'EUR'; ALTER TABLE orders ALTER COLUMN amount FIRST;"
        "SELECT * FROM orders WHERE id = 1",
        [(10.0, 1, "EU")],
    ),
    sql(
        "CHANGE COLUMN",
        "ALTER TABLE orders CHANGE COLUMN amount amount DOUBLE COMMENT 'EUR';SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "replace columns",
        "CREATE TABLE made (a STRING, b STRUCT<x: STRING, y: STRING>) USING delta;"
        "ALTER TABLE made REPLACE COLUMNS (c STRING, b STRUCT<y: STRING, z: STRING, x: STRING>, a STRING);"
        "INSERT INTO made VALUES ('c', ('y', 'z', 'x'), 'a'); SELECT c, b.z, a FROM made",
        Refused("cannot become"),
    ),
    sql(
        "rename a column",
        "ALTER TABLE orders RENAME COLUMN amount TO price;SELECT sum(price) FROM orders",
        [(100.0,)],
    ),
    sql(
        "rename a nested column",
        "CREATE TABLE made (b STRUCT<x: INT, y: INT>) USING delta;"
        "ALTER TABLE made RENAME COLUMN b.x TO z; INSERT INTO made SELECT struct(1, 2); SELECT b.z FROM made",
        [(1,)],
    ),
    sql(
        "drop a column",
        "ALTER TABLE orders DROP COLUMN amount; SELECT * FROM orders WHERE id = 1",
        [(1, "EU")],
    ),
    sql(
        "drop columns",
        "ALTER TABLE orders DROP COLUMNS (amount, region); SELECT * FROM orders",
        [(1,), (2,), (3,), (4,)],
    ),
    python(
        "change a type by rewriting",
        """
from pyspark.sql.functions import col
spark.read.table("orders").withColumn("amount", col("amount").cast("int")).write.format("delta") \\
    .mode("overwrite").option("overwriteSchema", "true").saveAsTable("orders")
spark.table("orders").schema["amount"].dataType.simpleString()""",
        "int",
    ),
    python(
        "change a name by rewriting",
        """
spark.read.table("orders").withColumnRenamed("amount", "price").write.format("delta") \\
    .mode("overwrite").option("overwriteSchema", "true").saveAsTable("orders")
spark.table("orders").columns""",
        ["id", "region", "price"],
    ),
    sql(
        "evolve by INSERT",
        "CREATE TEMPORARY VIEW wide AS SELECT 7L AS id, 'EU' AS region, 70D AS amount, 'x' AS note;"
        "INSERT WITH SCHEMA EVOLUTION INTO orders SELECT * FROM wide;"
        "SELECT * FROM orders WHERE id = 7",
        [(7, "EU", 70.0, "x")],
    ),
    python(
        "evolve by an option",
        """
spark.sql("SELECT 7L AS id, 'EU' AS region, 70D AS amount, 'x' AS note").write \\
    .format("delta").option("mergeSchema", "true").mode("append").saveAsTable("orders")
spark.table("orders").where("id = 7")""",
        [(7, "EU", 70.0, "x")],
    ),
    python(
        "evolve by a setting",
        """
spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", True)
spark.sql("SELECT 7L AS id, 'EU' AS region, 70D AS amount, 'x' AS note").write \\
    .format("delta").mode("append").saveAsTable("orders")
spark.table("orders").where("id = 7")""",
        [(7, "EU", 70.0, "x")],
    ),
    sql(
        "a view over a table",
        "CREATE TEMPORARY VIEW seen AS SELECT id, region FROM orders; SELECT * FROM seen WHERE id = 1",
        [(1, "EU")],
    ),
    sql(
        "properties",
        "ALTER TABLE orders SET TBLPROPERTIES ('department' = 'sales', 'delta.appendOnly' = 'true');"
        "SHOW TBLPROPERTIES orders ('department')",
        [("department", "sales")],
    ),
    sql(
        "an append-only table",
        "ALTER TABLE orders SET TBLPROPERTIES ('delta.appendOnly' = 'true');"
        "DELETE FROM orders WHERE id = 1",
        SameError("appendOnly"),
    ),
)

UPDATE = (
    sql(
        "delete by a condition",
        "DELETE FROM orders WHERE amount < 15; SELECT id FROM orders",
        [(2,), (3,), (4,)],
    ),
    python(
        "delete with text and a Column",
        """
from delta.tables import *
from pyspark.sql.functions import *
table = DeltaTable.forPath(spark, "/data/orders")
table.delete("amount < 15")
table.delete(col("amount") < 25)
table.toDF().select("id")""",
        [(3,), (4,)],
    ),
    sql(
        "update by a condition",
        "UPDATE orders SET region = 'Europe' WHERE region = 'EU';"
        "SELECT DISTINCT region FROM orders",
        [("Europe",), ("US",)],
    ),
    python(
        "update with text and a Column",
        """
from delta.tables import *
from pyspark.sql.functions import *
table = DeltaTable.forName(spark, "orders")
table.update(condition="region = 'EU'", set={"region": "'Europe'"})
table.update(condition=col("region") == "US", set={"region": lit("America")})
table.toDF().select("region").distinct()""",
        [("America",), ("Europe",)],
    ),
    sql(
        "merge",
        "MERGE INTO orders USING updates ON orders.id = updates.id "
        "WHEN MATCHED THEN UPDATE SET id = updates.id, region = updates.region, amount = updates.amount "
        "WHEN NOT MATCHED THEN INSERT (id, region, amount) "
        "VALUES (updates.id, updates.region, updates.amount); SELECT * FROM orders",
        MERGED,
    ),
    python(
        "merge with the builder",
        """
from delta.tables import *
table = DeltaTable.forPath(spark, "/data/orders")
table.alias("orders").merge(spark.table("updates").alias("updates"), "orders.id = updates.id") \\
    .whenMatchedUpdate(set={"amount": "updates.amount"}) \\
    .whenNotMatchedInsert(values={"id": "updates.id", "region": "updates.region",
                                  "amount": "updates.amount"}).execute()
table.toDF()""",
        MERGED,
    ),
    sql(
        "merge: all columns, and the rest",
        "MERGE INTO orders t USING updates s ON s.id = t.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE; SELECT * FROM orders",
        [(2, "US", 25.0), (5, "EU", 50.0)],
    ),
    python(
        "merge: all columns, and the rest, with the builder",
        """
from delta.tables import *
table = DeltaTable.forName(spark, "orders")
table.alias("t").merge(spark.table("updates").alias("s"), "s.id = t.id").whenMatchedUpdateAll() \\
    .whenNotMatchedInsertAll().whenNotMatchedBySourceDelete().execute()
table.toDF()""",
        [(2, "US", 25.0), (5, "EU", 50.0)],
    ),
    python(
        "merge: update the rest",
        """
from delta.tables import *
table = DeltaTable.forName(spark, "orders")
table.alias("t").merge(spark.table("updates").alias("s"), "s.id = t.id") \\
    .whenMatchedUpdate(set={"t.amount": "s.amount"}) \\
    .whenNotMatchedInsert(values={"t.id": "s.id", "t.region": "'new'"}) \\
    .whenNotMatchedBySourceUpdate(condition="t.amount >= 30", set={"t.region": "'old'"}).execute()
table.toDF().select("id", "region")""",
        [(1, "EU"), (2, "US"), (3, "old"), (4, "old"), (5, "new")],
    ),
    sql(
        "merge: insert new rows only",
        "MERGE INTO orders USING updates ON orders.id = updates.id AND orders.amount > 1 "
        "WHEN NOT MATCHED AND updates.amount > 1 THEN INSERT *; SELECT count(*) FROM orders",
        [(5,)],
    ),
    python(
        "merge: insert new rows only, with the builder",
        """
from delta.tables import *
DeltaTable.forName(spark, "orders").alias("o").merge(spark.table("updates").alias("u"), "o.id = u.id") \\
    .whenNotMatchedInsertAll("u.amount > 1").execute()
spark.table("orders").count()""",
        5,
    ),
    python(
        "merge with schema evolution",
        """
from delta.tables import *
wide = spark.sql("SELECT 2L AS id, 'US' AS region, 25D AS amount, 'x' AS note")
DeltaTable.forName(spark, "orders").alias("o").merge(wide.alias("u"), "o.id = u.id") \\
    .withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
spark.table("orders").where("id = 2")""",
        [(2, "US", 25.0, "x")],
    ),
    sql(
        "merge with schema evolution in SQL",
        "MERGE WITH SCHEMA EVOLUTION INTO orders t USING (SELECT *, 'x' AS note FROM updates) s "
        "ON s.id = t.id WHEN MATCHED THEN UPDATE SET *; SELECT * FROM orders WHERE id = 2",
        [(2, "US", 25.0, "x")],
    ),
    python(
        "history of rows by two inserts for a change",
        """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("id", "INT").addColumn("city", "STRING") \\
    .addColumn("current", "BOOLEAN").addColumn("until", "STRING").execute()
spark.sql("INSERT INTO made VALUES (1, 'Oslo', true, null)")
table = DeltaTable.forName(spark, "made")
coming = spark.createDataFrame([(1, "Rome", "Monday"), (2, "Bonn", "Monday")], "id INT, city STRING, at STRING")
moved = coming.alias("u").join(table.toDF().alias("c"), "id") \\
    .where("c.current = true AND u.city <> c.city").selectExpr("NULL AS key", "u.*")
staged = moved.union(coming.selectExpr("id AS key", "*"))
table.alias("c").merge(staged.alias("s"), "c.id = key") \\
    .whenMatchedUpdate(condition="c.current = true AND c.city <> s.city",
                       set={"current": "false", "until": "s.at"}) \\
    .whenNotMatchedInsert(values={"id": "s.id", "city": "s.city", "current": "true", "until": "null"}) \\
    .execute()
spark.table("made").select("id", "city", "current")""",
        [(1, "Oslo", False), (1, "Rome", True), (2, "Bonn", True)],
    ),
    python(
        "changes into a table",
        """
from delta.tables import *
from pyspark.sql.functions import max
changes = spark.createDataFrame([(1, 1, "a", False), (1, 2, "b", True), (9, 1, "c", False)],
                                "id BIGINT, at INT, region STRING, gone BOOLEAN")
newest = changes.selectExpr("id", "struct(at, region, gone) AS other").groupBy("id") \\
    .agg(max("other").alias("last")).select("id", "last.*")
DeltaTable.forName(spark, "orders").alias("t").merge(newest.alias("s"), "s.id = t.id") \\
    .whenMatchedDelete(condition="s.gone = true") \\
    .whenMatchedUpdate(set={"region": "s.region"}) \\
    .whenNotMatchedInsert(condition="s.gone = false", values={"id": "s.id", "region": "s.region"}) \\
    .execute()
spark.table("orders").select("id")""",
        [(2,), (3,), (4,), (9,)],
    ),
    python(
        "upserts of a stream by foreachBatch",
        """
from delta.tables import *
table = DeltaTable.forPath(spark, "/data/orders")
def upsert(batch, number):
    table.alias("t").merge(batch.alias("s"), "s.id = t.id").whenMatchedDelete().execute()
query = spark.readStream.schema("id BIGINT").parquet("/data/parquet").writeStream \\
    .foreachBatch(upsert).option("checkpointLocation", "/data/checkpoint").outputMode("update") \\
    .trigger(availableNow=True).start()
query.awaitTermination()
spark.table("orders").select("id")""",
        [(4,)],
    ),
)

STREAMING = (
    read_stream("a table as a source, by name", 'table("orders")', ORDERS),
    read_stream(
        "a limit for each batch",
        'format("delta").option("maxFilesPerTrigger", 1).option("maxBytesPerTrigger", "1g").load("/data/orders")',
        ORDERS,
    ),
    read_stream(
        "from a version on",
        'format("delta").option("startingVersion", "2").load("/data/orders")',
        ORDERS[3:],
    ),
    read_stream(
        "from a time on",
        'format("delta").option("startingTimestamp", "TIME_2").load("/data/orders")',
        ORDERS[3:],
    ),
    read_stream(
        "without commits that change rows",
        'format("delta").option("skipChangeCommits", "true").option("startingVersion", 1).load("/data/orders")',
        ORDERS,
        before='spark.sql("DELETE FROM orders WHERE id = 1")',
    ),
    read_stream(
        "ignoreDeletes",
        'format("delta").option("ignoreDeletes", "true").option("startingVersion", 1).load("/data/sales")',
        [(1,), (2,), (3,), (4,)],
        rows='spark.table("seen").select("id")',
        before="""spark.sql("DELETE FROM sales WHERE region = 'EU'")""",
    ),
    read_stream(
        "ignoreChanges",
        'format("delta").option("ignoreChanges", "true").load("/data/orders")',
        Refused("skipChangeCommits"),
    ),
    read_stream(
        "the first snapshot in the order of event times",
        'format("delta").option("withEventTimeOrder", "true").load("/data/orders")',
        Refused("withEventTimeOrder", absent=True),
    ),
    write_stream(
        "append by path",
        'format("delta").outputMode("append")',
        'start("/data/new")',
        'spark.read.format("delta").load("/data/new")',
        [(1,), (2,), (3,)],
    ),
    write_stream(
        "append by name",
        'format("delta").outputMode("append")',
        'toTable("made")',
        'spark.table("made")',
        [(1,), (2,), (3,)],
    ),
    python(
        "complete mode",
        """
query = spark.readStream.format("delta").load("/data/orders").groupBy("region").count() \\
    .writeStream.format("delta").outputMode("complete") \\
    .option("checkpointLocation", "/data/checkpoint").trigger(availableNow=True).start("/data/new")
query.awaitTermination()
spark.read.format("delta").load("/data/new")""",
        [("EU", 2), ("US", 2)],
    ),
    python(
        "writes of foreachBatch that are applied once",
        """
def write(batch, number):
    for _ in range(2):
        batch.write.format("delta").mode("append").option("txnVersion", number) \\
            .option("txnAppId", "job").save("/data/new")
query = spark.readStream.schema("id BIGINT").parquet("/data/parquet").writeStream \\
    .foreachBatch(write).option("checkpointLocation", "/data/checkpoint") \\
    .trigger(availableNow=True).start()
query.awaitTermination()
spark.read.format("delta").load("/data/new")""",
        [(1,), (2,), (3,)],
    ),
    python(
        "a place that tracks the schema",
        """
query = spark.readStream.option("schemaTrackingLocation", "/data/checkpoint").table("orders") \\
    .writeStream.option("checkpointLocation", "/data/checkpoint").format("delta") \\
    .trigger(availableNow=True).toTable("made")
query.awaitTermination()""",
        Refused("schemaTrackingLocation"),
    ),
)

UTILITY = (
    sql("vacuum", "VACUUM orders; SELECT * FROM orders", ORDERS),
    sql("vacuum LITE", "VACUUM orders LITE; SELECT * FROM orders", ORDERS),
    sql("vacuum FULL", "VACUUM orders FULL; SELECT * FROM orders", ORDERS),
    sql("vacuum by a quoted path", "VACUUM '/data/orders'; SELECT * FROM orders", ORDERS),
    sql(
        "vacuum by path, with a retention",
        "VACUUM delta.`/data/orders` RETAIN 200 HOURS; SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "vacuum with a retention that is too short",
        "VACUUM orders RETAIN 1 HOURS",
        SameError("retentionDurationCheck"),
    ),
    sql(
        "vacuum with a short retention and the setting",
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false;"
        "VACUUM orders RETAIN 0 HOURS; SELECT * FROM orders",
        ORDERS,
    ),
    sql("vacuum without deletes", "VACUUM orders DRY RUN", []),
    sql(
        "vacuum by an inventory",
        "VACUUM orders USING INVENTORY updates",
        Refused("USING INVENTORY", absent=True),
    ),
    python(
        "vacuum with DeltaTable",
        """
from delta.tables import *
table = DeltaTable.forName(spark, "orders")
table.vacuum()
table.vacuum(200)
table.toDF()""",
        ORDERS,
    ),
    python(
        "history by name and path",
        """
first = spark.sql("DESCRIBE HISTORY orders").select("version", "operation")
again = spark.sql("DESCRIBE HISTORY '/data/orders'").select("version", "operation")
assert sorted(first.collect()) == sorted(again.collect())
first.union(spark.sql("DESCRIBE HISTORY delta.`/data/orders` LIMIT 1").select("version", "operation"))""",
        [(0, "CREATE TABLE"), (1, "WRITE"), (2, "WRITE"), (2, "WRITE")],
    ),
    python(
        "history with DeltaTable",
        """
from delta.tables import *
table = DeltaTable.forPath(spark, "/data/orders")
[table.history().count(), table.history(1).select("version").first()[0]]""",
        [3, 2],
    ),
    sql("partitions", "SHOW PARTITIONS sales", [("region=EU",), ("region=US",)]),
    sql("one partition", "SHOW PARTITIONS sales PARTITION (region = 'EU')", [("region=EU",)]),
    sql(
        "partitions by path",
        "SHOW PARTITIONS delta.`/data/sales`",
        [("region=EU",), ("region=US",)],
    ),
    python(
        "details by name and path",
        """
one, two = spark.sql("DESCRIBE DETAIL sales").first(), spark.sql("DESCRIBE DETAIL '/data/sales'").first()
[one.partitionColumns, one.numFiles, one.id == two.id, one.format]""",
        [["region"], 3, True, "tablefmt"],
    ),
    python(
        "details with DeltaTable",
        """
from delta.tables import *
DeltaTable.forName(spark, "orders").detail().select("numFiles").first()[0]""",
        2,
    ),
    sql(
        "a manifest for other engines",
        "GENERATE symlink_format_manifest FOR TABLE delta.`/data/orders`",
        Refused("export", absent=True),
    ),
    python(
        "a manifest with DeltaTable",
        """
from delta.tables import *
DeltaTable.forPath(spark, "/data/orders").generate("symlink_format_manifest")""",
        Refused("export", absent=True),
    ),
    sql(
        "convert Parquet",
        "CONVERT TO DELTA parquet.`/data/parquet`; SELECT * FROM delta.`/data/parquet`",
        [(1,), (2,), (3,)],
    ),
    sql(
        "convert Parquet without statistics",
        "CONVERT TO DELTA parquet.`/data/parquet` NO STATISTICS; SELECT * FROM delta.`/data/parquet`",
        [(1,), (2,), (3,)],
    ),
    sql(
        "convert partitioned Parquet",
        "CONVERT TO DELTA parquet.`/data/parts` PARTITIONED BY (day INT);"
        "SELECT * FROM delta.`/data/parts`",
        [(1, 5), (2, 6)],
    ),
    sql(
        "convert partitioned Parquet without statistics",
        "CONVERT TO DELTA parquet.`/data/parts` NO STATISTICS PARTITIONED BY (day INT);"
        "SELECT * FROM delta.`/data/parts`",
        [(1, 5), (2, 6)],
    ),
    python(
        "convert with DeltaTable",
        """
from delta.tables import *
DeltaTable.convertToDelta(spark, "parquet.`/data/parquet`").toDF()""",
        [(1,), (2,), (3,)],
    ),
    python(
        "convert partitioned Parquet with DeltaTable",
        """
from delta.tables import *
DeltaTable.convertToDelta(spark, "parquet.`/data/parts`", "day int").toDF()""",
        [(1, 5), (2, 6)],
    ),
    sql(
        "restore by a version",
        "RESTORE TABLE orders TO VERSION AS OF 1; SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql(
        "restore by a time and a path",
        "RESTORE TABLE delta.`/data/orders` TO TIMESTAMP AS OF 'TIME_1'; SELECT * FROM orders",
        ORDERS[:3],
    ),
    python(
        "restore with DeltaTable",
        """
from delta.tables import *
table = DeltaTable.forName(spark, "orders")
table.restoreToVersion(1)
table.toDF()""",
        ORDERS[:3],
    ),
    python(
        "restore by a time with DeltaTable",
        """
from delta.tables import *
table = DeltaTable.forPath(spark, "/data/orders")
table.restoreToTimestamp("TIME_1")
table.toDF()""",
        ORDERS[:3],
    ),
    python(
        "restore a creation with DeltaTable",
        """
from delta.tables import *
DeltaTable.forPath(spark, "/data/orders").restoreToVersion(0)""",
        Refused("version 1"),
    ),
    python(
        "shallow clone by path",
        """
spark.sql("CREATE TABLE delta.`/data/new` SHALLOW CLONE delta.`/data/orders`")
spark.read.format("delta").option("storage.import_roots", "/data/orders").load("/data/new")""",
        ORDERS,
    ),
    sql(
        "shallow clone that replaces",
        "CREATE TABLE made USING delta AS SELECT 1 AS n;"
        "CREATE OR REPLACE TABLE made SHALLOW CLONE orders; SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "shallow clone if it is not there",
        "CREATE TABLE IF NOT EXISTS orders SHALLOW CLONE sales; SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "shallow clone of a path",
        "CREATE TABLE made SHALLOW CLONE delta.`/data/orders`;SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "shallow clone of a version",
        "CREATE TABLE made SHALLOW CLONE delta.`/data/orders` VERSION AS OF 1; SELECT * FROM made",
        ORDERS[:3],
    ),
    sql(
        "shallow clone of a time",
        "CREATE TABLE made SHALLOW CLONE delta.`/data/orders` TIMESTAMP AS OF 'TIME_1';"
        "SELECT * FROM made",
        ORDERS[:3],
    ),
    sql(
        "shallow clone of a time by an expression",
        "CREATE TABLE made SHALLOW CLONE orders TIMESTAMP AS OF current_timestamp(); SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "an experiment on a clone",
        "CREATE OR REPLACE TABLE made SHALLOW CLONE orders;"
        "UPDATE made SET amount = 0 WHERE id = 1; MERGE INTO orders USING made ON made.id <=> orders.id "
        "WHEN MATCHED AND made.id = 1 THEN UPDATE SET *; DROP TABLE made;"
        "SELECT amount FROM orders WHERE id = 1",
        [(0.0,)],
    ),
    sql(
        "a clone with properties",
        "CREATE OR REPLACE TABLE made SHALLOW CLONE orders TBLPROPERTIES "
        "(delta.logRetentionDuration = '3650 days', delta.deletedFileRetentionDuration = '3650 days') "
        "LOCATION '/data/new'; SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "a clone of Parquet",
        "CREATE OR REPLACE TABLE made SHALLOW CLONE parquet.`/data/parquet`",
        Refused("CONVERT TO tablefmt", absent=True),
    ),
)

CONSTRAINTS = (
    sql(
        "NOT NULL",
        "CREATE TABLE made (id INT NOT NULL, name STRING NOT NULL) USING delta;"
        "ALTER TABLE made CHANGE COLUMN name DROP NOT NULL; INSERT INTO made VALUES (1, null);"
        "SELECT * FROM made",
        [(1, None)],
    ),
    sql(
        "NOT NULL is enforced",
        "CREATE TABLE made (id INT NOT NULL) USING delta;INSERT INTO made VALUES (null)",
        SameError("id"),
    ),
    sql(
        "CHECK",
        "ALTER TABLE orders ADD CONSTRAINT small CHECK (amount < 1000);"
        "ALTER TABLE orders DROP CONSTRAINT small; SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "CHECK is enforced",
        "ALTER TABLE orders ADD CONSTRAINT small CHECK (amount < 1000 and id > 0);"
        "INSERT INTO orders VALUES (9, 'EU', 2000.0)",
        SameError("small"),
    ),
    python(
        "where constraints are shown",
        """
spark.sql("ALTER TABLE orders ADD CONSTRAINT small CHECK (amount < 1000)")
[row.value for row in spark.sql("SHOW TBLPROPERTIES orders").collect() if "small" in row.key]""",
        ["amount < 1000"],
    ),
)

OTHER_PAGES = {
    "versioning": (
        sql(
            "versions of the protocol",
            "ALTER TABLE orders SET TBLPROPERTIES "
            "('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '3'); SELECT * FROM orders",
            ORDERS,
        ),
        python(
            "upgrade of the protocol",
            """
from delta.tables import DeltaTable
DeltaTable.forPath(spark, "/data/orders").upgradeTableProtocol(1, 3)""",
            None,
        ),
    ),
    "delta-drop-feature": (
        sql(
            "drop a feature",
            "ALTER TABLE orders DROP FEATURE deletionVectors",
            Refused("DROP FEATURE", absent=True),
        ),
        sql(
            "drop a feature and the history",
            "ALTER TABLE orders DROP FEATURE 'typeWidening' TRUNCATE HISTORY",
            Refused("DROP FEATURE", absent=True),
        ),
    ),
    "delta-clustering": (
        sql(
            "cluster by",
            "CREATE TABLE made (a INT, b STRING) USING delta CLUSTER BY (a);"
            "INSERT INTO made VALUES (1, 'x'); SELECT * FROM made",
            [(1, "x")],
        ),
        sql(
            "cluster by, from a query",
            "CREATE TABLE made USING delta CLUSTER BY (id) "
            "LOCATION '/data/new' AS SELECT * FROM orders; SELECT * FROM made",
            ORDERS,
        ),
        python(
            "cluster by with the builder",
            """
from delta.tables import *
DeltaTable.create(spark).tableName("made").addColumn("a", dataType="INT").addColumn("b", "STRING") \\
    .clusterBy("a").execute()
spark.sql("DESCRIBE DETAIL made").select("clusteringColumns").first()[0]""",
            ["a"],
        ),
        sql(
            "cluster an existing table",
            "ALTER TABLE orders CLUSTER BY (region, id); OPTIMIZE orders;SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "cluster everything again",
            "ALTER TABLE orders CLUSTER BY (region); OPTIMIZE orders FULL;SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "stop clustering",
            "ALTER TABLE orders CLUSTER BY (id); ALTER TABLE orders CLUSTER BY NONE;"
            "SELECT * FROM orders",
            ORDERS,
        ),
        python(
            "see the clustering",
            """
spark.sql("ALTER TABLE orders CLUSTER BY (region)")
spark.sql("DESCRIBE DETAIL orders").select("clusteringColumns").first()[0]""",
            ["region"],
        ),
    ),
    "optimizations-oss": (
        sql("compact", "OPTIMIZE orders; SELECT * FROM orders", ORDERS),
        sql("compact by a quoted path", "OPTIMIZE '/data/orders'; SELECT * FROM orders", ORDERS),
        sql("compact by path", "OPTIMIZE delta.`/data/orders`; SELECT * FROM orders", ORDERS),
        sql(
            "compact partitions",
            "OPTIMIZE sales WHERE region = 'US'; SELECT count(*) FROM sales",
            [(4,)],
        ),
        python(
            "compact with DeltaTable",
            """
from delta.tables import *
table = DeltaTable.forName(spark, "sales")
table.optimize().where("region = 'US'").executeCompaction()
table.optimize().executeCompaction().select("path").count()""",
            1,
        ),
        sql("Z-order", "OPTIMIZE orders ZORDER BY (region); SELECT * FROM orders", ORDERS),
        sql(
            "Z-order of partitions",
            "OPTIMIZE sales WHERE region = 'US' ZORDER BY (id);SELECT count(*) FROM sales",
            [(4,)],
        ),
        python(
            "Z-order with DeltaTable",
            """
from delta.tables import *
table = DeltaTable.forPath(spark, "/data/orders")
table.optimize().executeZOrderBy("region")
table.optimize().where("id > 1").executeZOrderBy(["region", "id"])
table.toDF()""",
            ORDERS,
        ),
        python(
            "optimized writes",
            """
spark.table("updates").write.format("delta").mode("append").option("optimizeWrite", "True").save("/data/orders")
spark.table("orders").count()""",
            6,
        ),
        sql(
            "automatic compaction",
            "ALTER TABLE orders SET TBLPROPERTIES "
            "('delta.autoOptimize.autoCompact' = 'true', 'delta.autoOptimize.optimizeWrite' = 'true');"
            "INSERT INTO orders VALUES (7, 'EU', 70.0); SELECT count(*) FROM orders",
            [(5,)],
        ),
        sql(
            "columns with statistics",
            "ALTER TABLE orders SET TBLPROPERTIES "
            "('delta.dataSkippingStatsColumns' = 'id, amount'); SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "a number of columns with statistics",
            "CREATE TABLE made (a INT, b INT) USING delta TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')",
            Refused("statsColumns"),
        ),
        python(
            "settings of automatic compaction",
            """
spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
spark.conf.set("spark.databricks.delta.optimizeWrite.enabled", "true")
spark.table("updates").write.format("delta").mode("append").save("/data/orders")
spark.table("orders").count()""",
            6,
        ),
    ),
    "delta-change-data-feed": (
        sql(
            "enable it for a new table",
            "CREATE TABLE made (id INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true);"
            "INSERT INTO made VALUES (1); SELECT id, _change_type FROM table_changes('made', 1)",
            [(1, "insert")],
        ),
        sql(
            "enable it",
            "ALTER TABLE orders SET TBLPROPERTIES (delta.enableChangeDataFeed = true);"
            "SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "enable it for every new table",
            "SET spark.databricks.delta.properties.defaults.enableChangeDataFeed = true;"
            "CREATE TABLE made (id INT) USING delta; SELECT * FROM made",
            [],
        ),
        sql(
            "changes of versions",
            "SELECT id, region, amount, _change_type, _commit_version "
            "FROM table_changes('orders', 2, 2)",
            LAST,
        ),
        sql(
            "changes from a version on",
            "SELECT id, region, amount, _change_type, _commit_version "
            "FROM table_changes('orders', 2)",
            LAST,
        ),
        sql(
            "changes of times",
            "SELECT id, region, amount, _change_type, _commit_version "
            "FROM table_changes('orders', 'TIME_2', 'TIME_2')",
            LAST,
        ),
        sql(
            "changes of a quoted name",
            "SELECT id, region, amount, _change_type, _commit_version "
            "FROM table_changes('default.`orders`', 2)",
            LAST,
        ),
        sql(
            "changes by path",
            "SELECT id, region, amount, _change_type, _commit_version "
            "FROM table_changes_by_path('/data/orders', 'TIME_2')",
            LAST,
        ),
        python(
            "changes by options and a name",
            """
spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2) \\
    .option("endingVersion", 2).table("orders").drop("_commit_timestamp")""",
            LAST,
        ),
        python(
            "changes by times and a path",
            """
spark.read.format("delta").option("readChangeFeed", "true").option("startingTimestamp", "TIME_2") \\
    .load("/data/orders").drop("_commit_timestamp")""",
            LAST,
        ),
        read_stream(
            "changes as a stream from a version on",
            'format("delta").option("readChangeFeed", "true").option("startingVersion", 2).table("orders").drop("_commit_timestamp")',
            LAST,
        ),
        read_stream(
            "changes as a stream from a time on",
            'format("delta").option("readChangeFeed", "true").option("startingTimestamp", "TIME_2").load("/data/orders").drop("_commit_timestamp")',
            LAST,
        ),
        read_stream(
            "changes as a stream after the snapshot",
            'format("delta").option("readChangeFeed", "true").table("orders").select("id", "_change_type")',
            [(1, "insert"), (2, "insert"), (3, "insert"), (4, "insert")],
        ),
        sql(
            "bounds beyond the last commit",
            "SET spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled = true;"
            "SELECT count(*) FROM table_changes('orders', 'TIME_2', '2999-01-01 00:00:00')",
            [(1,)],
        ),
    ),
    "delta-column-mapping": (
        sql(
            "enable it",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.minReaderVersion' = '2', "
            "'delta.minWriterVersion' = '5', 'delta.columnMapping.mode' = 'name');"
            "ALTER TABLE orders RENAME COLUMN amount TO `the price`; SELECT `the price` FROM orders WHERE id = 1",
            [(10.0,)],
        ),
    ),
    "delta-type-widening": (
        sql(
            "enable it",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true');"
            "SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "a wider type",
            "CREATE TABLE made (n INT) USING delta "
            "TBLPROPERTIES ('delta.enableTypeWidening' = 'true'); INSERT INTO made VALUES (1);"
            "ALTER TABLE made ALTER COLUMN n TYPE BIGINT; SELECT typeof(n) FROM made",
            [("bigint",)],
        ),
        sql(
            "disable it",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableTypeWidening' = 'false');"
            "SELECT * FROM orders",
            ORDERS,
        ),
    ),
    "delta-default-columns": (
        sql(
            "a default",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported');"
            "ALTER TABLE orders ALTER COLUMN amount SET DEFAULT 5.0;"
            "INSERT INTO orders (id, region) VALUES (7, 'EU'); SELECT amount FROM orders WHERE id = 7",
            [(5.0,)],
        ),
        sql(
            "a default of a new table",
            "CREATE TABLE made (id INT, n INT DEFAULT 42) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported');"
            "INSERT INTO made VALUES (1, DEFAULT); SELECT * FROM made",
            [(1, 42)],
        ),
    ),
    "delta-deletion-vectors": (
        sql(
            "enable them",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = true);"
            "DELETE FROM orders WHERE id = 1; SELECT * FROM orders",
            ORDERS[1:],
        ),
        sql(
            "disable them",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = false);"
            "DELETE FROM orders WHERE id = 1; SELECT * FROM orders",
            ORDERS[1:],
        ),
        sql(
            "write deleted rows away",
            "DELETE FROM orders WHERE id = 1; REORG TABLE orders APPLY (PURGE);"
            "SELECT * FROM orders",
            ORDERS[1:],
        ),
        sql(
            "write deleted rows of partitions away",
            "DELETE FROM sales WHERE id = 1; REORG TABLE sales WHERE region = 'EU' APPLY (PURGE);"
            "SELECT count(*) FROM sales",
            [(3,)],
        ),
    ),
    "delta-row-tracking": (
        sql(
            "enable it for a new table",
            "CREATE TABLE made (id INT) USING delta "
            "TBLPROPERTIES ('delta.enableRowTracking' = 'true'); SELECT * FROM made",
            [],
        ),
        sql("a table like another one", "CREATE TABLE made LIKE orders; SELECT * FROM made", []),
        sql("a deep clone", "CREATE TABLE made CLONE orders; SELECT * FROM made", ORDERS),
        sql(
            "enable it",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableRowTracking' = 'true');"
            "SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "ids of rows",
            "SELECT _metadata.row_id, _metadata.row_commit_version, * FROM orders",
            SparkError("row_id"),
        ),
    ),
    "delta-uniform": (
        sql(
            "a copy for Iceberg's readers",
            "CREATE TABLE made (c INT) USING delta TBLPROPERTIES "
            "('delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg');"
            "SHOW TBLPROPERTIES made ('export')",
            [("export", "iceberg")],
        ),
        sql(
            "a copy for Hudi's readers",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'hudi')",
            Refused("iceberg and delta", absent=True),
        ),
        sql(
            "an upgrade of the files",
            "REORG TABLE orders APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
            Refused("export", absent=True),
        ),
    ),
    "best-practices": (
        python(
            "fewer files by rewriting",
            """
spark.read.format("delta").load("/data/orders").repartition(1).write.option("dataChange", "false") \\
    .format("delta").mode("overwrite").save("/data/orders")
spark.table("orders")""",
            Refused("dataChange"),
        ),
        python(
            "replace the content and the schema",
            """
spark.sql("SELECT 1 AS n, 'a' AS part").write.format("delta").mode("overwrite") \\
    .option("overwriteSchema", "true").partitionBy("part").saveAsTable("orders")
spark.table("orders")""",
            [(1, "a")],
        ),
        sql(
            "REPLACE TABLE with a query",
            "REPLACE TABLE orders USING delta PARTITIONED BY (part) AS SELECT 1 AS n, 'a' AS part;"
            "SELECT * FROM orders",
            [(1, "a")],
        ),
    ),
    "table-properties": (
        sql(
            "retention",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days', "
            "'delta.deletedFileRetentionDuration' = 'interval 8 days'); SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "isolation and checkpoints",
            "ALTER TABLE orders SET TBLPROPERTIES "
            "('delta.isolationLevel' = 'Serializable', 'delta.checkpointInterval' = '50', "
            "'delta.setTransactionRetentionDuration' = 'interval 40 days', 'delta.targetFileSize' = '64mb', "
            "'delta.checkpointPolicy' = 'v2', 'delta.enableInCommitTimestamps' = 'true');"
            "SELECT * FROM orders",
            ORDERS,
        ),
        sql(
            "a codec",
            "ALTER TABLE orders SET TBLPROPERTIES ('delta.parquet.compression.codec' = 'ZSTD');"
            "SELECT * FROM orders",
            ORDERS,
        ),
    ),
}

DELTA = Documentation(
    "Delta Lake for Spark",
    (
        ("USING delta", "USING tablefmt"),
        ("delta.`", "tablefmt.`"),
        ('format("delta")', 'format("tablefmt")'),
        ("CONVERT TO DELTA", "CONVERT TO tablefmt"),
        ("from delta", "from tablefmt.compat.delta"),
    ),
    {
        "quick-start": QUICK_START,
        "delta-batch": BATCH,
        "delta-update": UPDATE,
        "delta-streaming": STREAMING,
        "delta-utility": UTILITY,
        "delta-constraints": CONSTRAINTS,
        **OTHER_PAGES,
    },
)
