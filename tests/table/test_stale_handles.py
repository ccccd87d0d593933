"""Writes by a handle that does not know of schema changes use the newest schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import tablefmt.data.spill_buffers
from tablefmt.data.spill_buffers import Kept
from tablefmt.errors import (
    ConstraintViolationError,
    MetadataChangedException,
    SchemaMismatchError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.operations.create import create
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import (
    Clock,
    assert_sound,
    behind,
    data_files,
    handle,
    live_files,
    memory,
    swap_a_and_b,
)

Row = dict[str, Any]


def new(columns: str, **properties: str) -> Table:
    """A table, and with it a handle that is current."""
    environment = Clock().environment()
    return Table(create(memory(), columns, properties=properties, environment=environment))


def rows_of(table: Table) -> list[Row]:
    """All rows as a fresh handle reads them, in the order of their text."""
    found = handle(table.context.store).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(sorted(row.items())))


@dataclass(frozen=True)
class Case:
    """Others change the table; then the stale handle appends one row."""

    columns: str
    change: Callable[[Table], object]
    row: Row
    now: Row
    """The row as it is in the table."""


def renamed_and_new(table: Table) -> None:
    table.alter.rename_column("a", "old")
    table.alter.add_column("a", "INT")


def dropped_and_new(table: Table) -> None:
    table.alter.drop_column("b")
    table.alter.add_column("b", "INT")


AB = "a INT, b INT"

CASES = {
    "names swapped": Case(AB, swap_a_and_b, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "renamed, and a new one": Case(
        AB, renamed_and_new, {"a": 1, "b": 2}, {"old": None, "a": 1, "b": 2}
    ),
    "dropped, and a new one": Case(AB, dropped_and_new, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "default set": Case(AB, lambda t: t.alter.set_default("b", 7), {"a": 1}, {"a": 1, "b": 7}),
    "column added": Case(
        AB, lambda t: t.alter.add_column("c", "INT"), {"a": 1, "c": 3}, {"a": 1, "b": None, "c": 3}
    ),
    "column renamed": Case(
        AB, lambda t: t.alter.rename_column("b", "c"), {"a": 1, "c": 3}, {"a": 1, "c": 3}
    ),
    "field added": Case(
        "s STRUCT<x: INT>",
        lambda t: t.alter.add_column("s.y", "INT"),
        {"s": {"x": 1, "y": 2}},
        {"s": {"x": 1, "y": 2}},
    ),
    "NOT NULL dropped": Case(
        "a INT, b INT NOT NULL",
        lambda t: t.alter.drop_not_null("b"),
        {"a": 1, "b": None},
        {"a": 1, "b": None},
    ),
    "CHECK dropped": Case(
        AB, lambda t: t.alter.drop_constraint("small"), {"a": 100, "b": 1}, {"a": 100, "b": 1}
    ),
    "CHECK added": Case(
        AB, lambda t: t.alter.add_constraint("more", "a > 0"), {"a": 1, "b": 1}, {"a": 1, "b": 1}
    ),
    "type widened": Case(
        "b INT", lambda t: t.alter.widen_column("b", "BIGINT"), {"b": 1 << 40}, {"b": 1 << 40}
    ),
    "column dropped": Case(AB, lambda t: t.alter.drop_column("b"), {"a": 1}, {"a": 1}),
    "column moved": Case(
        AB, lambda t: t.alter.move_column("b", first=True), {"a": 1, "b": 2}, {"a": 1, "b": 2}
    ),
}


def stale(case: Case) -> tuple[Table, Table]:
    """A handle from before the change, and one from after it."""
    table = new(case.columns)
    if case is CASES["CHECK dropped"]:
        table.alter.add_constraint("small", "a < 50")
    old = handle(table.context.store)
    case.change(table)
    return old, table


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["table", "stream", "frame"])
def test_an_append_by_a_stale_handle_goes_by_the_newest_schema(name: str, way: str) -> None:
    """CFL-5: no other writer exists. Every value is in the column of its name."""
    case = CASES[name]
    old, table = stale(case)
    data: Any = pa.Table.from_pylist([case.row])
    if way == "stream":
        data = data.to_reader()
    elif way == "frame":
        data = data.to_pandas()
    commit_result = old.append(data)
    assert commit_result.version == table.version + 1
    assert rows_of(table) == [case.now]
    store = table.context.store
    assert data_files(store) == live_files(store)
    assert_sound(store)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CASES)
def test_every_other_write_by_a_stale_handle_goes_by_the_newest_schema(name: str) -> None:
    """CFL-5: they begin from the newest version."""
    case = CASES[name]
    data = pa.Table.from_pylist([case.row])
    writes: list[Callable[[Table], object]] = [
        lambda t: t.overwrite(data),
        lambda t: t.overwrite(data, dynamic_partitions=True),
        lambda t: t.append(data, application=("job", 1)),
        lambda t: t.append(data, merge_schema=True),
        lambda t: t.transaction().append(data).commit(),
        lambda t: t.transaction().overwrite(data).commit(),
    ]
    for write in writes:
        old, table = stale(case)
        write(old)
        assert rows_of(table) == [case.now]
    if "a" not in case.now or "s" in case.now:
        return
    changes: list[Callable[[Table], object]] = [
        lambda t: t.update({"a": "a + 1"}, f"a = {case.now['a']}"),
        lambda t: t.delete(f"a = {case.now['a']}"),
        lambda t: (
            t.merge(pa.table({"a": [case.now["a"]]}), "t.a = s.a")
            .when_matched_update({"a": "t.a + 1"})
            .execute()
        ),
        lambda t: t.truncate(where=f"a = {case.now['a']}"),
    ]
    for at, change in enumerate(changes):
        old, table = stale(case)
        table.append(data)
        change(old)
        gone = at in (1, 3)
        assert rows_of(table) == ([] if gone else [{**case.now, "a": case.now["a"] + 1}])


@pytest.mark.parametrize(
    ("change", "row", "error"),
    [
        (lambda t: t.alter.rename_column("b", "c"), {"a": 1, "b": 2}, SchemaMismatchError),
        (lambda t: t.alter.drop_column("b"), {"a": 1, "b": 2}, SchemaMismatchError),
        (lambda t: t.alter.add_constraint("k", "a > 5"), {"a": 1}, ConstraintViolationError),
        (lambda t: t.alter.set_not_null("b"), {"a": 1}, SchemaMismatchError),
        (lambda t: t.alter.set_not_null("b"), {"a": 1, "b": None}, ConstraintViolationError),
    ],
)
def test_rows_that_do_not_fit_the_newest_schema_are_refused_by_it(
    change: Callable[[Table], object], row: Row, error: type[Exception]
) -> None:
    """CFL-5, DAT-2: the error names the problem of the rows, and is no conflict."""
    table = new(AB)
    old = handle(table.context.store)
    change(table)
    with pytest.raises(error):
        old.append(pa.Table.from_pylist([row]))
    store = table.context.store
    assert (handle(store).version, data_files(store)) == (table.version, [])


def test_what_an_append_asks_of_the_store_when_its_schema_was_old() -> None:
    """CMT-2, CFL-5: the log's tail twice, and the data files again; without a change nothing."""
    table = new(AB)
    counting = CountingStore(table.context.store)
    old = behind(table, counting)
    old.append(pa.table({"a": [1]}))
    counting.reset()
    old.append(pa.table({"a": [2]}))
    assert [verb for verb, _ in counting.requests] == ["put", "put_if_absent"]
    handle(table.context.store).alter.set_default("b", 7)
    counting.reset()
    commit_result = old.append(pa.table({"a": [3]}))
    puts = [(verb, key) for verb, key in counting.requests if verb.startswith("put")]
    assert [verb for verb, _ in puts] == ["put", "put_if_absent", "put", "put_if_absent"]
    assert puts[1::2] == [("put_if_absent", entry_key(3)), ("put_if_absent", entry_key(4))]
    assert commit_result.rebased_over == ()
    # Data that does not fit costs one request for a newer schema.
    counting.reset()
    with pytest.raises(SchemaMismatchError):
        old.append(pa.table({"z": [3]}))
    assert [key for verb, key in counting.requests if verb == "get"] == [entry_key(5)]
    assert counting.counts["put"] == counting.counts["put_if_absent"] == 0


