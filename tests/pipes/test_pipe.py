"""Pipes: what is new in a table goes into another. What goes, what comes of it, what is refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
from tablefmt.data.spill_buffers import Kept
from tablefmt.errors import (
    ChangesExpiredError,
    CommitRejectedError,
    ConstraintViolationError,
    InvalidPredicateError,
    InvalidRangeError,
    MergeCardinalityError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
)
from tablefmt.log.entry_json import LOCATION_BYTES_MAX
from tablefmt.log.object_names import entry_key
from tablefmt.pipes import pipe_batch as rows_of_pipes
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.oracle import logdump
from tests.tables import behind, handle, memory, sorted_rows

Row = tuple[Any, ...]


def source() -> Table:
    """Versions 1 and 2: three rows."""
    table = tablefmt.create(memory().uri, "id BIGINT, v STRING")
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.append({"id": [3], "v": ["c"]})
    return table


def place() -> str:
    """Return an address without a table."""
    return memory().uri


def change(table: Table) -> None:
    """Versions 3 to 5: a row that is new, one that changes, one that goes."""
    table.append({"id": [4], "v": ["d"]})
    table.update({"v": "'x'"}, "id = 1")
    table.delete("id = 2")


def test_the_first_run_takes_all_there_is_and_the_next_what_is_new() -> None:
    """PIP-1, PIP-4, PIP-6: new rows and rows with a new value are appended."""
    here, there = source(), place()
    here.delete("id = 2")
    run = tablefmt.pipe(here).into(there)
    target = tablefmt.open(there)
    assert (run.first_version, run.last_version, run.rows, run.commit.version) == (0, 3, 2, 1)
    assert sorted_rows(target) == [(1, "a"), (3, "c")]
    assert target.schema.names == ["id", "v"]
    change(here)
    run = tablefmt.pipe(here).into(target)
    assert (run.first_version, run.last_version, run.rows, run.commit.version) == (4, 5, 2, 2)
    assert sorted_rows(target) == [(1, "a"), (1, "x"), (3, "c"), (4, "d")]
    entry = logdump.read(there)["entries"][2]["entry"]
    newest = here.context.store.get(entry_key(5))
    assert entry["derived_from"] == {
        "source": here.id,
        "name": "",
        "from": 3,
        "to": 5,
        "digest": hashlib.sha256(newest).hexdigest(),
        "location": here.uri,
    }


def test_nothing_new_is_a_request_of_each_table_and_no_commit() -> None:
    """PIP-3."""
    here = source()
    tablefmt.pipe(here).into(there := place())
    target = tablefmt.open(there)
    one, two = CountingStore(here.context.store), CountingStore(target.context.store)
    run = tablefmt.pipe(behind(here, one)).into(behind(target, two))
    assert run.commit.no_op
    assert (run.first_version, run.last_version, run.rows, run.commit.version) == (3, 2, 0, 1)
    assert [verb for verb, _ in [*one.requests, *two.requests]] == ["get", "get"]
    assert target.refresh().version == 1


@pytest.mark.parametrize("keys", [None, "id"])
def test_what_leaves_nothing_moves_the_cursor(keys: str | None) -> None:
    """PIP-3: an empty entry; by a condition, by a function, or since rows were only moved."""
    here, there = source(), place()

    def run(**how: Any) -> tablefmt.PipeRun:
        return tablefmt.pipe(here, **how).into(there, keys=keys)

    run()
    here.append({"id": [5], "v": ["e"]})
    assert run(where="id > 100").rows == 0
    here.append({"id": [6], "v": ["f"]})
    assert run(transform=lambda piece: piece.slice(0, 0)).rows == 0
    here.compact()
    assert run().rows == 0
    target = tablefmt.open(there)
    assert (target.version, sorted_rows(target)) == (4, [(1, "a"), (2, "b"), (3, "c")])
    assert run().commit.no_op


def test_changes_and_net_come_with_what_happened() -> None:
    """PIP-4, INC-3, INC-6: the same rows as the change feed of the same range."""
    for content in ("changes", "net"):
        here, there = source(), place()
        pipe = tablefmt.pipe(here, content=content)
        pipe.into(there)
        first = here.changes(starting_version=0, content=content).to_arrow()
        assert tablefmt.open(there).to_arrow().to_pylist() == first.to_pylist()
        change(here)
        assert pipe.into(there).rows == {"changes": 4, "net": 4}[content]
        more = here.changes(after_version=2, content=content).to_arrow()
        expected = [*first.to_pylist(), *more.to_pylist()]
        assert tablefmt.open(there).to_arrow().to_pylist() == expected


def test_a_feed_can_be_piped_on() -> None:
    """PIP-4: columns that are called like those of a feed are columns like others."""
    here, feed, copy = source(), place(), place()
    tablefmt.pipe(here, content="changes").into(feed)
    tablefmt.pipe(feed).into(copy)
    change(here)
    tablefmt.pipe(here, content="changes").into(feed)
    tablefmt.pipe(feed).into(copy)
    assert sorted_rows(copy) == sorted_rows(feed)
    assert len(sorted_rows(copy)) == 7


def test_a_feed_can_be_piped_on_by_keys() -> None:
    """PIP-5: the names of the source's columns do not decide if rows are marked."""
    here, there = tablefmt.create(place(), "id BIGINT, _change_type STRING, v STRING"), place()
    here.append({"id": [1, 2, 3], "_change_type": ["insert", "delete", None], "v": ["a", "b", "c"]})
    tablefmt.pipe(here).into(there, keys="id")
    assert sorted_rows(there) == sorted_rows(here)
    here.update({"_change_type": "'delete'"}, "id = 1")
    here.delete("id = 2")
    here.append({"id": [4], "_change_type": ["delete"], "v": ["d"]})
    run = tablefmt.pipe(here).into(there, keys="id")
    assert (run.rows, sorted_rows(there)) == (3, sorted_rows(here))
    where = "_change_type = 'delete'"
    tablefmt.pipe(here, where=where).into(other := place(), keys="id")
    assert sorted_rows(other) == [(1, "delete", "a"), (4, "delete", "d")]
    feed, copy = place(), place()
    table = source()
    for _ in range(2):
        tablefmt.pipe(table, content="changes").into(feed)
        keys = ["id", "_change_type", "_commit_version"]
        tablefmt.pipe(feed).into(copy, keys=keys)
        assert sorted_rows(copy) == sorted_rows(feed)
        change(table)


