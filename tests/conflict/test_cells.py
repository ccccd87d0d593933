"""Every published cell at the level of the rules: who may commit, why not, and what rows are left.

Two transactions start on one version and commit in the cell's order, once in one partition and once
in two. Rows are compared with the operations applied one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tablefmt.conflict.conflict_matrix import Kind
from tablefmt.conflict.verdict import Conflict
from tablefmt.expressions.predicate import And, Comparison
from tablefmt.model.log_entry import OperationClass
from tests.conflict.world import COLUMNS, Level, Row, Rows, Staged, World, touched_of
from tests.places import MATRICES

TRANSACTION = json.loads((MATRICES / "transaction.json").read_text(encoding="utf-8"))
CELLS = json.loads((MATRICES / "file_and_row.json").read_text(encoding="utf-8"))["cells"]

BASE: list[Rows] = [
    [(0, 0, 0, 0), (1, 0, 0, 0)],
    [(2, 0, 0, 0), (3, 0, 0, 0)],
    [(4, 0, 0, 0)],
    [(0, 1, 0, 0), (1, 1, 0, 0)],
    [(2, 1, 0, 0), (3, 1, 0, 0)],
    [(4, 1, 0, 0)],
]
"""Files 1 to 3 are partition 0, files 4 to 6 partition 1."""


@dataclass(frozen=True)
class Doing:
    """An operation in one partition, as a staged commit and as a function of rows."""

    stage: Callable[[World], Staged]
    apply: Callable[[Rows], Rows]


def insert(p: int, mark: int) -> Doing:
    rows = [(2, p, 0, mark)]
    return Doing(lambda world: world.insert(rows), lambda old: old + rows)


def overwrite(p: int, mark: int) -> Doing:
    rows = [(9, p, 9, mark)]
    return Doing(
        lambda world: world.overwrite({p}, rows),
        lambda old: [r for r in old if r[1] != p] + rows,
    )


def update(p: int, mark: int, k: int = 2, column: str = "w") -> Doing:
    """Set a column of the rows of one key."""

    def where(row: Row) -> bool:
        return row[:2] == (k, p)

    def new(row: Row) -> Row:
        return (*row[:2], mark, row[3]) if column == "v" else (*row[:3], mark)

    predicate = And((Comparison(COLUMNS["k"], "=", k), Comparison(COLUMNS["p"], "=", p)))
    return Doing(
        lambda world: world.change(
            where,
            predicate,
            frozenset({COLUMNS["k"].id, COLUMNS["p"].id}),
            new,
            set_columns=(COLUMNS[column].id,),
            scope=touched_of({p}),
            partitions=frozenset({p}),
        ),
        lambda old: [new(r) if where(r) else r for r in old],
    )


def compact(cls: OperationClass, p: int, _: int = 0) -> Doing:
    files = [3 * p + 1, 3 * p + 2, 3 * p + 3]
    if cls is OperationClass.MINOR_COMPACT:
        files = files[1:]
    order: Any = sorted if cls is OperationClass.CLUSTER else None
    return Doing(lambda world: world.compact(cls, [files], order=order), lambda old: old)


def doing(name: str, p: int, mark: int) -> Doing:
    named = {"INSERT": insert, "OVERWRITE": overwrite, "UPDATE": update}
    return named[name](p, mark) if name in named else compact(OperationClass(name), p)


@dataclass
class Result:
    """The result of the later operation, and the rows at every version."""

    conflict: Conflict | None
    states: list[Rows]


def both(level: Level, earlier: Doing, later: Doing) -> Result:
    world = World(level, BASE)
    first, second = earlier.stage(world), later.stage(world)
    assert world.commit(first) is None
    found = world.commit(second)
    return Result(found, [world.rows(v) for v in range(world.base, world.version + 1)])


def in_order(*operations: Doing) -> list[Rows]:
    states = [sorted(row for rows in BASE for row in rows)]
    for operation in operations:
        states.append(sorted(operation.apply(states[-1])))
    return states


PAIRS = [
    (earlier, later, outcome)
    for earlier, row in TRANSACTION["earlier_then_later"].items()
    for later, outcome in row.items()
]


@pytest.mark.parametrize(("earlier", "later", "outcome"), PAIRS)
@pytest.mark.parametrize("delete_mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("isolation", ["WriteSerializable", "Serializable"])
def test_a_cell_of_granularity_transaction(
    earlier: str, later: str, outcome: str, delete_mode: str, isolation: str
) -> None:
    """CFL-2, CFL-19: in one partition the rule of the cell decides.

    In two partitions both commit.
    """
    level = Level("transaction", isolation, delete_mode)
    one, other = doing(earlier, 0, 7), doing(later, 0, 8)
    result = both(level, one, other)
    if outcome == "fail":
        assert result.conflict is not None
        error = result.conflict.exception()
        assert error.kind == "concurrent_write"
        assert (error.rule, error.winner_version) == ("CFL-2", 6)
        assert error.cell == f"transaction: {earlier} then {later}: fail"
        assert error.evidence == {"partitions": [[0]], "partitions_count": 1}
        assert result.states == in_order(one)
    else:
        assert result.conflict is None
        assert result.states == in_order(one, other)

    apart = doing(later, 1, 8)
    result = both(level, one, apart)
    assert result.conflict is None
    assert result.states == in_order(one, apart)


CLUSTERED = [
    ("OVERWRITE", "CLUSTER", "fail"),
    ("INSERT", "CLUSTER", "compact"),
    ("UPDATE", "CLUSTER", "fail"),
    ("MINOR_COMPACT", "CLUSTER", "compact"),
    ("MAJOR_COMPACT", "CLUSTER", "fail"),
    ("CLUSTER", "CLUSTER", "fail"),
    ("CLUSTER", "OVERWRITE", "replace"),
    ("CLUSTER", "INSERT", "append"),
    ("CLUSTER", "MINOR_COMPACT", "fail"),
    ("CLUSTER", "MAJOR_COMPACT", "fail"),
]


@pytest.mark.parametrize(("earlier", "later", "outcome"), CLUSTERED)
def test_clustering_in_granularity_transaction(earlier: str, later: str, outcome: str) -> None:
    """CFL-2: CLUSTER has the rules of MAJOR, but it may commit after an INSERT."""
    one, other = doing(earlier, 0, 7), doing(later, 0, 8)
    result = both(Level("transaction"), one, other)
    assert (result.conflict is not None) == (outcome == "fail")
    assert result.states == (in_order(one) if outcome == "fail" else in_order(one, other))


def test_rows_that_were_reordered_cannot_be_followed() -> None:
    """CFL-2, CFL-10: the one passing cell that metadata alone cannot have."""
    cluster = doing("CLUSTER", 0, 0)
    result = both(Level("transaction"), cluster, doing("UPDATE", 0, 8))
    assert result.conflict is not None
    assert result.conflict.exception().kind == "concurrent_delete_read"
    assert result.conflict.rule == "CFL-10"
    assert result.states == in_order(cluster)


def of_kind(kind: str, p: int, mark: int, cls: OperationClass) -> Doing:
    return compact(cls, p) if kind == "COMPACT" else doing(kind, p, mark)


def level_of(cell: dict[str, str]) -> Level:
    granularity, mode = cell["profile"].split(", ")
    modes = {"copy-on-write": "copy-on-write", "deletion vectors": "merge-on-read"}
    return Level(granularity, cell["isolation"], modes[mode])


@pytest.mark.parametrize("compaction", ["MINOR_COMPACT", "MAJOR_COMPACT"])
@pytest.mark.parametrize("cell", CELLS, ids=lambda c: "-".join([*c.values()][:4]))
def test_a_cell_of_granularities_file_and_row(cell: dict[str, Any], compaction: str) -> None:
    """CFL-3: the exception where the cell allows one, both commit where it does not."""
    level, cls = level_of(cell), OperationClass(compaction)
    one = of_kind(cell["earlier"], 0, 7, cls)
    other = of_kind(cell["later"], 0, 8, cls)
    result = both(level, one, other)
    verdict = "if" if cell["conflict"] == "if" and cell["exception"] else "never"
    if verdict == "never":
        assert result.conflict is None
        expected = in_order(one, other)
        if (cell["earlier"], cell["later"]) == ("INSERT", "UPDATE"):
            # The insert is ordered after it: its row survives as it came.
            expected[-1] = in_order(other, one)[-1]
        nothing_left = {cell["earlier"], cell["later"]} <= {"COMPACT", "CLUSTER"}
        assert result.states == (expected[:2] if nothing_left else expected)
    else:
        assert result.conflict is not None
        said = type(result.conflict.exception()).__name__
        if cell["exception"].startswith("ConcurrentAppendException if"):
            # The same row, by another column: bounds decide for new versions unless rows do.
            by_row = cell["profile"].startswith("row")
            assert said == f"Concurrent{'DeleteRead' if by_row else 'Append'}Exception"
        else:
            assert said == cell["exception"]
        words = f"{cell['profile']}, {cell['isolation']}: {cell['earlier']} then {cell['later']}"
        assert result.conflict.cell == f"{words}: if"
        assert result.states == in_order(one)

    apart = of_kind(cell["later"], 1, 8, cls)
    result = both(level, one, apart)
    assert result.conflict is None
    assert result.states == in_order(one, apart)


UPDATES = [c for c in CELLS if (c["earlier"], c["later"]) == ("UPDATE", "UPDATE")]


@pytest.mark.parametrize("cell", UPDATES, ids=lambda c: f"{c['profile']}-{c['isolation']}")
def test_updates_of_different_rows_of_one_file_meet_only_by_file(cell: dict[str, Any]) -> None:
    """CFL-3, CFL-10: rows 2 and 3 are in file 2."""
    one, other = update(0, 7, k=2), update(0, 8, k=3)
    result = both(level_of(cell), one, other)
    if cell["profile"].startswith("row"):
        assert result.conflict is None
        assert result.states == in_order(one, other)
    else:
        assert result.conflict is not None
        assert result.conflict.exception().kind == "concurrent_delete_read"
        assert result.conflict.evidence["files"] == [2]
        assert result.states == in_order(one)


@pytest.mark.parametrize("cell", UPDATES, ids=lambda c: f"{c['profile']}-{c['isolation']}")
def test_new_rows_that_may_match_are_named_before_rows_that_went(cell: dict[str, Any]) -> None:
    """CFL-1, CFL-3, CFL-8: the first name of the cell of two UPDATEs."""
    one = update(0, 7, column="v")
    world = World(level_of(cell), BASE)
    first = one.stage(world)
    reader = world.change(
        lambda row: row[1:3] == (0, 0) or row[1:3] == (0, 7),
        And((Comparison(COLUMNS["v"], "<=", 7), Comparison(COLUMNS["p"], "=", 0))),
        frozenset({COLUMNS["v"].id, COLUMNS["p"].id}),
        None,
        partitions=frozenset({0}),
    )
    assert world.commit(first) is None
    found = world.commit(reader)
    assert found is not None
    assert found.exception().kind == "concurrent_append"
    assert found.evidence["paths"] == ["data/x/7.parquet"]
    assert found.evidence["partitions"] == [[0]]


def test_all_cells_were_there() -> None:
    """CFL-2, CFL-3: 25 and 96."""
    assert (len(PAIRS), len(CELLS)) == (25, 96)
    assert {c["earlier"] for c in CELLS} == {k.value for k in Kind}
