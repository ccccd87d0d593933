"""UPDATE and MERGE as a user writes them: results, refusals and reports."""

from __future__ import annotations

import datetime as dt
import math
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConstraintViolationError,
    CorruptDataError,
    IdempotenceError,
    InvalidPredicateError,
    InvalidRangeError,
    MergeCardinalityError,
    SchemaMismatchError,
    TablefmtError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.merge_statement import Action, Clause, MergeStatement, Side
from tablefmt.model.content_hashes import decode_hashes, hash_keys
from tablefmt.model.log_entry import OperationClass, RowUpdate
from tablefmt.model.schema import Primitive
from tablefmt.operations.merge_builder import MergeBuilder, Pending
from tests.tables import by_values, last_entry, quoted, sorted_rows

Row = tuple[Any, ...]
DDL = "id BIGINT, v STRING, n INT"
SHAPE = pa.schema([("id", pa.int64()), ("v", pa.string()), ("n", pa.int32())])


def data(*rows: Row) -> pa.Table:
    return pa.table([list(c) for c in zip(*rows, strict=True)] or [[]] * 3, SHAPE)


def new(*batches: list[Row], partition_by: Any = (), **properties: str) -> tablefmt.Table:
    """A table with a file (a partition) for each batch of rows."""
    uri = f"memory://update-merge/{uuid.uuid4().hex}"
    table = tablefmt.create(uri, DDL, partition_by=partition_by, properties=properties)
    for rows in batches:
        table.append(data(*rows))
    return table


def three_files(**more: Any) -> tablefmt.Table:
    """Ids 1 to 3, 11 to 13, 21 to 23."""
    batches = [[(at + i, chr(96 + i), i) for i in (1, 2, 3)] for at in (0, 10, 20)]
    return new(*batches, **more)


def upsert(table: Any, source: pa.Table, condition: str | None = None) -> MergeBuilder[Any]:
    builder = table.merge(source, "t.id = s.id")
    return builder.when_matched_update_all(condition).when_not_matched_insert_all()


# --- UPDATE --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_an_update_computes_all_values_from_the_old_row(mode: str) -> None:
    """SQL-3, ENT-9: all values are computed at once, so columns can be swapped.

    Other rows keep their places.
    """
    table = three_files(deleteMode=mode)
    commit = table.update({"n": "CAST(id AS INT)", "id": "n"}, "v = 'b' OR id + 0 = 23")
    assert sorted_rows(table) == sorted(
        [
            *((1, "a", 1), (3, "c", 3), (11, "a", 1), (13, "c", 3), (21, "a", 1)),
            *((2, "b", 2), (2, "b", 12), (2, "b", 22), (3, "c", 23)),
        ]
    )
    assert commit.metrics["numUpdatedRows"] == 4
    assert last_entry(table).update == RowUpdate((1, 3))
    assert last_entry(table).operation.cls is OperationClass.UPDATE
    assert table.verify(deep=True).findings == ()
    assert table.update({"n": "0"}, "id = 99").no_op


def test_nested_columns_are_set_to_null() -> None:
    """SQL-3: NULL goes into a column of any type, by UPDATE and by MERGE; NOT NULL is kept."""
    ddl = "id INT, l ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT>, n ARRAY<INT> NOT NULL"
    table = tablefmt.create(f"memory://update-merge/{uuid.uuid4().hex}", ddl)
    held = {"l": [1], "m": [("k", 1)], "s": {"x": 1}, "n": [1]}
    table.append(pa.Table.from_pylist([{"id": i, **held} for i in (1, 2, 3)], table.schema))
    table.update({"l": "NULL", "m": "NULL", "s": "NULL"}, "id = 1")
    merge = table.merge(pa.table({"k": [2]}), "t.id = s.k")
    merge.when_matched_update({"l": "NULL", "m": "NULL", "s": "NULL"}).execute()
    with pytest.raises(ConstraintViolationError, match="'n' is NOT NULL"):
        table.update({"n": "NULL"})
    gone = {"l": None, "m": None, "s": None, "n": [1]}
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, **gone}, {"id": 2, **gone}, {"id": 3, **held},
    ]  # fmt: skip


def test_an_update_of_a_partition_column_moves_the_row() -> None:
    """ADD-4: to a file of the other partition; the old one's file goes if it was the last row."""
    table = new([(1, "a", 1), (2, "b", 2)], [(3, "c", 1)], partition_by=["n"])
    table.update({"n": "n + 1"}, "n = 1")
    assert sorted_rows(table) == [(1, "a", 2), (2, "b", 2), (3, "c", 2)]
    assert {p["n"] for p in table.scan().files()["partition"].to_pylist()} == {2}
    assert last_entry(table).basis.scope is not None


