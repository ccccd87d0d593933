"""Schemas that change under data: old files, old versions, writers that bring columns along."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import (
    ConcurrentAppendException,
    InvalidPredicateError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
)
from tablefmt.model.log_entry import OperationClass
from tablefmt.operations.create import create
from tablefmt.table import Table
from tests.compactions import stage_compact
from tests.tables import Clock, assert_sound, handle, memory

Row = dict[str, Any]


def table_of(ddl: str, **more: Any) -> Table:
    return Table(create(memory(), ddl, environment=Clock().environment(), **more))


def put(table: Table, *rows: Row, **more: Any) -> None:
    """Append with the types that the table has now."""
    now = handle(table.context.store).schema
    fields = [now.field(name) for name in rows[0]]
    table.append(pa.Table.from_pylist(list(rows), pa.schema(fields)), **more)


def seen(table: Table, **asked: Any) -> list[Row]:
    found: list[Row] = handle(table.context.store).to_arrow(**asked).to_pylist()
    return found


def files(table: Table, where: str, version: int | None = None) -> int:
    """Return the number of files that a scan would open."""
    return int(handle(table.context.store).scan(where=where, version=version).survivors.num_rows)


NOON = dt.datetime(2020, 1, 2, 12)
WIDENED = [
    ("BYTE", [-128, 5], "SMALLINT", [300], "300"),
    ("SMALLINT", [-3, 5], "BIGINT", [1 << 40], "1099511627776"),
    ("INT", [-3, 5], "DOUBLE", [2.5], "2.5D"),
    ("INT", [-3, 5], "DECIMAL(12,2)", [Decimal("2.50")], "2.50"),
    ("BYTE", [-3, 5], "DECIMAL(10,0)", [Decimal(1000)], "1000"),
    ("BIGINT", [-(2**63), 5], "DECIMAL(22,1)", [Decimal("99.9")], "99.9"),
    ("FLOAT", [-1.5, 5.0], "DOUBLE", [0.1], "0.1D"),
    ("DECIMAL(5,2)", [Decimal("-3.25"), Decimal(5)], "DECIMAL(9,4)", [Decimal("1.2345")], "1.2345"),
    ("DATE", [dt.date(2020, 1, 1), dt.date(2020, 1, 3)], "TIMESTAMP_NTZ", [NOON],
     "TIMESTAMP_NTZ '2020-01-02 12:00:00'"),
]  # fmt: skip


def wide(value: Any, like: Any) -> Any:
    """The value as the wider type has it, by Python's own conversions."""
    if type(like) is dt.datetime and type(value) is dt.date:
        return dt.datetime(value.year, value.month, value.day)
    return type(like)(value)


@pytest.mark.parametrize(("old", "before", "new", "after", "literal"), WIDENED)
def test_a_widened_column_has_all_values_and_prunes_by_them(
    old: str, before: list[Any], new: str, after: list[Any], literal: str
) -> None:
    """SCH-9, DAT-12, PRN-4: files of both types, alone and inside a list of structs."""
    table = table_of(f"k INT, x {old}, l ARRAY<STRUCT<y: {old}>>")
    put(table, *({"k": i, "x": v, "l": [{"y": v}, None]} for i, v in enumerate(before)))
    put(table, {"k": 9, "x": None, "l": None})
    narrow = handle(table.context.store)
    table.alter.widen_column("x", new)
    table.alter.widen_column("l.element.y", new)
    put(table, {"k": 5, "x": after[0], "l": [{"y": after[0]}]})
    values = {i: wide(v, after[0]) for i, v in enumerate(before)} | {5: after[0]}
    assert seen(table) == [
        *({"k": k, "x": values[k], "l": [{"y": values[k]}, None]} for k in (0, 1)),
        {"k": 9, "x": None, "l": None},
        {"k": 5, "x": values[5], "l": [{"y": values[5]}]},
    ]
    asked: dict[str, Callable[[Any], bool]] = {
        "=": lambda v: v == after[0],
        "<": lambda v: v < after[0],
        ">": lambda v: v > after[0],
        "<=": lambda v: v <= after[0],
    }
    for sign, holds in asked.items():
        found = [row["k"] for row in seen(table, where=f"x {sign} {literal}")]
        assert found == [k for k, v in values.items() if holds(v)], sign
    inside = min(values[0], values[1]) <= after[0] <= max(values[0], values[1])
    assert files(table, f"x = {literal}") == 1 + inside
    assert files(table, "x IS NULL") == 1
    # The version before has the type it had, and still prunes by it.
    assert seen(table, version=2) == narrow.to_arrow().to_pylist()
    assert files(table, "x IS NULL", version=2) == 1
    assert handle(table.context.store).to_arrow(version=2).schema == narrow.schema
    table.delete(f"x = {literal}")
    assert [row["k"] for row in seen(table)] == [k for k in (0, 1, 9) if values.get(k) != after[0]]
    assert_sound(table.context.store)


