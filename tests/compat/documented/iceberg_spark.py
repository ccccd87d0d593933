"""Operations of Apache Iceberg's documentation for Spark (iceberg.apache.org/docs).

The catalog is `spark_catalog`, as with Iceberg's catalog for the session.
"""

from __future__ import annotations

from tests.compat.documented import iceberg_details
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

NEW = (7, "EU", 70.0)
MERGED = [(1, "EU", 10.0), (2, "US", 25.0), (3, "EU", 30.0), (4, "US", 40.0), (5, "EU", 50.0)]
BRANCH = Refused("one line of versions", absent=True)
CALL = "CALL spark_catalog.system."

DDL = (
    sql(
        "create",
        "CREATE TABLE default.made (id bigint NOT NULL COMMENT 'key', data string) USING iceberg;"
        "SELECT * FROM default.made",
        [],
    ),
    sql(
        "partitioned by a column",
        "CREATE TABLE made (id bigint, data string, category string) USING iceberg "
        "PARTITIONED BY (category); INSERT INTO made VALUES (1, 'a', 'x'); SELECT * FROM made",
        [(1, "a", "x")],
    ),
    sql(
        "partitioned by transforms",
        "CREATE TABLE made (id bigint, category string, ts timestamp) "
        "USING iceberg PARTITIONED BY (bucket(16, id), days(ts), category);"
        "INSERT INTO made VALUES (1, 'x', TIMESTAMP '2026-01-02 03:04:05'); SELECT id, category FROM made",
        [(1, "x")],
    ),
    sql(
        "partitioned by years and truncation",
        "CREATE TABLE made (data string, ts timestamp) "
        "USING iceberg PARTITIONED BY (years(ts), truncate(2, data));"
        "INSERT INTO made VALUES ('abc', TIMESTAMP '2026-01-02 03:04:05'); SELECT data FROM made",
        [("abc",)],
    ),
    sql(
        "partitioned by singular names",
        "CREATE TABLE made (id bigint, ts timestamp) USING iceberg "
        "PARTITIONED BY (month(ts)); INSERT INTO made VALUES (1, TIMESTAMP '2026-01-02 03:04:05');"
        "SELECT id FROM made",
        [(1,)],
    ),
    sql(
        "partitioned by hours",
        "CREATE TABLE made (id bigint, ts timestamp) USING iceberg "
        "PARTITIONED BY (hour(ts)); INSERT INTO made VALUES (1, TIMESTAMP '2026-01-02 03:04:05');"
        "SELECT id FROM made",
        [(1,)],
    ),
    sql(
        "a location, a comment and properties",
        "CREATE TABLE made (id bigint) USING iceberg COMMENT 'all' "
        "LOCATION '/data/new' TBLPROPERTIES ('owner.team' = 'sales'); SHOW TBLPROPERTIES made ('owner.team')",
        [("owner.team", "sales")],
    ),
    sql(
        "from a query",
        "CREATE TABLE made USING iceberg AS SELECT * FROM orders; SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "from a query, partitioned",
        "CREATE TABLE made USING iceberg PARTITIONED BY (region) "
        "TBLPROPERTIES ('key' = 'value') AS SELECT * FROM orders; SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "replace by a query",
        "REPLACE TABLE orders USING iceberg AS SELECT 1 AS n; SELECT * FROM orders",
        [(1,)],
    ),
    sql(
        "create or replace by a query",
        "CREATE OR REPLACE TABLE orders USING iceberg AS SELECT 1 AS n; SELECT * FROM orders",
        [(1,)],
    ),
    sql("drop", "DROP TABLE orders; SHOW TABLES LIKE 'orders'", []),
    sql(
        "drop with the files",
        "CREATE TABLE made USING iceberg AS SELECT 1 AS n; DROP TABLE made PURGE;"
        "SHOW TABLES LIKE 'made'",
        [],
    ),
    sql("rename", "ALTER TABLE orders RENAME TO made; SELECT * FROM made", ORDERS),
    sql(
        "set a property",
        "ALTER TABLE orders SET TBLPROPERTIES ('read.split.target-size' = '268435456');"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "unset a property",
        "ALTER TABLE orders SET TBLPROPERTIES ('team' = 'sales');"
        "ALTER TABLE orders UNSET TBLPROPERTIES ('team'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "set the comment",
        "ALTER TABLE orders SET TBLPROPERTIES ('comment' = 'All orders.');"
        "DESCRIBE DETAIL orders; SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "add columns",
        "ALTER TABLE orders ADD COLUMNS (note string comment 'free'); SELECT note FROM orders WHERE id = 1",
        [(None,)],
    ),
    sql(
        "add a field of a struct",
        "CREATE TABLE made (point struct<x: double, y: double>) USING iceberg;"
        "ALTER TABLE made ADD COLUMN point.z double; INSERT INTO made SELECT struct(1D, 2D, 3D); SELECT point.z FROM made",
        [(3.0,)],
    ),
    sql(
        "add a field of the structs of an array",
        "CREATE TABLE made (points array<struct<x: double>>) USING iceberg;"
        "ALTER TABLE made ADD COLUMN points.element.z double; INSERT INTO made SELECT array(struct(1D, 2D));"
        "SELECT points[0].z FROM made",
        [(2.0,)],
    ),
    sql(
        "add a field of the values of a map",
        "CREATE TABLE made (points map<string, struct<a: int>>) USING iceberg;"
        "ALTER TABLE made ADD COLUMN points.value.b int; INSERT INTO made SELECT map('k', struct(1, 2));"
        "SELECT points['k'].b FROM made",
        [(2,)],
    ),
    sql(
        "add a column at a place",
        "ALTER TABLE orders ADD COLUMN note bigint AFTER id;"
        "ALTER TABLE orders ADD COLUMN top bigint FIRST; SELECT * FROM orders WHERE id = 1",
        [(None, 1, None, "EU", 10.0)],
    ),
    sql(
        "rename columns",
        "ALTER TABLE orders RENAME COLUMN amount TO price; SELECT sum(price) FROM orders",
        [(100.0,)],
    ),
    sql(
        "a wider type",
        "CREATE TABLE made (m float) USING iceberg; INSERT INTO made VALUES (1);"
        "ALTER TABLE made ALTER COLUMN m TYPE double; SELECT typeof(m) FROM made",
        [("double",)],
    ),
    sql(
        "a wider type with a comment",
        "CREATE TABLE made (m float) USING iceberg;"
        "ALTER TABLE made ALTER COLUMN m TYPE double; ALTER TABLE made ALTER COLUMN m COMMENT 'bytes';"
        "SELECT * FROM made",
        [],
    ),
    sql(
        "move columns",
        "ALTER TABLE orders ALTER COLUMN amount FIRST; ALTER TABLE orders ALTER COLUMN id AFTER region;"
        "SELECT * FROM orders WHERE id = 1",
        [(10.0, "EU", 1)],
    ),
    sql(
        "drop NOT NULL",
        "CREATE TABLE made (id bigint NOT NULL) USING iceberg;"
        "ALTER TABLE made ALTER COLUMN id DROP NOT NULL; INSERT INTO made VALUES (null); SELECT * FROM made",
        [(None,)],
    ),
    sql(
        "drop columns",
        "ALTER TABLE orders DROP COLUMN amount; SELECT * FROM orders WHERE id = 1",
        [(1, "EU")],
    ),
    sql(
        "write order",
        "ALTER TABLE orders WRITE ORDERED BY region, id; "
        + CALL
        + "rewrite_data_files('default.orders');"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "write order with directions",
        "ALTER TABLE orders WRITE ORDERED BY region ASC NULLS FIRST, id ASC;SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "write order downwards",
        "ALTER TABLE orders WRITE ORDERED BY region ASC, id DESC",
        Refused("DESC"),
    ),
    sql(
        "write order within tasks",
        "ALTER TABLE orders WRITE LOCALLY ORDERED BY region, id; SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "no write order",
        "ALTER TABLE orders WRITE ORDERED BY region; ALTER TABLE orders WRITE UNORDERED;"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "distribution by partition",
        "ALTER TABLE sales WRITE DISTRIBUTED BY PARTITION;"
        "SHOW TBLPROPERTIES sales ('optimizeWrite')",
        [("optimizeWrite", "true")],
    ),
    sql(
        "distribution by partition, ordered",
        "ALTER TABLE sales WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id;"
        "SHOW TBLPROPERTIES sales ('optimizeWrite')",
        [("optimizeWrite", "true")],
    ),
    sql(
        "insert in an order",
        "INSERT INTO orders SELECT * FROM updates ORDER BY region, id; SELECT count(*) FROM orders",
        [(6,)],
    ),
    sql(
        "identifier fields",
        "ALTER TABLE orders SET IDENTIFIER FIELDS id",
        Refused("MERGE", absent=True),
    ),
    sql(
        "no identifier fields",
        "ALTER TABLE orders DROP IDENTIFIER FIELDS id",
        Refused("MERGE", absent=True),
    ),
    sql(
        "a view",
        "CREATE VIEW seen AS SELECT id FROM orders; SELECT * FROM seen",
        [(1,), (2,), (3,), (4,)],
    ),
    sql(
        "a view with comments",
        "CREATE VIEW IF NOT EXISTS seen (n COMMENT 'key') COMMENT 'keys' "
        "TBLPROPERTIES ('a' = 'b') AS SELECT id FROM orders; SELECT n FROM seen WHERE n = 1",
        [(1,)],
    ),
    sql(
        "replace a view",
        "CREATE VIEW seen AS SELECT id FROM orders;"
        "CREATE OR REPLACE VIEW seen AS SELECT region FROM orders WHERE id = 1; SELECT * FROM seen",
        [("EU",)],
    ),
    sql(
        "properties of a view",
        "CREATE VIEW seen AS SELECT id FROM orders;"
        "ALTER VIEW seen SET TBLPROPERTIES ('key' = 'val'); SHOW TBLPROPERTIES seen ('key')",
        [("key", "val")],
    ),
    sql(
        "drop a view",
        "CREATE VIEW seen AS SELECT id FROM orders; DROP VIEW seen; SHOW VIEWS LIKE 'seen'",
        [],
    ),
)