def test_one_statement_has_one_time() -> None:
    """SQL-2."""
    table = tablefmt.create(f"memory://{uuid.uuid4().hex}", "id INT, at TIMESTAMP, day DATE")
    table.append(pa.table({"id": pa.array(range(1000), pa.int32())}))
    before = dt.datetime.now(dt.timezone.utc)
    table.update({"at": "current_timestamp()", "day": "current_date()"})
    (at,) = set(table.to_arrow()["at"].to_pylist())
    assert before <= at <= dt.datetime.now(dt.timezone.utc)
    assert set(table.to_arrow()["day"].to_pylist()) == {at.date()}


NAMES = ["a.b", "a`b", "select", "é ñ", "'", "a;b", "`", "x--y"]


def test_columns_with_any_name_are_read_and_set() -> None:
    """PRN-3: the name may be plain or quoted as in SQL."""
    shape = pa.schema([(name, pa.int32()) for name in NAMES])
    table = tablefmt.create(f"memory://{uuid.uuid4().hex}", shape)
    table.append(pa.table([[at, at + 10] for at in range(len(NAMES))], schema=shape))

    for at, name in enumerate(NAMES):
        table.update({name: f"{quoted(name)} + 100"}, f"{quoted(name)} + 0 = {at}")
        table.update({quoted(name): f"{quoted(name)} + 100"}, f"{quoted(name)} + 0 = {at + 10}")
    assert sorted_rows(table) == [tuple(range(100, 108)), tuple(range(110, 118))]
    source = table.to_arrow().set_column(1, "a`b", pa.array([-1, -2], pa.int32()))
    on = " AND ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in NAMES if n != "a`b")
    table.merge(source, on).when_matched_update({"t.`a``b`": "s.`a``b`"}).execute()
    assert sorted_rows(table, "a`b") == [(-2,), (-1,)]


@pytest.mark.parametrize(
    "word", ["it's", 'say "x"', "é\U0001f600", "`", "x'; DROP TABLE t; --", "\\"]
)
def test_texts_are_taken_as_they_are(word: str) -> None:
    """PRN-3: quotes, unicode, and text that resembles another statement."""
    table = new([(1, word, 1), (2, "b", 2)])
    said = "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
    table.update({"v": f"concat({said}, {said})"}, f"v = {said}")
    table.update({"n": "7"}, f"concat(v, '') = concat({said}, {said})")
    assert sorted_rows(table) == [(1, word + word, 7), (2, "b", 2)]
    table.merge(data((5, word, 5)), f"t.v = {said}").when_not_matched_insert_all().execute()
    assert (5, word, 5) in sorted_rows(table)


WRONG: list[tuple[dict[str, Any], str | None, type[TablefmtError], str]] = [
    ({"nothing": "1"}, None, SchemaMismatchError, "no column 'nothing'"),
    ({"v": "nothing"}, None, InvalidPredicateError, "no column 'nothing'"),
    ({"v": "1"}, "nothing + 1 = 2", InvalidPredicateError, "no column 'nothing'"),
    ({}, None, InvalidPredicateError, "no columns to set"),
    ({"n": "1", "N": "2"}, None, SchemaMismatchError, "set twice"),
    ({"n": "v"}, None, SchemaMismatchError, "column 'n' of type integer does not accept 'v'"),
    ({"n": "id >"}, None, InvalidPredicateError, "cannot read"),
    ({"n": "1; DROP TABLE t"}, None, InvalidPredicateError, "did not expect 'DROP'"),
    ({"n": "n / (n - 1)"}, None, InvalidPredicateError, "division by zero"),
    ({"n": "id * 1000000000"}, None, SchemaMismatchError, "column 'n': .* not in range"),
    ({"n": 3}, None, InvalidPredicateError, "expected SQL text"),
    ({"n": "rand()"}, None, UnsupportedFeatureError, "a different value each time"),
    ({"n": "1"}, "rand() > 0.5", UnsupportedFeatureError, "a different value each time"),
    ({"n": "(SELECT 1)"}, None, UnsupportedFeatureError, "sub-queries"),
    ({"n": "1"}, "id IN (SELECT 1)", UnsupportedFeatureError, "sub-query"),
    ({"n": "1"}, "n", InvalidPredicateError, "not a condition"),
    ({"v.x": "1"}, None, SchemaMismatchError, "no column 'v.x'"),
]


@pytest.mark.parametrize(("values", "where", "error", "said"), WRONG, ids=str)
def test_a_wrong_update_changes_nothing(
    values: dict[str, Any], where: str | None, error: type[TablefmtError], said: str
) -> None:
    table = three_files()
    before, keys = sorted_rows(table), objects(table)
    with pytest.raises(error, match=said):
        table.update(values, where)
    assert (sorted_rows(table), objects(table), table.version) == (before, keys, 3)


def objects(table: tablefmt.Table) -> list[str]:
    return sorted(found.key for found in table.context.store.list_after("data/"))