def test_a_name_that_was_dropped_and_added_again_has_none_of_the_old_values() -> None:
    """SCH-3, SCH-8: this holds at the top and inside structs, lists and maps.

    Old versions keep their values.
    """
    table = table_of(
        "id INT, x STRING, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<a: INT, b: STRING>>, "
        "m MAP<STRING, STRUCT<a: INT, b: STRING>>"
    )
    inner = {"a": 1, "b": "old"}
    first = {"id": 1, "x": "old", "s": inner, "l": [inner], "m": [("k", inner)]}
    put(table, first)
    for path in ("s.b", "l.element.b", "m.value.b", "x"):
        table.alter.drop_column(path)
        table.alter.add_column(path, "STRING")
    gone = {"a": 1, "b": None}
    now = {"id": 1, "s": gone, "l": [gone], "m": [("k", gone)], "x": None}
    assert seen(table) == [now]
    assert seen(table, where="x = 'old'") == []
    put(table, {**first, "id": 2})
    assert seen(table, where="id = 2") == [
        {"id": 2, "s": inner, "l": [inner], "m": [("k", inner)], "x": "old"}
    ]
    table.alter.rename_column("x", "y")
    table.alter.add_column("x", "STRING", first=True)
    assert [(row["x"], row["y"]) for row in seen(table)] == [(None, None), (None, "old")]
    assert seen(table, version=1) == [first]
    assert_sound(table.context.store)


def test_columns_exchange_their_names() -> None:
    """SCH-3, DAT-12: values follow the name of their column, partition columns too."""
    table = table_of("a INT, b INT, s STRUCT<a: INT, b: INT>", partition_by=["a"])
    put(table, {"a": 1, "b": 2, "s": {"a": 3, "b": 4}})
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        table.alter.rename_column(old, new)
        table.alter.rename_column(f"s.{old}", new)
    table.alter.move_column("s", first=True)
    table.alter.move_column("s.a", first=True)
    put(table, {"a": 20, "b": 10, "s": {"a": 40, "b": 30}})
    assert seen(table) == [
        {"s": {"a": 4, "b": 3}, "b": 1, "a": 2},
        {"s": {"a": 40, "b": 30}, "b": 10, "a": 20},
    ]
    assert handle(table.context.store).partition_by == ["b"]
    assert (files(table, "b = 10"), files(table, "a = 2")) == (1, 1)
    table.delete("b = 1")
    assert [row["a"] for row in seen(table)] == [20]
    assert_sound(table.context.store)


DEFAULTS: list[tuple[str, Any, str]] = [
    ("INT NOT NULL", 7, "7"),
    ("STRING", "it's\n", "'it\\'s\\n'"),
    ("DOUBLE", float("inf"), "double('Infinity')"),
    ("DECIMAL(5,2)", Decimal("-1.5"), "-1.50"),
    ("DATE", dt.date(1, 1, 1), "DATE '0001-01-01'"),
    ("TIMESTAMP", dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), "TIMESTAMP '2020-01-01 00:00Z'"),
    ("TIMESTAMP_NTZ", dt.datetime(1582, 10, 10, 1), "TIMESTAMP_NTZ '1582-10-10 01:00:00'"),
    ("BOOLEAN", False, "FALSE"),
]


