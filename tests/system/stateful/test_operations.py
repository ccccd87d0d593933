"""Random histories of one writer: every version holds what plain Python lists hold."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tablefmt.maintenance.verify import verify
from tablefmt.model.entry import OperationClass
from tablefmt.operations.compact import stage_compact
from tablefmt.operations.create import create
from tablefmt.operations.update import stage_update
from tablefmt.store.memory import MemoryStore
from tablefmt.table import open_at

SCHEMA = pa.schema([("p", pa.string()), ("n", pa.int64()), ("f", pa.float64())])
Row = tuple[Any, ...]
Truth = bool | None

_numbers = itertools.count()


@dataclass(frozen=True)
class Condition:
    """SQL text, the same as a pyarrow expression, and its truth for a row by SQL's three values."""

    sql: str
    expression: pc.Expression
    holds: Callable[[Row], Truth]


def _compared(at: int, test: Callable[[Any], bool]) -> Callable[[Row], Truth]:
    return lambda row: None if row[at] is None else test(row[at])


def _below(value: int) -> Condition:
    return Condition(f"n < {value}", pc.field("n") < value, _compared(1, lambda n: n < value))


def _one_of(values: list[int]) -> Condition:
    listed = ", ".join(map(str, values))
    return Condition(
        f"n IN ({listed})",
        pc.field("n").isin(values) & pc.field("n").is_valid(),
        _compared(1, lambda n: n in values),
    )


def _in_partition(name: str) -> Condition:
    return Condition(f"p = '{name}'", pc.field("p") == name, _compared(0, lambda p: p == name))


def _above(value: float) -> Condition:
    # NaN is above every number, in Spark and here.
    return Condition(
        f"f > {value}D",
        (pc.field("f") > value) | pc.is_nan(pc.field("f")),
        _compared(2, lambda f: math.isnan(f) or f > value),
    )


LEAVES = st.one_of(
    st.integers(0, 5).map(_below),
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(_one_of),
    st.sampled_from(["a", "b"]).map(_in_partition),
    st.sampled_from([0.0, 1.5]).map(_above),
    st.just(Condition("p IS NULL", pc.field("p").is_null(), lambda row: row[0] is None)),
    st.just(Condition("n IS NULL", pc.field("n").is_null(), lambda row: row[1] is None)),
)


def _and(pair: tuple[Condition, Condition]) -> Condition:
    a, b = pair

    def holds(row: Row) -> Truth:
        known = (a.holds(row), b.holds(row))
        return False if False in known else None if None in known else True

    return Condition(f"({a.sql}) AND ({b.sql})", a.expression & b.expression, holds)


def _or(pair: tuple[Condition, Condition]) -> Condition:
    a, b = pair

    def holds(row: Row) -> Truth:
        known = (a.holds(row), b.holds(row))
        return True if True in known else None if None in known else False

    return Condition(f"({a.sql}) OR ({b.sql})", a.expression | b.expression, holds)


CONDITIONS = LEAVES | st.tuples(LEAVES, LEAVES).map(_and) | st.tuples(LEAVES, LEAVES).map(_or)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, *range(6)]),
        st.sampled_from([None, -1.0, 0.5, 2.0, float("nan")]),
    ),
    max_size=6,
)