def test_a_last_row_that_breaks_a_constraint_leaves_no_file() -> None:
    """DAT-3: an UPDATE or MERGE that breaks NOT NULL leaves no file."""
    table = tablefmt.create(f"memory://{uuid.uuid4().hex}", "id BIGINT, v STRING NOT NULL")
    count = 200_000
    table.append(pa.table({"id": range(count), "v": ["x"] * count}))
    keys = objects(table)
    last = count - 1
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        table.update({"v": f"nullif(v, IF(id = {last}, 'x', 'y'))"})
    source = pa.table({"id": range(count), "v": ["y"] * last + [None]})
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        upsert(table, source).execute()
    assert (objects(table), table.refresh().version) == (keys, 1)


def test_an_append_only_table_is_not_updated() -> None:
    table = three_files(appendOnly="true")
    for act in (lambda: table.update({"n": "1"}), lambda: upsert(table, data()).execute()):
        with pytest.raises(ConstraintViolationError, match="append-only"):
            act()


# --- MERGE ---------------------------------------------------------------------------------------


def test_a_merge_says_what_it_did() -> None:
    """MRG-5, ENT-9, ADD-8: metrics, the columns that were set, and the keys of new rows."""
    table = three_files()
    commit = upsert(table, data((2, "B", 20), (13, "c", 3), (40, "z", 1), (None, "y", 1))).execute()
    assert sorted_rows(table) == sorted(
        [
            *((1, "a", 1), (2, "B", 20), (3, "c", 3), (11, "a", 1), (12, "b", 2), (13, "c", 3)),
            *((21, "a", 1), (22, "b", 2), (23, "c", 3), (40, "z", 1), (None, "y", 1)),
        ],
        key=by_values,
    )
    said = {k: v for k, v in commit.metrics.items() if k.startswith(("numTarget", "numSource"))}
    assert said == {
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": 2,
        "numTargetRowsDeleted": 0,
        "numTargetRowsCopied": 0,
        "numTargetFilesAdded": 2,
        "numTargetFilesRemoved": 0,
        "numSourceRows": 4,
    }
    entry = last_entry(table)
    assert entry.update == RowUpdate((2, 3), (1,))
    assert entry.add is not None
    columns = entry.add.columns
    assert columns["updated"] == [True, False]
    assert columns["keys"][0] is None
    expected = hash_keys([pa.array([40])], [Primitive("long")])
    assert decode_hashes(columns["keys"][1]).tolist() == expected.tolist()


def test_a_merge_opens_the_files_that_can_match() -> None:
    """MRG-3: the source's values, ON alone, or bounds of the other clauses decide."""
    table = three_files()

    def opened(source: pa.Table, on: str, *, rest: str | None = None) -> str:
        builder = table.merge(source, on).when_matched_delete()
        if rest is not None:
            builder = builder.when_not_matched_by_source_delete(rest or None)
        text = builder.explain()
        return text.split(": opens ")[1].split(" files")[0]

    assert opened(data((2, "", 0), (22, "", 0)), "t.id = s.id") == "2 of 3"
    assert opened(data((2, "", 0), (22, "", 0)), "t.id = s.id AND t.id < 20") == "1 of 3"
    assert opened(data((2, "", 0)), "t.id = s.id OR t.n = s.n") == "3 of 3"
    assert opened(data((None, "", 0)), "t.id = s.id") == "0 of 3"
    assert opened(data((None, "", 0)), "t.id <=> s.id") == "0 of 3"
    assert opened(data(), "t.id = s.id") == "0 of 3"
    assert opened(data((7, "", 2)), "t.id = s.n") == "1 of 3"
    assert opened(data((2, "", 0)), "t.id = s.id + 10") == "1 of 3"
    assert opened(data((2, "", 0)), "t.id = s.id", rest="t.id > 20") == "2 of 3"
    assert opened(data((2, "", 0)), "t.id = s.id", rest="") == "3 of 3"
    many = data(*((i, "", 0) for i in range(-2000, 5)))
    assert opened(many, "t.id = s.id") == "1 of 3"
    assert table.version == 3


def test_keys_are_named_when_several_source_rows_change_a_row() -> None:
    """MRG-4: up to ten; nothing is changed."""
    table = new([(i, "a", i) for i in range(20)])
    source = data(*((i, "x", i) for i in range(15)), *((i, "y", i) for i in range(15)))
    with pytest.raises(MergeCardinalityError, match="id=0; id=1") as caught:
        upsert(table, source).execute()
    assert caught.value.keys == [{"id": i} for i in range(10)]
    assert (table.refresh().version, len(objects(table))) == (1, 1)
    builder = table.merge(source, "t.id = s.id")
    with pytest.raises(MergeCardinalityError):
        builder.when_matched_delete("s.n > 3").execute()
    builder.when_matched_update_all("s.v = 'y'").execute()
    assert sorted_rows(table, "v") == sorted([("y",)] * 15 + [("a",)] * 5)
    builder.when_matched_delete().execute()
    assert sorted_rows(table, "id") == [(i,) for i in range(15, 20)]