@pytest.mark.parametrize(("kind", "value", "literal"), DEFAULTS)
def test_a_default_is_in_rows_before_and_in_rows_without_the_column(
    kind: str, value: Any, literal: str
) -> None:
    """SCH-7, DAT-4: it is fixed for old files, NULL that is given stays, and conditions see it."""
    table = table_of("id INT")
    put(table, {"id": 1}, {"id": 2})
    table.alter.add_column("x", kind, default=value)
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    nullable = "NOT NULL" not in kind
    if nullable:
        table.alter.set_default("x", None)
    put(table, {"id": 4, "x": None if nullable else value})
    expected = {1: value, 2: value, 3: value, 4: None if nullable else value}
    assert {row["id"]: row["x"] for row in seen(table)} == expected
    equal = [i for i, v in expected.items() if v == value]
    assert [row["id"] for row in seen(table, where=f"x = {literal}")] == equal
    assert [row["id"] for row in seen(table, where=f"x = {literal} AND id > 1")] == equal[1:]
    assert handle(table.context.store).scan(where="x IS NULL").count() == 4 - len(equal)
    table.delete(f"id = 1 AND x = {literal}")
    assert [row["id"] for row in seen(table, columns=["id"], where=f"x = {literal}")] == equal[1:]
    table.alter.rename_column("x", "y")
    assert {row["id"]: row["y"] for row in seen(table)} == {i: expected[i] for i in (2, 3, 4)}
    assert_sound(table.context.store)


def test_nan_as_a_default_is_above_all_numbers() -> None:
    """SCH-7, PRN-2, PRN-7."""
    table = table_of("id INT")
    put(table, {"id": 1})
    table.alter.add_column("x", "FLOAT", default=float("nan"))
    put(table, {"id": 2, "x": 1.0})
    for where, ids in (("x > 5", [1]), ("isnan(x)", [1]), ("x <= 5", [2]), ("x != 1", [1])):
        assert [row["id"] for row in seen(table, where=where)] == ids, where


def test_an_append_brings_its_columns_along_in_one_commit() -> None:
    """SCH-8, ENT-8: class INSERT; types become wider within their kind, data of others is cast."""
    table = table_of("id INT, p STRING, s STRUCT<a: INT>, f FLOAT", partition_by=["p"])
    put(table, {"id": 1, "p": "a", "s": {"a": 1}, "f": 0.5})
    rows = [{"ID": 1 << 40, "s": {"b": [1.5]}, "f": 0.1, "new": {"x": None, "y": 1}, "p": None}]
    kinds = {"x": pa.date32(), "y": pa.int8()}
    new = pa.struct([pa.field(n, k, nullable=False) for n, k in kinds.items()])
    data = pa.Table.from_pylist(rows).drop_columns("new")
    data = data.append_column("new", pa.array([{"x": dt.date(2020, 1, 1), "y": 1}], new))
    commit_result = table.append(data, merge_schema=True)
    entry = table.context.view.entries_after(1)[0].entry
    assert (commit_result.version, entry.operation.cls) == (2, OperationClass.INSERT)
    assert entry.metadata is not None
    assert handle(table.context.store).schema == pa.schema(
        {
            "id": pa.int64(),
            "p": pa.string(),
            "s": pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("element", pa.float64())))]),
            "f": pa.float64(),
            "new": pa.struct(kinds),
        }
    )
    assert seen(table) == [
        {"id": 1, "p": "a", "s": {"a": 1, "b": None}, "f": 0.5, "new": None},
        {
            "id": 1 << 40,
            "p": None,
            "s": {"a": None, "b": [1.5]},
            "f": 0.1,
            "new": {"x": dt.date(2020, 1, 1), "y": 1},
        },
    ]
    # No new column: an ordinary append. NULL without a type is no new type.
    commit_result = table.append(pa.table({"id": [3], "new": pa.nulls(1)}), merge_schema=True)
    assert table.context.view.entries_after(2)[0].entry.metadata is None
    assert len(seen(table, version=1)) == 1
    assert_sound(table.context.store)


def test_appends_of_one_transaction_merge_into_one_schema() -> None:
    """SCH-8, VAL-4: bounds of what was staged under another type are not used."""
    table = table_of("d DECIMAL(5,2)")
    txn = table.transaction()
    txn.append(pa.table({"d": pa.array([Decimal("1.25")], pa.decimal128(5, 2))}))
    with pytest.raises(SchemaMismatchError):
        txn.append(pa.table({"d": ["text"], "lost": [1]}), merge_schema=True)
    wider = {"d": pa.array([Decimal("2.1234")], pa.decimal128(9, 4)), "n": [1]}
    txn.append(pa.table(wider), merge_schema=True)
    txn.append(pa.table({"n": [2]}))
    assert txn.commit().version == 1
    assert seen(table) == [
        {"d": Decimal("1.2500"), "n": None},
        {"d": Decimal("2.1234"), "n": 1},
        {"d": None, "n": 2},
    ]
    assert [row["n"] for row in seen(table, where="d = 2.1234")] == [1]
    assert_sound(table.context.store)


