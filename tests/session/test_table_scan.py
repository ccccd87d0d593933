"""Answers of a scan, and data that it does not have to read for them."""

from __future__ import annotations

import gc
import itertools
import shutil
import tracemalloc
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
from tablefmt.commit.environment import SYSTEM
from tablefmt.commit.transaction_plan import Plan, Replacing, Staged
from tablefmt.errors import (
    CorruptTableError,
    InvalidPredicateError,
    InvalidRangeError,
    SchemaMismatchError,
)
from tablefmt.model.log_entry import AddedFiles, Operation, OperationClass
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import open_at

_numbers = itertools.count()

SCHEMA = pa.schema([("Land", pa.string()), ("v", pa.int64()), ("f", pa.float64())])


def made(uri: str = "") -> tablefmt.Table:
    """Three appends, each to one partition, with rising v."""
    uri = uri or f"memory://scan-{next(_numbers)}"
    table = tablefmt.create(uri, SCHEMA, partition_by=["Land"])
    for at, land in enumerate(["DE", "FR", None]):
        start = at * 10
        table.append(
            pa.table({
                "Land": pa.array([land] * 10, pa.string()),
                "v": range(start, start + 10),
                "f": [float("nan"), None, *(x / 2 for x in range(8))],
            })
        )  # fmt: skip
    return table


def values(table: tablefmt.Table, **how: Any) -> list[int]:
    return table.to_arrow(columns=["v"], **how)["v"].to_pylist()


def test_columns_come_in_the_order_asked_for() -> None:
    """Names go with case ignored, and come back as the table spells them."""
    table = made()
    got = table.to_arrow(columns=["V", "land"])
    assert got.schema == pa.schema([("v", pa.int64()), ("Land", pa.string())])
    assert got.schema == table.scan(columns=["V", "land"]).schema
    assert got["v"].to_pylist() == list(range(30))
    assert table.to_arrow(columns="v").column_names == ["v"]
    nothing = table.to_arrow(columns=[], where="v < 12")
    assert (nothing.num_columns, nothing.num_rows) == (0, 12)
    with pytest.raises(SchemaMismatchError) as caught:
        table.scan(columns=["v", "x", "y"])
    assert caught.value.columns == ["x", "y"]


CONDITIONS: list[tuple[Any, list[int], int]] = [
    ("land = 'DE'", list(range(10)), 1),
    ("Land is null and v > 25", [26, 27, 28, 29], 1),
    ("v between 8 and 11", [8, 9, 10, 11], 2),
    ("v in (1, 21, 99)", [1, 21], 2),
    ("land <> 'DE' or v = 0", [0, *range(10, 20)], 2),
    ("isnan(f)", [0, 10, 20], 3),
    ("f > 3", [0, 9, 10, 19, 20, 29], 3),
    ("land = 'XX'", [], 0),
    ("false", [], 0),
    ("true", list(range(30)), 3),
    (pc.field("v") >= 28, [28, 29], 1),
    ((pc.field("Land") == "DE") & (pc.field("f") < 1), [2, 3], 1),
    (pc.field("Land").is_null(), list(range(20, 30)), 1),
    (pc.starts_with(pc.field("Land"), "D"), list(range(10)), 3),
]


@pytest.mark.parametrize(("where", "expected", "files"), CONDITIONS, ids=str)
def test_conditions_pick_rows_and_files(where: Any, expected: list[int], files: int) -> None:
    """PRN rules end to end: rows, count, limit and files agree."""
    table = made()
    scan = table.scan(where=where)
    assert values(table, where=where) == expected
    assert (scan.count(), scan.files().num_rows) == (len(expected), files)
    for limit in (0, 1, 5, 1_000):
        assert values(table, where=where, limit=limit) == expected[:limit]
        assert table.scan(where=where, limit=limit).count() == min(limit, len(expected))
    assert f"{files} of 3 files" in scan.explain()


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    """Anything else is refused before anything is read."""
    with pytest.raises(InvalidRangeError, match="whole number"):
        made().scan(limit=limit)


BAD_CONDITIONS: list[Any] = [
    "v =",
    "nope = 1",
    "v = 'x'",
    pc.field("nope") == 1,
    pc.field("v") == "x",
    pc.field("v") + 1,
    5,
    ["v > 1"],
]