@pytest.mark.parametrize("source", [None, 1, "rows", [1, 2]], ids=str)
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(SchemaMismatchError):
        upsert(three_files(), source).execute()


Build = Callable[[MergeBuilder[Any]], MergeBuilder[Any]]

WRONG_MERGES: list[tuple[str, Build, type[TablefmtError], str]] = [
    ("t.id = s.id", lambda b: b, InvalidPredicateError, "at least one WHEN"),
    (
        "id = s.id",
        lambda b: b.when_matched_delete(),
        InvalidPredicateError,
        r"^ON: id is ambiguous: write t\.id or s\.id, or compare them: t\.id = s\.id$",
    ),
    (
        "id",
        lambda b: b.when_matched_delete(),
        InvalidPredicateError,
        r"^ON: id is ambiguous: write t\.id or s\.id, or compare them: t\.id = s\.id$",
    ),
    ("t.id = s.x", lambda b: b.when_matched_delete(), InvalidPredicateError, "no column 's.x'"),
    ("t.id = s.v", lambda b: b.when_matched_update_all("s.nn = 1"), InvalidPredicateError, "s.nn"),
    ("t.id", lambda b: b.when_matched_delete(), InvalidPredicateError, "not a condition"),
    ("t.id = rand()", lambda b: b.when_matched_delete(), UnsupportedFeatureError, "each time"),
    (
        "t.id = s.id",
        lambda b: b.when_matched_delete().when_matched_update_all(),
        InvalidPredicateError,
        "follows a clause without a condition",
    ),
    (
        "t.id = s.id",
        lambda b: b.when_not_matched_insert({"id": "t.id"}),
        InvalidPredicateError,
        "no column 't.id'",
    ),
    (
        "t.id = s.id",
        lambda b: b.when_not_matched_by_source_update({"v": "s.v"}),
        InvalidPredicateError,
        "no column 's.v'",
    ),
    (
        "t.id = s.id",
        lambda b: b.when_matched_update({"n": "s.v"}),
        SchemaMismatchError,
        "column 'n' of type integer does not accept 's.v' of type string",
    ),
    ("t.id = s.id", lambda b: b.when_matched_update({"s.v": "1"}), SchemaMismatchError, "'s.v'"),
    (
        "t.id = s.id",
        lambda b: b.when_matched_update({}),
        InvalidPredicateError,
        "no columns to set",
    ),
]


@pytest.mark.parametrize(("on", "build", "error", "said"), WRONG_MERGES)
def test_a_wrong_merge_changes_nothing(
    on: str, build: Build, error: type[TablefmtError], said: str
) -> None:
    """MRG-1."""
    table = three_files()
    with pytest.raises(error, match=said):
        build(table.merge(data((2, "x", 1)), on)).execute()
    assert (table.refresh().version, len(objects(table))) == (3, 3)


def test_actions_that_rows_cannot_have_and_equal_names_are_refused() -> None:
    """MRG-1: the builder has no method for these actions."""
    table = three_files()
    for side, action in (
        (Side.NOT_MATCHED, Action.DELETE),
        (Side.MATCHED, Action.INSERT),
        (Side.NOT_MATCHED_BY_SOURCE, Action.INSERT),
    ):
        statement = MergeStatement(on="t.id = s.id", clauses=(Clause(side, action),))
        builder = MergeBuilder(statement, lambda statement, commit: None, str, Pending(None))
        with pytest.raises(InvalidPredicateError, match="clauses can only INSERT"):
            builder.execute()
    with pytest.raises(InvalidPredicateError, match="use two names"):
        table.merge(data(), "x.id = x.id", source_alias="x", target_alias="X").when_matched_delete(
            None
        ).execute()


def test_sources_with_missing_and_more_columns() -> None:
    """MRG-1: every column by name needs all of the table's, and passes over others."""
    table = three_files()
    less = pa.table({"id": [2, 50], "v": ["L", "M"]})
    with pytest.raises(SchemaMismatchError, match="lacks 'n'"):
        upsert(table, less).execute()
    builder = table.merge(less, "t.id = s.id").when_matched_update({"v": "s.v"})
    builder.when_not_matched_insert({"id": "s.id", "v": "s.v"}).execute()
    more = pa.table({"ID": [3], "n": [5.0], "v": ["m"], "odd": pa.array([b"x"], pa.binary())})
    upsert(table, more).execute()
    assert {(2, "L", 2), (50, "M", None), (3, "m", 5)} <= set(sorted_rows(table))


