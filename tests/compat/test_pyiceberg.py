"""PyIceberg's names over tables of tablefmt: its API is translated or refused by name."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pyiceberg.table
import pyiceberg.table.update.schema
import pytest
from pyiceberg import expressions as ex
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.inspect import InspectTable
from pyiceberg.table.maintenance import MaintenanceTable
from pyiceberg.table.update import snapshot
from pyiceberg.table.update.sorting import UpdateSortOrder
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

import tablefmt
from tablefmt import errors
from tablefmt.compat import pyiceberg as ours
from tablefmt.compat.pyiceberg import (
    load_catalog,
    pyiceberg_partitioning,
    pyiceberg_transactions,
    pyiceberg_updates,
)
from tablefmt.compat.pyiceberg.pyiceberg_conditions import where_of
from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES, ROWS

CLASSES = {
    "UpdateSchema": (pyiceberg.table.update.schema.UpdateSchema, pyiceberg_updates.UpdateSchema),
    "ManageSnapshots": (snapshot.ManageSnapshots, pyiceberg_updates.ManageSnapshots),
    "ExpireSnapshots": (snapshot.ExpireSnapshots, pyiceberg_updates.ExpireSnapshots),
    "MaintenanceTable": (MaintenanceTable, pyiceberg_updates.MaintenanceTable),
    "UpdateSortOrder": (UpdateSortOrder, pyiceberg_updates.UpdateSortOrder),
    "UpdateSpec": (UpdateSpec, pyiceberg_partitioning.UpdateSpec),
    "Transaction": (pyiceberg.table.Transaction, pyiceberg_transactions.Transaction),
    "Catalog": (pyiceberg.catalog.Catalog, ours.Catalog),
    "Table": (pyiceberg.table.Table, ours.Table),
    "DataScan": (pyiceberg.table.DataScan, ours.DataScan),
    "InspectTable": (InspectTable, ours.InspectTable),
}


def theirs() -> Iterator[tuple[str, Any, Any]]:
    """Yield each call of PyIceberg: its name in the rows, their function, and ours or None."""
    yield "load_catalog", pyiceberg.catalog.load_catalog, load_catalog
    for called, (their, our) in CLASSES.items():
        for name, member in inspect.getmembers(their):
            if not name.startswith("_"):
                yield f"{called}.{name}", member, getattr(our, name, None)


def arguments(function: Any) -> list[str]:
    skipped = ("self", "kwargs", "removals", "_isolation_operation")
    return [name for name in inspect.signature(function).parameters if name not in skipped]


@pytest.mark.parametrize("call", [name for name, _, _ in theirs()])
def test_every_name_and_argument_of_pyiceberg_is_translated_or_refused(call: str) -> None:
    their, our = next((their, our) for name, their, our in theirs() if name == call)
    row = NAMES.rows[call]
    if row.kind == "refused":
        assert our is None
    elif callable(their):
        assert arguments(our) == arguments(their)
    else:
        assert isinstance(our, property)


def test_every_row_names_something_of_pyiceberg() -> None:
    known = {name: function for name, function, _ in theirs()}
    wrong = []
    for row in ROWS:
        call, _, argument = row.theirs.rstrip(")").partition("(")
        if call in ("StaticTable",):
            continue
        if call not in known or (argument and argument not in arguments(known[call])):
            wrong.append(row.theirs)
    assert wrong == []


def test_every_argument_is_used_or_its_row_says_otherwise() -> None:
    unread = []
    for call, _, our in theirs():
        if our is None or isinstance(our, property):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(our))))
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        unread += [
            f"{call}({argument})"
            for argument in arguments(our)
            if argument not in read and f"{call}({argument})" not in NAMES.rows
        ]
    assert unread == []


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return load_catalog("default", type="sql", uri="sqlite://", warehouse=str(tmp_path))


@pytest.fixture
def table(catalog: Any) -> Any:
    rows = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Rome", None]})
    catalog.create_namespace("default")
    made = catalog.create_table("default.trips", schema=rows.schema)
    assert made.current_snapshot() is None
    made.append(rows)
    return made


def ids(table: Any, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def test_quickstart_append_evolve_overwrite_and_scan(catalog: Any, table: Any) -> None:
    more = pa.table({"id": [4, 5], "city": ["Lima", "Oslo"], "fare": [1.5, 9.0]})
    with table.update_schema() as update:
        update.union_by_name(more.schema)
    table.append(more, snapshot_properties={"job": "nightly"})
    assert table.scan().to_arrow().num_rows == table.scan().count() == 5
    assert ids(table, row_filter="fare > 2") == [5]
    chosen = table.scan(row_filter="id >= 4", selected_fields=("city", "id"), limit=10)
    assert chosen.to_arrow().column_names == ["city", "id"]
    assert chosen.filter("fare > 2").select("id").to_arrow().to_pylist() == [{"id": 5}]
    assert chosen.to_pandas()["id"].tolist() == [4, 5]
    table.delete(delete_filter="city = 'Oslo'")
    assert ids(table) == [2, 3, 4]
    table.overwrite(more)
    assert ids(catalog.load_table("default.trips")) == [4, 5]
    assert ids(table, snapshot_id=1) == [1, 2, 3]
    assert [each.summary["operation"] for each in table.snapshots()][-2:] == ["DELETE", "OVERWRITE"]


def test_upsert_counts_rows_that_differ_as_pyiceberg_does(catalog: Any, table: Any) -> None:
    new = pa.table({"id": [1, 2, 9], "city": ["Oslo", "Roma", "Bern"]})
    result = table.upsert(new, join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert sorted(map(tuple, (r.values() for r in table.scan().to_arrow().to_pylist()))) == [
        (1, "Oslo"), (2, "Roma"), (3, None), (9, "Bern"),
    ]  # fmt: skip
    with pytest.raises(errors.InvalidArgumentError, match="join_cols"):
        table.upsert(new)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (ex.AlwaysTrue(), [1, 2, 3]),
        (ex.AlwaysFalse(), []),
        (ex.EqualTo("city", "Oslo"), [1]),
        (ex.NotEqualTo("id", 2), [1, 3]),
        (ex.And(ex.GreaterThan("id", 1), ex.LessThanOrEqual("id", 3)), [2, 3]),
        (ex.Or(ex.LessThan("id", 2), ex.IsNull("city")), [1, 3]),
        (ex.Not(ex.GreaterThanOrEqual("id", 2)), [1]),
        (ex.In("id", {1, 3}), [1, 3]),
        (ex.NotIn("city", {"Oslo", "it's"}), [2, 3]),
        (ex.NotNull("city"), [1, 2]),
        (ex.StartsWith("city", "Ro"), [2]),
    ],
)
def test_expressions_of_pyiceberg(table: Any, expression: Any, expected: list[int]) -> None:
    assert ids(table, row_filter=expression) == expected


def test_values_of_expressions_keep_their_types(catalog: Any) -> None:
    when = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc)
    rows = pa.table({"id": [1, 2], "d": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
                     "ts": pa.array([when, None], pa.timestamp("us", "UTC"))})  # fmt: skip
    table = catalog.create_table("a.times", rows.schema)
    table.append(rows)
    assert ids(table, row_filter=ex.EqualTo("d", dt.date(2026, 1, 2))) == [2]
    assert ids(table, row_filter=ex.LessThanOrEqual("ts", when)) == [1]
    with pytest.raises(errors.InvalidPredicateError, match="Reference"):
        where_of(ex.Reference("city"))


def test_history_and_metadata_tables(table: Any) -> None:
    table.append(pa.table({"id": [4], "city": ["Lima"]}))
    assert [entry.snapshot_id for entry in table.history()] == [1, 2]
    assert table.inspect.snapshots()["parent_id"].to_pylist() == [None, 1]
    assert table.inspect.history()["snapshot_id"].to_pylist() == [1, 2]
    assert table.inspect.files(1).num_rows == 1
    assert table.inspect.data_files().num_rows == 2
    assert table.inspect.partitions(1, "id > 0").num_rows == 1
    now = table.current_snapshot()
    assert (now.snapshot_id, table.snapshot_by_id(9)) == (2, None)
    assert table.snapshot_as_of_timestamp(now.timestamp_ms).snapshot_id == 2
    assert table.snapshot_as_of_timestamp(0) is None


def test_catalog(catalog: Any, table: Any, tmp_path: Path) -> None:
    assert catalog.table_exists("default.trips")
    assert tablefmt.exists(str(tmp_path / "default" / "trips"))
    again = catalog.create_table_if_not_exists(("default", "trips"), table.schema())
    assert again.name() == ("default", "trips")
    with pytest.raises(ours.TableAlreadyExistsError):
        catalog.create_table("default.trips", table.schema())
    with pytest.raises(ours.NoSuchTableError):
        catalog.load_table("default.nothing")
    catalog.drop_table("default.trips")
    assert not catalog.table_exists("default.trips")
    for name in ("plain", "..", "a/b.c"):
        with pytest.raises(errors.InvalidArgumentError, match=r"namespace\.table"):
            catalog.load_table(name)


def test_schemas_and_partitions_of_pyiceberg(catalog: Any) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "day", DateType()),
        NestedField(3, "city", StringType()),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "city"))
    table = catalog.create_table("a.b", schema, partition_spec=spec,
                                 properties={"write.delete.mode": "copy-on-write"})  # fmt: skip
    assert (table.table.partition_by, table.properties) == (
        ["city"], {"deleteMode": "copy-on-write"},
    )  # fmt: skip
    with table.update_schema() as update:
        update.add_column("n", LongType()).rename_column("day", "date").delete_column("n")
    assert table.refresh().schema().names == ["id", "date", "city"]
    rows = pa.table({"id": [1], "date": [None], "city": ["x"]}, table.schema().as_arrow())
    table.append(rows)
    table.dynamic_partition_overwrite(rows)
    assert ids(table) == [1]
    daily = PartitionSpec(PartitionField(2, 1000, DayTransform(), "daily"))
    made = catalog.create_table("a.c", schema, partition_spec=daily)
    assert (made.table.partition_by, fields(made)) == (["days(day)"], ["daily"])
    empty = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "nothing"))
    with pytest.raises(errors.UnsupportedFeatureError, match="void"):
        catalog.create_table("a.d", schema, partition_spec=empty)
    assert not catalog.table_exists("a.d")


def fields(table: Any) -> list[str]:
    """Return the names of the fields of the current partitioning."""
    head = tablefmt.open(table.table.uri).context.view.head
    return [field.name for field in head.metadata.partition_fields]


def test_update_spec(table: Any) -> None:
    """HID-2, EVO-1: one commit for each update, and files keep their partitioning."""
    before = table.table.version
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(16), "bucketed_id")
        update.add_field("city", "truncate[2]").add_identity("city")
    assert table.refresh().table.version == before + 1
    assert fields(table) == ["bucketed_id", "city_trunc", "city"]
    table.append(pa.table({"id": [4], "city": ["Riga"]}))
    with table.update_spec() as update:
        update.remove_field("city_trunc").remove_field("city")
        update.rename_field("bucketed_id", "sharded_id")
    assert (fields(table), table.refresh().table.partition_by) == (
        ["sharded_id"], ["bucket(16, id)"],
    )  # fmt: skip
    assert ids(table) == [1, 2, 3, 4]
    assert ids(table, row_filter="id = 4") == [4]
    with table.transaction() as transaction:
        with transaction.update_spec() as update:
            update.remove_field("sharded_id").add_field("id", BucketTransform(16), "shard")
        transaction.set_properties(owner="x")
    assert (fields(table), table.properties) == (["shard"], {"owner": "x"})
    table.update_spec().commit()
    with pytest.raises(errors.SchemaMismatchError, match="not partitioned by 'nothing'"):
        table.update_spec().remove_field("nothing").commit()
    with pytest.raises(errors.SchemaMismatchError, match="already"):
        table.update_spec().add_field("id", "bucket[16]", "again").commit()
    with pytest.raises(errors.SchemaMismatchError, match="keeps its own name"):
        table.update_spec().add_field("city", IdentityTransform(), "town").commit()
    with pytest.raises(errors.UnsupportedFeatureError, match="void"):
        table.update_spec().add_field("city", VoidTransform())
    assert fields(table) == ["shard"]


def test_a_table_is_created_and_changed_in_a_transaction(catalog: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with catalog.create_table_transaction("a.b", columns) as transaction:
        with transaction.update_schema() as schema:
            schema.add_column("note", "string")
        with transaction.update_spec() as spec:
            spec.add_identity("name")
        transaction.set_properties(team="x")
        transaction.append(pa.table({"id": [1], "name": ["y"], "note": ["z"]}))
    made = catalog.load_table("a.b")
    assert (made.schema().names, made.table.partition_by) == (["id", "name", "note"], ["name"])
    assert (made.properties, ids(made, row_filter="name = 'y'")) == ({"team": "x"}, [1])
    wrong = catalog.create_table_transaction("a.c", columns)
    wrong.update_spec().add_identity("nothing").commit()
    with pytest.raises(errors.SchemaMismatchError, match="nothing"):
        wrong.commit_transaction()
    with pytest.raises(errors.UnsupportedFeatureError, match="create_table_transaction"):
        wrong.update_schema().union_by_name(columns)
    assert not catalog.table_exists("a.c")


def test_refusals(catalog: Any, table: Any) -> None:
    for name, held in (("Table", table), ("Catalog", catalog), ("InspectTable", table.inspect)):
        for row in ROWS:
            called, _, method = row.theirs.partition(".")
            if called == name and row.kind == "refused" and "(" not in method:
                with pytest.raises(errors.UnsupportedFeatureError, match=method):
                    getattr(held, method)
    with pytest.raises(errors.UnsupportedFeatureError, match="branch"):
        table.append(pa.table({"id": [1]}), branch="other")
    with pytest.raises(errors.InvalidArgumentError, match="0 is not a snapshot id"):
        table.scan(snapshot_id=0)
    with pytest.raises(errors.InvalidArgumentError, match="warehouse"):
        load_catalog("default")
    with pytest.raises(errors.UnsupportedFeatureError, match="credential"):
        load_catalog("default", warehouse="x", credential="y")
    assert table.current_snapshot().snapshot_id == 1


def test_schema_updates_that_would_differ_are_refused(table: Any) -> None:
    with pytest.raises(errors.UnsupportedFeatureError, match="widen it with update_column"):
        table.update_schema().union_by_name(pa.schema([("city", pa.int64())]))
    moved = table.update_schema().move_before("city", "id")
    with pytest.raises(errors.UnsupportedFeatureError, match="comes first"):
        moved.move_before("id", "city")
    moved.commit()
    assert table.scan().to_arrow().column_names == ["city", "id"]
    table.update_schema().union_by_name(pa.schema([("city", pa.large_string())])).commit()
    assert table.scan().to_arrow().column_names == ["city", "id"]


def test_modules_have_the_names_of_the_library() -> None:
    """A program puts `tablefmt.compat.` before these modules, and keeps the others."""
    from tablefmt.compat import pyiceberg
    from tablefmt.compat.pyiceberg import catalog, exceptions, table

    for module in (catalog, exceptions, table):
        for name in module.__all__:
            assert getattr(module, name) is getattr(pyiceberg, name)
        with pytest.raises(AttributeError, match="pyiceberg: there is no Nothing here"):
            _ = module.Nothing
