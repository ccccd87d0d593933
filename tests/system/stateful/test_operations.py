"""Random histories of one writer: every version holds what plain Python lists hold."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tablefmt.maintenance.verify import verify
from tablefmt.model.log_entry import OperationClass
from tablefmt.operations.create import create
from tablefmt.operations.update import stage_update
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import open_at
from tablefmt.testing.reference_model import (
    Column,
    Outcome,
    Row,
    State,
    Term,
    Values,
    appended,
    both,
    column,
    compared,
    constant,
    counted,
    deleted,
    either,
    is_in,
    is_null,
    overwritten,
    plus,
    updated,
)
from tests.compactions import stage_compact
from tests.tables import tuples

SCHEMA = pa.schema([("p", pa.string()), ("n", pa.int64()), ("f", pa.float64())])
EMPTY = State((Column("p", "STRING"), Column("n", "BIGINT"), Column("f", "DOUBLE")))
P, N = column("p"), column("n")
ALL = constant(True)

_numbers = itertools.count()


def _below(value: int) -> Term:
    return replace(compared(N, "<", constant(value)), arrow=pc.field("n") < value)


def _one_of(values: list[int]) -> Term:
    expression = pc.field("n").isin(values) & pc.field("n").is_valid()
    return replace(is_in(N, values), arrow=expression)


def _in_partition(name: str) -> Term:
    return replace(compared(P, "=", constant(name)), arrow=pc.field("p") == name)


def _above(value: float) -> Term:
    # NaN is above every number, in Spark and here.
    expression = (pc.field("f") > value) | pc.is_nan(pc.field("f"))
    return replace(compared(column("f"), ">", constant(value)), arrow=expression)


LEAVES = st.one_of(
    st.integers(0, 5).map(_below),
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(_one_of),
    st.sampled_from(["a", "b"]).map(_in_partition),
    st.sampled_from([0.0, 1.5]).map(_above),
    st.just(replace(is_null(P), arrow=pc.field("p").is_null())),
    st.just(replace(is_null(N), arrow=pc.field("n").is_null())),
)


def _and(pair: tuple[Term, Term]) -> Term:
    return replace(both(*pair), arrow=pair[0].arrow & pair[1].arrow)


def _or(pair: tuple[Term, Term]) -> Term:
    return replace(either(*pair), arrow=pair[0].arrow | pair[1].arrow)


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


def named(rows: list[Row]) -> list[Values]:
    return [EMPTY.named(row) for row in rows]


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
        self.state = EMPTY
        self.versions: list[Counter[str]] = [EMPTY.counted()]

    def check(self, commit: Any, outcome: Outcome, changed: bool = False) -> None:
        self.state = outcome.state
        changed = changed or outcome.changes
        assert commit.no_op is not changed
        if changed:
            self.versions.append(self.state.counted())
        assert commit.version == self.table.version == len(self.versions) - 1
        assert counted(tuples(self.table.to_arrow())) == self.versions[-1]
        assert self.table.scan().count() == len(self.state.rows)

    @rule(rows=ROWS)
    def append(self, rows: list[Row]) -> None:
        self.check(self.table.append(table_of(rows)), appended(self.state, named(rows)))

    @rule(parts=st.lists(ROWS, max_size=3))
    def append_together(self, parts: list[list[Row]]) -> None:
        with self.table.transaction() as txn:
            for rows in parts:
                txn.append(table_of(rows))
        together = [row for rows in parts for row in rows]
        self.check(txn.commit_result, appended(self.state, named(together)))

    @rule(condition=CONDITIONS, as_text=st.booleans(), staged=st.booleans())
    def delete(self, condition: Term, as_text: bool, staged: bool) -> None:
        where = condition.sql if as_text else condition.arrow
        if staged:
            commit = self.table.transaction().delete(where).commit()
        else:
            commit = self.table.delete(where)
        self.check(commit, deleted(self.state, condition))

    @rule()
    def delete_all(self) -> None:
        self.check(self.table.delete(), overwritten(self.state, []))

    @rule(condition=CONDITIONS, amount=st.integers(1, 3), move=st.booleans())
    def update(self, condition: Term, amount: int, move: bool) -> None:
        sets = {"n": plus(N, constant(amount)), "p": constant("b") if move else P}

        def change(old: pa.Table) -> pa.Table:
            return table_of(
                list(updated(State(EMPTY.columns, tuple(tuples(old))), sets, ALL).state.rows)
            )

        txn = self.table.transaction()
        txn.stage(lambda snapshot: stage_update(snapshot, condition.sql, change, ["n", "p"]))
        self.check(txn.commit(), updated(self.state, sets, condition))

    @rule(place=st.sampled_from(["a", "b"]), data=st.data())
    def overwrite_partition(self, place: str, data: st.DataObject) -> None:
        if not self.by:
            return
        rows = [(place, *row[1:]) for row in data.draw(ROWS)]
        outcome = overwritten(self.state, named(rows), _in_partition(place))
        self.check(self.table.overwrite(table_of(rows), where=f"p = '{place}'"), outcome)

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
        txn.stage(lambda snapshot: stage_compact(snapshot, cls, list(parts.values()), sort))
        self.check(txn.commit(), Outcome(self.state), bool(parts))
        assert self.table.scan().files().num_rows <= max(len(parts), 0)

    @rule(mode=st.sampled_from(["merge-on-read", "copy-on-write"]))
    def set_mode(self, mode: str) -> None:
        changed = self.table.properties["deleteMode"] != mode
        commit = self.table.alter.set_properties({"deleteMode": mode})
        self.check(commit, Outcome(self.state), changed)

    def teardown(self) -> None:
        """RPL-1, DEL-4: all versions, by this handle and by a new one; and nothing is unsound."""
        if not hasattr(self, "versions"):
            return
        for handle in (self.table, open_at(self.store)):
            for version, expected in enumerate(self.versions):
                assert counted(tuples(handle.to_arrow(version=version))) == expected
        report = verify(self.store, deep=True)
        assert report.ok, str(report)


TestOperations = pytest.mark.slow(Operations.TestCase)
TestOperations.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