BRANCHING = (
    sql(
        "create a tag",
        "ALTER TABLE orders CREATE TAG `q-1`; INSERT INTO orders VALUES (7, 'EU', 70.0);"
        "SELECT * FROM orders VERSION AS OF 'q-1'",
        ORDERS,
    ),
    sql(
        "create a tag if it is not there",
        "ALTER TABLE orders CREATE TAG `q-1` AS OF VERSION 1;"
        "ALTER TABLE orders CREATE TAG IF NOT EXISTS `q-1` AS OF VERSION 2; SELECT * FROM orders VERSION AS OF 'q-1'",
        ORDERS[:3],
    ),
    sql(
        "create a tag that is there",
        "ALTER TABLE orders CREATE TAG `q-1`; ALTER TABLE orders CREATE TAG `q-1`",
        SameError("q-1"),
    ),
    sql(
        "create or replace a tag",
        "ALTER TABLE orders CREATE TAG `q-1` AS OF VERSION 1;"
        "ALTER TABLE orders CREATE OR REPLACE TAG `q-1` AS OF VERSION 2; SELECT * FROM orders VERSION AS OF 'q-1'",
        ORDERS,
    ),
    sql(
        "create a tag of a version, kept for a time",
        "ALTER TABLE orders CREATE TAG `q-1` AS OF VERSION 1 RETAIN 365 DAYS; SELECT * FROM orders.`tag_q-1`",
        ORDERS[:3],
    ),
    sql(
        "replace a tag",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1;"
        "ALTER TABLE orders REPLACE TAG q1 AS OF VERSION 2 RETAIN 60 DAYS; SELECT * FROM orders VERSION AS OF 'q1'",
        ORDERS,
    ),
    sql(
        "replace a tag that is not there",
        "ALTER TABLE orders REPLACE TAG q1 AS OF VERSION 2",
        SameError("q1"),
    ),
    sql(
        "drop a tag",
        "ALTER TABLE orders CREATE TAG q1; ALTER TABLE orders DROP TAG q1; SELECT * FROM orders.tags",
        [],
    ),
    sql(
        "drop a tag if it is there",
        "ALTER TABLE orders DROP TAG IF EXISTS q1; SELECT * FROM orders.tags",
        [],
    ),
    sql("create a branch", "ALTER TABLE orders CREATE BRANCH `audit-1`", BRANCH),
    sql(
        "create a branch with retention",
        "ALTER TABLE orders CREATE OR REPLACE BRANCH `audit-1` AS OF VERSION 1 "
        "RETAIN 30 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS",
        BRANCH,
    ),
    sql(
        "replace a branch",
        "ALTER TABLE orders REPLACE BRANCH `audit-1` AS OF VERSION 1 RETAIN 60 DAYS",
        BRANCH,
    ),
    sql("drop a branch", "ALTER TABLE orders DROP BRANCH `audit-1`", BRANCH),
    sql("read a branch", "SELECT * FROM orders.`branch_audit-1`", BRANCH),
    sql(
        "write to a branch",
        "INSERT INTO orders.branch_audit VALUES (7, 'EU', 70.0)",
        SparkError("branch_audit"),
    ),
    sql(
        "write, audit, publish",
        "ALTER TABLE orders SET TBLPROPERTIES ('write.wap.enabled' = 'true')",
        BRANCH,
    ),
)