def table_of(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def counted(rows: Any) -> Counter[str]:
    """A multiset in which NaN equals itself."""
    return Counter(map(repr, rows))


def rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Operations(RuleBasedStateMachine):
    """Appends, deletes, updates, truncates and compactions, in either delete mode."""

    @initialize(
        by=st.sampled_from([[], ["p"]]),
        mode=st.sampled_from(["merge-on-read", "copy-on-write"]),
    )
    def make(self, by: list[str], mode: str) -> None:
        self.store = MemoryStore(f"operations-{next(_numbers)}")
        self.by = by
        create(self.store, SCHEMA, partition_by=by, properties={"deleteMode": mode})
        self.table = open_at(self.store)
        self.rows: list[Row] = []
        self.versions: list[Counter[str]] = [counted([])]

    def check(self, commit: Any, changed: bool) -> None:
        assert commit.no_op is not changed
        if changed:
            self.versions.append(counted(self.rows))
        assert commit.version == self.table.version == len(self.versions) - 1
        assert counted(rows_of(self.table.to_arrow())) == self.versions[-1]
        assert self.table.scan().count() == len(self.rows)

    @rule(rows=ROWS)
    def append(self, rows: list[Row]) -> None:
        self.rows += rows
        self.check(self.table.append(table_of(rows)), bool(rows))

    @rule(parts=st.lists(ROWS, max_size=3))
    def append_together(self, parts: list[list[Row]]) -> None:
        with self.table.transaction() as txn:
            for rows in parts:
                txn.append(table_of(rows))
                self.rows += rows
        self.check(txn.receipt, any(parts))

    @rule(condition=CONDITIONS, as_text=st.booleans(), staged=st.booleans())
    def delete(self, condition: Condition, as_text: bool, staged: bool) -> None:
        where = condition.sql if as_text else condition.expression
        gone = [row for row in self.rows if condition.holds(row)]
        self.rows = [row for row in self.rows if not condition.holds(row)]
        if staged:
            commit = self.table.transaction().delete(where).commit()
        else:
            commit = self.table.delete(where)
        self.check(commit, bool(gone))
        assert commit.metrics.get("numDeletedRows", 0) == len(gone)

    @rule()
    def delete_all(self) -> None:
        changed = bool(self.rows)
        self.rows = []
        self.check(self.table.delete(), changed)

    @rule(condition=CONDITIONS, amount=st.integers(1, 3), move=st.booleans())
    def update(self, condition: Condition, amount: int, move: bool) -> None:
        def one(row: Row) -> Row:
            return ("b" if move else row[0], None if row[1] is None else row[1] + amount, row[2])

        def change(old: pa.Table) -> pa.Table:
            return table_of([one(row) for row in rows_of(old)])

        changed = any(condition.holds(row) for row in self.rows)
        self.rows = [one(row) if condition.holds(row) else row for row in self.rows]
        txn = self.table.transaction()
        txn.stage(lambda pinned: stage_update(pinned, condition.sql, change, ["n", "p"]))
        self.check(txn.commit(), changed)

    @rule(place=st.sampled_from(["a", "b"]), data=st.data())
    def overwrite_partition(self, place: str, data: st.DataObject) -> None:
        if not self.by:
            return
        rows = [(place, *row[1:]) for row in data.draw(ROWS)]
        changed = bool(rows) or any(row[0] == place for row in self.rows)
        self.rows = [row for row in self.rows if row[0] != place] + rows
        self.check(self.table.overwrite(table_of(rows), where=f"p = '{place}'"), changed)

    @rule(kind=st.sampled_from(OperationClass), groups=st.integers(1, 2))
    def compact(self, kind: OperationClass, groups: int) -> None:
        live = self.table.refresh().scan().files()
        parts: dict[Any, list[int]] = {}
        places = live["partition"].to_pylist() if self.by else [None] * live.num_rows
        for at, (file, place) in enumerate(zip(live["id"].to_pylist(), places, strict=True)):
            parts.setdefault((str(place), at % groups), []).append(file)
        cls = kind if kind.value in ("MAJOR_COMPACT", "CLUSTER") else OperationClass.MINOR_COMPACT
        sort = None
        if cls is OperationClass.CLUSTER:
            sort = lambda rows: rows.sort_by([("n", "descending")])  # noqa: E731
        txn = self.table.transaction()
        txn.stage(lambda pinned: stage_compact(pinned, cls, list(parts.values()), sort))
        self.check(txn.commit(), bool(parts))
        assert self.table.scan().files().num_rows <= max(len(parts), 0)

    @rule(mode=st.sampled_from(["merge-on-read", "copy-on-write"]))
    def set_mode(self, mode: str) -> None:
        changed = self.table.properties["deleteMode"] != mode
        self.check(self.table.alter.set_properties({"deleteMode": mode}), changed)

    def teardown(self) -> None:
        """RPL-1, DEL-4: all versions, by this handle and by a new one; and nothing is unsound."""
        if not hasattr(self, "versions"):
            return
        for handle in (self.table, open_at(self.store)):
            for version, expected in enumerate(self.versions):
                assert counted(rows_of(handle.to_arrow(version=version))) == expected
        report = verify(self.store, deep=True)
        assert report.ok, str(report)


TestOperations = Operations.TestCase
TestOperations.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
