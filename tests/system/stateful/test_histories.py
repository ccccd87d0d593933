"""Random histories: every version, time and window equals that of a plain model."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tablefmt.changes.change_reader import Changes
from tablefmt.commit.environment import Environment
from tablefmt.commit.transaction_plan import Plan, Replacing, Staged
from tablefmt.data.data_writer import write_data
from tablefmt.data.input_data import as_reader
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.operations.create import create
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import Table, open_at
from tablefmt.testing.reference_model import Change, Row, Versions, with_changes
from tests.tables import tuples

SCHEMA = pa.schema([("p", pa.string()), ("q", pa.int32()), ("v", pa.int64())])
START = 1_700_000_000_000_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

_numbers = itertools.count()

PLACES = st.sampled_from([None, "", "a", "%2F"])
ROWS = st.lists(st.tuples(PLACES, st.sampled_from([None, 0, 1]), st.integers(0, 3)), max_size=4)
HANDLES = st.integers(0, 1)
POINTS = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted)


def table_of(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def instant(micros: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=micros)


class Histories(RuleBasedStateMachine):
    """Two handles on one table of a fake clock; each sees the other's commits late."""

    @initialize(partitioned=st.booleans())
    def make(self, partitioned: bool) -> None:
        self.clock = START
        self.environment = dataclasses.replace(
            Environment(), now_us=lambda: self.clock, sleep=lambda _: None
        )
        self.store = MemoryStore(f"histories-{next(_numbers)}")
        self.partition = (lambda r: (r[0], r[1])) if partitioned else (lambda r: ())
        by = ["p", "q"] if partitioned else []
        made = create(self.store, SCHEMA, partition_by=by, environment=self.environment)
        self.handles = [Table(made), open_at(self.store, self.environment)]
        self.model = Versions.of_an_empty_table(START)

    def check_commit(self, handle: Table, commit: Any, made: bool) -> None:
        assert (commit.no_op, commit.version) == (not made, self.model.head)
        if made:
            assert commit.timestamp == instant(self.model.all[-1].timestamp)
            assert handle.version == self.model.head

    @rule(at=HANDLES, rows=ROWS)
    def append(self, at: int, rows: list[Row]) -> None:
        made = self.model.commit([], rows, self.clock)
        commit = self.handles[at].append(table_of(rows))
        if made:
            self.check_commit(self.handles[at], commit, made)
        else:
            assert commit.no_op

    @rule(at=HANDLES, rows=ROWS)
    def overwrite(self, at: int, rows: list[Row]) -> None:
        made = self.model.commit(self.model.rows, rows, self.clock)
        self.check_commit(self.handles[at], self.handles[at].overwrite(table_of(rows)), made)

    @precondition(lambda self: self.partition((1, 2, 3)))
    @rule(at=HANDLES, place=PLACES, rows=ROWS)
    def overwrite_where(self, at: int, place: str | None, rows: list[Row]) -> None:
        rows = [(place, q, v) for _, q, v in rows]
        where = "p IS NULL" if place is None else f"p = '{place}'"
        goes = [row for row in self.model.rows if row[0] == place]
        made = self.model.commit(goes, rows, self.clock)
        commit = self.handles[at].overwrite(table_of(rows), where=where)
        self.check_commit(self.handles[at], commit, made)

    @precondition(lambda self: self.partition((1, 2, 3)))
    @rule(at=HANDLES, rows=ROWS)
    def overwrite_partitions(self, at: int, rows: list[Row]) -> None:
        touched = {self.partition(row) for row in rows}
        goes = [row for row in self.model.rows if self.partition(row) in touched]
        made = self.model.commit(goes, rows, self.clock)
        commit = self.handles[at].overwrite(table_of(rows), dynamic_partitions=True)
        self.check_commit(self.handles[at], commit, made)

    @rule(at=HANDLES)
    def truncate(self, at: int) -> None:
        made = self.model.commit(self.model.rows, [], self.clock)
        self.check_commit(self.handles[at], self.handles[at].truncate(), made)

    @precondition(lambda self: self.partition((1, 2, 3)))
    @rule(at=HANDLES, q=st.integers(0, 1))
    def truncate_where(self, at: int, q: int) -> None:
        goes = [row for row in self.model.rows if row[1] == q]
        made = self.model.commit(goes, [], self.clock)
        self.check_commit(self.handles[at], self.handles[at].truncate(f"q = {q}"), made)

    @precondition(lambda self: self.model.all[-1].rows)
    @rule(at=HANDLES)
    def compact(self, at: int) -> None:
        """All rows into new files: an ID version, no time version (TIM-2)."""
        handle = self.handles[at].refresh()
        context = handle.context
        metadata = context.view.head.metadata
        transaction = self.environment.nonce()
        reader = as_reader(handle.to_arrow())
        added = write_data(self.store, transaction, reader, metadata, [])
        plan = Plan.of(
            Staged(
                transaction=transaction,
                operation=Operation(name="OPTIMIZE", cls=OperationClass.MINOR_COMPACT),
                written_under=metadata,
                read_version=handle.version,
                add=added,
                replacing=Replacing(None),
            )
        )
        commit = context.finish(plan)
        self.model.moved(self.clock)
        self.check_commit(handle, commit, True)
        # The tests of the conflict rules cover appends that rebase onto an unread compaction.
        for other in self.handles:
            other.refresh()

    @rule(jump=st.sampled_from([-3_600_000_000, -1, 1, 1_000_000, 3_600_000_000]))
    def clock_jumps(self, jump: int) -> None:
        self.clock += jump

    @rule(at=HANDLES)
    def refresh(self, at: int) -> None:
        assert self.handles[at].refresh().version == self.model.head

    @rule(at=HANDLES)
    def reopen(self, at: int) -> None:
        self.handles[at] = open_at(self.store, self.environment)
        assert self.handles[at].version == self.model.head

    @rule(at=HANDLES)
    def read(self, at: int) -> None:
        """A handle stays at its version during other commits."""
        handle = self.handles[at]
        expected = Counter(self.model.all[handle.version].rows)
        assert Counter(tuples(handle.to_arrow())) == expected
        assert handle.scan().count() == expected.total()

    @rule(at=HANDLES, points=POINTS)
    def windows(self, at: int, points: list[float]) -> None:
        """INC-1, INC-3: (a, b] and (b, c] are (a, c], and lead from one snapshot to the next."""
        a, b, c = (round(point * self.model.head) for point in points)

        def between(first: int, last: int) -> list[Change]:
            read = self.handles[at].changes(after_version=first, ending_version=last)
            assert (read.first_version, read.last_version) == (first + 1, last)
            return self.checked(read)

        self.check_windows(between, a, b, c)
        read = self.handles[at].changes(starting_version=a)
        assert self.checked(read) == self.expected(range(a, self.model.head + 1))

    @rule(at=HANDLES, points=POINTS)
    def windows_by_time(self, at: int, points: list[float]) -> None:
        """INC-2: the same by times, which compactions have none of."""
        ids = [round(point * self.model.head) for point in points]
        times = [self.model.all[i].time_version for i in ids]

        def between(first: int, last: int) -> list[Change]:
            read = self.handles[at].changes(
                after_timestamp=instant(first), ending_timestamp=instant(last)
            )
            assert read.settled
            return self.checked(read)

        a, _, c = (self.model.at_time(t) for t in times)
        assert a is not None
        assert c is not None
        joined = between(times[0], times[1]) + between(times[1], times[2])
        assert joined == between(times[0], times[2]) == self.expected(range(a + 1, c + 1))
        inclusive = self.handles[at].changes(starting_timestamp=instant(times[1]))
        first = min(v for v, known in enumerate(self.model.all) if known.time_version >= times[1])
        assert self.checked(inclusive) == self.expected(range(first, self.model.head + 1))

    def check_windows(
        self, between: Callable[[int, int], list[Change]], a: int, b: int, c: int
    ) -> None:
        whole = between(a, c)
        assert between(a, b) + between(b, c) == whole == self.expected(range(a + 1, c + 1))
        before, after = self.model.all[a].rows, self.model.all[c].rows
        assert with_changes(before, whole) == Counter(after)

    def expected(self, versions: range) -> list[Change]:
        return ordered(self.model.changes(versions))

    def checked(self, read: Changes) -> list[Change]:
        """Return the changes in canonical order, after a check of their order."""
        found = [
            (row[:3], row[3], row[4], (row[5] - EPOCH) // datetime.timedelta(microseconds=1))
            for row in tuples(read.to_arrow())
        ]
        keys = [(version, kind) for _, kind, version, _ in found]
        assert keys == sorted(keys)
        return ordered(found)

    def teardown(self) -> None:
        """TIM-1, TIM-2, TIM-4: all versions and all times, by an old handle and by a new one."""
        if not hasattr(self, "model"):
            return
        versions = self.model.all
        for handle in (self.handles[0], open_at(self.store, self.environment)):
            history = handle.history().sort_by("version")
            assert history["timestamp"].to_pylist() == [instant(v.timestamp) for v in versions]
            assert history["timeVersion"].to_pylist() == [instant(v.time_version) for v in versions]
            for number, known in enumerate(versions):
                scan = handle.scan(version=number)
                assert Counter(tuples(scan.to_arrow())) == Counter(known.rows)
                for time in (known.timestamp, known.time_version, known.timestamp + 1):
                    at = handle.scan(timestamp=instant(time)).version
                    assert at == self.model.at_time(time)
        assert all(a.timestamp < b.timestamp for a, b in itertools.pairwise(versions))


def ordered(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda c: (c[2], c[1], str(c[0])))


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(max_examples=18, stateful_step_count=25, deadline=None)
