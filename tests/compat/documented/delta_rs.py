"""Operations of delta-rs' documentation (delta-io.github.io/delta-rs)."""

from __future__ import annotations

from tests.compat.documented.operation import ORDERS, Documentation, Refused, SameError, python

IMPORT = "from deltalake import DeltaTable, write_deltalake\nimport pyarrow as pa\n"
ROWS = 'pa.table({"id": [7], "region": ["EU"], "amount": [70.0]})'
SOURCE = 'pa.table({"id": [2, 5], "region": ["US", "EU"], "amount": [25.0, 50.0]})'
UPDATED = [(1, "EU", 10.0), (2, "US", 25.0), (3, "EU", 30.0), (4, "US", 40.0)]
MERGED = [*UPDATED, (5, "EU", 50.0)]
TABLE = 'DeltaTable("/data/orders").to_pyarrow_table()'
MERGE = f"""{IMPORT}
merge = DeltaTable("/data/orders").merge(source={SOURCE}, predicate="target.id = source.id",
                                         source_alias="source", target_alias="target")
"""
SALES = f'{IMPORT}\ntable = DeltaTable("/data/sales")\n'
ORDER = f'{IMPORT}\ntable = DeltaTable("/data/orders")\n'


def done(call: str, shown: str = TABLE) -> str:
    return f"{MERGE}merge{call}.execute()\n{shown}"