@pytest.mark.parametrize(
    "data",
    [
        {"id": ["text"]},
        {"a": [1], "A": [2]},
        {"": [1]},
        {"new": pa.nulls(1)},
        {"new": pa.array([1], pa.duration("s"))},
        {"s": [{"new": dt.timedelta(1)}]},
        {"id": [1 << 40], "p": [1 << 40]},
    ],
)
def test_columns_that_cannot_be_merged_change_nothing(data: dict[str, Any]) -> None:
    """SCH-2, SCH-5, SCH-9: a partition column keeps its type too."""
    table = table_of("id INT, p INT, s STRUCT<a: INT>", partition_by=["p"])
    for append in (table.append, table.transaction().append):
        with pytest.raises(SchemaMismatchError):
            append(pa.table(data), merge_schema=True)
    assert handle(table.context.store).version == 0
    assert [found.key for found in table.context.store.list_after("data/")] == []


def test_a_schema_that_is_merged_conflicts_as_a_change_of_metadata() -> None:
    """CFL-5: it rebases onto rows.

    Transactions that began before it fail, except floating appends.
    """
    table = table_of("id BIGINT")
    txn = table.transaction().append(pa.table({"new": [1]}), merge_schema=True)
    floating = handle(table.context.store)
    late = handle(table.context.store).transaction().append(pa.table({"id": [5]}))
    other = handle(table.context.store).transaction()
    other.append(pa.table({"other": [1]}), merge_schema=True)
    floating.append(pa.table({"id": [1]}))
    assert txn.commit().rebased_over == (1,)
    for loser in (late, other):
        with pytest.raises(MetadataChangedException):
            loser.commit()
    assert floating.append(pa.table({"id": [2]})).rebased_over == (2,)
    # A handle that does not know the column does not add another one of that name.
    assert table.append(pa.table({"NEW": [7]}), merge_schema=True).version == 4
    assert handle(table.context.store).schema.names == ["id", "new"]
    assert_sound(table.context.store)


def test_merging_looks_for_the_newest_schema_first() -> None:
    """CFL-5: a stale handle neither fails nor makes a second column."""
    table = table_of("id BIGINT")
    stale = handle(table.context.store)
    table.append(pa.table({"new": [1]}), merge_schema=True)
    assert stale.append(pa.table({"new": [2]}), merge_schema=True).version == 2
    assert [row["new"] for row in seen(table)] == [1, 2]


def test_an_overwrite_brings_other_columns_in_one_commit() -> None:
    """SCH-8, CFL-3: the old version keeps its rows and columns."""
    table = table_of(
        "id INT, p STRING, x STRING", partition_by=["p"], properties={"statsColumns": "id, x"}
    )
    put(table, {"id": 1, "p": "a", "x": "old"})
    data = pa.table({"x": ["new"], "p": ["b"], "id": ["text"], "y": [1.5]})
    commit_result = table.overwrite(data, overwrite_schema=True)
    assert (commit_result.version, commit_result.metrics["numDeletedRows"]) == (2, 1)
    assert seen(table) == data.to_pylist()
    assert handle(table.context.store).properties == {"statsColumns": "`x`"}
    assert seen(table, version=1) == [{"id": 1, "p": "a", "x": "old"}]
    assert seen(table, where="p = 'b'") == data.to_pylist()
    staged = table.transaction().overwrite(pa.table({"p": ["c"]}), overwrite_schema=True)
    table.append(data)
    staged.commit()
    assert seen(table) == [{"p": "c"}]
    for bad in ({"where": "p = 'c'"}, {"dynamic_partitions": True}):
        with pytest.raises(InvalidPredicateError, match="overwrite_schema"):
            table.overwrite(data, overwrite_schema=True, **bad)
    with pytest.raises(SchemaMismatchError, match="cannot partition by 'p': no such column"):
        table.overwrite(pa.table({"x": [1]}), overwrite_schema=True)
    assert_sound(table.context.store)


def test_rows_that_came_meanwhile_do_not_stay_under_columns_they_lack() -> None:
    """CFL-12: an overwrite that read the table keeps the removals it knew."""
    table = table_of("id BIGINT")
    table.append(pa.table({"id": [1]}))
    txn = table.transaction()
    assert txn.scan().count() == 1
    txn.overwrite(pa.table({"other": ["x"]}), overwrite_schema=True)
    handle(table.context.store).append(pa.table({"id": [2]}))
    with pytest.raises(ConcurrentAppendException):
        txn.commit()
    assert seen(table) == [{"id": 1}, {"id": 2}]