PROCEDURES = (
    sql(
        "roll back",
        CALL + "rollback_to_snapshot('default.orders', 1); SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql("the result of a roll back", CALL + "rollback_to_snapshot('default.orders', 1)", [(2, 3)]),
    sql(
        "roll back by names",
        CALL + "rollback_to_snapshot(snapshot_id => 1, table => 'default.orders');"
        "SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql(
        "roll back to a time",
        CALL + "rollback_to_timestamp('default.orders', TIMESTAMP 'TIME_1'); SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql(
        "set the current snapshot",
        CALL + "set_current_snapshot('default.orders', 1); SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql(
        "set the current snapshot by a tag",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1;"
        + CALL
        + "set_current_snapshot(table => 'default.orders', ref => 'q1'); SELECT * FROM orders",
        ORDERS[:3],
    ),
    sql("cherry-pick", CALL + "cherrypick_snapshot('orders', 1)", BRANCH),
    sql("publish staged changes", CALL + "publish_changes('orders', 'wap_1')", BRANCH),
    sql("fast-forward", CALL + "fast_forward('orders', 'main', 'audit')", BRANCH),
    sql(
        "expire snapshots",
        CALL + "expire_snapshots('default.orders', TIMESTAMP '2021-06-30 00:00:00.000');"
        "SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "the result of expiring", CALL + "expire_snapshots(table => 'orders')", [(0, 0, 0, 0, 0, 0)]
    ),
    sql(
        "expire snapshots by ids",
        CALL + "expire_snapshots(table => 'default.orders', snapshot_ids => ARRAY(1))",
        Refused("older_than"),
    ),
    sql(
        "orphans, without deletes",
        CALL + "remove_orphan_files(table => 'default.orders', dry_run => true)",
        [],
    ),
    sql(
        "remove orphans",
        CALL + "remove_orphan_files('default.orders'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "orphans of a folder",
        CALL + "remove_orphan_files(table => 'orders', location => '/data/orders/data')",
        Refused("location"),
    ),
    sql(
        "orphans with a prefix mode",
        CALL + "remove_orphan_files(table => 'orders', prefix_mismatch_mode => 'IGNORE')",
        [],
    ),
    sql(
        "orphans with equal schemes",
        CALL + "remove_orphan_files(table => 'orders', equal_schemes => map('file', 'file1'))",
        [],
    ),
    sql(
        "rewrite data files",
        CALL + "rewrite_data_files('default.orders'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "the result of rewriting",
        CALL + "rewrite_data_files(table => 'orders', options => map('min-input-files', '2'));"
        "SELECT count(*) FROM orders.files",
        [(1,)],
    ),
    sql(
        "rewrite data files sorted",
        CALL + "rewrite_data_files(table => 'default.orders', strategy => 'sort', "
        "sort_order => 'region ASC NULLS FIRST,id ASC NULLS FIRST'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite data files in Z-order",
        CALL + "rewrite_data_files(table => 'default.orders', strategy => 'sort', "
        "sort_order => 'zorder(region, id)'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite data files with options",
        CALL + "rewrite_data_files(table => 'default.orders', "
        "options => map('min-input-files', '2', 'target-file-size-bytes', '1048576')); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite some data files",
        CALL + "rewrite_data_files(table => 'default.sales', where => 'region = \"US\"');"
        "SELECT count(*) FROM sales",
        [(4,)],
    ),
    sql(
        "rewrite manifests",
        CALL + "rewrite_manifests('default.orders'); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite manifests without caching",
        CALL + "rewrite_manifests('default.orders', false); SELECT * FROM orders",
        ORDERS,
    ),
    sql(
        "rewrite manifests in an order",
        CALL + "rewrite_manifests(table => 'orders', sort_by => array('region'))",
        Refused("sort_by", absent=True),
    ),
    sql(
        "rewrite position deletes",
        "DELETE FROM orders WHERE id = 1;"
        + CALL
        + "rewrite_position_delete_files('default.orders'); SELECT * FROM orders",
        ORDERS[1:],
    ),
    sql(
        "rewrite all position deletes",
        "DELETE FROM orders WHERE id = 1;"
        + CALL
        + "rewrite_position_delete_files(table => 'orders', options => map('rewrite-all', 'true'));"
        "SELECT * FROM orders",
        ORDERS[1:],
    ),
    sql(
        "a trial copy",
        CALL + "snapshot('default.orders', 'default.made'); SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "a trial copy at a place",
        CALL + "snapshot('default.orders', 'default.made', '/data/new'); SELECT * FROM made",
        ORDERS,
    ),
    sql(
        "migrate",
        "CREATE TABLE made USING parquet AS SELECT 1 AS n; " + CALL + "migrate('default.made')",
        Refused("CONVERT TO tablefmt", absent=True),
    ),
    sql(
        "add files",
        CALL + "add_files(table => 'orders', source_table => '`parquet`.`/data/parquet`')",
        Refused("INSERT INTO", absent=True),
    ),
    sql(
        "register a table",
        CALL + "register_table(table => 'default.made', metadata_file => '/data/metadata.json')",
        Refused("CONVERT TO tablefmt", absent=True),
    ),
    python(
        "ancestors",
        """
spark.sql("CALL spark_catalog.system.ancestors_of('default.orders')").select("snapshot_id")""",
        [(0,), (1,), (2,)],
    ),
    python(
        "ancestors of a snapshot",
        """
spark.sql("CALL spark_catalog.system.ancestors_of(snapshot_id => 1, table => 'default.orders')") \\
    .select("snapshot_id")""",
        [(0,), (1,)],
    ),
    sql(
        "a view of changes",
        CALL + "create_changelog_view(table => 'default.orders', "
        "options => map('start-snapshot-id', '1', 'end-snapshot-id', '2'));"
        "SELECT id, _change_type, _change_ordinal, _commit_snapshot_id FROM orders_changes",
        [(4, "INSERT", 0, 2)],
    ),
    sql(
        "a named view of changes of times",
        CALL + "create_changelog_view(table => 'default.orders', "
        "options => map('start-timestamp', 'MS_1', 'end-timestamp', 'MS_2'), changelog_view => 'seen');"
        "SELECT id, _change_type FROM seen",
        [(4, "INSERT")],
    ),
    sql(
        "a view of changes with updates",
        "UPDATE orders SET amount = 0 WHERE id = 1;"
        + CALL
        + "create_changelog_view(table => 'default.orders', "
        "options => map('start-snapshot-id', '2'), identifier_columns => array('id'));"
        "SELECT id, amount, _change_type FROM orders_changes",
        [(1, 0.0, "UPDATE_AFTER"), (1, 10.0, "UPDATE_BEFORE")],
    ),
    sql(
        "a view of changes without updates",
        "UPDATE orders SET amount = 0 WHERE id = 1;"
        + CALL
        + "create_changelog_view(table => 'orders', options => map('start-snapshot-id', '2'));"
        "SELECT id, amount, _change_type FROM orders_changes",
        [(1, 0.0, "INSERT"), (1, 10.0, "DELETE")],
    ),
    sql(
        "a view of net changes",
        "INSERT INTO orders VALUES (7, 'EU', 70.0); DELETE FROM orders WHERE id = 7;"
        + CALL
        + "create_changelog_view(table => 'orders', options => map('start-snapshot-id', '1'), net_changes => true);"
        "SELECT id, _change_type FROM orders_changes",
        [(4, "INSERT")],
    ),
    sql(
        "changes with carried rows",
        "SELECT * FROM orders.changes",
        Refused("table_changes", absent=True),
    ),
    sql("statistics", CALL + "compute_table_stats('orders')", Refused("ANALYZE", absent=True)),
    sql(
        "statistics of partitions",
        CALL + "compute_partition_stats('orders')",
        Refused("partitions", absent=True),
    ),
    sql(
        "other paths",
        CALL + "rewrite_table_path(table => 'orders', source_prefix => 'a', target_prefix => 'b')",
        Refused("clone", absent=True),
    ),
)

QUERIES = (
    sql("a name with a catalog", "SELECT * FROM spark_catalog.default.orders", ORDERS),
    sql("a metadata table", "SELECT sum(rows) FROM spark_catalog.default.orders.files", [(4,)]),
    sql(
        "the functions of transforms",
        "SELECT system.bucket(16, id), system.days(current_timestamp()) FROM orders",
        SparkError("UNRESOLVED_ROUTINE"),
    ),
    sql("travel to a time", "SELECT * FROM orders TIMESTAMP AS OF 'TIME_1'", ORDERS[:3]),
    sql("travel to a snapshot", "SELECT * FROM orders VERSION AS OF 1", ORDERS[:3]),
    sql("FOR SYSTEM_TIME AS OF", "SELECT * FROM orders FOR SYSTEM_TIME AS OF 'TIME_1'", ORDERS[:3]),
    sql("FOR SYSTEM_VERSION AS OF", "SELECT * FROM orders FOR SYSTEM_VERSION AS OF 1", ORDERS[:3]),
    sql("FOR VERSION AS OF", "SELECT * FROM orders FOR VERSION AS OF 1", ORDERS[:3]),
    sql("travel to seconds", "SELECT * FROM orders TIMESTAMP AS OF SECONDS_2", ORDERS),
    sql(
        "travel to a tag",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1; SELECT * FROM orders VERSION AS OF 'q1'",
        ORDERS[:3],
    ),
    sql(
        "a tag in the name",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1; SELECT * FROM default.orders.tag_q1",
        ORDERS[:3],
    ),
    sql(
        "the columns of a snapshot",
        "ALTER TABLE orders ADD COLUMN note double; SELECT * FROM orders VERSION AS OF 1",
        ORDERS[:3],
    ),
    python("a table by name", 'spark.table("orders")', ORDERS),
    python("a table by path", 'spark.read.format("iceberg").load("/data/orders")', ORDERS),
    python(
        "a table by name with the format",
        'spark.read.format("iceberg").load("default.orders")',
        ORDERS,
    ),
    python(
        "the option as-of-timestamp",
        'spark.read.option("as-of-timestamp", "MS_1").format("iceberg").load("/data/orders")',
        ORDERS[:3],
    ),
    python(
        "the option snapshot-id",
        'spark.read.option("snapshot-id", 1).format("iceberg").load("/data/orders")',
        ORDERS[:3],
    ),
    python(
        "the option snapshot-id of a name",
        'spark.read.option("snapshot-id", 1).table("orders")',
        ORDERS[:3],
    ),
    python(
        "the option tag",
        """
spark.sql("ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1")
spark.read.option("tag", "q1").format("iceberg").load("/data/orders")""",
        ORDERS[:3],
    ),
    python(
        "the option branch",
        'spark.read.option("branch", "audit").format("iceberg").load("/data/orders")',
        BRANCH,
    ),
    python(
        "appends of a range",
        'spark.read.format("iceberg").option("start-snapshot-id", "1")'
        '.option("end-snapshot-id", "2").load("/data/orders")',
        ORDERS[3:],
    ),
    sql(
        "history",
        "SELECT snapshot_id, parent_id, is_current_ancestor FROM orders.history",
        [(0, None, True), (1, 0, True), (2, 1, True)],
    ),
    sql(
        "history and snapshots",
        "SELECT h.snapshot_id, s.operation, h.is_current_ancestor FROM orders.history h "
        "JOIN orders.snapshots s ON h.snapshot_id = s.snapshot_id WHERE h.snapshot_id = 1",
        [(1, "WRITE", True)],
    ),
    sql(
        "log of the metadata",
        "SELECT * FROM orders.metadata_log_entries",
        Refused("history", absent=True),
    ),
    sql(
        "snapshots",
        "SELECT snapshot_id, parent_id, operation FROM orders.snapshots",
        [(0, None, "CREATE TABLE"), (1, 0, "WRITE"), (2, 1, "WRITE")],
    ),
    sql("entries", "SELECT * FROM orders.entries", Refused("files", absent=True)),
    sql("files", "SELECT count(*) FROM orders.files", [(2,)]),
    sql("manifests", "SELECT * FROM orders.manifests", Refused("files", absent=True)),
    sql(
        "partitions", "SELECT partition.region, rows FROM sales.partitions", [("EU", 2), ("US", 2)]
    ),
    sql("position deletes", "SELECT * FROM orders.position_deletes", Refused("files", absent=True)),
    sql("all data files", "SELECT * FROM orders.all_data_files", Refused("files", absent=True)),
    sql("all delete files", "SELECT * FROM orders.all_delete_files", Refused("files", absent=True)),
    sql("all entries", "SELECT * FROM orders.all_entries", Refused("files", absent=True)),
    sql("all manifests", "SELECT * FROM orders.all_manifests", Refused("files", absent=True)),
    sql(
        "references",
        "ALTER TABLE orders CREATE TAG q1 AS OF VERSION 1; SELECT name, type, snapshot_id FROM orders.refs",
        [("main", "BRANCH", 3), ("q1", "TAG", 1)],
    ),
    python(
        "a metadata table by path",
        'spark.read.format("iceberg").load("/data/orders#files").count()',
        2,
    ),
    python(
        "a metadata table by name",
        'spark.read.format("iceberg").load("default.orders.files").count()',
        2,
    ),
    sql(
        "a metadata table of a version",
        "SELECT sum(rows) FROM orders.partitions VERSION AS OF 1",
        [(3,)],
    ),
    sql(
        "a metadata table of a time",
        "SELECT sum(rows) FROM orders.files TIMESTAMP AS OF 'TIME_1'",
        [(3,)],
    ),
    python(
        "a metadata table of a snapshot",
        'spark.read.format("iceberg").option("snapshot-id", 1).load("/data/orders#files").count()',
        1,
    ),
)

WRITES = (
    sql(
        "insert values",
        "INSERT INTO orders VALUES (7, 'EU', 70.0); SELECT * FROM orders",
        [*ORDERS, NEW],
    ),
    sql(
        "insert a query",
        "INSERT INTO orders SELECT * FROM updates; SELECT count(*) FROM orders",
        [(6,)],
    ),
    sql(
        "merge",
        "MERGE INTO orders t USING (SELECT * FROM updates) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.amount = s.amount WHEN NOT MATCHED THEN INSERT *; SELECT * FROM orders",
        MERGED,
    ),
    sql(
        "merge with conditions",
        "MERGE INTO orders t USING (SELECT *, 'delete' AS op FROM updates) s ON t.id = s.id "
        "WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN MATCHED AND t.amount IS NULL THEN UPDATE SET t.amount = 0 "
        "WHEN NOT MATCHED AND s.amount > 1 THEN INSERT (id, amount) VALUES (s.id, 1); SELECT id FROM orders",
        [(1,), (3,), (4,), (5,)],
    ),
    sql(
        "merge: the rest",
        "MERGE INTO orders t USING updates s ON t.id = s.id "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET region = 'old'; SELECT id, region FROM orders",
        [(1, "old"), (2, "US"), (3, "old"), (4, "old")],
    ),
    sql(
        "a dynamic overwrite",
        "SET spark.sql.sources.partitionOverwriteMode = dynamic;"
        "INSERT OVERWRITE sales SELECT max(id), region, max(amount) FROM sales WHERE region = 'EU' GROUP BY region;"
        "SELECT * FROM sales",
        [(2, "US", 20.0), (3, "EU", 30.0), (4, "US", 40.0)],
    ),
    sql(
        "a static overwrite",
        "INSERT OVERWRITE sales PARTITION (region = 'EU') SELECT max(id), max(amount) FROM sales;"
        "SELECT * FROM sales",
        [(2, "US", 20.0), (4, "EU", 40.0), (4, "US", 40.0)],
    ),
    sql(
        "delete",
        "DELETE FROM orders WHERE amount >= 20 and amount < 40; SELECT id FROM orders",
        [(1,), (4,)],
    ),
    sql(
        "delete with a query",
        "DELETE FROM orders WHERE amount < (SELECT min(amount) FROM updates); SELECT id FROM orders",
        [(3,), (4,)],
    ),
    sql(
        "delete with EXISTS",
        "DELETE FROM orders AS t WHERE EXISTS (SELECT id FROM updates WHERE t.id = updates.id);"
        "SELECT id FROM orders",
        [(1,), (3,), (4,)],
    ),
    sql(
        "update",
        "UPDATE orders SET region = 'x', amount = 0 WHERE id < 2; SELECT * FROM orders WHERE id = 1",
        [(1, "x", 0.0)],
    ),
    sql(
        "update with a query",
        "UPDATE orders SET amount = 0 WHERE amount < (SELECT min(amount) FROM updates);"
        "SELECT amount FROM orders",
        [(0.0,), (0.0,), (30.0,), (40.0,)],
    ),
    sql(
        "update with EXISTS",
        "UPDATE orders AS t SET region = 'x' WHERE EXISTS (SELECT id FROM updates WHERE t.id = updates.id);"
        "SELECT id FROM orders WHERE region = 'x'",
        [(2,)],
    ),
    python(
        "append",
        """
spark.table("updates").writeTo("default.orders").append()
spark.table("orders").count()""",
        6,
    ),
    python(
        "overwrite partitions",
        """
spark.table("updates").where("id = 5").writeTo("default.sales").overwritePartitions()
spark.table("sales").select("id")""",
        [(2,), (4,), (5,)],
    ),
    python(
        "overwrite by a condition",
        """
from pyspark.sql.functions import col
spark.table("updates").where("id = 5").writeTo("orders").overwrite(col("region") == "EU")
spark.table("orders").select("id")""",
        [(2,), (4,), (5,)],
    ),
    python(
        "create",
        """
spark.table("updates").writeTo("default.made").using("iceberg").create()
spark.table("made").count()""",
        2,
    ),
    python(
        "create or replace, partitioned",
        """
from pyspark.sql.functions import col
spark.table("updates").writeTo("default.made").using("iceberg").tableProperty("write.format.default", "parquet") \\
    .partitionedBy(col("region")).createOrReplace()
spark.table("made").count()""",
        2,
    ),
    python(
        "create or replace, partitioned by a transform",
        """
from pyspark.sql.functions import partitioning
frame = spark.sql("SELECT 1L AS id, TIMESTAMP '2026-01-02 03:04:05' AS ts")
frame.writeTo("made").using("iceberg").partitionedBy(partitioning.days("ts")).createOrReplace()
spark.table("made").count()""",
        1,
    ),
    python(
        "create at a location",
        """
spark.table("updates").writeTo("made").using("iceberg").tableProperty("location", "/data/new").createOrReplace()
spark.read.format("iceberg").load("/data/new").count()""",
        2,
    ),
    python(
        "another file format",
        """
spark.table("updates").writeTo("made").using("iceberg").tableProperty("write.format.default", "orc").create()""",
        Refused("write.format.default"),
    ),
    python(
        "merge of a DataFrame",
        """
from pyspark.sql.functions import col, lit
source = spark.table("updates").alias("s")
source.mergeInto("orders", col("s.id") == col("orders.id")).whenMatched(col("orders.id") == 2).updateAll() \\
    .whenNotMatched().insertAll().whenNotMatchedBySource(col("orders.id") == 1).update({"region": lit("old")}).merge()
spark.table("orders").where("id IN (1, 2, 5)")""",
        [(1, "old", 10.0), (2, "US", 25.0), (5, "EU", 50.0)],
    ),
    python(
        "write any schema",
        """
spark.sql("ALTER TABLE orders SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
spark.sql("SELECT 7L AS id, 'EU' AS region, 70D AS amount, 'x' AS note").writeTo("orders") \\
    .option("mergeSchema", "true").append()
spark.table("orders").where("id = 7")""",
        [(7, "EU", 70.0, "x")],
    ),
    python(
        "write to a branch",
        'spark.table("updates").writeTo("default.orders.branch_audit").append()',
        SparkError("branch_audit"),
    ),
    sql(
        "distribution of the partitions of times",
        "CREATE TABLE made (id bigint, ts timestamp, region string) USING iceberg "
        "PARTITIONED BY (days(ts), region) TBLPROPERTIES ('write.distribution-mode' = 'hash');"
        "INSERT INTO made VALUES (1, TIMESTAMP '2026-01-02 03:04:05', 'EU'); SELECT id FROM made",
        [(1,)],
    ),
)

STREAMS = (
    read_stream(
        "from a time on",
        'format("iceberg").option("stream-from-timestamp", "MILLIS_2").load("/data/orders")',
        ORDERS[3:],
    ),
    read_stream("a table by name", 'format("iceberg").load("default.orders")', ORDERS),
    read_stream(
        "a limit of files",
        'format("iceberg").option("streaming-max-files-per-micro-batch", "1").load("/data/orders")',
        ORDERS,
    ),
    read_stream(
        "a limit of rows",
        'format("iceberg").option("streaming-max-rows-per-micro-batch", "1000").load("/data/orders")',
        ORDERS,
    ),
    read_stream(
        "without overwrites and deletes",
        'format("iceberg").option("streaming-skip-delete-snapshots", "true").option("streaming-skip-overwrite-snapshots", "true").option("stream-from-timestamp", "MILLIS_1").load("/data/orders")',
        ORDERS,
        before='spark.sql("DELETE FROM orders WHERE id = 1")',
    ),
    write_stream(
        "write by name",
        'format("iceberg").outputMode("append")',
        'toTable("made")',
        'spark.table("made")',
        [(1,), (2,), (3,)],
    ),
    write_stream(
        "write by path",
        'format("iceberg").outputMode("append").option("path", "/data/new")',
        "start()",
        'spark.read.format("iceberg").load("/data/new")',
        [(1,), (2,), (3,)],
    ),
    write_stream(
        "write partitions with many files",
        'format("iceberg").outputMode("append").option("fanout-enabled", "true")',
        'toTable("made")',
        'spark.table("made")',
        [(1,), (2,), (3,)],
        before='spark.sql("CREATE TABLE made (id BIGINT) USING iceberg PARTITIONED BY (bucket(2, id))")',
    ),
)

CONFIGURATION = (
    python(
        "the file format of a write",
        """
spark.table("updates").writeTo("orders").option("write-format", "avro").append()""",
        Refused("write-format"),
    ),
    python(
        "metadata of a snapshot",
        """
spark.table("updates").writeTo("orders").option("snapshot-property.key", "value").append()
spark.sql("DESCRIBE HISTORY orders LIMIT 1").select("userMetadata").first()[0]""",
        '{"key":"value"}',
    ),
    python(
        "options of a write",
        """
spark.table("updates").writeTo("orders").option("target-file-size-bytes", "1048576") \\
    .option("check-nullability", "true").option("check-ordering", "true").option("compression-codec", "zstd").append()
spark.table("orders").count()""",
        6,
    ),
    python(
        "options that tune a read",
        """
spark.read.option("split-size", "1048576").option("lookback", "5").option("vectorization-enabled", "true") \\
    .format("iceberg").load("/data/orders")""",
        ORDERS,
    ),
    sql(
        "properties of a write",
        "CREATE TABLE made (id bigint) USING iceberg TBLPROPERTIES "
        "('format-version' = '2', 'write.target-file-size-bytes' = '1048576', 'write.delete.mode' = 'merge-on-read', "
        "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read', "
        "'write.parquet.compression-codec' = 'zstd', 'commit.retry.num-retries' = '10'); SHOW TBLPROPERTIES made ('deleteMode')",
        [("deleteMode", "merge-on-read")],
    ),
    sql(
        "copy on write",
        "ALTER TABLE orders SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write', "
        "'write.update.mode' = 'copy-on-write', 'write.merge.mode' = 'copy-on-write');"
        "SHOW TBLPROPERTIES orders ('deleteMode')",
        [("deleteMode", "copy-on-write")],
    ),
    sql(
        "different modes",
        "CREATE TABLE made (id bigint) USING iceberg TBLPROPERTIES "
        "('write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'copy-on-write')",
        Refused("deleteMode"),
    ),
    sql(
        "how long snapshots stay",
        "ALTER TABLE orders SET TBLPROPERTIES "
        "('history.expire.max-snapshot-age-ms' = '864000000'); SHOW TBLPROPERTIES orders ('deletedFileRetentionDuration')",
        [("deletedFileRetentionDuration", "interval 864000 seconds")],
    ),
)

ICEBERG = Documentation(
    "Apache Iceberg for Spark",
    (
        ("USING iceberg", "USING tablefmt"),
        ('format("iceberg")', 'format("tablefmt")'),
        ('using("iceberg")', 'using("tablefmt")'),
    ),
    {
        "spark-getting-started": iceberg_details.GETTING_STARTED,
        "spark-ddl": (*DDL, *iceberg_details.DDL),
        "spark-ddl: partition fields": iceberg_details.PARTITION_FIELDS,
        "branching": BRANCHING,
        "spark-procedures": (*PROCEDURES, *iceberg_details.PROCEDURES),
        "spark-queries": (*QUERIES, *iceberg_details.QUERIES),
        "spark-writes": (*WRITES, *iceberg_details.WRITES),
        "spark-structured-streaming": STREAMS,
        "spark-configuration": (*CONFIGURATION, *iceberg_details.CONFIGURATION),
    },
)