def test_with_keys_the_target_is_the_source() -> None:
    """PIP-5: rows that come, change and go; a restore of the source too."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there, keys="id")
    change(here)
    run = tablefmt.pipe(here).into(there, keys=["ID"])
    assert run.rows == 3
    target = tablefmt.open(there)
    assert sorted_rows(target) == sorted_rows(here) == [(1, "x"), (3, "c"), (4, "d")]
    here.update({"id": "id + 10"})
    tablefmt.pipe(here).into(target, keys="id")
    assert sorted_rows(target) == sorted_rows(here)
    here.restore(version=2)
    tablefmt.pipe(here).into(target, keys="id")
    assert sorted_rows(target) == sorted_rows(here) == [(1, "a"), (2, "b"), (3, "c")]


def test_keys_go_through_the_function_and_the_condition() -> None:
    """PIP-5: a row that no longer matches goes; keys are those of what the function gives."""
    here, there = source(), place()

    def renamed(piece: pa.Table) -> pa.Table:
        return pa.table({"key part": pc.negate(piece["id"]), "V": piece["v"]})

    pipe = tablefmt.pipe(here, transform=renamed, where="v <> 'x'")
    pipe.into(there, keys="key part")
    change(here)
    pipe.into(there, keys="key part")
    assert sorted_rows(there) == [(-4, "d"), (-3, "c")]


@pytest.mark.parametrize("name", ["a.b", "a b", "a`b", "ß", "select", 'q"'])
def test_keys_of_any_name(name: str) -> None:
    """PIP-5, SCH-11."""
    here = tablefmt.create(place(), pa.schema({name: pa.float64(), "v": pa.int64()}))
    here.append({name: [0.0, float("nan"), 2.0], "v": [1, 2, 3]})
    tablefmt.pipe(here).into(there := place(), keys=name)
    here.update({"v": "v + 1"})
    here.delete("v = 4")
    tablefmt.pipe(here).into(there, keys=name)
    assert str(sorted_rows(there)) == str(sorted_rows(here)) == "[(0.0, 2), (nan, 3)]"


def test_keys_that_are_none_are_refused() -> None:
    """PIP-5: NULL, one key twice, a column that is not there; and nothing was committed."""
    here = tablefmt.create(place(), "id BIGINT, v STRING")
    here.append({"id": [1, 1, 2, None], "v": ["a", "b", "c", "d"]})
    there = place()
    with pytest.raises(ConstraintViolationError, match="NULL in 1 rows"):
        tablefmt.pipe(here).into(there, keys="id")
    with pytest.raises(MergeCardinalityError) as caught:
        tablefmt.pipe(here, where="id IS NOT NULL").into(there, keys="id")
    assert caught.value.keys == [{"id": 1}]
    for keys in ("nope", ["id", "nope"]):
        with pytest.raises(SchemaMismatchError, match="nope"):
            tablefmt.pipe(here, where="id = 2").into(there, keys=keys)
    for bad in ([], [1], 5, 0.5, b"id"):
        with pytest.raises(InvalidRangeError, match="expected a column name"):
            tablefmt.pipe(here).into(there, keys=bad)  # type: ignore[arg-type]
    for twice in (["id", "id"], ["v", "id", "ID"]):
        with pytest.raises(InvalidRangeError, match="twice"):
            tablefmt.pipe(here, where="id = 2").into(there, keys=twice)
    with pytest.raises(InvalidRangeError, match="net changes"):
        tablefmt.pipe(here, content="changes").into(there, keys="id")
    assert not tablefmt.exists(there)


@pytest.mark.parametrize("kind", ["STRUCT<a: INT>", "ARRAY<INT>", "MAP<STRING, INT>", "VARIANT"])
def test_keys_that_are_not_compared_are_refused_at_once(kind: str) -> None:
    """PIP-5: before anything is made, and in a table that is there."""
    here, there = tablefmt.create(place(), f"k {kind}, id INT"), place()
    here.append(pa.table({"k": pa.array([None, None], here.schema.field("k").type), "id": [1, 2]}))
    for _ in range(2):
        with pytest.raises(SchemaMismatchError, match="cannot be compared") as caught:
            tablefmt.pipe(here).into(there, keys=["id", "K"])
        assert caught.value.columns == ["k"]
        if not tablefmt.exists(there):
            tablefmt.create(there, f"k {kind}, id INT")
    assert (tablefmt.open(there).version, tablefmt.open(there).count()) == (0, 0)


def test_a_key_that_does_not_fit_a_column_is_refused() -> None:
    """PIP-5, SCH-5: a time of nanoseconds, of rows that come and of rows that go."""
    here, there = source(), place()
    part = [0]

    def timed(piece: pa.Table) -> pa.Table:
        times = pc.add(pc.multiply(piece["id"], 1000), part[0]).cast(pa.timestamp("ns"))
        return pa.table({"k": times, "v": piece["v"]})

    pipe = tablefmt.pipe(here, transform=timed)
    part[0] = 1
    with pytest.raises(SchemaMismatchError, match=r"'k'.*without loss"):
        pipe.into(there, keys="k")
    assert not tablefmt.exists(there)
    part[0] = 0
    pipe.into(there, keys="k")
    here.delete("id = 2")
    part[0] = 1
    with pytest.raises(SchemaMismatchError, match=r"'k'.*without loss"):
        pipe.into(there, keys="k")
    part[0] = 0
    pipe.into(there, keys="k")
    assert [v for _, v in sorted_rows(there)] == ["a", "c"]


@pytest.mark.parametrize("keys", [None, "id"])
@pytest.mark.parametrize(
    ("wide", "narrow", "value"),
    [
        ("BIGINT", "INT", 2**40),
        ("DOUBLE", "BIGINT", 1e300),
        ("DECIMAL(20, 2)", "DECIMAL(5, 2)", Decimal("1234567.89")),
        ("ARRAY<BIGINT>", "ARRAY<INT>", [2**40]),
    ],
)
def test_a_value_too_large_for_its_column_names_the_column(
    keys: str | None, wide: str, narrow: str, value: Any
) -> None:
    """SCH-5, SQL-3: with and without keys, in the first run and later; nothing is committed."""
    here = tablefmt.create(place(), f"id BIGINT, v {wide}")
    there = tablefmt.create(place(), f"id BIGINT, v {narrow}")
    here.append([{"id": 1, "v": None}])
    tablefmt.pipe(here).into(there, keys=keys)
    here.append([{"id": 2, "v": value}])
    for pipe in (tablefmt.pipe(here), tablefmt.pipe(here, name="other")):
        with pytest.raises(SchemaMismatchError, match="column 'v': a value of type") as caught:
            pipe.into(there, keys=keys)
        assert caught.value.columns == ["v"]
    assert (there.refresh().version, sorted_rows(there)) == (1, [(1, None)])


def test_keys_that_go_and_that_no_row_can_have() -> None:
    """PIP-5: only rows with one of the deleted keys are deleted."""
    here = tablefmt.create(place(), "id BIGINT, v STRING")
    here.append({"id": [1, 2, 3, 2**40], "v": ["a", "b", "c", "d"]})
    there = tablefmt.create(place(), "id INT, v STRING")
    same = lambda piece: piece  # noqa: E731
    tablefmt.pipe(here, where="id < 5", transform=same).into(there, keys="id")
    here.delete("id > 1 AND id <> 3")
    run = tablefmt.pipe(here, transform=same).into(there, keys="id")
    assert run.rows == 2
    assert sorted_rows(there) == [(1, "a"), (3, "c")]


def test_keys_that_go_and_are_text_where_the_column_is_a_number() -> None:
    """PIP-5: the error is the same as for new rows."""
    here = tablefmt.create(place(), "id STRING, v STRING")
    here.append({"id": ["1", "abc"], "v": ["a", "b"]})
    there = tablefmt.create(place(), "id INT, v STRING")
    same = lambda piece: piece  # noqa: E731
    tablefmt.pipe(here, where="id = 'nothing'", transform=same).into(there, keys="id")
    for change in (lambda: here.delete("id = 'abc'"), lambda: here.append({"id": ["2"]})):
        change()
        with pytest.raises(SchemaMismatchError, match="'id'"):
            tablefmt.pipe(here, transform=same).into(there, keys="id")
    assert there.refresh().version == 1


@pytest.mark.parametrize("content", ["changes", "net"])
def test_columns_called_like_those_that_rows_get(content: str) -> None:
    """INC-3: pipes have no columns to choose. The error names the possible changes."""
    here, there = tablefmt.create(place(), "id BIGINT, _Change_Type STRING"), place()
    here.append({"id": [1]})
    for _ in range(2):
        with pytest.raises(SchemaMismatchError, match="rename them in the source, or pass") as e:
            tablefmt.pipe(here, content=content).into(there)  # type: ignore[arg-type]
        assert e.value.columns == ["_Change_Type"]
        assert not tablefmt.exists(there)
        here.append({"id": [2]})
    tablefmt.pipe(here).into(there)
    assert [row[0] for row in sorted_rows(there)] == [1, 2, 2]


@pytest.mark.parametrize("other", ["id", "ID"])
@pytest.mark.parametrize("key", ["id", "v"])
def test_a_function_that_gives_one_name_twice(other: str, key: str) -> None:
    """PIP-5: refused by name in the first run and in later ones, and nothing was committed."""
    here, there = source(), place()

    def doubled(piece: pa.Table) -> pa.Table:
        return piece.append_column(other, piece["id"])

    pipe = tablefmt.pipe(here, transform=doubled)
    with pytest.raises(SchemaMismatchError, match=f"several columns called '{other}'"):
        pipe.into(there, keys=key)
    assert not tablefmt.exists(there)
    tablefmt.pipe(here).into(there, keys=key)
    change(here)
    with pytest.raises(SchemaMismatchError, match=f"several columns called '{other}'"):
        pipe.into(there, keys=key)
    assert tablefmt.open(there).version == 1


def test_the_function_gets_pieces_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP-4: no piece is empty, small commits come together, what it gives may be of any kind."""
    monkeypatch.setattr(rows_of_pipes, "PIECE_ROWS", 4)
    here = tablefmt.create(place(), "id BIGINT")
    for number in range(10):
        here.append({"id": [number]})
    there = place()
    sizes: list[int] = []

    def twice(piece: pa.Table) -> Any:
        sizes.append(piece.num_rows)
        return {"twice": [2 * value for value in piece["id"].to_pylist()]}

    assert tablefmt.pipe(here, transform=twice).into(there).rows == 10
    assert sorted_rows(there) == [(2 * n,) for n in range(10)]
    assert sum(sizes) == 10
    assert all(size >= 1 for size in sizes)
    assert len(sizes) <= 4