def test_the_schema_changes_without_rows_too() -> None:
    """SCH-8."""
    table = table_of("id BIGINT")
    commit_result = table.append(pa.table({"new": pa.array([], pa.int8())}), merge_schema=True)
    assert (commit_result.version, commit_result.no_op) == (1, False)
    assert table.append(pa.table({"new": pa.array([], pa.int8())}), merge_schema=True).no_op
    assert table.overwrite(pa.table({"x": pa.array([], pa.int8())}), overwrite_schema=True).version
    assert handle(table.context.store).schema.names == ["x"]


def test_properties_that_name_columns_follow_them() -> None:
    """PRN-11."""
    table = table_of("a INT, b INT", properties={"statsColumns": "b"})
    table.alter.rename_column("b", "x,`y")
    put(table, {"a": 1, "x,`y": 1})
    assert (files(table, "`x,``y` = 2"), files(table, "a = 2")) == (0, 1)
    table.alter.drop_column("x,`y")
    put(table, {"a": 1})
    assert handle(table.context.store).properties == {"statsColumns": ""}


def test_columns_that_others_go_by_stay() -> None:
    """SCH-9, ENT-10: partition columns, and columns in a constraint."""
    table = table_of("id INT, p INT, x INT", partition_by=["p"])
    table.alter.add_constraint("positive", "x > 0")
    for column, said in (("p", "partitioned by 'p'"), ("X", "'positive'")):
        with pytest.raises(SchemaMismatchError, match=said):
            table.alter.drop_column(column)
        with pytest.raises(SchemaMismatchError, match=said):
            table.alter.widen_column(column, "BIGINT")
    with pytest.raises(SchemaMismatchError, match="'positive'"):
        table.alter.rename_column("x", "y")
    with pytest.raises(SchemaMismatchError, match="'positive'"):
        table.overwrite(pa.table({"p": [1]}), overwrite_schema=True)
    table.append(pa.table({"x": [1], "p": [1]}), merge_schema=True)
    assert handle(table.context.store).schema.field("x").type == pa.int32()
    table.alter.rename_column("p", "q")
    assert handle(table.context.store).partition_by == ["q"]


def test_changes_are_read_with_the_columns_of_the_end() -> None:
    """INC-3, DAT-12: rows of before as they read then, NULL where the columns are NOT NULL now."""
    table = table_of("id INT, gone STRING, x INT")
    put(table, {"id": 1, "gone": "old", "x": None})
    table.overwrite(pa.table({"id": pa.array([2], pa.int32()), "x": pa.array([5], pa.int32())}))
    table.alter.set_not_null("x")
    table.alter.drop_column("gone")
    table.alter.widen_column("id", "BIGINT")
    table.alter.add_column("gone", "INT NOT NULL", default=7)
    put(table, {"id": 1 << 40, "x": 6, "gone": 8})
    read = handle(table.context.store).changes(starting_version=1).to_arrow()
    found = read.drop_columns(["_commit_timestamp"]).to_pylist()
    names = ("id", "x", "gone", "_change_type", "_commit_version")
    assert [tuple(row[name] for name in names) for row in found] == [
        (1, None, 7, "insert", 1),
        (1, None, 7, "delete", 2),
        (2, 5, 7, "insert", 2),
        (1 << 40, 6, 8, "insert", 7),
    ]
    assert_sound(table.context.store)