@pytest.mark.parametrize("where", BAD_CONDITIONS, ids=str)
def test_a_condition_that_makes_no_sense_is_refused_before_reading(where: Any) -> None:
    """An empty table refuses it too."""
    empty = tablefmt.create(f"memory://scan-{next(_numbers)}", SCHEMA)
    for table in (made(), empty):
        with pytest.raises((InvalidPredicateError, SchemaMismatchError)):
            table.scan(where=where)


def test_a_condition_that_fails_on_a_value_is_no_damage() -> None:
    """DAT-5: the files are sound; it is the condition that cannot be evaluated."""
    table = made()
    where = pc.field("Land").cast("int64") > 1
    for read in (table.scan(where=where).to_arrow, table.scan(where=where).count):
        with pytest.raises(InvalidPredicateError, match="cannot be evaluated"):
            read()


def test_metadata_answers_without_data(tmp_path: Path) -> None:
    """Counts, files and explain need no data file. The test deletes them all."""
    table = made(str(tmp_path / "t"))
    shutil.rmtree(tmp_path / "t" / "data")
    counting = CountingStore(table.context.store)
    warm = open_at(counting)
    counting.reset()
    assert warm.scan().count() == 30
    assert warm.scan(version=1).count() == 10
    assert warm.scan(limit=7).count() == 7
    assert warm.scan(where="land = 'DE'").files().num_rows == 1
    assert "20 of 30 rows" in warm.scan(where="v >= 10").explain()
    assert warm.to_arrow(where="land = 'XX'").num_rows == 0
    assert warm.to_arrow(limit=0).num_rows == 0
    assert counting.requests == []
    # The files are no part of the newest version, which the oracle looks at.
    tablefmt.open(table.uri).truncate()


def test_old_versions_and_files_stay_readable() -> None:
    """RPL-4, TIM-4: every version by number and by its own time."""
    table = made()
    table.overwrite(pa.table({"Land": ["IT"], "v": [99]}))
    expected = [[], list(range(10)), list(range(20)), list(range(30)), [99]]
    times = {h["version"]: h["timestamp"] for h in table.history().to_pylist()}
    for version, rows in enumerate(expected):
        assert values(table, version=version) == rows
        assert values(table, timestamp=times[version]) == rows
    files = table.scan(version=3).files()
    names = ["id", "path", "size", "rows", "deleted", "version", "partition"]
    assert files.column_names == names
    assert files["id"].to_pylist() == files["version"].to_pylist() == [1, 2, 3]
    assert files["partition"].to_pylist() == [{"Land": x} for x in ("DE", "FR", None)]


FILES = 20_000


def plan_of(table: tablefmt.Table, count: int) -> Plan:
    """One commit of so many files that are not there: only metadata is read."""
    transaction = SYSTEM.nonce()
    columns = {
        "path": [f"data/{transaction}/{i}.parquet" for i in range(count)],
        "size": [1_000 + i for i in range(count)],
        "rows": [i % 7 for i in range(count)],
        "partition.1": [None if i % 11 == 0 else f"land {i % 11}" for i in range(count)],
        "lower.2": list(range(count)),
        "upper.2": list(range(count)),
    }
    return Plan.of(
        Staged(
            transaction=transaction,
            operation=Operation(name="WRITE", cls=OperationClass.INSERT),
            written_under=table.context.view.head.metadata,
            read_version=table.version,
            add=AddedFiles(columns),  # type: ignore[arg-type]
        )
    )


@pytest.fixture
def large() -> tablefmt.Table:
    """A commit of many files, without the checkpoint that would follow it at some time."""
    table = tablefmt.create(f"memory://large-{next(_numbers)}", SCHEMA, partition_by=["Land"])
    table = open_at(table.context.store, replace(SYSTEM, aside=lambda work: None))
    table.context.finish(plan_of(table, FILES))
    return tablefmt.open(table.uri)


