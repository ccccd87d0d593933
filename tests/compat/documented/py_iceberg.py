"""Operations of PyIceberg's documentation (py.iceberg.apache.org)."""

from __future__ import annotations

from tests.compat.documented.operation import ORDERS, Documentation, Refused, SameError, python

START = """
from pyiceberg.catalog import load_catalog
import pyarrow as pa
catalog = load_catalog("default", warehouse="/data")
"""
TABLE = START + 'table = catalog.load_table("shop.orders")\n'
SALES = START + 'table = catalog.load_table("shop.sales")\n'
TIMED = (
    START
    + """
from datetime import datetime
rows = pa.table({"id": [1], "event_ts": [datetime(2026, 1, 2, 3)]})
table = catalog.create_table("made.events", schema=rows.schema)
"""
)
ROWS = 'pa.table({"id": [7], "region": ["EU"], "amount": [70.0]})'
NEW = (7, "EU", 70.0)
BRANCH = Refused("one line of versions", absent=True)
VIEW = Refused("Spark's catalog", absent=True)

PY_ICEBERG = Documentation(
    "PyIceberg",
    (
        ("from pyiceberg.catalog", "from tablefmt.compat.pyiceberg"),
        ("from pyiceberg.table import", "from tablefmt.compat.pyiceberg import"),
    ),
    {
        "index": (
            python(
                "create and append",
                START
                + f"""
catalog.create_namespace("made")
table = catalog.create_table("made.rows", schema={ROWS}.schema)
table.append({ROWS})
table.scan().to_arrow()""",
                [NEW],
            ),
            python(
                "a catalog of SQL",
                """
from pyiceberg.catalog import load_catalog
catalog = load_catalog("default", **{"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data"})
catalog.table_exists("shop.orders")""",
                True,
            ),
            python(
                "a column of new rows",
                TABLE
                + f"""
wide = {ROWS}.append_column("note", pa.array(["x"]))
with table.update_schema() as update:
    update.union_by_name(wide.schema)
table.append(wide)
table.scan(row_filter="note = 'x'").to_arrow()""",
                [(*NEW, "x")],
            ),
            python("overwrite", TABLE + f"table.overwrite({ROWS})\ntable.scan().to_arrow()", [NEW]),
            python(
                "a condition as text",
                TABLE + 'len(table.scan(row_filter="amount > 15").to_arrow())',
                3,
            ),
        ),
        "catalogs": (
            python(
                "a REST catalog",
                """
from pyiceberg.catalog import load_catalog
load_catalog("docs", **{"uri": "http://127.0.0.1:8181", "s3.access-key-id": "admin"})""",
                Refused("warehouse", absent=True),
            ),
            python("namespaces", START + "catalog.list_namespaces()", [("shop",)]),
            python(
                "tables",
                START + 'catalog.list_tables("shop")',
                [("shop", "orders"), ("shop", "sales")],
            ),
            python(
                "is there a namespace",
                START
                + """
[catalog.namespace_exists("shop"), catalog.namespace_exists("nothing")]""",
                [True, False],
            ),
            python(
                "properties of a namespace",
                START + 'catalog.load_namespace_properties("shop")',
                Refused("no properties", absent=True),
            ),
            python(
                "drop a namespace",
                START
                + """
catalog.create_namespace("made")
catalog.drop_namespace("made")""",
                None,
            ),
            python(
                "create with partitions",
                START
                + """
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform
schema = Schema(NestedField(1, "at", TimestampType(), required=True), NestedField(2, "name", StringType()))
spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="at_day"))
table = catalog.create_table("made.events", schema=schema, partition_spec=spec)
table.scan().to_arrow().num_rows""",
                0,
            ),
            python(
                "create with an order",
                START
                + """
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType
schema = Schema(NestedField(1, "name", StringType()))
order = SortOrder(SortField(source_id=1, transform=IdentityTransform()))
catalog.create_table("made.events", schema=schema, sort_order=order).scan().to_arrow().num_rows""",
                0,
            ),
            python(
                "create in a transaction",
                START
                + f"""
with catalog.create_table_transaction("made.rows", schema={ROWS}.schema) as transaction:
    transaction.append({ROWS})
catalog.load_table("made.rows").scan().to_arrow()""",
                [NEW],
            ),
            python(
                "register",
                START + 'catalog.register_table("made.rows", metadata_location="/data/m.json")',
                Refused("import_table", absent=True),
            ),
            python(
                "a static table",
                """
from pyiceberg.table import StaticTable
StaticTable.from_metadata("/data/shop/orders/metadata/1.metadata.json")""",
                Refused("import_table", absent=True),
            ),
            python(
                "load by a tuple",
                START + 'catalog.load_table(("shop", "orders")).scan().to_arrow()',
                ORDERS,
            ),
            python(
                "is there a table",
                START
                + """
[catalog.table_exists("shop.orders"), catalog.table_exists("shop.nothing")]""",
                [True, False],
            ),
            python(
                "rename",
                START + 'catalog.rename_table("shop.orders", "shop.kept")',
                Refused("move the folder", absent=True),
            ),
            python(
                "drop",
                START
                + """
catalog.drop_table("shop.orders")
catalog.table_exists("shop.orders")""",
                False,
            ),
            python(
                "purge",
                START
                + """
catalog.purge_table("shop.orders")
catalog.table_exists("shop.orders")""",
                False,
            ),
        ),
        "api: writes": (
            python(
                "append", TABLE + f"table.append({ROWS})\ntable.scan().to_arrow()", [*ORDERS, NEW]
            ),
            python(
                "append batches",
                TABLE + f"table.append({ROWS}.to_reader())\ntable.scan().to_arrow()",
                [*ORDERS, NEW],
            ),
            python(
                "append with the table's columns",
                TABLE
                + """
table.append(pa.Table.from_pylist([{"id": 7, "region": "EU", "amount": 70.0}], schema=table.schema().as_arrow()))
table.scan().to_arrow()""",
                [*ORDERS, NEW],
            ),
            python(
                "batches of a scan",
                TABLE + "sum(len(batch) for batch in table.scan().to_arrow_batch_reader())",
                4,
            ),
            python(
                "delete",
                TABLE
                + """
table.delete(delete_filter="region == 'EU'")
table.scan().to_arrow()""",
                [ORDERS[1], ORDERS[3]],
            ),
            python(
                "overwrite by a condition",
                TABLE
                + f"""
from pyiceberg.expressions import EqualTo
table.overwrite({ROWS}, overwrite_filter=EqualTo("region", "EU"))
table.scan(selected_fields=("id",)).to_arrow()""",
                [(2,), (4,), (7,)],
            ),
            python(
                "overwrite partitions",
                SALES
                + f"""
table.dynamic_partition_overwrite({ROWS})
table.scan(selected_fields=("id",)).to_arrow()""",
                [(2,), (4,), (7,)],
            ),
            python(
                "upsert",
                TABLE
                + """
done = table.upsert(pa.table({"id": [2, 5], "region": ["US", "EU"], "amount": [25.0, 50.0]}), join_cols=["id"])
[done.rows_updated, done.rows_inserted]""",
                [1, 1],
            ),
            python(
                "upsert by identifier fields",
                START
                + """
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "n", LongType()), identifier_field_ids=[1])
table = catalog.create_table("made.rows", schema=schema)
rows = pa.table({"id": [1, 2], "n": [1, 2]}, schema=table.schema().as_arrow())
table.append(rows.slice(0, 1))
done = table.upsert(rows)
[done.rows_updated, done.rows_inserted]""",
                [0, 1],
            ),
            python(
                "properties of a snapshot",
                TABLE
                + f"""
table.append({ROWS}, snapshot_properties={{"abc": "def"}})
table.current_snapshot().summary["abc"]""",
                "def",
            ),
            python(
                "add files",
                TABLE + 'table.add_files(file_paths=["/data/parquet/rows.parquet"])',
                Refused("append the rows", absent=True),
            ),
        ),
        "api: inspect": (
            python(
                "snapshots", TABLE + 'table.inspect.snapshots()["snapshot_id"].to_pylist()', [1, 2]
            ),
            python("partitions", SALES + "table.inspect.partitions().num_rows", 2),
            python("history", TABLE + "table.inspect.history().num_rows", 2),
            python("files", TABLE + "table.inspect.files().num_rows", 2),
            python("files of a snapshot", TABLE + "table.inspect.files(snapshot_id=1).num_rows", 1),
            python(
                "references",
                TABLE
                + """
table.manage_snapshots().create_tag(1, "q1").commit()
table.inspect.refs().select(["name", "type", "snapshot_id"])""",
                [("main", "BRANCH", 3), ("q1", "TAG", 1)],
            ),
            python("entries", TABLE + "table.inspect.entries()", Refused("files", absent=True)),
            python("manifests", TABLE + "table.inspect.manifests()", Refused("files", absent=True)),
            python(
                "log of the metadata",
                TABLE + "table.inspect.metadata_log_entries()",
                Refused("files", absent=True),
            ),
        ),
        "api: schema evolution": (
            python(
                "add a column",
                TABLE
                + """
from pyiceberg.types import IntegerType
with table.update_schema() as update:
    update.add_column("retries", IntegerType(), "how often")
table.scan().to_arrow().column_names""",
                ["id", "region", "amount", "retries"],
            ),
            python(
                "add a column in a transaction",
                TABLE
                + """
from pyiceberg.types import IntegerType
with table.transaction() as transaction:
    with transaction.update_schema() as update:
        update.add_column("retries", IntegerType())
table.scan().to_arrow().column_names""",
                ["id", "region", "amount", "retries"],
            ),
            python(
                "add a field of a struct",
                TABLE
                + """
from pyiceberg.types import NestedField, StringType, StructType
with table.update_schema() as update:
    update.add_column("details", StructType(NestedField(1, "by", StringType(), required=False)))
with table.update_schema() as update:
    update.add_column(("details", "place"), StringType())
[field.name for field in table.scan().to_arrow().schema.field("details").type]""",
                ["by", "place"],
            ),
            python(
                "rename",
                TABLE
                + """
with table.update_schema() as update:
    update.rename_column("amount", "price")
table.scan().to_arrow().column_names""",
                ["id", "region", "price"],
            ),
            python(
                "move",
                TABLE
                + """
with table.update_schema() as update:
    update.move_first("amount")
    update.move_after("id", "region")
table.scan().to_arrow().column_names""",
                ["amount", "region", "id"],
            ),
            python(
                "move before",
                TABLE
                + """
with table.update_schema() as update:
    update.move_before("amount", "region")
table.scan().to_arrow().column_names""",
                ["id", "amount", "region"],
            ),
            python(
                "a wider type and a comment",
                START
                + """
from pyiceberg.types import DoubleType
table = catalog.create_table("made.rows", schema=pa.schema([("bid", pa.float32())]))
with table.update_schema() as update:
    update.update_column("bid", field_type=DoubleType())
    update.update_column("bid", doc="price")
str(table.scan().to_arrow().schema.field("bid").type)""",
                "double",
            ),
            python(
                "not required",
                START
                + """
table = catalog.create_table("made.rows", schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
with table.update_schema() as update:
    update.make_column_optional("id")
table.scan().to_arrow().schema.field("id").nullable""",
                True,
            ),
            python(
                "required",
                TABLE
                + """
with table.update_schema(allow_incompatible_changes=True) as update:
    update.update_column("region", required=True)
table.scan().to_arrow().schema.field("region").nullable""",
                False,
            ),
            python(
                "delete",
                TABLE
                + """
with table.update_schema() as update:
    update.delete_column("amount")
table.scan().to_arrow().column_names""",
                ["id", "region"],
            ),
        ),
        "api: properties and snapshots": (
            python(
                "set and remove properties",
                TABLE
                + """
with table.transaction() as transaction:
    transaction.set_properties(abc="def")
first = dict(table.properties)
with table.transaction() as transaction:
    transaction.remove_properties("abc")
[first, dict(table.properties)]""",
                [{"abc": "def"}, {}],
            ),
            python(
                "set properties in a chain",
                TABLE
                + """
table = table.transaction().set_properties(abc="def").commit_transaction()
dict(table.properties)""",
                {"abc": "def"},
            ),
            python(
                "create tags",
                TABLE
                + """
table.manage_snapshots().create_tag(1, "q1").create_tag(2, "q2").commit()
[table.scan(snapshot_id=table.snapshot_by_name("q1").snapshot_id).count(), len(table.refs())]""",
                [3, 3],
            ),
            python(
                "a tag kept for a time",
                TABLE
                + """
table.manage_snapshots().create_tag(snapshot_id=1, tag_name="v1.0.0", max_ref_age_ms=604800000).commit()
table.snapshot_by_name("v1.0.0").snapshot_id""",
                1,
            ),
            python(
                "remove a tag",
                TABLE
                + """
table.manage_snapshots().create_tag(1, "q1").commit()
table.manage_snapshots().remove_tag("q1").commit()
table.snapshot_by_name("q1")""",
                None,
            ),
            python(
                "a scan of a reference",
                TABLE
                + """
table.manage_snapshots().create_tag(1, "q1").commit()
table.scan().use_ref("q1").to_arrow()""",
                ORDERS[:3],
            ),
            python(
                "create a branch",
                TABLE + 'table.manage_snapshots().create_branch(1, "dev").commit()',
                BRANCH,
            ),
            python(
                "remove a branch",
                TABLE + 'table.manage_snapshots().remove_branch("dev").commit()',
                BRANCH,
            ),
            python(
                "expire by a time",
                TABLE
                + """
from datetime import datetime, timedelta
table.maintenance.expire_snapshots().older_than(datetime.now() - timedelta(days=30)).commit()
table.scan().to_arrow()""",
                ORDERS,
            ),
            python(
                "expire by ids",
                TABLE + "table.maintenance.expire_snapshots().by_id(1).commit()",
                Refused("older_than"),
            ),
            python(
                "statistics", TABLE + "table.update_statistics()", Refused("bounds", absent=True)
            ),
        ),
        "api: views": (
            python("create", START + 'catalog.create_view("made.seen", None, None)', VIEW),
            python("load", START + 'catalog.load_view("made.seen")', VIEW),
            python("is there a view", START + 'catalog.view_exists("made.seen")', VIEW),
            python("list", START + 'catalog.list_views("made")', VIEW),
            python("drop", START + 'catalog.drop_view("made.seen")', VIEW),
        ),
        "api: query": (
            python(
                "expressions and columns",
                TABLE
                + """
from pyiceberg.expressions import GreaterThanOrEqual
table.scan(row_filter=GreaterThanOrEqual("amount", 30.0), selected_fields=("id", "region"), limit=100).to_arrow()""",
                [(3, "EU"), (4, "US")],
            ),
            python(
                "files of a plan",
                TABLE
                + """
[len(task.file.file_path) > 0 for task in table.scan(row_filter="amount > 35").plan_files()]""",
                [True],
            ),
            python(
                "pandas",
                TABLE + 'table.scan(row_filter="amount >= 30").to_pandas()["id"].tolist()',
                [3, 4],
            ),
            python(
                "DuckDB",
                TABLE
                + """
table.scan(row_filter="amount > 30").to_duckdb(table_name="found").execute("SELECT id FROM found").fetchall()""",
                [(4,)],
            ),
            python("Ray", TABLE + "table.scan().to_ray()", Refused("to_arrow", absent=True)),
            python("Bodo", TABLE + "table.to_bodo()", Refused("to_arrow", absent=True)),
            python("Daft", TABLE + "table.to_daft()", Refused("to_arrow", absent=True)),
            python(
                "polars, lazily",
                TABLE
                + """
import polars
table.to_polars().filter(polars.col("id") > 3).collect()["id"].to_list()""",
                [4],
            ),
            python(
                "polars", TABLE + 'table.scan(row_filter="id > 3").to_polars()["id"].to_list()', [4]
            ),
            python("time travel", TABLE + "table.scan(snapshot_id=1).to_arrow()", ORDERS[:3]),
            python(
                "the snapshot of a time",
                TABLE
                + """
table.snapshot_as_of_timestamp(MS_1).snapshot_id""",
                1,
            ),
            python(
                "and, or, not, in",
                TABLE
                + """
from pyiceberg.expressions import And, EqualTo, In, IsNull, Not, Or, StartsWith
table.scan(row_filter=And(Or(In("id", {1, 3}), EqualTo("id", 4)), Not(IsNull("region")), StartsWith("region", "E"))) \\
    .to_arrow()""",
                [ORDERS[0], ORDERS[2]],
            ),
            python(
                "text with LIKE, IN and BETWEEN",
                TABLE
                + """
table.scan(row_filter="region LIKE 'E%' AND id IN (1, 2) AND amount BETWEEN 5 AND 15").to_arrow()""",
                ORDERS[:1],
            ),
        ),
        "api: partition evolution": (
            python(
                "add fields",
                TIMED
                + """
from pyiceberg.transforms import BucketTransform, DayTransform
with table.update_spec() as update:
    update.add_field("id", BucketTransform(16), "bucketed_id")
    update.add_field("event_ts", DayTransform(), "day_ts")
table.append(rows)
table.inspect.partitions().schema.field("partition").type.names""",
                ["bucketed_id", "day_ts"],
            ),
            python(
                "add fields in a transaction",
                TIMED
                + """
from pyiceberg.transforms import BucketTransform, DayTransform
with table.transaction() as transaction:
    with transaction.update_spec() as update_spec:
        update_spec.add_field("id", BucketTransform(16), "bucketed_id")
        update_spec.add_field("event_ts", DayTransform(), "day_ts")
    transaction.set_properties(abc="def")
table.append(rows)
table.inspect.partitions().schema.field("partition").type.names""",
                ["bucketed_id", "day_ts"],
            ),
            python(
                "add an identity field",
                TABLE
                + f"""
with table.update_spec() as update:
    update.identity("region")
table.append({ROWS})
table.scan(row_filter="region = 'EU'").count()""",
                3,
            ),
            python(
                "add an identity field by its method",
                TABLE
                + """
with table.update_spec() as update:
    update.add_identity("region")
table.table.refresh().partition_by""",
                ["region"],
            ),
            python(
                "remove a field",
                SALES
                + f"""
with table.update_spec() as update:
    update.remove_field("region")
table.append({ROWS})
table.scan().to_arrow()""",
                [*ORDERS, NEW],
            ),
            python(
                "rename a field",
                TIMED
                + """
from pyiceberg.transforms import BucketTransform
with table.update_spec() as update:
    update.add_field("id", BucketTransform(16), "bucketed_id")
with table.update_spec() as update:
    update.rename_field("bucketed_id", "sharded_id")
table.append(rows)
table.inspect.partitions().schema.field("partition").type.names""",
                ["sharded_id"],
            ),
            python(
                "update the order",
                TABLE
                + """
from pyiceberg.transforms import IdentityTransform
with table.update_sort_order() as update:
    update.asc("region", IdentityTransform())
table.table.refresh().cluster_by""",
                ["region"],
            ),
        ),
        "api: details": (
            python(
                "create with a transform by its name",
                START
                + """
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, StringType, StructType, TimestampType
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortField, SortOrder
schema = Schema(
    NestedField(field_id=1, name="datetime", field_type=TimestampType(), required=True),
    NestedField(field_id=2, name="symbol", field_type=StringType(), required=True),
    NestedField(field_id=3, name="bid", field_type=FloatType(), required=False),
    NestedField(field_id=5, name="details", field_type=StructType(
        NestedField(field_id=4, name="created_by", field_type=StringType(), required=False)), required=False),
)
partition_spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform="day", name="datetime_day"))
sort_order = SortOrder(SortField(source_id=2, transform="identity"))
table = catalog.create_table(identifier="made.bids", schema=schema, partition_spec=partition_spec, sort_order=sort_order)
[table.table.partition_by, table.table.cluster_by]""",
                [["days(datetime)"], ["symbol"]],
            ),
            python(
                "create and change in a transaction",
                START
                + """
schema = pa.schema([pa.field("symbol", pa.string()), pa.field("bar", pa.int32(), nullable=False)])
with catalog.create_table_transaction(identifier="made.bids", schema=schema) as txn:
    with txn.update_schema() as update_schema:
        update_schema.add_column(path="new_column", field_type="string")
    with txn.update_spec() as update_spec:
        update_spec.add_identity("symbol")
    txn.set_properties(test_a="test_aa", test_b="test_b", test_c="test_c")
table = catalog.load_table("made.bids")
[table.schema().names, table.table.partition_by, len(table.properties)]""",
                [["symbol", "bar", "new_column"], ["symbol"], 3],
            ),
            python(
                "register over a table",
                START
                + 'catalog.register_table("shop.orders", metadata_location="s3://m.json", overwrite=True)',
                Refused("import_table", absent=True),
            ),
            python(
                "change the properties of a namespace",
                START
                + 'catalog.update_namespace_properties("shop", removals={"a"}, updates={"owner": "iceberg"})',
                Refused("no properties", absent=True),
            ),
            python(
                "append rows of a list",
                TABLE
                + """
table.append(pa.Table.from_pylist([{"id": 7, "region": "EU", "amount": 70.0}]))
table.scan().to_arrow()""",
                [*ORDERS, NEW],
            ),
            python(
                "overwrite by a condition, with new rows elsewhere",
                TABLE
                + """
from pyiceberg.expressions import EqualTo
rows = pa.Table.from_pylist([{"id": 9, "region": "New York", "amount": 1.0}])
table.overwrite(rows, overwrite_filter=EqualTo("region", "EU"))
table.scan().to_arrow()""",
                [ORDERS[1], ORDERS[3], (9, "New York", 1.0)],
            ),
            python(
                "overwrite with properties of the snapshot",
                TABLE
                + f"""
table.overwrite({ROWS}, snapshot_properties={{"abc": "def"}})
table.current_snapshot().summary["abc"]""",
                "def",
            ),
            python(
                "add files with a check",
                TABLE
                + 'table.add_files(file_paths=["/data/rows.parquet"], check_duplicate_files=True)',
                Refused("append the rows", absent=True),
            ),
            python(
                "columns of a snapshot in a union",
                TABLE
                + """
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
new_schema = Schema(NestedField(1, "region", StringType()), NestedField(10, "population", LongType()))
with table.update_schema() as update:
    update.union_by_name(new_schema)
table.schema().column_names""",
                ["id", "region", "amount", "population"],
            ),
            python(
                "delete a field of a struct",
                START
                + """
table = catalog.create_table("made.rows", schema=pa.schema([
    ("id", pa.int64()), ("details", pa.struct([("created_by", pa.string()), ("confirmed_by", pa.string())]))]))
with table.update_schema(allow_incompatible_changes=True) as update:
    update.delete_column("id")
    update.delete_column(("details", "confirmed_by"))
[table.schema().column_names, table.schema().field("details").type.names]""",
                [["details"], ["created_by"]],
            ),
            python(
                "several tags in a block",
                TABLE
                + """
with table.manage_snapshots() as ms:
    ms.create_tag(1, "q1").create_tag(2, "q2")
sorted(table.refs())""",
                ["main", "q1", "q2"],
            ),
            python(
                "a branch and a tag in a block",
                TABLE
                + """
with table.manage_snapshots() as ms:
    ms.create_branch(1, "Branch_A").create_tag(2, "q2")""",
                BRANCH,
            ),
            python(
                "expire several by ids in a block",
                TABLE
                + """
with table.maintenance.expire_snapshots() as expire:
    expire.by_id(1)""",
                Refused("older_than"),
            ),
            python(
                "batches of a scan of columns",
                TABLE
                + """
from pyiceberg.expressions import GreaterThanOrEqual
reader = table.scan(row_filter=GreaterThanOrEqual("amount", 30.0), selected_fields=("id",)).to_arrow_batch_reader()
sum(len(batch) for batch in reader)""",
                2,
            ),
            python(
                "polars by a condition, lazily",
                TABLE
                + """
import polars as pl
table.to_polars().filter(pl.col("id") > 2).collect().height""",
                2,
            ),
            python(
                "set statistics",
                TABLE + "table.update_statistics().set_statistics(None).commit()",
                Refused("bounds", absent=True),
            ),
            python(
                "register a view", START + 'catalog.register_view("made.seen", "s3://m.json")', VIEW
            ),
        ),
        "expression-dsl": tuple(
            python(
                feature,
                TABLE
                + f"""
from pyiceberg.expressions import (
    And, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNull, LessThan, LessThanOrEqual, Not, NotEqualTo, NotIn,
    NotNull, NotStartsWith, Or, Reference, StartsWith)
table.scan(row_filter={text}).to_arrow()["id"].to_pylist()""",
                ids,
            )
            for feature, text, ids in (
                ("a term", 'EqualTo(Reference("amount"), 20.0)', [2]),
                ("equal", 'EqualTo("amount", 20.0)', [2]),
                ("not equal", 'NotEqualTo("amount", 20.0)', [1, 3, 4]),
                ("less", 'LessThan("amount", 20.0)', [1]),
                ("less or equal", 'LessThanOrEqual("amount", 20.0)', [1, 2]),
                ("greater", 'GreaterThan("amount", 20.0)', [3, 4]),
                ("greater or equal", 'GreaterThanOrEqual("amount", 20.0)', [2, 3, 4]),
                ("in", 'In("id", [1, 3, 9])', [1, 3]),
                ("not in", 'NotIn("id", [1, 3, 9])', [2, 4]),
                ("is null", 'IsNull("region")', []),
                ("is not null", 'NotNull("region")', [1, 2, 3, 4]),
                ("starts with", 'StartsWith("region", "E")', [1, 3]),
                ("does not start with", 'NotStartsWith("region", "E")', [2, 4]),
                ("and", 'And(GreaterThanOrEqual("id", 2), LessThanOrEqual("id", 3))', [2, 3]),
                ("or", 'Or(LessThan("id", 2), GreaterThan("id", 3))', [1, 4]),
                ("not", 'Not(GreaterThanOrEqual("id", 2))', [1]),
                (
                    "combined",
                    'And(And(GreaterThanOrEqual("id", 2), LessThanOrEqual("id", 4)), '
                    'Or(EqualTo("region", "EU"), EqualTo("region", "FR")))',
                    [3],
                ),
                ("not of or", 'Not(Or(LessThan("id", 2), GreaterThan("id", 3)))', [2, 3]),
                (
                    "several conditions",
                    'And(Not(EqualTo("region", "US")), Or(And(EqualTo("id", 1), GreaterThan("amount", 5)), EqualTo("id", 3)))',
                    [1, 3],
                ),
            )
        ),
        "row-filter-syntax": tuple(
            python(
                feature,
                TABLE + f"table.scan(row_filter={text!r}).to_arrow()['id'].to_pylist()",
                ids,
            )
            for feature, text, ids in (
                ("a name", "region = 'EU'", [1, 3]),
                ("a quoted name", "\"region\" = 'EU'", [1, 3]),
                ("equal, with two signs", "id == 2", [2]),
                ("not equal", "id != 2", [1, 3, 4]),
                ("not equal, with <>", "id <> 2", [1, 3, 4]),
                ("greater", "amount > 20", [3, 4]),
                ("greater or equal", "amount >= 20", [2, 3, 4]),
                ("less", "amount < 20", [1]),
                ("less or equal", "amount <= 20.0", [1, 2]),
                ("not a text", "region != 'EU'", [2, 4]),
                ("is null", "region IS NULL", []),
                ("is not null", "region IS NOT NULL", [1, 2, 3, 4]),
                ("is NaN", "amount IS NAN", []),
                ("is not NaN", "amount IS NOT NAN", [1, 2, 3, 4]),
                ("in", "region IN ('EU', 'FR', 'UK')", [1, 3]),
                ("not in", "id NOT IN (1, 2, 3)", [4]),
                ("like", "region LIKE 'E%'", [1, 3]),
                ("not like", "region NOT LIKE 'E%'", [2, 4]),
                ("between", "id BETWEEN 2 AND 3", [2, 3]),
                ("between decimals", "amount BETWEEN 10.0 AND 20.0", [1, 2]),
                ("and", "id = 1 AND region = 'EU'", [1]),
                ("or", "id > 3 OR region IS NULL", [4]),
                ("not", "NOT (id = 1)", [2, 3, 4]),
                ("brackets", "(id = 1 AND region = 'EU') OR region IS NULL", [1]),
                ("several", "region = 'EU' AND id > 1 AND NOT (region IN ('US', 'CA'))", [3]),
            )
        ),
        "row-filter-syntax: errors": (
            python(
                "a text in double quotes",
                TABLE + "table.scan(row_filter='region = \"EU\"').to_arrow()",
                SameError("EU"),
            ),
            python(
                "a wildcard elsewhere",
                TABLE + "table.scan(row_filter=\"region LIKE '%U'\").to_arrow()",
                SameError("at the end"),
            ),
        ),
        "multi-part-namespace": (
            python(
                "a table",
                START
                + f"""
table = catalog.create_table("default.multi.made", {ROWS}.schema)
[catalog.list_tables("default.multi"), catalog.load_table("default.multi.made").name()]""",
                [[("default", "multi", "made")], ("default", "multi", "made")],
            ),
        ),
        "recipe-count": (
            python("all rows", TABLE + "table.scan().count()", 4),
            python("by a text", TABLE + 'table.scan().filter("amount > 15").count()', 3),
            python(
                "by expressions",
                TABLE
                + """
from pyiceberg.expressions import And, EqualTo, GreaterThan
table.scan().filter(And(EqualTo("region", "EU"), GreaterThan("amount", 15))).count()""",
                1,
            ),
        ),
        "practical-examples": (
            python(
                "a CSV file",
                START
                + """
import pyarrow.csv as csv_pa
import pathlib
pathlib.Path("/data/data.csv").write_text("id,name\\n1,a\\n2,b\\n")
csv_data = csv_pa.read_csv("/data/data.csv")
table = catalog.create_table("my.made", schema=csv_data.schema)
table.append(csv_data)
table.scan().to_arrow()""",
                [(1, "a"), (2, "b")],
            ),
            python(
                "an older version, and the history",
                TABLE
                + """
old_snapshot_id = table.history()[0].snapshot_id
historical_data = table.scan(snapshot_id=old_snapshot_id).to_arrow()
[historical_data.num_rows, [entry.snapshot_id for entry in table.history()]]""",
                [3, [1, 2]],
            ),
        ),
    },
)