@pytest.mark.parametrize(
    "change",
    [
        lambda alter: alter.widen_column("id", "SMALLINT"),
        lambda alter: alter.widen_column("id", "STRING"),
        lambda alter: alter.widen_column("id", "FLOAT"),
        lambda alter: alter.widen_column("id", "DECIMAL(10,1)"),
        lambda alter: alter.widen_column("s", "STRUCT<a: BIGINT>"),
        lambda alter: alter.widen_column("id", "NOTHING"),
        lambda alter: alter.rename_column("id", "S"),
        lambda alter: alter.rename_column("id", ""),
        lambda alter: alter.rename_column("s.a", "B"),
        lambda alter: alter.drop_column("; DROP TABLE t"),
        lambda alter: alter.drop_column("s.a.b"),
        lambda alter: alter.move_column("id"),
        lambda alter: alter.move_column("id", after="s", first=True),
        lambda alter: alter.move_column("id", after="id"),
        lambda alter: alter.move_column("s.a", after="id"),
        lambda alter: alter.set_default("id", "text"),
        lambda alter: alter.set_default("s", 1),
        lambda alter: alter.set_default("s.a", 1),
        lambda alter: alter.drop_column(None),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: Callable[[Any], Any]) -> None:
    """SCH-2, SCH-7 ..

    SCH-9: the change is refused on a table and in a transaction, and nothing is committed.
    """
    table = table_of("id INT, s STRUCT<a: INT, b: INT>")
    for alter in (table.alter, table.transaction().alter):
        with pytest.raises(SchemaMismatchError):
            change(alter)
    assert handle(table.context.store).version == 0


def test_a_change_that_changes_nothing_makes_no_version() -> None:
    """CMT-1."""
    table = table_of("id INT, b INT")
    assert table.alter.widen_column("ID", "INT").no_op
    assert table.alter.move_column("id", first=True).no_op
    assert table.alter.rename_column("id", "id").no_op
    assert table.alter.set_default("id", None).no_op
    assert table.alter.rename_column("id", "ID").version == 1


def test_the_last_column_stays() -> None:
    """SCH-2."""
    table = table_of("id INT, s STRUCT<a: INT>")
    with pytest.raises(SchemaMismatchError, match="only column"):
        table.alter.drop_column("s.a")
    table.alter.drop_column("s")
    with pytest.raises(SchemaMismatchError, match="only column"):
        table.alter.drop_column("id")


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_of_two_that_replace_a_table_at_once_one_is_the_first(reads: bool, empty: bool) -> None:
    """CFL-4, CFL-5: the other, whether it reads the table or not, meets another table."""
    table = table_of("k INT, v STRING")
    if not empty:
        put(table, {"k": 1, "v": "a"})
    shared = handle(table.context.store)

    def source(txn: Any, name: str) -> Any:
        mine = txn.scan(columns=["k"]).to_arrow() if reads else pa.table({"k": pa.array([5])})
        return mine.rename_columns([name])

    first, second, third = (shared.transaction() for _ in range(3))
    first.overwrite(source(first, "x"), overwrite_schema=True)
    second.overwrite(source(second, "y"), overwrite_schema=True)
    third.append(pa.table({"k": pa.array([6], pa.int32()), "w": [1]}), merge_schema=True)
    altering = shared.transaction().alter.set_properties({"user.a": "b"})
    version = first.commit().version
    stands = (handle(table.context.store).schema, seen(table))
    # An empty table that was replaced from its own rows is one that changed its columns.
    lost = MetadataChangedException if reads and empty else ProtocolChangedException
    with pytest.raises(lost) as caught:
        second.commit()
    assert caught.value.winner_version == version
    for less in (third, altering):
        with pytest.raises(MetadataChangedException):
            less.commit()
    assert (handle(table.context.store).schema, seen(table)) == stands
    assert_sound(table.context.store)
    replacing = shared.transaction().overwrite(pa.table({"z": [1]}), overwrite_schema=True)
    table.alter.set_properties({"user.a": "c"})
    with pytest.raises(MetadataChangedException):
        replacing.commit()


@pytest.mark.parametrize("by", ["p", "q"])
def test_a_table_replaced_from_its_own_rows_keeps_no_file_of_a_compaction(by: str) -> None:
    """SCH-12, ENT-8: a concurrent compaction made files that the replacement did not know."""
    table = table_of("k INT, p STRING, q STRING", partition_by=["p"])
    put(table, {"k": 1, "p": "a", "q": "b"})
    put(table, {"k": 2, "p": "a", "q": "c"})
    replacing = table.transaction()
    rows = replacing.scan().to_arrow()
    with_more = rows.append_column("n", pa.array([10, 20]))
    replacing.overwrite(with_more, overwrite_schema=True, partition_by=[by])
    minor = OperationClass.MINOR_COMPACT
    table.transaction().stage(lambda snapshot: stage_compact(snapshot, minor, [[1, 2]])).commit()
    commit = replacing.commit()
    assert [concurrent.rule for concurrent in commit.rebased_over] == ["CFL-13"]
    assert commit.metrics["numRemovedFiles"] == 1
    fresh = handle(table.context.store)
    live = fresh.context.view.snapshot().files
    assert live["added"].to_pylist() == [4] * live.num_rows
    assert [name for name in live.column_names if name.startswith("partition.")] == [
        f"partition.{fresh.context.view.head.metadata.partition_by[0]}"
    ]
    assert sorted(seen(table), key=lambda row: row["k"]) == with_more.to_pylist()
    assert_sound(table.context.store)