def test_a_target_is_made_with_the_functions_columns_though_no_row_is_left() -> None:
    """PIP-6."""
    here, there = source(), place()
    shape = pa.schema({"day": pa.date32(), "n": pa.int32()})
    tablefmt.pipe(here, transform=lambda piece: shape.empty_table()).into(there)
    target = tablefmt.open(there)
    assert (target.schema.names, target.version, sorted_rows(target)) == (["day", "n"], 1, [])


def test_a_target_is_partitioned_as_asked() -> None:
    """PIP-6."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there, partition_by="v")
    assert tablefmt.open(there).partition_by == ["v"]
    here.append({"id": [9], "v": ["z"]})
    with pytest.raises(SchemaMismatchError, match="partition"):
        tablefmt.pipe(here).into(there, partition_by="id")
    tablefmt.pipe(here).into(there, partition_by=["v"])
    assert tablefmt.open(there).count() == 4


def test_columns_that_come_are_refused_or_merged() -> None:
    """PIP-6: the target exists, and an append would refuse the columns too."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there)
    here.alter.add_column("w", "INT")
    here.append({"id": [9], "v": ["z"], "w": [1]})
    with pytest.raises(SchemaMismatchError, match="w"):
        tablefmt.pipe(here).into(there)
    tablefmt.pipe(here).into(there, merge_schema=True)
    assert sorted_rows(there)[-1] == (9, "z", 1)
    with pytest.raises(InvalidRangeError, match="merge_schema"):
        tablefmt.pipe(here).into(there, keys="id", merge_schema=True)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "None"),
        (7, "tabular"),
    ],
)
def test_a_function_that_gives_no_table(made: Any, message: str) -> None:
    """PIP-4."""
    here, there = source(), place()
    with pytest.raises(SchemaMismatchError, match=message):
        tablefmt.pipe(here, transform=lambda piece: made).into(there)
    assert not tablefmt.exists(there)


