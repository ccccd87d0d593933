"""Further operations of Apache Iceberg's documentation for Spark: fields, variants and settings."""

from __future__ import annotations

from tests.compat.documented.operation import ORDERS, Refused, SparkError, python, sql

NEW = (7, "EU", 70.0)
MERGED = [(1, "EU", 10.0), (2, "US", 25.0), (3, "EU", 30.0), (4, "US", 40.0), (5, "EU", 50.0)]
BRANCH = Refused("one line of versions", absent=True)
CALL = "CALL spark_catalog.system."
MADE = "CREATE TABLE made (id bigint, data string, ts timestamp) USING iceberg"
TIMED = "INSERT INTO made VALUES (1, 'a', TIMESTAMP '2026-07-02 03:04:05');"
LOGS = (
    "CREATE TABLE made (uuid string NOT NULL, level string NOT NULL, ts timestamp NOT NULL, message string) "
    "USING iceberg PARTITIONED BY (level, hours(ts));"
    "INSERT INTO made VALUES ('a', 'INFO', TIMESTAMP '2020-07-01 10:00:00', 'x'), "
    "('a', 'INFO', TIMESTAMP '2020-07-01 10:30:00', 'y'), ('b', 'WARN', TIMESTAMP '2020-07-02 10:00:00', 'z');"
)

PARTITION_FIELDS = (
    sql(
        "add a column",
        "ALTER TABLE orders ADD PARTITION FIELD region; INSERT INTO orders VALUES (7, 'EU', 70.0);"
        "SELECT partition.region, rows FROM orders.partitions WHERE partition.region IS NOT NULL",
        [("EU", 1)],
    ),
    sql(
        "add a bucket",
        "ALTER TABLE orders ADD PARTITION FIELD bucket(16, id); INSERT INTO orders VALUES (34, 'EU', 70.0);"
        "SELECT partition.id_bucket FROM orders.partitions WHERE partition.id_bucket IS NOT NULL",
        # The hash of 34 is in Iceberg's specification: 2017239379.
        [(2017239379 % 16,)],
    ),
    sql(
        "add a truncation",
        "ALTER TABLE orders ADD PARTITION FIELD truncate(1, region); INSERT INTO orders VALUES (7, 'EU', 70.0);"
        "SELECT partition.region_trunc FROM orders.partitions WHERE partition.region_trunc IS NOT NULL",
        [("E",)],
    ),
    sql(
        "add a year",
        f"{MADE}; ALTER TABLE made ADD PARTITION FIELD year(ts); {TIMED}"
        "SELECT partition.ts_year FROM made.partitions",
        [(56,)],
    ),
    sql(
        "add with a name",
        "ALTER TABLE orders ADD PARTITION FIELD bucket(16, id) AS shard; INSERT INTO orders VALUES (34, 'EU', 70.0);"
        "SELECT partition.shard FROM orders.partitions WHERE partition.shard IS NOT NULL",
        [(2017239379 % 16,)],
    ),
    sql(
        "drop a column",
        "ALTER TABLE sales DROP PARTITION FIELD region; INSERT INTO sales VALUES (7, 'EU', 70.0);"
        "SELECT * FROM sales",
        [*ORDERS, NEW],
    ),
    sql(
        "drop a bucket",
        f"{MADE} PARTITIONED BY (bucket(16, id), data); ALTER TABLE made DROP PARTITION FIELD bucket(16, id); {TIMED}"
        "SELECT to_json(partition) FROM made.partitions",
        [('{"data":"a"}',)],
    ),
    sql(
        "drop a truncation",
        f"{MADE} PARTITIONED BY (truncate(4, data)); ALTER TABLE made DROP PARTITION FIELD truncate(4, data); {TIMED}"
        "SELECT id, data FROM made",
        [(1, "a")],
    ),
    sql(
        "drop a year",
        f"{MADE} PARTITIONED BY (years(ts)); ALTER TABLE made DROP PARTITION FIELD year(ts); {TIMED}"
        "SELECT id, data FROM made",
        [(1, "a")],
    ),
    sql(
        "drop by a name",
        "ALTER TABLE orders ADD PARTITION FIELD bucket(16, id) AS shard; ALTER TABLE orders DROP PARTITION FIELD shard;"
        "INSERT INTO orders VALUES (7, 'EU', 70.0); SELECT * FROM orders",
        [*ORDERS, NEW],
    ),
    sql(
        "replace",
        f"{MADE} PARTITIONED BY (days(ts)); ALTER TABLE made REPLACE PARTITION FIELD ts_day WITH day(ts); {TIMED}"
        "SELECT id FROM made",
        [(1,)],
    ),
    sql(
        "replace with a name",
        f"{MADE} PARTITIONED BY (days(ts)); ALTER TABLE made REPLACE PARTITION FIELD ts_day WITH day(ts) AS day_of_ts;"
        f"{TIMED} SELECT rows, partition.day_of_ts IS NULL FROM made.partitions",
        [(1, False)],
    ),
)