def test_new_columns_come_with_the_rows() -> None:
    """MRG-1: with merge_schema old rows have NULL, and columns that the source lacks stay."""
    table = three_files()
    source = pa.table({"id": [2, 60], "extra": [1.5, 2.5]})
    builder = table.merge(source, "t.id = s.id", merge_schema=True)
    commit = builder.when_matched_update_all().when_not_matched_insert_all().execute()
    assert commit.version == 4
    assert table.schema.names == ["id", "v", "n", "extra"]
    assert {(2, "b", 2, 1.5), (60, None, None, 2.5), (1, "a", 1, None)} <= set(sorted_rows(table))
    assert table.to_arrow(version=3).column_names == ["id", "v", "n"]


def test_a_source_may_be_the_table_itself() -> None:
    """MRG-3: the source is another version, or this one. Each is read once."""
    table = three_files()
    table.update({"v": "'new'"}, "id < 20")
    table.delete("id = 23")
    builder = table.merge(table.scan(version=3), "t.id = s.id")
    builder.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()
    assert sorted_rows(table) == sorted_rows(three_files())
    builder = table.merge(table.scan(where="id > 11"), "t.id = s.id - 10")
    builder.when_matched_update({"n": "s.n * 100"}).execute()
    assert sorted_rows(table, "n") == sorted((n,) for n in (1, 1, 2, 3, 100, 200, 200, 300, 300))


def test_a_table_read_as_a_source_is_read() -> None:
    """CFL-8: the MERGE reads it at its own version."""
    table = three_files()
    txn = table.transaction()
    builder = txn.merge(table.scan(where="id = 1"), "t.id = s.id + 10")
    builder.when_matched_update({"v": "s.v"}).execute()
    table.update({"v": "'other'"}, "id = 1")
    with pytest.raises(ConcurrentAppendException):
        txn.commit()


def test_a_source_beyond_the_memory_there_is_comes_out_the_same() -> None:
    """The source is spilled to disk, and joined a few rows at a time."""
    found = []
    for limit in (1 << 30, 1 << 10):
        table = new(*[[(j, "a", j % 5) for j in range(i, 3000, 3)] for i in range(3)])
        source = data(*((j * 7, f"s{j}", j % 9) for j in range(2000)))
        builder = table.merge(source, "t.id = s.id", memory_limit=limit)
        builder = builder.when_matched_delete("s.n = 4").when_matched_update_all("t.n <> 2")
        builder.when_not_matched_insert_all("s.n < 5").when_not_matched_by_source_update(
            {"v": "'z'"}, "t.n = 3"
        ).execute()
        found.append(sorted_rows(table))
    assert found[0] == found[1]
    assert len(found[0]) > 3000


def test_a_stream_is_read_once() -> None:
    """MRG-3: a source that cannot be read twice, one value each."""
    table = three_files()
    turns = iter(range(10))
    batches = (data((at + 1, f"r{next(turns)}", at)).to_batches()[0] for at in range(3))
    reader = pa.RecordBatchReader.from_batches(SHAPE, batches)
    upsert(table, reader).execute()
    assert next(turns) == 3
    assert {(1, "r0", 0), (2, "r1", 1), (3, "r2", 2)} <= set(sorted_rows(table))


def test_a_statement_is_applied_once() -> None:
    """CFL-7: the same rows and text again, and others under the same number."""
    table, source = three_files(), data((2, "x", 9), (70, "y", 9))
    assert upsert(table, source).execute(application=("app", 1)).version == 4
    assert upsert(table, source).execute(application=("app", 1)).already_applied
    with pytest.raises(IdempotenceError):
        upsert(table, data((2, "z", 9))).execute(application=("app", 1))
    assert table.update({"n": "n"}, "id = 2", application=("app", 2)).version == 5
    assert table.update({"n": "n"}, "id = 2", application=("app", 2)).already_applied
    with pytest.raises(IdempotenceError):
        table.update({"n": "n + 1"}, "id = 2", application=("app", 2))
    with pytest.raises(InvalidRangeError, match="unknown argument"):
        upsert(table, source).execute(nothing=1)  # type: ignore[call-arg]


def test_transactions_stage_updates_and_merges() -> None:
    """Staged changes are invisible to readers. A transaction holds one such statement."""
    table = three_files()
    with table.transaction() as txn:
        assert upsert(txn, data((2, "x", 9))).execute() is txn
        assert sorted_rows(table) == sorted_rows(three_files())
        with pytest.raises(TransactionStateError):
            txn.update({"n": "1"})
    assert (2, "x", 9) in sorted_rows(table)
    with table.transaction() as txn:
        txn.update({"v": "concat(v, '!')"}, "id = 2")
        with pytest.raises(TransactionStateError):
            upsert(txn, data((3, "x", 9))).execute()
    assert (2, "x!", 9) in sorted_rows(table)
    txn = table.transaction()
    with pytest.raises(InvalidRangeError, match="commit"):
        upsert(txn, data((3, "x", 9))).execute(user_metadata={})
    txn.abort()


# --- beside each other ---------------------------------------------------------------------------