def test_a_function_that_gives_other_columns_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP-4: the run commits nothing, and no file stays."""
    monkeypatch.setattr(rows_of_pipes, "PIECE_ROWS", 1)
    here, there = source(), place()
    target = tablefmt.create(there, "id BIGINT, v STRING")
    seen: list[int] = []

    def moody(piece: pa.Table) -> pa.Table:
        seen.append(1)
        return piece if len(seen) == 1 else piece.rename_columns(["id", "w"])

    with pytest.raises(SchemaMismatchError, match="same columns each time"):
        tablefmt.pipe(here, transform=moody).into(target)

    def failing(piece: pa.Table) -> pa.Table:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        tablefmt.pipe(here, transform=failing).into(target)
    assert target.refresh().version == 0
    assert list(target.context.store.list_after("data/")) == []


def test_pipes_between_the_same_tables_have_names() -> None:
    """PIP-1: each has a cursor of its own."""
    here, there = source(), place()
    tablefmt.pipe(here, where="id = 1", name="ones").into(there)
    tablefmt.pipe(here, where="id = 2", name="twos").into(there)
    here.append({"id": [1, 2, 3], "v": ["p", "q", "r"]})
    tablefmt.pipe(here, where="id = 1", name="ones").into(there)
    assert sorted_rows(there) == [(1, "a"), (1, "p"), (2, "b")]
    tablefmt.pipe(here, where="id = 2", name="twos").into(there)
    assert sorted_rows(there) == [(1, "a"), (1, "p"), (2, "b"), (2, "q")]


def test_several_sources_fill_one_table() -> None:
    """PIP-1."""
    one, two, there = source(), source(), place()
    tablefmt.pipe(one).into(there)
    tablefmt.pipe(two).into(there)
    one.append({"id": [7], "v": ["z"]})
    tablefmt.pipe(two).into(there)
    tablefmt.pipe(one).into(there)
    assert len(sorted_rows(there)) == 7


def test_a_source_that_was_moved_goes_on(tmp_path: Path) -> None:
    """PIP-7: the id and the digest of the copied entry identify the source."""
    here = tablefmt.create(str(tmp_path / "a"), "id BIGINT")
    here.append({"id": [1]})
    there = str(tmp_path / "t")
    tablefmt.pipe(here).into(there)
    moved = (tmp_path / "a").rename(tmp_path / "b")
    tablefmt.open(moved).append({"id": [2]})
    assert tablefmt.pipe(moved).into(there).rows == 1
    assert sorted_rows(there) == [(1,), (2,)]


@pytest.mark.broken_tables
def test_a_source_that_was_set_back_is_refused() -> None:
    """PIP-7: its log is another one by now, whether it is shorter or has grown again."""
    here, there = source(), place()
    store = here.context.store
    here.append({"id": [4], "v": ["d"]})
    tablefmt.pipe(here).into(there)
    store.delete_many(["_log/00000000000000000003.json"])
    back = handle(store)
    with pytest.raises(
        TableReplacedError, match="ends at version 2, but version 3 was copied"
    ) as caught:
        tablefmt.pipe(back).into(there)
    assert "another name" in str(caught.value)
    back.append({"id": [5], "v": ["e"]})
    for _ in range(2):
        with pytest.raises(TableReplacedError, match="version 3 is not the version"):
            tablefmt.pipe(handle(store)).into(there)
        back.append({"id": [6], "v": ["f"]})
    assert len(sorted_rows(there)) == 4


def test_a_source_that_was_made_anew_is_refused() -> None:
    """PIP-7, ENT-14: another table at the place of the one that rows came from."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there)
    tablefmt.drop(here.uri)
    with pytest.raises(TableNotFoundError):
        tablefmt.pipe(here.uri).into(there)
    again = tablefmt.create(here.uri, "id BIGINT, v STRING")
    again.append({"id": [1], "v": ["a"]})
    with pytest.raises(TableReplacedError, match="another table is there") as caught:
        tablefmt.pipe(again).into(there)
    assert caught.value.rule == "PIP-7"
    assert tablefmt.pipe(again, name="again").into(there).rows == 1