DELTA_RS = Documentation(
    "delta-rs",
    (("from deltalake", "from tablefmt.compat.deltalake"),),
    {
        "index": (
            python(
                "create from pandas",
                IMPORT
                + """
import pandas as pd
write_deltalake("/data/new", pd.DataFrame({"num": [8, 9], "letter": ["dd", "ee"]}))
DeltaTable("/data/new").to_pandas()["num"].tolist()""",
                [8, 9],
            ),
            python(
                "append",
                IMPORT + f'write_deltalake("/data/orders", {ROWS}, mode="append")\n{TABLE}',
                [*ORDERS, (7, "EU", 70.0)],
            ),
            python(
                "overwrite",
                IMPORT + f'write_deltalake("/data/orders", {ROWS}, mode="overwrite")\n{TABLE}',
                [(7, "EU", 70.0)],
            ),
            python(
                "an older version",
                IMPORT + 'DeltaTable("/data/orders", version=1).to_pyarrow_table()',
                ORDERS[:3],
            ),
            python(
                "the first version of a write",
                IMPORT
                + f"""
write_deltalake("/data/new", {ROWS})
DeltaTable("/data/new", version=0).to_pyarrow_table()""",
                Refused("version 1"),
            ),
        ),
        "usage/loading-table": (
            python(
                "open with options",
                IMPORT
                + """
DeltaTable("/data/orders", storage_options={"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}).version()""",
                2,
            ),
            python(
                "is there a table",
                IMPORT
                + """
[DeltaTable.is_deltatable("/data/orders"), DeltaTable.is_deltatable("/data/nothing")]""",
                [True, False],
            ),
            python(
                "a dataset on a file system",
                IMPORT
                + """
import pyarrow.fs as fs
files = fs.SubTreeFileSystem("/data/orders", fs.LocalFileSystem())
DeltaTable("/data/orders").to_pyarrow_dataset(filesystem=files)""",
                Refused("to_pyarrow_dataset"),
            ),
            python(
                "load a version and a time",
                ORDER
                + """
table.load_as_version(1)
first = table.to_pyarrow_table().num_rows
table.load_as_version("TIME_2")
[first, table.to_pyarrow_table().num_rows]""",
                [3, 4],
            ),
            python(
                "a name of Unity Catalog",
                IMPORT + 'DeltaTable("uc://unity.shop.orders")',
                Refused("uc", absent=True),
            ),
        ),
        "usage/examining-table": (
            python(
                "metadata",
                SALES + "[table.metadata().partition_columns, table.metadata().name]",
                [["region"], None],
            ),
            python(
                "schema",
                ORDER + "[field.name for field in table.schema().fields]",
                ["id", "region", "amount"],
            ),
            python(
                "schema as JSON",
                ORDER
                + """
import json
json.loads(table.schema().to_json())["fields"][0]["name"]""",
                "id",
            ),
            python(
                "schema of Arrow",
                ORDER + "pa.schema(table.schema().to_arrow()).names",
                ["id", "region", "amount"],
            ),
            python(
                "history",
                ORDER + '[entry["operation"] for entry in table.history()]',
                ["WRITE", "WRITE", "CREATE TABLE"],
            ),
            python(
                "add actions",
                ORDER + 'pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist()',
                [3, 1],
            ),
            python(
                "add actions of a version",
                IMPORT
                + """
pa.table(DeltaTable("/data/orders", version=1).get_add_actions(flatten=True))["num_records"].to_pylist()""",
                [3],
            ),
            python("files", ORDER + "len(table.file_uris())", 2),
            python("protocol", ORDER + "table.protocol().min_reader_version >= 0", True),
        ),
        "usage/querying-delta-tables": (
            python(
                "partitions in pandas",
                SALES
                + 'table.to_pandas(partitions=[("region", "=", "US")], columns=["id"])["id"].tolist()',
                [2, 4],
            ),
            python(
                "partitions in Arrow",
                SALES
                + 'table.to_pyarrow_table(partitions=[("region", "=", "US")], columns=["id"])',
                [(2,), (4,)],
            ),
            python(
                "a dataset with a condition",
                SALES
                + """
import pyarrow.dataset as ds
dataset = table.to_pyarrow_dataset()
dataset.to_table(filter=(ds.field("region") == "US") & (ds.field("id") > 2), columns=["id"])""",
                [(4,)],
            ),
            python(
                "DuckDB over a dataset",
                SALES
                + """
import duckdb
duckdb.arrow(table.to_pyarrow_dataset()).filter("region = 'US' and id > 2").project("id").fetchall()""",
                [(4,)],
            ),
            python(
                "DuckDB over a table",
                ORDER
                + """
import duckdb
duckdb.arrow(table.to_pyarrow_table()).filter("id > 3").project("id").fetchall()""",
                [(4,)],
            ),
            python(
                "polars over a table",
                ORDER
                + """
import polars
polars.from_arrow(table.to_pyarrow_table()).filter(polars.col("id") > 3)["id"].to_list()""",
                [4],
            ),
            python(
                "the query builder",
                IMPORT
                + """
from deltalake import QueryBuilder
QueryBuilder().register("orders", DeltaTable("/data/orders")).execute("SELECT id FROM orders").read_all()""",
                [(1,), (2,), (3,), (4,)],
            ),
        ),
        "usage/create": (
            python(
                "with columns",
                IMPORT
                + """
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType
schema = Schema([Field("id", PrimitiveType("long"), nullable=False), Field("name", PrimitiveType("string"))])
made = DeltaTable.create("/data/new", schema=schema, partition_by="name", name="people", description="all")
[made.metadata().name, made.metadata().description, made.version()]""",
                ["people", "all", 0],
            ),
            python(
                "with columns of Arrow",
                IMPORT
                + """
made = DeltaTable.create("/data/new", pa.schema([("id", pa.int64())]), mode="ignore")
made.to_pyarrow_table().num_rows""",
                0,
            ),
            python(
                "with properties",
                IMPORT
                + f"""
write_deltalake("/data/new", {ROWS}, configuration={{"delta.logRetentionDuration": "interval 9 days"}})
DeltaTable("/data/new").metadata().configuration""",
                {"logRetentionDuration": "interval 9 days"},
            ),
            python(
                "over a table that is there",
                IMPORT + f'write_deltalake("/data/orders", {ROWS})',
                SameError("exists"),
            ),
            python(
                "from polars",
                IMPORT
                + """
import polars
write_deltalake("/data/new", polars.DataFrame({"num": [1, 2]}))
DeltaTable("/data/new").to_pyarrow_table()""",
                [(1,), (2,)],
            ),
            python(
                "from batches",
                IMPORT
                + f"""
reader = {ROWS}.to_reader()
write_deltalake("/data/orders", reader, mode="append")
{TABLE}""",
                [*ORDERS, (7, "EU", 70.0)],
            ),
        ),
        "usage/appending-overwriting": (
            python(
                "replace rows of a condition",
                IMPORT
                + f"""
write_deltalake("/data/orders", {ROWS}, mode="overwrite", predicate="region = 'EU'")
{TABLE}""",
                [(2, "US", 20.0), (4, "US", 40.0), (7, "EU", 70.0)],
            ),
            python(
                "replace the columns",
                IMPORT
                + """
write_deltalake("/data/orders", pa.table({"n": [1]}), mode="overwrite", schema_mode="overwrite")
DeltaTable("/data/orders").to_pyarrow_table()""",
                [(1,)],
            ),
            python(
                "add columns",
                IMPORT
                + f"""
wide = {ROWS}.append_column("note", pa.array(["x"]))
write_deltalake("/data/orders", wide, mode="append", schema_mode="merge")
pa.schema(DeltaTable("/data/orders").schema().to_arrow()).names""",
                ["id", "region", "amount", "note"],
            ),
            python(
                "other columns",
                IMPORT + 'write_deltalake("/data/orders", pa.table({"n": [1]}), mode="append")',
                SameError("n"),
            ),
            python(
                "properties of the Parquet writer",
                IMPORT
                + f"""
from deltalake import WriterProperties
write_deltalake("/data/orders", {ROWS}, mode="append", writer_properties=WriterProperties(compression="ZSTD"))
DeltaTable("/data/orders").version()""",
                3,
            ),
            python(
                "Bloom filters",
                IMPORT
                + f"""
from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties
properties = WriterProperties(default_column_properties=ColumnProperties(
    bloom_filter_properties=BloomFilterProperties(True, 0.2, 30)))
write_deltalake("/data/orders", {ROWS}, mode="append", writer_properties=properties)
DeltaTable("/data/orders").version()""",
                3,
            ),
            python(
                "metadata of a commit",
                IMPORT
                + f"""
from deltalake import CommitProperties
write_deltalake("/data/orders", {ROWS}, mode="append",
                commit_properties=CommitProperties(custom_metadata={{"job": "night"}}))
DeltaTable("/data/orders").history(1)[0]["job"]""",
                "night",
            ),
            python(
                "a write that is applied once",
                IMPORT
                + f"""
from deltalake import CommitProperties, Transaction
for _ in range(2):
    write_deltalake("/data/orders", {ROWS}, mode="append",
                    commit_properties=CommitProperties(app_transactions=[Transaction("app", 1)]))
[DeltaTable("/data/orders").count(), DeltaTable("/data/orders").transaction_version("app")]""",
                [5, 1],
            ),
        ),
        "usage/deleting": (
            python("delete", ORDER + f'table.delete("id > 2")\n{TABLE}', ORDERS[:2]),
            python("delete all", ORDER + 'table.delete()["num_deleted_rows"]', 4),
            python(
                "update",
                ORDER
                + f"""
table.update(updates={{"region": "'x'"}}, predicate="id = 1")
{TABLE}""",
                [(1, "x", 10.0), *ORDERS[1:]],
            ),
            python(
                "update with values",
                ORDER
                + f"""
table.update(new_values={{"region": "x"}}, predicate="id = 1")
{TABLE}""",
                [(1, "x", 10.0), *ORDERS[1:]],
            ),
        ),
        "usage/merging-tables": (
            python(
                "update", done('.when_matched_update(updates={"amount": "source.amount"})'), UPDATED
            ),
            python("update all", done(".when_matched_update_all()"), UPDATED),
            python(
                "update all but", done('.when_matched_update_all(except_cols=["region"])'), UPDATED
            ),
            python(
                "insert",
                done(
                    '.when_not_matched_insert(updates={"id": "source.id", "region": "source.region"})',
                    "DeltaTable('/data/orders').count()",
                ),
                5,
            ),
            python(
                "insert all",
                done(".when_not_matched_insert_all()", "DeltaTable('/data/orders').count()"),
                5,
            ),
            python(
                "delete",
                done('.when_matched_delete(predicate="source.amount > 1")'),
                [*ORDERS[:1], *ORDERS[2:]],
            ),
            python(
                "upsert", done(".when_matched_update_all().when_not_matched_insert_all()"), MERGED
            ),
            python(
                "upsert and delete the rest",
                done(
                    ".when_matched_update_all().when_not_matched_insert_all()"
                    ".when_not_matched_by_source_delete()"
                ),
                [(2, "US", 25.0), (5, "EU", 50.0)],
            ),
            python(
                "several clauses",
                done(
                    '.when_matched_delete(predicate="source.id = target.id")'
                    '.when_matched_update(updates={"amount": "source.amount"})'
                ),
                [*ORDERS[:1], *ORDERS[2:]],
            ),
            python(
                "update the rest",
                done(
                    '.when_not_matched_by_source_update(predicate="target.id > 3", '
                    'updates={"`amount`": "0"})'
                ),
                [*ORDERS[:3], (4, "US", 0.0)],
            ),
            python(
                "partition columns in the condition",
                SALES
                + f"""
table.merge(source={SOURCE}, predicate="s.id = t.id AND s.region = t.region AND t.region = 'US'",
            source_alias="s", target_alias="t").when_matched_update_all().execute()
DeltaTable("/data/sales").to_pyarrow_table().select(["id", "amount"])""",
                [(1, 10.0), (2, 25.0), (3, 30.0), (4, 40.0)],
            ),
            python(
                "metrics",
                done(".when_matched_update_all()", "").rstrip() + '["num_target_rows_updated"]',
                1,
            ),
        ),
        "usage/constraints": (
            python(
                "add one",
                ORDER
                + """
table.alter.add_constraint({"small": "amount < 1000"})
write_deltalake(table, pa.table({"id": [9], "region": ["EU"], "amount": [2000.0]}), mode="append")""",
                SameError("small"),
            ),
            python(
                "drop one",
                ORDER
                + """
table.alter.add_constraint({"small": "amount < 1000"})
table.alter.drop_constraint("small")
table.version()""",
                4,
            ),
        ),
        "api/delta_table_alterer": (
            python(
                "add columns",
                ORDER
                + """
from deltalake import Field
from deltalake.schema import PrimitiveType
table.alter.add_columns([Field("note", PrimitiveType("string"))])
pa.schema(DeltaTable("/data/orders").schema().to_arrow()).names""",
                ["id", "region", "amount", "note"],
            ),
            python(
                "set properties",
                ORDER
                + """
table.alter.set_table_properties({"delta.appendOnly": "true"})
DeltaTable("/data/orders").metadata().configuration""",
                {"appendOnly": "true"},
            ),
            python(
                "add a feature",
                ORDER
                + """
from deltalake import TableFeatures
table.alter.add_feature(TableFeatures.DeletionVectors)""",
                Refused("TableFeatures"),
            ),
            python(
                "name and description",
                ORDER
                + """
table.alter.set_table_name("orders")
table.alter.set_table_description("all orders")
[DeltaTable("/data/orders").metadata().name, DeltaTable("/data/orders").metadata().description]""",
                ["orders", "all orders"],
            ),
        ),
        "usage/read-cdf": (
            python(
                "changes",
                ORDER
                + """
pa.table(table.load_cdf(starting_version=2, ending_version=2)).select(["id", "_change_type", "_commit_version"])""",
                [(4, "insert", 2)],
            ),
            python(
                "changes in batches",
                ORDER
                + """
sum(batch.num_rows for batch in table.load_cdf(starting_version=1))""",
                4,
            ),
        ),
        "usage/working-with-partitions": (
            python(
                "create",
                IMPORT
                + f"""
write_deltalake("/data/new", {SOURCE}, partition_by=["region"])
DeltaTable("/data/new").metadata().partition_columns""",
                ["region"],
            ),
            python(
                "values of partitions",
                SALES + "table.partitions()",
                [{"region": "EU"}, {"region": "US"}],
            ),
            python(
                "overwrite a partition",
                IMPORT
                + f"""
write_deltalake(DeltaTable("/data/sales"), {ROWS}, predicate="region = 'EU'", mode="overwrite")
DeltaTable("/data/sales").to_pyarrow_table().select(["id"])""",
                [(2,), (4,), (7,)],
            ),
            python(
                "other partition columns",
                IMPORT
                + f"""
write_deltalake(DeltaTable("/data/sales"), {ROWS}, mode="overwrite", schema_mode="overwrite", partition_by=["id"])
DeltaTable("/data/sales").metadata().partition_columns""",
                ["id"],
            ),
            python(
                "delete a partition",
                SALES
                + """
table.delete("region = 'EU'")
table.to_pyarrow_table().select(["id"])""",
                [(2,), (4,)],
            ),
        ),
        "usage/optimize": (
            python("compact", ORDER + 'table.optimize.compact()["numFilesRemoved"]', 2),
            python(
                "compact a partition",
                SALES
                + 'table.optimize.compact(partition_filters=[("region", "=", "US")])["numFilesRemoved"]',
                2,
            ),
            python("Z-order", ORDER + f'table.optimize.z_order(["region"])\n{TABLE}', ORDERS),
            python("vacuum", ORDER + "table.vacuum()", []),
            python(
                "vacuum at once",
                ORDER
                + """
table.optimize.compact()
len(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False))""",
                2,
            ),
            python("restore", ORDER + f"table.restore(1)\n{TABLE}", ORDERS[:3]),
            python("checkpoint", ORDER + f"table.create_checkpoint()\n{TABLE}", ORDERS),
            python("clean the log", ORDER + f"table.cleanup_metadata()\n{TABLE}", ORDERS),
        ),
        "integrations": (
            python(
                "convert Parquet",
                IMPORT
                + """
from deltalake import convert_to_deltalake
convert_to_deltalake("/data/parquet")
DeltaTable("/data/parquet").to_pyarrow_table()""",
                [(1,), (2,), (3,)],
            ),
            python(
                "pandas",
                ORDER + 'table.to_pandas(filters=[("id", ">", 2)], columns=["id"])["id"].tolist()',
                [3, 4],
            ),
            python(
                "a schema that differs",
                IMPORT
                + """
write_deltalake("/data/orders", pa.table({"id": [1], "animal": ["cat"]}), mode="append")""",
                SameError("animal"),
            ),
            python(
                "DuckDB over an Arrow table",
                ORDER
                + """
import duckdb
duckdb.arrow(table.to_pyarrow_table()).filter("region = 'EU' and amount > 10").fetchall()""",
                [ORDERS[2]],
            ),
            python(
                "DuckDB over a dataset, filtered",
                ORDER
                + """
import duckdb
dataset = table.to_pyarrow_dataset()
duckdb.arrow(dataset).filter("region = 'EU' and amount > 10").fetchall()""",
                [ORDERS[2]],
            ),
            python(
                "the older rows in pandas",
                IMPORT
                + """
df = DeltaTable("/data/orders", version=1).to_pandas(filters=[("region", "==", "EU")], columns=["id", "amount"])
df.query("amount > 10")["id"].tolist()""",
                [3],
            ),
        ),
        "api: texts": (
            python(
                "a quoted name in a condition",
                ORDER + f"""table.delete('"region" = \\'EU\\'')\n{TABLE}""",
                [ORDERS[1], ORDERS[3]],
            ),
            python(
                "a quoted name in a filter",
                ORDER + "table.to_pyarrow_table(filters='\"id\" > 3')",
                [ORDERS[3]],
            ),
            python(
                "a row that breaks a constraint",
                ORDER
                + """
table.alter.add_constraint({"id_gt_0": "id > 0"})
write_deltalake(table, pa.table({"id": [-1], "region": ["EU"], "amount": [1.0]}), mode="append")""",
                SameError("id_gt_0"),
            ),
            python(
                "changes counted by version",
                ORDER
                + """
import polars
rows = table.load_cdf(starting_version=1, ending_version=2).read_all()
sorted(polars.from_arrow(rows).group_by("_commit_version").len().rows())""",
                [(1, 3), (2, 1)],
            ),
            python(
                "compaction of partitions",
                SALES
                + """
done = table.optimize.compact()
[done["numFilesAdded"], done["numFilesRemoved"], len(DeltaTable("/data/sales").file_uris())]""",
                [1, 2, 2],
            ),
        ),
    },
)