DDL = (
    sql(
        "replace by a query, partitioned",
        "REPLACE TABLE orders USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key' = 'value') "
        "AS SELECT 1 AS n, 'a' AS part; SELECT * FROM orders",
        [(1, "a")],
    ),
    sql(
        "add a struct, and a field first in it",
        "ALTER TABLE orders ADD COLUMN nested struct<a: int>; ALTER TABLE orders ADD COLUMN nested.b bigint FIRST;"
        "INSERT INTO orders VALUES (7, 'EU', 70.0, struct(8L, 9)); SELECT nested.b, nested.a FROM orders WHERE id = 7",
        [(8, 9)],
    ),
    sql(
        "add an array of structs, and a field in it",
        "ALTER TABLE orders ADD COLUMN points array<struct<x: double, y: double>>;"
        "ALTER TABLE orders ADD COLUMN points.element.z double; SELECT points FROM orders WHERE id = 1",
        [(None,)],
    ),
    sql(
        "add a map of structs, and a field in its values",
        "ALTER TABLE orders ADD COLUMN points map<struct<x: int>, struct<a: int>>;"
        "ALTER TABLE orders ADD COLUMN points.value.b int; SELECT points FROM orders WHERE id = 1",
        [(None,)],
    ),
    sql(
        "rename a field of a struct",
        "CREATE TABLE made (location struct<lat: double, long: double>) USING iceberg;"
        "INSERT INTO made SELECT struct(1D, 2D); ALTER TABLE made RENAME COLUMN location.lat TO latitude;"
        "SELECT location.latitude FROM made",
        [(1.0,)],
    ),
    sql(
        "a wider type and a comment in one",
        "CREATE TABLE made (m float) USING iceberg; INSERT INTO made VALUES (1);"
        "ALTER TABLE made ALTER COLUMN m TYPE double COMMENT 'bytes'; SELECT typeof(m) FROM made",
        # Spark's grammar takes one change, with Iceberg too.
        SparkError("PARSE_SYNTAX_ERROR"),
    ),
    sql(
        "move a field of a struct",
        "CREATE TABLE made (nested struct<a: int, b: int, c: int>) USING iceberg; INSERT INTO made SELECT struct(1, 2, 3);"
        "ALTER TABLE made ALTER COLUMN nested.a AFTER c; SELECT to_json(nested) FROM made",
        [('{"b":2,"c":3,"a":1}',)],
    ),
    sql(
        "drop a field of a struct",
        "CREATE TABLE made (point struct<x: double, z: double>) USING iceberg; INSERT INTO made SELECT struct(1D, 2D);"
        "ALTER TABLE made DROP COLUMN point.z; SELECT to_json(point) FROM made",
        [('{"x":1.0}',)],
    ),
    sql(
        "write order with NULL last",
        "ALTER TABLE orders WRITE ORDERED BY region ASC NULLS LAST, id ASC NULLS FIRST",
        Refused("NULLS"),
    ),
    sql(
        "create a branch if it is not there",
        "ALTER TABLE orders CREATE BRANCH IF NOT EXISTS `a`",
        BRANCH,
    ),
    sql(
        "a view if it is not there",
        "CREATE VIEW IF NOT EXISTS seen AS SELECT id FROM orders; SELECT count(*) FROM seen",
        [(4,)],
    ),
    sql(
        "unset properties of a view",
        "CREATE VIEW seen TBLPROPERTIES ('key1' = 'a', 'key2' = 'b') AS SELECT id FROM orders;"
        "ALTER VIEW seen UNSET TBLPROPERTIES ('key1', 'key2'); SELECT count(*) FROM seen",
        [(4,)],
    ),
    sql("drop a view if it is there", "DROP VIEW IF EXISTS seen; SHOW VIEWS LIKE 'seen'", []),
    sql(
        "views of a namespace",
        "CREATE VIEW seen AS SELECT id FROM orders; SHOW VIEWS IN default LIKE 'seen'",
        [("default", "seen", False)],
    ),
    sql(
        "how a view was created",
        "CREATE VIEW seen AS SELECT id FROM orders; SHOW CREATE TABLE seen; SELECT count(*) FROM seen",
        [(4,)],
    ),
    sql(
        "details of a view",
        "CREATE VIEW seen AS SELECT id FROM orders; DESCRIBE EXTENDED seen; SELECT count(*) FROM seen",
        [(4,)],
    ),
)