def test_changes_that_are_not_kept_are_refused() -> None:
    """PIP-7, ENT-13; and the first run, which needs none of them, is not."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there)
    here.delete("id = 1")
    here.overwrite({"id": [8], "v": ["h"]})
    here.vacuum(retention="0 seconds", dry_run=False, breaks_running_transactions=True)
    assert here.oldest_version == 4
    with pytest.raises(ChangesExpiredError, match="another name") as caught:
        tablefmt.pipe(here).into(there)
    assert caught.value.earliest_version == 5
    for content in ("append", "changes", "net"):
        tablefmt.pipe(here, content=content).into(other := place())
        assert [row[:2] for row in sorted_rows(other)] == [(8, "h")]


def test_a_table_does_not_feed_itself(tmp_path: Path) -> None:
    """PIP-7: the same table under its address is refused too."""
    here = source()
    for target in (here, here.uri):
        with pytest.raises(InvalidRangeError, match="same table"):
            tablefmt.pipe(here).into(target)


def test_a_restored_target_is_filled_again() -> None:
    """RET-3: the cursor goes back with the rows."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there)
    target = tablefmt.open(there)
    here.append({"id": [4], "v": ["d"]})
    tablefmt.pipe(here).into(there)
    target.restore(version=1)
    assert tablefmt.pipe(here).into(there).first_version == 3
    assert sorted_rows(target) == sorted_rows(here)
    target.restore(version=0)
    assert tablefmt.pipe(here).into(there).first_version == 0
    assert sorted_rows(target) == sorted_rows(here)