@pytest.mark.broken_tables
def test_a_commit_of_20000_files_has_an_overflow_file(large: tablefmt.Table) -> None:
    """ADD-6, RPL-2, RPL-3: the entry stays small, and every file is what was added."""
    store = large.context.store
    assert len(store.get("_log/00000000000000000001.json")) < 4_096
    assert [o.key.split("/")[1] for o in store.list_after("_log/side/")] == ["side"]
    files = large.scan().files()
    assert files["id"].to_pylist() == list(range(1, FILES + 1))
    assert files["size"].to_pylist() == [1_000 + i for i in range(FILES)]
    assert large.scan().count() == sum(i % 7 for i in range(FILES))
    assert large.scan(where="v in (5, 19999)").files()["id"].to_pylist() == [6, 20_000]
    assert large.scan(where="land is null").files().num_rows == len(range(0, FILES, 11))
    plan = Plan.of(
        Staged(
            transaction=SYSTEM.nonce(),
            operation=Operation(name="TRUNCATE", cls=OperationClass.OVERWRITE),
            written_under=large.context.view.head.metadata,
            read_version=1,
            replacing=Replacing(None),
        )
    )
    large.context.finish(plan)
    again = tablefmt.open(large.uri)
    assert (again.scan().files().num_rows, again.scan(version=1).files().num_rows) == (0, FILES)


@pytest.mark.slow
@pytest.mark.broken_tables
def test_no_python_object_is_kept_a_file(large: tablefmt.Table) -> None:
    """RPL-2: files are rows of Arrow tables, however many they are."""
    gc.freeze()
    before = len(gc.get_objects())
    tracemalloc.start()
    table = tablefmt.open(large.uri)
    snapshot = table.context.view.snapshot()
    assert snapshot.matching(None).num_rows == FILES
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = len(gc.get_objects())
    gc.unfreeze()
    assert after - before < FILES / 10
    assert held < FILES * 100


@pytest.mark.broken_tables
@pytest.mark.parametrize("damage", ["flipped", "missing", "cut", "another"])
def test_a_damaged_overflow_file_is_refused(large: tablefmt.Table, damage: str) -> None:
    """ADD-6."""
    store = large.context.store
    (found,) = store.list_after("_log/side/")
    body = store.get(found.key)
    store.delete(found.key)
    replacement = {
        "flipped": body[:500] + bytes([body[500] ^ 1]) + body[501:],
        "cut": body[:-1],
        "another": b"PAR1",
    }
    if damage in replacement:
        store.put(found.key, replacement[damage])
    with pytest.raises(CorruptTableError) as caught:
        tablefmt.open(large.uri).scan().files()
    assert (caught.value.key, caught.value.rule) == (found.key, "ADD-6")


def test_a_store_of_the_same_name_is_the_same_memory() -> None:
    """Scans through another handle of the same place see the same rows."""
    table = made()
    other = open_at(MemoryStore(table.uri.removeprefix("memory://")))
    assert other.to_arrow(columns=["v"]).equals(table.to_arrow(columns=["v"]))


@pytest.mark.parametrize(
    "where",
    [
        "isnan(v)",
        "v > 1",
        "v != 1",
        "NOT (v <= 1)",
        "id = 2 AND v >= 5",
        pc.is_nan(pc.field("v")),
        pc.field("v") != 1,
        ~(pc.field("v") <= 1),
    ],
    ids=str,
)
def test_nan_beside_equal_bounds_is_found(where: Any) -> None:
    """PRN-10: Arrow takes a row group of 1.0 and NaN for a constant 1.0 when it reads bounds."""
    table = tablefmt.create(f"memory://nan/{uuid.uuid4()}", "id BIGINT, v DOUBLE")
    table.append(pa.table({"id": [1, 2], "v": [1.0, float("nan")]}))

    scan = table.scan(where=where, columns=["id"])
    assert scan.to_arrow().to_pydict() == {"id": [2]}
    assert scan.count() == 1
    changes = table.changes(starting_version=0, where=where, columns=["id"])
    assert changes.to_arrow().column("id").to_pylist() == [2]


@pytest.mark.parametrize("columns", [None, ["b", "a"], ["b"], ["a"]])
def test_a_column_may_be_named_by_its_place(columns: Any) -> None:
    """DAT-4: the place is the one in the table, for any requested columns."""
    table = tablefmt.create(f"memory://place/{uuid.uuid4()}", "a DOUBLE, b DOUBLE")
    table.append(pa.table({"a": [1.0, 2.0, 3.0], "b": [30.0, 20.0, 10.0]}))

    where = pc.field(1) > 15
    found = table.to_arrow(where=where, columns=columns)
    whole = pa.table({"a": [1.0, 2.0], "b": [30.0, 20.0]})
    assert found.to_pydict() == whole.select(columns or ["a", "b"]).to_pydict()
    assert table.scan(where=where).count() == 2