GETTING_STARTED = (
    sql(
        "insert what a query finds",
        "CREATE TABLE source USING parquet AS SELECT * FROM VALUES (10L, 'd'), (11L, 'ee') AS s (id, data);"
        "CREATE TABLE made (id bigint, data string) USING iceberg; INSERT INTO made VALUES (1, 'a'), (2, 'b');"
        "INSERT INTO made SELECT id, data FROM source WHERE length(data) = 1; SELECT * FROM made",
        [(1, "a"), (10, "d"), (2, "b")],
    ),
    sql(
        "merge",
        "MERGE INTO orders t USING (SELECT * FROM updates) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET t.amount = u.amount WHEN NOT MATCHED THEN INSERT *; SELECT * FROM orders",
        MERGED,
    ),
    sql(
        "count by a column",
        "SELECT count(1) AS count, region FROM orders GROUP BY region",
        [(2, "EU"), (2, "US")],
    ),
    sql("snapshots", "SELECT count(*) FROM orders.snapshots", [(3,)]),
)

PROCEDURES = (
    sql(
        "expire snapshots but the last ones",
        CALL
        + "expire_snapshots('default.orders', TIMESTAMP '2021-06-30 00:00:00.000', 100); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "cherry-pick by names",
        CALL + "cherrypick_snapshot(snapshot_id => 1, table => 'orders')",
        BRANCH,
    ),
    sql(
        "orphans of a list of files",
        CALL + "remove_orphan_files(table => 'orders', file_list_view => 'updates')",
        Refused("file_list_view"),
    ),
    sql(
        "orphans with other prefixes deleted",
        CALL + "remove_orphan_files(table => 'orders', prefix_mismatch_mode => 'DELETE')",
        [],
    ),
    sql(
        "orphans with equal authorities",
        CALL + "remove_orphan_files(table => 'orders', equal_authorities => map('ns1', 'ns2'))",
        [],
    ),
    sql(
        "orphans by a listing of prefixes",
        CALL + "remove_orphan_files(table => 'orders', prefix_listing => true)",
        [],
    ),
    sql(
        "rewrite data files sorted downwards",
        CALL + "rewrite_data_files(table => 'default.orders', strategy => 'sort', "
        "sort_order => 'id DESC NULLS LAST,region ASC NULLS FIRST')",
        Refused("DESC"),
    ),
    sql(
        "rewrite data files without dangling deletes",
        CALL
        + "rewrite_data_files(table => 'default.orders', options => map('min-input-files', '2', "
        "'remove-dangling-deletes', 'true')); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite data files of a condition on rows",
        CALL
        + "rewrite_data_files(table => 'default.orders', where => 'id = 3 and region = \"EU\"');"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite manifests of a spec",
        CALL + "rewrite_manifests(table => 'orders', spec_id => 1)",
        Refused("spec_id", absent=True),
    ),
    sql(
        "rewrite position deletes of several files",
        CALL
        + "rewrite_position_delete_files(table => 'orders', options => map('min-input-files', '2'));"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "migrate with properties",
        "CREATE TABLE made USING parquet AS SELECT 1 AS n; "
        + CALL
        + "migrate('spark_catalog.default.made', map('a', 'b'))",
        Refused("CONVERT TO tablefmt", absent=True),
    ),
    sql(
        "add files of partitions",
        CALL + "add_files(table => 'orders', source_table => 'default.sales', "
        "partition_filter => map('region', 'EU'))",
        Refused("INSERT INTO", absent=True),
    ),
    python(
        "ancestors of a snapshot by place",
        """
spark.sql("CALL spark_catalog.system.ancestors_of('default.orders', 1)").select("snapshot_id")""",
        [(0,), (1,)],
    ),
    sql(
        "a part of a view of changes",
        CALL
        + "create_changelog_view(table => 'default.orders', options => map('start-snapshot-id', '1'));"
        "SELECT id FROM orders_changes WHERE _change_type = 'INSERT' AND id = 4 ORDER BY _change_ordinal",
        [(4,)],
    ),
)

QUERIES = (
    sql(
        "FOR SYSTEM_VERSION AS OF a tag",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1; SELECT * FROM orders FOR SYSTEM_VERSION AS OF 'q1'",
        ORDERS[:3],
    ),
    sql(
        "FOR SYSTEM_TIME AS OF seconds",
        "SELECT * FROM orders FOR SYSTEM_TIME AS OF SECONDS_2",
        ORDERS,
    ),
    sql(
        "the columns of a tag",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1; ALTER TABLE orders ADD COLUMN note double;"
        "SELECT * FROM orders.`tag_q1`",
        ORDERS[:3],
    ),
    sql(
        "a summary of a snapshot",
        "SELECT h.made_current_at IS NULL, s.summary['numOutputRows'] FROM orders.history h "
        "JOIN orders.snapshots s ON h.snapshot_id = s.snapshot_id ORDER BY made_current_at",
        [(False, "1"), (False, "3"), (False, None)],
    ),
)