def test_bad_input() -> None:
    """PIP-1, PIP-4: names, contents, keywords, conditions, places."""
    here, there = source(), place()
    for name in ("x" * 1025, 7, "\ud800"):
        with pytest.raises(InvalidRangeError, match="name="):
            tablefmt.pipe(here, name=name)  # type: ignore[arg-type]
    with pytest.raises(InvalidRangeError, match="content"):
        tablefmt.pipe(here, content="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidRangeError, match="cursor"):
        tablefmt.pipe(here).into(there, application=("a", 1))
    with pytest.raises(InvalidRangeError, match="unknown argument"):
        tablefmt.pipe(here).into(there, nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidPredicateError):
        tablefmt.pipe(here, where="id >").into(there)
    with pytest.raises(TableNotFoundError):
        tablefmt.pipe(place())
    for bad in ("x", 5, {}):
        with pytest.raises(InvalidRangeError, match="expected a function"):
            tablefmt.pipe(here, transform=bad)  # type: ignore[arg-type]
    assert not tablefmt.exists(there)


def test_a_pipe_can_be_run_again_and_again() -> None:
    """PIP-1: the pipe asks the tables anew in every run."""
    here, there = source(), place()
    pipe = tablefmt.pipe(here)
    for number in range(3):
        assert pipe.into(there).last_version == 2 + number
        here.append({"id": [10 + number], "v": ["n"]})
    assert len(sorted_rows(there)) == 5


def test_requests_of_a_run_that_brings_something() -> None:
    """PIP-3: it probes each table, gets an entry and its file, and puts a file and an entry."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there)
    target = tablefmt.open(there)
    one, two = CountingStore(here.context.store), CountingStore(target.context.store)
    warm, into = behind(here, one), behind(target, two)
    tablefmt.open(here.uri).append({"id": [4], "v": ["d"]})
    one.reset()
    two.reset()
    assert tablefmt.pipe(warm).into(into).rows == 1
    assert Counter(verb for verb, _ in two.requests) == {"get": 1, "put": 1, "put_if_absent": 1}
    logs = Counter(key for _, key in one.requests if key.startswith("_log/"))
    assert set(logs) <= {entry_key(version) for version in range(3, 15)}
    assert logs[entry_key(3)] == 1


@pytest.mark.parametrize("keys", [None, "id"])
def test_a_target_that_is_made_has_the_sources_definition_of_columns(keys: str | None) -> None:
    """PIP-6, PIP-5: columns may be NOT NULL, nested or variant.

    Rows with NOT NULL columns can be deleted.
    """
    columns = "id BIGINT NOT NULL, v STRING NOT NULL, n STRUCT<a: INT, b: ARRAY<STRING>>, x VARIANT"
    here = tablefmt.create(place(), columns)
    here.append({"id": [1, 2, 3], "v": ["a", "b", "c"], "n": [{"a": 1, "b": ["x"]}, None, None]})
    there = place()
    tablefmt.pipe(here).into(there, keys=keys)
    assert tablefmt.open(there).schema.equals(here.schema)
    here.delete("id = 1")
    here.update({"v": "'z'"}, "id = 3")
    tablefmt.pipe(here).into(there, keys=keys)
    if keys is None:
        assert [row[:2] for row in sorted_rows(there)] == [
            (1, "a"), (2, "b"), (3, "c"), (3, "z")
        ]  # fmt: skip
    else:
        assert sorted_rows(there) == sorted_rows(here)


@pytest.mark.parametrize("keys", [None, "v"])
@pytest.mark.parametrize("form", ["dictionary", "polars", "pandas", "reader", "rows", "views"])
def test_what_a_function_gives_is_any_tabular_data(form: str, keys: str | None) -> None:
    """PIP-4, PIP-5: keys of each of these types identify rows."""
    polars = pytest.importorskip("polars")
    views = pa.schema({"id": pa.int64(), "v": pa.string_view()})
    forms: dict[str, Any] = {
        "dictionary": lambda t: t.set_column(1, "v", t["v"].dictionary_encode()),
        "polars": polars.from_arrow,
        "pandas": lambda t: t.to_pandas(),
        "reader": lambda t: t.to_reader(),
        "rows": lambda t: t.to_pylist(),
        "views": lambda t: t.cast(views),
    }
    here, there = source(), place()
    pipe = tablefmt.pipe(here, transform=forms[form])
    pipe.into(there, keys=keys)
    here.update({"v": "concat(v, '1')"}, "id < 3")
    here.append({"id": [9], "v": ["z"]})
    pipe.into(there, keys=keys)
    now = [(1, "a1"), (2, "b1"), (3, "c"), (9, "z")]
    assert sorted_rows(there) == sorted(now if keys else [*now, (1, "a"), (2, "b")])


def test_with_keys_rows_are_read_once() -> None:
    """PIP-5: new and deleted rows take one pass, each once through the function."""
    here, there = source(), place()
    tablefmt.pipe(here).into(there, keys="id")
    change(here)
    store = CountingStore(here.context.store)
    seen: list[int] = []

    def looking(piece: pa.Table) -> pa.Table:
        seen.extend(piece["id"].to_pylist())
        return piece

    plain = here.changes(after_version=2, content="net").to_arrow()
    fresh = CountingStore(here.context.store)
    behind(here, fresh).changes(after_version=2, content="net").to_arrow()
    tablefmt.pipe(behind(here, store), transform=looking).into(there, keys="id")
    data = [
        sorted(str(request) for request in each.requests if request[1].startswith("data/"))
        for each in (store, fresh)
    ]
    assert data[0] == data[1] != []
    assert sorted(seen) == sorted(plain["id"].to_pylist())
    assert sorted_rows(there) == sorted_rows(here)


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP-5: rows of a run with keys are kept until it ends."""
    here, there = source(), place()

    class Full(Kept):
        def _keep(self, batch: pa.RecordBatch) -> None:
            self.lost = True

    monkeypatch.setattr("tablefmt.pipes.keyed_merge.Kept", Full)
    with pytest.raises(CommitRejectedError, match="disk"):
        tablefmt.pipe(here).into(there, keys="id")
    assert not tablefmt.exists(there)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_target_that_is_made_anew_is_filled_anew(checkpoint: bool) -> None:
    """RPL-7, ENT-14: its cursors went with the table that was dropped, for all who ask."""
    here, there = source(), place()
    for _ in range(2):
        tablefmt.pipe(here).into(there)
        here.append({"id": [9], "v": ["z"]})
    tablefmt.drop(there)
    for turn in range(3):
        assert not tablefmt.pipe(here).into(there).commit.no_op
        if checkpoint and turn == 0:
            tablefmt.open(there).checkpoint()
        here.append({"id": [turn], "v": ["new"]})
    target = tablefmt.open(there)
    version = target.version
    assert len(sorted_rows(target)) == 7
    target.restore(version=version - 1)
    assert len(sorted_rows(target)) == 6
    tablefmt.pipe(here).into(target)
    assert sorted_rows(target) == sorted_rows(here)


def test_a_place_too_long_for_an_entry_is_left_out() -> None:
    """ENT-15: the target can be read by all, and the pipe goes on."""
    here = tablefmt.create(f"{memory().uri}/{'x' * LOCATION_BYTES_MAX}", "id BIGINT")
    here.append({"id": [1]})
    there = place()
    for number in (2, 3):
        tablefmt.pipe(here).into(there)
        here.append({"id": [number]})
    assert sorted_rows(there) == [(1,), (2,)]


def test_columns_that_the_target_lacks_are_named_with_what_to_do() -> None:
    """PIP-5: the source of a pipe with keys has a new column, or a renamed one."""
    table = tablefmt.create(place(), {"id": [1], "a": [10]})
    uri = place()
    tablefmt.pipe(table).into(uri, keys="id")
    target = tablefmt.open(uri)
    table.alter.add_column("n`", "INT")
    table.alter.rename_column("a", "b")
    table.append({"id": [2], "b": [20], "n`": [5]})
    with pytest.raises(SchemaMismatchError, match="lacks: 'b', 'n`'") as caught:
        tablefmt.pipe(table).into(uri, keys="ID")
    assert caught.value.columns == ["b", "n`"]
    for part in (target.uri, "alter.add_column()", "rename_column()", "`transform`"):
        assert part in str(caught.value)
    assert (target.refresh().version, target.to_arrow().to_pylist()) == (1, [{"id": 1, "a": 10}])
    target.alter.rename_column("a", "B")
    target.alter.add_column("n`", "INT")
    tablefmt.pipe(table).into(uri, keys="ID")
    assert target.refresh().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "B": 10, "n`": None},
        {"id": 2, "B": 20, "n`": 5},
    ]