def interleaved(side: int) -> pa.Table:
    """Every other id, half of them new."""
    return data(*((i, f"m{side}", side) for i in range(side, 40, 2)))


def test_merges_of_different_rows_of_one_file_both_commit() -> None:
    """CFL-17, CFL-18: matched and inserted keys interleave, so bounds alone would refuse."""
    table = new([(i, "a", 0) for i in range(20)])
    first, second = table.transaction(), table.transaction()
    for side, txn in enumerate((first, second)):
        upsert(txn, interleaved(side)).execute()
    first.commit()
    assert second.commit().rebased_over == (2,)
    assert sorted_rows(table) == sorted((i, f"m{i % 2}", i % 2) for i in range(40))


def test_updates_of_different_rows_of_one_file_both_commit() -> None:
    """CFL-17: the engine evaluates conditions on columns that the concurrent commit did not set."""
    table = new([(i, "a", 0) for i in range(20)])
    first, second = table.transaction(), table.transaction()
    first.update({"n": "n + 1"}, "id % 2 = 0")
    second.update({"n": "n + 2"}, "id % 2 = 1")
    first.commit()
    second.commit()
    assert sorted_rows(table, "id", "n") == sorted((i, 1 + i % 2) for i in range(20))


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (
            lambda t: upsert(t, data((1, "x", 1))).execute(),
            lambda t: upsert(t, data((1, "y", 1))).execute(),
            ConcurrentDeleteReadException,
        ),
        (
            lambda t: upsert(t, data((99, "x", 1))).execute(),
            lambda t: upsert(t, data((99, "y", 1))).execute(),
            ConcurrentAppendException,
        ),
        (
            lambda t: t.update({"n": "5"}, "id + 0 = 1"),
            lambda t: t.update({"n": "6"}, "id + 0 = 1"),
            ConcurrentDeleteReadException,
        ),
        (
            lambda t: t.update({"id": "1"}, "id = 2"),
            lambda t: t.update({"n": "6"}, "id + 0 = 1"),
            ConcurrentAppendException,
        ),
    ],
)
def test_of_two_that_touch_the_same_one_fails(first: Any, second: Any, error: Any) -> None:
    """CFL-8, CFL-10: the same row, the same new key, a row that moves into the condition."""
    table = new([(i, "a", 0) for i in range(5)])
    concurrent, loser = table.transaction(), table.transaction()
    first(concurrent)
    second(loser)
    concurrent.commit()
    with pytest.raises(error):
        loser.commit()


def test_rows_not_in_the_source_are_read_as_far_as_conditions_bound_them() -> None:
    """MRG-3: an insert that no condition can reach does not stop the MERGE, another one does."""
    for new_id, fails in ((50, False), (15, True)):
        table = three_files(isolationLevel="Serializable")
        txn = table.transaction()
        builder = txn.merge(data((1, "x", 1)), "t.id = s.id").when_matched_update_all()
        builder.when_not_matched_by_source_delete("t.id BETWEEN 10 AND 20").execute()
        table.append(data((new_id, "late", 1)))
        if fails:
            with pytest.raises(ConcurrentAppendException):
                txn.commit()
        else:
            txn.commit()


# --- without the engine --------------------------------------------------------------------------


def test_without_duckdb_simple_conditions_work_and_the_rest_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQL-2: the error has the name and the command, and comes before any work."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    table = three_files()
    table.delete("id = 1 OR v = 'b'")
    table.overwrite(data((3, "q", 3)), where="id = 3")
    assert table.scan(where="id BETWEEN 10 AND 12").count() == 1
    table.delete(pc.field("id") == 23)
    for act in (
        lambda: table.delete("upper(v) = 'B'"),
        lambda: table.scan(where="upper(v) = 'B'"),
        lambda: table.update({"v": "upper(v)"}),
        lambda: table.merge(data((1, "a", 1)), "t.id <=> s.id").when_matched_delete().execute(),
        lambda: upsert(table, data((1, "a", 1)), "upper(s.v) = 'A'").execute(),
        lambda: (
            table.merge(data((1, "a", 1)), "t.id = s.id")
            .when_not_matched_insert({"v": "upper(v)"})
            .execute()
        ),
    ):
        with pytest.raises(
            UnsupportedFeatureError, match=r"pip install 'tablefmt\[sql\]'"
        ) as caught:
            act()
        assert caught.value.features == ["sql:duckdb"]
    assert sorted_rows(table) == [(3, "q", 3), (11, "a", 1), (13, "c", 3), (21, "a", 1)]
    table.update({"n": "n + 1"}, "id % 10 = 1")
    upsert(table, data((3, "r", 9), (4, "s", 4)), "t.n < s.n OR s.id = 4").execute()
    table.delete("id - 10 = 3")
    assert sorted_rows(table) == [(3, "r", 9), (4, "s", 4), (11, "a", 2), (21, "a", 2)]
    with pytest.raises(UnsupportedFeatureError, match="sql"):
        table.update({"n": "2147483647 + n"})