def test_a_transaction_keeps_its_pin() -> None:
    """CFL-5: a change of metadata since is concurrent."""
    table = new(AB)
    txn = handle(table.context.store).transaction().append(pa.table({"a": [1]}))
    table.alter.set_default("b", 7)
    with pytest.raises(MetadataChangedException):
        txn.commit()
    assert data_files(table.context.store) == []


def stream(pieces: int) -> pa.RecordBatchReader:
    """Rows that can be read once; how many batches were made is in the last of them."""
    shape = pa.schema([("a", pa.int32()), ("b", pa.int32())])

    def made() -> Iterator[pa.RecordBatch]:
        for at in range(pieces):
            values = pa.array(range(at * 1000, at * 1000 + 1000), pa.int32())
            yield pa.record_batch([values, values], schema=shape)

    return pa.RecordBatchReader.from_batches(shape, made())


@pytest.mark.parametrize("limit", [0, 20_000, 1 << 20])
def test_a_stream_is_kept_in_memory_or_on_disk_until_it_is_in_the_table(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFL-5: every row once, whether it fails under the old schema in the middle or at its end."""
    monkeypatch.setattr(tablefmt.data.spill_buffers, "KEPT_BYTES", limit)
    monkeypatch.setattr(Kept.__init__, "__defaults__", (limit,))
    # The old schema's own CHECK refuses rows after the first batches.
    for change in ("drop", "default"):
        table = new("a INT, b INT, c INT")
        table.alter.add_constraint("small", "a < 5500")
        old = handle(table.context.store)
        table.alter.drop_constraint("small")
        if change == "default":
            table.alter.set_default("c", 7)
        old.append(stream(9))
        now = handle(table.context.store).to_arrow()
        assert now["a"].to_pylist() == now["b"].to_pylist() == list(range(9000))
        assert set(now["c"].to_pylist()) == {7 if change == "default" else None}
        assert data_files(table.context.store) == live_files(table.context.store)


def test_a_stream_that_was_not_read_to_its_end_goes_on_where_it_was() -> None:
    """CFL-5: the first rows come from memory and disk, the rest from the stream."""
    whole = stream(9).read_all()
    for limit in (0, 20_000, 1 << 20):
        with Kept(stream(9), limit) as kept:
            for stop in (0, 3, 5, 9, 9):
                reader = kept.reader()
                assert pa.Table.from_batches(
                    [reader.read_next_batch() for _ in range(stop)], reader.schema
                ).equals(whole.slice(0, stop * 1000))
            assert kept.reader().read_all().equals(whole)


def test_a_disk_that_is_full_does_not_stop_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """CFL-5: to keep rows is a precaution; only a change of the schema is a conflict then."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tablefmt.data.spill_buffers.tempfile, "NamedTemporaryFile", full)  # type: ignore[attr-defined]
    monkeypatch.setattr(Kept.__init__, "__defaults__", (0,))
    table = new(AB)
    old = handle(table.context.store)
    assert old.append(stream(2)).version == 1
    table.alter.set_default("b", 7)
    with pytest.raises(MetadataChangedException):
        old.append(stream(2))
    assert old.append(pa.table({"a": [1]})).version == 3
    assert data_files(table.context.store) == live_files(table.context.store)
