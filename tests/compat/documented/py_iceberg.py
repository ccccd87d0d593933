"""Operations of PyIceberg's documentation (py.iceberg.apache.org)."""

from __future__ import annotations

from tests.compat.documented.operation import ORDERS, Documentation, Refused, python

START = """
from pyiceberg.catalog import load_catalog
import pyarrow as pa
catalog = load_catalog("default", warehouse="/data")
"""
TABLE = START + 'table = catalog.load_table("shop.orders")\n'
SALES = START + 'table = catalog.load_table("shop.sales")\n'
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
                TABLE
                + """
from pyiceberg.transforms import BucketTransform
with table.update_spec() as update:
    update.add_field("id", BucketTransform(16), "bucketed_id")""",
                Refused("overwrite_schema"),
            ),
            python(
                "add an identity field",
                TABLE
                + """
with table.update_spec() as update:
    update.add_identity("region")""",
                Refused("overwrite_schema"),
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
    },
)