WRITES = (
    sql(
        "overwrite the hours of logs",
        LOGS + "SET spark.sql.sources.partitionOverwriteMode = dynamic;"
        "INSERT OVERWRITE made SELECT uuid, first(level), first(ts), 'n' FROM made "
        "WHERE cast(ts AS date) = '2020-07-01' GROUP BY uuid; SELECT uuid, message FROM made",
        [("a", "n"), ("b", "z")],
    ),
    sql(
        "overwrite a level of logs",
        LOGS
        + "INSERT OVERWRITE made PARTITION (level = 'INFO') SELECT uuid, first(ts), 'n' FROM made "
        "WHERE level = 'INFO' GROUP BY uuid; SELECT uuid, level, message FROM made",
        [("a", "INFO", "n"), ("b", "WARN", "z")],
    ),
    sql(
        "delete a range of times",
        LOGS + "DELETE FROM made WHERE ts >= '2020-07-01 00:00:00' and ts < '2020-07-02 00:00:00';"
        "SELECT uuid FROM made",
        [("b",)],
    ),
    sql(
        "merge with several clauses",
        "MERGE INTO orders t USING (SELECT *, 'increment' AS op FROM updates) s ON t.id = s.id "
        "WHEN MATCHED AND s.op = 'delete' THEN DELETE "
        "WHEN MATCHED AND t.amount IS NULL AND s.op = 'increment' THEN UPDATE SET t.amount = 0 "
        "WHEN MATCHED AND s.op = 'increment' THEN UPDATE SET t.amount = t.amount + 1;"
        "SELECT amount FROM orders WHERE id = 2",
        [(21.0,)],
    ),
    sql(
        "merge to a branch",
        "MERGE INTO orders.branch_audit t USING updates s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        BRANCH,
    ),
    sql("update a branch", "UPDATE orders.branch_audit SET amount = 0", BRANCH),
    sql("delete from a branch", "DELETE FROM orders.branch_audit", BRANCH),
    python(
        "a session that writes to a branch",
        """
spark.conf.set("spark.wap.branch", "audit")
spark.sql("INSERT INTO orders VALUES (7, 'EU', 70.0)")""",
        BRANCH,
    ),
)

CONFIGURATION = (
    python(
        "sessions that merge schemas",
        """
spark.conf.set("spark.sql.iceberg.merge-schema", "true")
spark.sql("SELECT 7L AS id, 'EU' AS region, 70D AS amount, 'x' AS note").writeTo("orders").append()
spark.table("orders").where("id = 7")""",
        [(7, "EU", 70.0, "x")],
    ),
    python(
        "sessions that tune reads",
        """
spark.conf.set("spark.sql.iceberg.vectorization.enabled", "false")
spark.conf.set("spark.sql.iceberg.aggregate-push-down.enabled", "true")
spark.table("orders")""",
        ORDERS,
    ),
    python(
        "sessions that compress",
        """
spark.conf.set("spark.sql.iceberg.compression-codec", "zstd")
spark.table("updates").writeTo("orders").append()
spark.table("orders").count()""",
        6,
    ),
    python(
        "isolation of an overwrite",
        """
from pyspark.sql.functions import col
spark.table("updates").where("id = 5").writeTo("orders").option("isolation-level", "serializable") \\
    .overwrite(col("region") == "EU")
spark.table("orders").select("id")""",
        Refused("isolationLevel"),
    ),
    python(
        "options of the files of a write",
        """
spark.table("updates").writeTo("orders").option("compression-codec", "zstd").option("compression-level", "3") \\
    .option("distribution-mode", "hash").option("delete-granularity", "file").append()
spark.table("orders").count()""",
        6,
    ),
    python(
        "options of the files of a read",
        """
spark.read.option("file-open-cost", "4194304").option("batch-size", "1000") \\
    .format("iceberg").load("/data/orders")""",
        ORDERS,
    ),
    python(
        "a stream that plans ahead",
        """
query = spark.readStream.format("iceberg").option("async-micro-batch-planning-enabled", "true") \\
    .option("streaming-snapshot-polling-interval-ms", "1000").load("/data/orders") \\
    .writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
query.awaitTermination()
spark.table("seen")""",
        ORDERS,
    ),
)