def spoiled(table: tablefmt.Table, column: str) -> None:
    """One bit in the pages of a column, in every file."""
    root = Path(table.uri)
    for name in table.scan().files()["path"].to_pylist():
        body = bytearray((root / name).read_bytes())
        footer = pq.read_metadata(root / name)
        chunks = [footer.row_group(0).column(at) for at in range(footer.num_columns)]
        chunk = next(each for each in chunks if each.path_in_schema == column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        body[start + chunk.total_compressed_size // 2] ^= 1
        (root / name).write_bytes(body)


def test_of_rows_that_change_only_what_stays_is_read(tmp_path: Path) -> None:
    """MRG-2, SQL-3: a column whose pages are damaged is no trouble to who sets it."""
    table = tablefmt.create(tmp_path / "table", DDL)
    # The file is longer than its end that every read checks.
    more = [(at, uuid.uuid4().hex, at) for at in range(10, 20_000)]
    table.append(data((1, "a", 1), (2, "b", 2), (3, "c", 3), *more))
    spoiled(table, "v")
    with pytest.raises(CorruptDataError):
        table.to_arrow()
    with pytest.raises(CorruptDataError):
        table.update({"n": "n + 1"}, "id = 2")
    with pytest.raises(CorruptDataError):
        table.merge(data((2, "x", 9)), "t.id = s.id").when_matched_update({"n": "s.n"}).execute()
    upsert(table, data((1, "x", 7), (9, "y", 8))).execute()
    merge = table.merge(data((2, "z", 9)), "t.id = s.id")
    merge.when_matched_update({"v": "s.v", "n": "t.n + s.n"}).execute()
    table.update({"v": "'w'"}, "id = 3")
    table.delete("id > 9")
    assert sorted_rows(table) == [(1, "x", 7), (2, "z", 11), (3, "w", 3), (9, "y", 8)]


def test_every_column_set_needs_no_column_read(tmp_path: Path) -> None:
    """SQL-3: the statement only needs the number of rows."""
    table = tablefmt.create(tmp_path / "table", DDL)
    table.append(data(*((at, "a", at) for at in range(1000))))
    table.delete("id = 5")
    table.update({"id": "7L", "v": "NULL", "n": "2"}, "n % 250 = 5")
    assert [row for row in sorted_rows(table) if row[1] != "a"] == [(7, None, 2)] * 3
    assert table.scan().count() == 999


def test_every_column_by_name_goes_into_structs_and_takes_columns_without_a_type() -> None:
    """MRG-2: fields match by name too. A source column of NULL alone has no type."""
    uri = f"memory://update-merge/{uuid.uuid4().hex}"
    table = tablefmt.create(uri, "id BIGINT, v STRING, s STRUCT<a: INT, b: STRING>")
    ours = pa.struct([("a", pa.int32()), ("b", pa.string())])
    table.append(pa.table({"id": [1], "v": ["x"], "s": pa.array([{"a": 1, "b": "q"}], ours)}))

    def merge(rows: list[dict[str, Any]], kind: pa.DataType, **more: Any) -> None:
        source = {"id": range(1, len(rows) + 1), "v": pa.nulls(len(rows))}
        given = pa.table({**source, "s": pa.array(rows, kind)})
        builder = table.merge(given, "t.id = s.id", **more)
        builder.when_matched_update_all().when_not_matched_insert_all().execute()

    theirs = pa.struct([("b", pa.string()), ("a", pa.int64())])
    merge([{"b": "z", "a": 5}, {"b": "y", "a": 6}], theirs)
    first = {"id": 1, "v": None, "s": {"a": 5, "b": "z"}}
    second = {"id": 2, "v": None, "s": {"a": 6, "b": "y"}}
    assert table.to_arrow().sort_by("id").to_pylist() == [first, second]

    more = pa.struct([("b", pa.string()), ("c", pa.int32())])
    with pytest.raises(SchemaMismatchError, match="'c'"):
        merge([{"b": "w", "c": 7}], more)
    with pytest.raises(SchemaMismatchError, match="without loss"):
        merge([{"b": "w", "a": 1 << 40}], theirs)
    merge([{"b": "w", "c": 7}], more, merge_schema=True)
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": None, "s": {"a": 5, "b": "w", "c": 7}},
        {"id": 2, "v": None, "s": {"a": 6, "b": "y", "c": None}},
    ]


def test_minus_zero_is_kept() -> None:
    """SQL-1: the sign is the DOUBLE's, not that of the decimal which it is written as."""
    table = tablefmt.create(f"memory://{uuid.uuid4().hex}", "k INT, v DOUBLE, f FLOAT")
    forms = ["-0.0D", "- 0.0D", "-0e0", "-(0.0D)", "-CAST(0 AS DOUBLE)", "0.0D * -1", "-0.0F"]
    forms += ["-0.0", "-0", "CAST(-0.0 AS DOUBLE)", "-0.0BD", "abs(-0.0D)"]
    table.append(pa.table({"k": pa.array(range(len(forms)), pa.int32())}))
    for k, form in enumerate(forms):
        table.update({"v": form, "f": form}, where=f"k = {k}")
    found = table.refresh().to_arrow().sort_by("k")
    signs = [math.copysign(1, v) for v in found["v"].to_pylist()]
    assert signs == [math.copysign(1, v) for v in found["f"].to_pylist()] == [-1] * 7 + [1] * 5


def test_times_beside_what_the_engine_works_out() -> None:
    """SQL-1, PRN-3: every form that a condition of its own may have."""
    table = tablefmt.create(
        f"memory://{uuid.uuid4().hex}", "k INT, c TIMESTAMP, n TIMESTAMP_NTZ, d DATE, b BOOLEAN"
    )
    day, micros = 19723, 1704067200_000_000
    table.append(
        pa.table(
            {
                "k": pa.array([1, 2], pa.int32()),
                "c": pa.array([0, micros], pa.timestamp("us", "UTC")),
                "n": pa.array([0, micros], pa.timestamp("us")),
                "d": pa.array([0, day], pa.date32()),
                "b": [False, True],
            }
        )
    )
    for text in (
        "c = TIMESTAMP '2024-01-01'",
        "c = TIMESTAMP '2024-01-01 00:00:00Z'",
        "c = TIMESTAMP '2024-01-01 02:00:00+02:00'",
        "c = '2024-01-01T02:00:00.000+02:00'",
        "c = TIMESTAMP '2024-01-01 01:00 Europe/Berlin'",
        "c IN ('2024', '1999-1-1')",
        "c BETWEEN '2023-12' AND DATE '2024-1-2'",
        "c > '1970-01-02' AND c < '+12024-01-01'",
        "n = TIMESTAMP_NTZ '2024-01-01'",
        "n = '2024-01-01 00:00'",
        "d = '2024-1-1' OR d > '+20000-01-01'",
        "b = 'yes'",
    ):
        for where in (f"({text}) AND k + 0 > 0", f"({text}) IS NOT FALSE AND k * 1 > 0"):
            assert table.to_arrow(where=where)["k"].to_pylist() == [2], where
    for wrong in ("c = 'x'", "c = TIMESTAMP '2024-02-30'", "d = '1'", "b = '\u00a01'"):
        with pytest.raises(InvalidPredicateError):
            table.to_arrow(where=f"{wrong} AND k + 0 > 0")


@pytest.mark.parametrize("beyond", [3e10, -3e10, float("nan")])
def test_a_double_beyond_an_int_is_named(beyond: float) -> None:
    """SQL-3: a fraction before it is cut off, and is no reason."""
    table = tablefmt.create(f"memory://named-{uuid.uuid4().hex}", "id BIGINT, n INT, d DOUBLE")
    table.append({"id": [1, 2, 3], "n": [0, 0, 0], "d": [1.5, beyond, -0.5]})
    with pytest.raises(SchemaMismatchError) as caught:
        table.update({"n": "d"})
    said = str(caught.value)
    assert ("nan" in said) if beyond != beyond else (f"{beyond:.0f}" in said), said
    assert "1.5" not in said
    table.update({"n": "d"}, where="id <> 2")
    assert sorted(table.to_arrow(columns=["id", "n"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "n": 1},
        {"id": 2, "n": 0},
        {"id": 3, "n": 0},
    ]


def test_a_value_too_large_for_its_column_is_named_by_every_clause() -> None:
    """SQL-3, MRG-2: from the source, from an expression, and on both sides of a MERGE."""
    table = new([(1, "a", 1)])
    source = pa.table({"id": [1, 2], "v": ["b", "c"], "n": [2**40, 2**40]})
    same, none = "t.id = s.id", "t.id = s.id + 9"
    clauses: list[tuple[str, Callable[[MergeBuilder], MergeBuilder]]] = [
        (same, lambda m: m.when_matched_update_all()),
        (same, lambda m: m.when_not_matched_insert_all()),
        (same, lambda m: m.when_matched_update({"n": "s.n + 1"})),
        (same, lambda m: m.when_matched_update({"n": "t.n + 3000000000"})),
        (same, lambda m: m.when_not_matched_insert({"id": "s.id", "n": "s.n"})),
        (none, lambda m: m.when_not_matched_by_source_update({"n": "t.n + 3000000000"})),
    ]
    for on, clause in clauses:
        with pytest.raises(SchemaMismatchError, match="column 'n': a value of type") as caught:
            clause(table.merge(source, on)).execute()
        assert caught.value.columns == ["n"]
    assert (table.refresh().version, sorted_rows(table)) == (1, [(1, "a", 1)])
