"""Random statements on one table, through Arrow and through Spark; every version is as the model.

Used by tests/system/stateful (Arrow alone) and tests/spark (each statement on either).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import tablefmt
from tablefmt.errors import MergeCardinalityError
from tablefmt.testing import random_statements, reference_model
from tablefmt.testing.reference_model import (
    CardinalityError,
    Column,
    Outcome,
    State,
    Values,
    When,
    both,
    column,
    compared,
    counted,
    quoted,
)

ARROW = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}
SPARE = ("c", "d", "Ünï", "select", "it's")
"""Names of columns that come and go."""

KEPT = 2
"""The first columns are never dropped or renamed."""

_numbers = itertools.count()


def table_of(columns: tuple[Column, ...], rows: list[Values]) -> pa.Table:
    arrays = [pa.array([row[c.name] for row in rows], ARROW[c.kind]) for c in columns]
    return pa.table(arrays, [c.name for c in columns])


def frame_of(spark: Any, columns: tuple[Column, ...], rows: list[Values]) -> Any:
    ddl = ", ".join(f"{quoted(c.name)} {c.kind}" for c in columns)
    # Two partitions, one of them empty for a single row.
    return spark.createDataFrame(
        [tuple(r[c.name] for c in columns) for r in rows], ddl
    ).repartition(2)


class Changing(RuleBasedStateMachine):
    """One table. `spark` is None for Arrow alone; `folder` is where tables go."""

    spark: Any = None
    folder: str = "memory://changing"

    @initialize(partitioned=st.booleans(), mode=st.sampled_from(["merge-on-read", "copy-on-write"]))
    def make(self, partitioned: bool, mode: str) -> None:
        self.state = State(
            (
                Column("k", "BIGINT"),
                Column("p", "STRING"),
                Column("v", "INT"),
                Column("a.b", "STRING"),
            )
        )
        self.uri = f"{self.folder}/{next(_numbers)}"
        tablefmt.create(
            self.uri,
            "k BIGINT, p STRING, v INT, `a.b` STRING",
            partition_by=["p"] if partitioned else [],
            properties={"deleteMode": mode},
        )
        self.versions = [self.state]

    def on(self, by_spark: bool) -> Any:
        """Return the table on one of the backends."""
        if by_spark and self.spark is not None:
            # Not above: most of those who use this need no Spark.
            from tablefmt.spark import open as open_by_spark

            return open_by_spark(self.spark, self.uri)
        return tablefmt.open(self.uri)

    def given(self, handle: Any, columns: tuple[Column, ...], rows: list[Values]) -> Any:
        if isinstance(handle, tablefmt.Table):
            return table_of(columns, rows)
        return frame_of(self.spark, columns, rows)

    def check(self, commit: Any, outcome: Outcome) -> None:
        assert commit.no_op is not outcome.changes
        if outcome.changes:
            self.state = outcome.state
            self.versions.append(self.state)
        assert commit.version == len(self.versions) - 1

    @rule(data=st.data(), by_spark=st.booleans())
    def append(self, data: Any, by_spark: bool) -> None:
        rows = data.draw(random_statements.rows(self.state.columns))
        handle = self.on(by_spark)
        commit = handle.append(self.given(handle, self.state.columns, rows))
        self.check(commit, reference_model.appended(self.state, rows))

    @rule(data=st.data(), by_spark=st.booleans(), kind=st.sampled_from(random_statements.KINDS))
    def append_with_a_new_column(self, data: Any, by_spark: bool, kind: str) -> None:
        new = data.draw(st.sampled_from(SPARE))
        if new in self.state.names:
            return
        state = self.state.added(Column(new, kind))
        rows = data.draw(random_statements.rows(state.columns).filter(bool))
        handle = self.on(by_spark)
        given = self.given(handle, state.columns, rows)
        if by_spark and self.spark is not None:
            commit = handle.append(given, mergeSchema=True)
        else:
            commit = handle.append(given, merge_schema=True)
        self.check(commit, reference_model.appended(state, rows))

    @rule(data=st.data(), by_spark=st.booleans())
    def overwrite(self, data: Any, by_spark: bool) -> None:
        rows = data.draw(random_statements.rows(self.state.columns))
        handle = self.on(by_spark)
        commit = handle.overwrite(self.given(handle, self.state.columns, rows))
        self.check(commit, reference_model.overwritten(self.state, rows))

    @rule(data=st.data(), by_spark=st.booleans())
    def delete(self, data: Any, by_spark: bool) -> None:
        where = data.draw(random_statements.condition(self.state.columns))
        commit = self.on(by_spark).delete(where.sql)
        outcome = reference_model.deleted(self.state, where)
        self.check(commit, outcome)
        if not commit.no_op:
            assert commit.metrics["numDeletedRows"] == outcome.deleted

    @rule(data=st.data(), by_spark=st.booleans())
    def update(self, data: Any, by_spark: bool) -> None:
        where = data.draw(random_statements.condition(self.state.columns))
        sets = data.draw(random_statements.assignments(self.state.columns))
        texts = {quoted(name): term.sql for name, term in sets.items()}
        commit = self.on(by_spark).update(texts, where.sql)
        outcome = reference_model.updated(self.state, sets, where)
        self.check(commit, outcome)
        if not commit.no_op:
            assert commit.metrics["numUpdatedRows"] == outcome.updated

    @rule(data=st.data(), by_spark=st.booleans())
    def merge(self, data: Any, by_spark: bool) -> None:
        rows = data.draw(random_statements.rows(random_statements.SOURCE))
        whens = data.draw(random_statements.whens(self.state.columns))
        on = compared(column("k", "t"), "=", column("k", "s"))
        if data.draw(st.booleans()):
            on = both(on, data.draw(random_statements.leaf(self.state.columns, "t")))
        handle = self.on(by_spark)
        builder = handle.merge(self.given(handle, random_statements.SOURCE, rows), on.sql)
        for when in whens:
            builder = _with(builder, when)
        try:
            outcome = reference_model.merged(self.state, rows, on, whens)
        except CardinalityError:
            with pytest.raises(MergeCardinalityError):
                builder.execute()
            return
        commit = builder.execute()
        self.check(commit, outcome)
        if not commit.no_op:
            assert {name: commit.metrics[name] for name in _COUNTS} == {
                "numTargetRowsInserted": outcome.inserted,
                "numTargetRowsUpdated": outcome.updated,
                "numTargetRowsDeleted": outcome.deleted,
            }

    @rule(
        data=st.data(), kind=st.sampled_from(random_statements.KINDS), name=st.sampled_from(SPARE)
    )
    def add_column(self, data: Any, kind: str, name: str) -> None:
        if name in self.state.names:
            return
        default = data.draw(random_statements.values(kind))
        after = data.draw(st.sampled_from(self.state.columns))
        self.on(False).alter.add_column(name, kind, after=after.name, default=default)
        self._altered(self.state.added(Column(name, kind, default), after.name))

    @rule(data=st.data(), name=st.sampled_from(SPARE))
    def rename_column(self, data: Any, name: str) -> None:
        old = self._one_that_changes(data)
        if old is None or name in self.state.names:
            return
        self.on(False).alter.rename_column(old.name, name)
        self._altered(self.state.renamed(old.name, name))

    @rule(data=st.data())
    def drop_column(self, data: Any) -> None:
        old = self._one_that_changes(data)
        if old is not None:
            self.on(False).alter.drop_column(old.name)
            self._altered(self.state.dropped(old.name))

    @rule(data=st.data())
    def widen_column(self, data: Any) -> None:
        narrow = [c for c in self.state.columns if c.kind == "INT"]
        if narrow:
            old = data.draw(st.sampled_from(narrow))
            self.on(False).alter.widen_column(old.name, "BIGINT")
            self._altered(self.state.widened(old.name, "BIGINT"))

    def _one_that_changes(self, data: Any) -> Column | None:
        free = self.state.columns[KEPT:]
        free = tuple(c for c in free if c.name not in ("k", "p"))
        return data.draw(st.sampled_from(free)) if free else None

    def _altered(self, state: State) -> None:
        self.state = state
        self.versions.append(state)

    @invariant()
    def newest_is_as_the_model(self) -> None:
        if hasattr(self, "uri"):
            _check(tablefmt.open(self.uri).to_arrow(), self.state)

    def teardown(self) -> None:
        """Every version, with the columns that it had."""
        if not hasattr(self, "uri"):
            return
        table = tablefmt.open(self.uri)
        assert table.version == len(self.versions) - 1
        for version, state in enumerate(self.versions):
            _check(table.to_arrow(version=version), state)
            if self.spark is not None:
                frame = self.on(True).to_df(version=version)
                _check(frame.toArrow(), state)


def _check(found: pa.Table, state: State) -> None:
    assert found.schema.names == state.names
    assert [str(t) for t in found.schema.types] == [str(ARROW[c.kind]) for c in state.columns]
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert counted(rows) == state.counted(), state.names


_COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def _with(builder: Any, when: When) -> Any:
    condition = None if when.condition is None else when.condition.sql
    verb = f"when_{when.side}"
    if when.sets is None:
        return getattr(builder, f"{verb}_delete")(condition)
    act = "insert" if when.side == "not_matched" else "update"
    sets = {quoted(name): term.sql for name, term in when.sets.items()}
    method: Callable[..., Any] = getattr(builder, f"{verb}_{act}")
    return method(sets, condition)
