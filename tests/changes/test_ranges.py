"""Boundaries of ranges and points in time, by tables."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.changes.version_range import SETTLE_US, Bounds, Covered, covered
from tablefmt.commit.environment import Environment
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidRangeError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from tablefmt.model.times import show_time, to_micros
from tablefmt.operations.create import create
from tablefmt.snapshot.version_history import Timeline
from tablefmt.store.local_store import LocalStore
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table
from tests.log.test_horizon import raise_horizon
from tests.tables import new_table
from tests.tables import rows as table_rows

UTC = datetime.timezone.utc
_numbers = itertools.count()


def line() -> Timeline:
    """Versions 0 to 4 at times 100, 200, (250), 300, (350); those in brackets moved rows only."""
    timeline = Timeline()
    for timestamp, time_version in ((100, 100), (200, 200), (250, 200), (300, 300), (350, 300)):
        timeline.append(timestamp, time_version)
    return timeline


def at(micros: int) -> str:
    return show_time(micros)


SV, AV, EV = "starting_version", "after_version", "ending_version"
ST, AT, ET = "starting_timestamp", "after_timestamp", "ending_timestamp"

RANGES: list[tuple[dict[str, int], Any]] = [
    # By version: inclusive, exclusive, to the head, one version, empty.
    ({SV: 0}, (0, 4)),
    ({SV: 1, EV: 3}, (1, 3)),
    ({AV: 1, EV: 3}, (2, 3)),
    ({SV: 4}, (4, 4)),
    ({SV: 2, EV: 2}, (2, 2)),
    ({AV: 2, EV: 2}, (3, 2)),
    ({AV: 4}, (5, 4)),
    ({AV: 4, EV: 4}, (5, 4)),
    # By time: exactly at, between, at what a compaction carries on.
    ({ST: 100}, (0, 4)),
    ({AT: 100}, (1, 4)),
    ({ST: 101}, (1, 4)),
    ({ST: 200}, (1, 4)),
    ({AT: 200}, (3, 4)),
    ({AT: 199, ET: 200}, (1, 2)),
    ({ST: 200, ET: 200}, (1, 2)),
    ({ST: 100, ET: 199}, (0, 0)),
    ({AT: 100, ET: 300}, (1, 4)),
    # Empty: between two commits, on one, after the last.
    ({ST: 201, ET: 299}, (3, 2)),
    ({AT: 200, ET: 299}, (3, 2)),
    ({AT: 200, ET: 200}, (3, 2)),
    ({ST: 301}, (5, 4)),
    ({AT: 300}, (5, 4)),
    ({ST: 10**6, ET: 10**6}, (5, 4)),
    ({AT: 10**6, ET: 10**7}, (5, 4)),
    # An end after the last time is cut; mixtures.
    ({ST: 100, ET: 10**6}, (0, 4)),
    ({SV: 1, ET: 200}, (1, 2)),
    ({ST: 200, EV: 3}, (1, 3)),
    ({AT: 200, EV: 2}, (3, 2)),
    # Begin after end.
    ({SV: 3, EV: 2}, InvalidRangeError),
    ({AV: 3, EV: 2}, InvalidRangeError),
    ({AV: 4, EV: 0}, InvalidRangeError),
    ({ST: 300, ET: 200}, InvalidRangeError),
    ({AT: 300, ET: 200}, InvalidRangeError),
    ({ST: 299, ET: 201}, InvalidRangeError),
    ({AT: 210, ET: 205}, InvalidRangeError),
    ({ST: 10**6, ET: 200}, InvalidRangeError),
    ({ST: 10**7, ET: 10**6}, InvalidRangeError),
    ({AT: 10**6, EV: 1}, InvalidRangeError),
    ({SV: 3, ET: 200}, InvalidRangeError),
    # None, or several.
    ({}, InvalidRangeError),
    ({EV: 3}, InvalidRangeError),
    ({ET: 300}, InvalidRangeError),
    ({SV: 1, AV: 1}, InvalidRangeError),
    ({SV: 1, ST: 100}, InvalidRangeError),
    ({SV: 1, EV: 2, ET: 300}, InvalidRangeError),
    # Outside the history.
    ({SV: 5}, VersionNotFoundError),
    ({AV: 5}, VersionNotFoundError),
    ({SV: -1}, VersionNotFoundError),
    ({SV: 0, EV: 5}, VersionNotFoundError),
    ({ST: 99}, VersionNotFoundError),
    ({AT: 0}, VersionNotFoundError),
    ({SV: 0, ET: 99}, VersionNotFoundError),
]


@pytest.mark.parametrize(("given", "expected"), RANGES, ids=str)
def test_every_kind_of_range_covers_what_it_says(given: dict[str, Any], expected: Any) -> None:
    """INC-1, INC-2."""
    bounds = Bounds(**{k: at(v) if "time" in k else v for k, v in given.items()})
    if isinstance(expected, type):
        with pytest.raises(expected):
            covered(bounds, line(), 10**12)
        return
    assert covered(bounds, line(), 10**12) == Covered(*expected, settled=True)


def test_a_time_before_the_history_names_its_first_and_its_newest_time() -> None:
    """INC-2: the last two commits have different times."""
    timeline = line()
    timeline.append(400, 400)
    with pytest.raises(VersionNotFoundError) as caught:
        covered(Bounds(starting_timestamp=at(99)), timeline, 10**12)
    assert str(caught.value).count(at(100)) == 1
    assert str(caught.value).count(at(400)) == 1


@pytest.mark.parametrize("zeros", ["", "000"])
@pytest.mark.parametrize("pandas", [False, True])
@pytest.mark.parametrize("micros", [100, 199, 200, 300])
def test_a_bound_finer_than_the_commits_is_exact(micros: int, pandas: bool, zeros: str) -> None:
    """TIM-4, INC-2: the bound behaves as if commits had timestamps in nanoseconds."""
    text = f"{at(micros)[:-1]}001{zeros}Z"
    when: Any = pd.Timestamp(text) if pandas else text
    nanos, commits = micros * 1_000 + 1, [t * 1_000 for t in line().time_versions]
    first = {
        ST: next((v for v, t in enumerate(commits) if t >= nanos), 5),
        AT: next((v for v, t in enumerate(commits) if t > nanos), 5),
    }
    for name, begin in first.items():
        assert covered(Bounds(**{name: when}), line(), 0) == Covered(begin, 4, True), name
    last = max(v for v, t in enumerate(commits) if t <= nanos)
    found = covered(Bounds(starting_version=0, ending_timestamp=when), line(), 0)
    assert found == Covered(0, last, True)
    assert line().version_at(to_micros(when)) == last
    with pytest.raises(VersionNotFoundError):
        covered(Bounds(starting_timestamp=f"{at(99)[:-1]}999Z"), line(), 0)


@pytest.mark.parametrize(
    ("end", "now", "settled"),
    [
        (300, 0, True),
        (350, 0, True),
        (351, 351, False),
        (1_000, 1_000 + SETTLE_US - 1, False),
        (1_000, 1_000 + SETTLE_US, True),
        (10**9, 400, False),
    ],
)
def test_an_end_is_settled_when_nothing_can_land_before_it(
    end: int, now: int, settled: bool
) -> None:
    """INC-2: a commit at or after it, or ten minutes past it."""
    found = covered(Bounds(starting_version=0, ending_timestamp=at(end)), line(), now)
    assert found == Covered(0, 4, settled)


@pytest.mark.parametrize("version", [1.0, "1", True, datetime.datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_version_is_a_whole_number(version: Any) -> None:
    """INC-1."""
    for name in (SV, AV):
        with pytest.raises(InvalidRangeError, match="whole number"):
            covered(Bounds(**{name: version}), line(), 0)
    with pytest.raises(InvalidRangeError, match="whole number"):
        covered(Bounds(starting_version=0, ending_version=version), line(), 0)


POINTS: list[tuple[Any, int]] = [
    ("1970-01-02", 86_400_000_000),
    ("1970-01-01T00:00:01", 1_000_000),
    ("1970-01-01 00:00:01.5", 1_500_000),
    ("1970-01-01T00:00:00.123456Z", 123_456),
    ("1970-01-01T00:00:00.1234569z", 123_456),
    ("1970-01-01T00:00:00,5Z", 500_000),
    ("1970-01-01T01:00:00+01:00", 0),
    ("1970-01-01T01:00+01", 0),
    ("1969-12-31T18:30:00-0530", 0),
    ("1969-12-31T23:59:59.999999Z", -1),
    ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
    ("0001-01-01T00:00:00+14:00", -62_135_596_800_000_000 - 14 * 3_600_000_000),
    (datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), 0),
    (pd.Timestamp("1970-01-01T00:00:01", tz="Asia/Kolkata"), -19_799_000_000),
]


@pytest.mark.parametrize(("when", "micros"), POINTS, ids=str)
def test_a_time_is_an_instant(when: Any, micros: int) -> None:
    """TIM-4: aware datetimes, and text, UTC without a zone."""
    assert to_micros(when) == micros


class Nowhere(datetime.tzinfo):
    def utcoffset(self, when: datetime.datetime | None) -> None:
        return None


NO_TIMES = [
    datetime.datetime(2026, 1, 1),
    datetime.datetime(2026, 1, 1, tzinfo=Nowhere()),  # type: ignore[abstract]
    datetime.date(2026, 1, 1),
    1_700_000_000,
    1.5,
    "",
    "yesterday",
    "2026-13-01",
    "2026-02-30T00:00:00Z",
    "2026-01-01T25:00:00Z",
    "12:00:00",
    b"2026-01-01",
    pd.NaT,
]


@pytest.mark.parametrize("when", NO_TIMES)
def test_what_says_no_instant_is_refused(when: Any) -> None:
    """TIM-4."""
    with pytest.raises(InvalidRangeError):
        to_micros(when)


class ClockedStore(ForwardingStore):
    """A store that tells its time."""

    now = 0

    def server_time_us(self) -> int | None:
        return self.now


START = 1_700_000_000_000_000
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])


def made(*, schema: pa.Schema = SCHEMA, store: Any = None) -> tuple[Table, list[int]]:
    """A table, and its clock in a list of one."""
    clock = [START]
    environment = dataclasses.replace(Environment(), now_us=lambda: clock[0])
    store = store or MemoryStore(f"ranges-{next(_numbers)}")
    return Table(create(store, schema, environment=environment)), clock


def rows(*values: int, p: str = "a") -> pa.Table:
    return pa.table({"p": [p] * len(values), "v": pa.array(values, pa.int64())})


def test_time_travel_finds_the_version_of_every_time() -> None:
    """TIM-4: before the first, at, between, at and after the last."""
    table, clock = made()
    for step in (1, 2):
        clock[0] = START + step * 100
        table.append(rows(step))
    expected = {0: 0, 1: 0, 99: 0, 100: 1, 101: 1, 199: 1, 200: 2, 201: 2, 10**15: 2}
    found = {d: table.scan(timestamp=show_time(START + d)).version for d in expected}
    assert found == expected
    with pytest.raises(VersionNotFoundError) as caught:
        table.scan(timestamp=show_time(START - 1))
    assert (caught.value.oldest, caught.value.latest) == (show_time(START), show_time(START + 200))
    for version in (-1, 3):
        with pytest.raises(VersionNotFoundError) as caught:
            table.scan(version=version)
        assert (caught.value.oldest, caught.value.latest) == (0, 2)
    with pytest.raises(InvalidRangeError, match="not both"):
        table.scan(version=1, timestamp=show_time(START))


def test_settled_goes_by_the_stores_clock() -> None:
    """INC-2: the reader's own clock counts only where the store has none."""
    store = ClockedStore(MemoryStore(f"ranges-{next(_numbers)}"))
    store.now = START
    table, clock = made(store=store)
    end = show_time(START + 1)
    clock[0] = START + 10 * SETTLE_US
    assert not table.changes(starting_version=0, ending_timestamp=end).settled
    store.now = START + 1 + SETTLE_US
    assert table.changes(starting_version=0, ending_timestamp=end).settled
    table, clock = made()
    assert not table.changes(starting_version=0, ending_timestamp=end).settled
    clock[0] = START + 1 + SETTLE_US
    assert table.changes(starting_version=0, ending_timestamp=end).settled


def test_settled_takes_two_clocks_where_the_store_tells_no_time(tmp_path: Path) -> None:
    """INC-2: this machine's may be ahead of the disk's."""
    clock = [time.time_ns() // 1000]
    environment = dataclasses.replace(Environment(), now_us=lambda: clock[0])
    table = Table(create(LocalStore(tmp_path / "t"), SCHEMA, environment=environment))
    end = show_time(clock[0] + 1)
    clock[0] += 10 * SETTLE_US
    assert not table.changes(starting_version=0, ending_timestamp=end).settled


def test_changes_have_the_rows_and_the_three_columns() -> None:
    """INC-3, INC-4: equal rows of an overwrite are deleted and inserted, deletes first."""
    table, clock = made()
    table.append(rows(1, 2))
    clock[0] += 50
    table.overwrite(rows(2, 3))
    read = table.changes(after_version=0)
    first, second = (datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(
        microseconds=START + d) for d in (1, 50))  # fmt: skip
    assert read.to_arrow().schema == read.schema
    assert read.schema.names == ["p", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [tuple(r.values())[1:] for r in read.to_arrow().to_pylist()] == [
        (1, "insert", 1, first),
        (2, "insert", 1, first),
        (1, "delete", 2, second),
        (2, "delete", 2, second),
        (2, "insert", 2, second),
        (3, "insert", 2, second),
    ]
    assert read.to_pandas()["v"].tolist() == [1, 2, 1, 2, 2, 3]


def test_changes_take_columns_and_conditions() -> None:
    """INC-3: columns in the order asked for; a condition is on the table's own columns."""
    table, _ = made()
    table.append(rows(1, 2))
    table.append(rows(3, p="b"))
    read = table.changes(starting_version=0, columns=["V"], where="p = 'b' or v = 1")
    assert [tuple(r.values())[:3] for r in read.to_arrow().to_pylist()] == [
        (1, "insert", 1),
        (3, "insert", 2),
    ]
    only = table.changes(starting_version=0, columns=[]).to_arrow()
    assert (only.num_columns, only.num_rows) == (3, 3)
    nothing = table.changes(after_version=2)
    assert (nothing.to_arrow().num_rows, nothing.to_arrow().schema) == (0, nothing.schema)
    with pytest.raises(SchemaMismatchError, match="nope"):
        table.changes(starting_version=0, columns=["nope"])


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_COMMIT_TIMESTAMP"])
def test_columns_called_like_the_change_columns_must_be_left_out(name: str) -> None:
    """INC-3."""
    schema = pa.schema([("v", pa.int64()), (name, pa.string())])
    table, _ = made(schema=schema)
    table.append(pa.table([[1], ["x"]], schema))
    with pytest.raises(SchemaMismatchError) as caught:
        table.changes(starting_version=0)
    assert caught.value.columns == [name]
    read = table.changes(starting_version=0, columns=["v"]).to_arrow()
    assert read.select(["v", "_change_type"]).to_pylist() == [{"v": 1, "_change_type": "insert"}]


def test_other_contents_are_refused_by_name() -> None:
    """INC-6: the content does not exist."""
    table, _ = made()
    with pytest.raises(InvalidRangeError, match="everything"):
        table.changes(starting_version=0, content="everything")  # type: ignore[arg-type]


def test_changes_see_what_other_handles_committed() -> None:
    """INC-1: the default end is the newest version, and the handle's own stays."""
    table, _ = made()
    other = Table(create(table.context.store, SCHEMA, exist_ok=True))
    other.append(rows(5))
    read = table.changes(starting_version=0)
    assert (read.last_version, read.to_arrow()["v"].to_pylist()) == (1, [5])
    assert table.version == 0


def test_a_condition_finds_rows_of_files_that_were_partitioned_otherwise() -> None:
    """INC-3, PRN-8: a file without a value of what the table is partitioned by now is no NULL."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    table = tablefmt.create(f"memory://changes-anew-{next(_numbers)}", schema, partition_by=["a"])
    table.append(pa.table({"a": ["x", "y"], "b": ["1", "2"]}, schema))
    later = pa.table({"a": ["x", "z"], "b": ["1", "3"]}, schema)
    table.overwrite(later, overwrite_schema=True, partition_by=["b"])
    for condition, value in (("b = '1'", "1"), ("a = 'x'", "1"), ("b = '2'", "2")):
        found = table.changes(starting_version=1, where=condition).to_arrow().to_pylist()
        whole = table.changes(starting_version=1).to_arrow().to_pylist()
        assert found == [row for row in whole if row["b"] == value], condition
        assert len(found) == (3 if value == "1" else 2)


def test_history_shows_the_entries(tmp_path: Any) -> None:
    """ENT-3, ENT-4, ENT-5: newest first, with Delta's names; a limit cuts the old ones."""
    table = tablefmt.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    done = table.append(rows(1, 2), user_metadata={"why": [1, "x"]})
    table.overwrite(rows(3), where="p = 'a'")
    found = table.history().to_pylist()
    assert [h["version"] for h in found] == [2, 1, 0]
    assert [h["operation"] for h in found] == ["OVERWRITE", "WRITE", "CREATE TABLE"]
    assert [h["isBlindAppend"] for h in found] == [False, True, False]
    assert [h["readVersion"] for h in found] == [1, 0, None]
    write = found[1]
    assert (write["transaction"], write["timestamp"]) == (done.transaction, done.timestamp)
    assert (write["timeVersion"], write["isolationLevel"]) == (done.timestamp, "WriteSerializable")
    assert dict(write["operationMetrics"]) == {k: str(v) for k, v in done.metrics.items()}
    assert dict(write["operationParameters"]) == {"mode": "Append"}
    assert write["userMetadata"] == '{"why":[1,"x"]}'
    assert dict(found[0]["operationMetrics"])["numDeletedRows"] == "2"
    assert [h["version"] for h in table.history(2).to_pylist()] == [2, 1]
    assert [table.history(n).num_rows for n in (0, 3, 99)] == [0, 3, 3]
    for limit in (-1, 1.5, "2", True):
        with pytest.raises(InvalidRangeError, match="whole number"):
            table.history(limit)  # type: ignore[arg-type]


def test_an_expired_range_is_an_error_or_all_rows_of_its_end() -> None:
    """INC-7, ENT-13: a snapshot needs an option and is marked in the answer.

    A version that is not kept is an error.
    """
    table = new_table()
    for value in range(1, 5):
        table.append(table_rows(value))
    table.delete("id = 2")
    raise_horizon(table.context.store, 3)
    table.append(table_rows(9))
    for begin in ({"after_version": 1}, {"starting_version": 3}, {"after_version": 0}):
        with pytest.raises(ChangesExpiredError) as caught:
            table.changes(**begin)  # type: ignore[arg-type]
        assert caught.value.earliest_version == 4
        for content in ("changes", "net", "append"):
            read = table.changes(**begin, content=content, expired="snapshot")  # type: ignore[arg-type]
            assert (read.is_snapshot, read.last_version, read.settled) == (True, 7, True)
            rows = read.to_arrow().to_pylist()
            assert sorted(row["id"] for row in rows) == [1, 3, 4, 9]
            assert {row.get("_change_type", "insert") for row in rows} == {"insert"}
            assert {row["_commit_version"] for row in rows} == {7}
    then = table.changes(after_version=1, ending_version=4, expired="snapshot", where="id > 1")
    assert sorted(row["id"] for row in then.to_arrow().to_pylist()) == [2, 3, 4]
    with pytest.raises(ChangesExpiredError):
        table.changes(after_version=0, ending_version=2, expired="snapshot")
    kept = table.changes(after_version=3, expired="snapshot")
    assert not kept.is_snapshot
    assert [(r["id"], r["_change_type"]) for r in kept.to_arrow().to_pylist()] == [
        (4, "insert"), (2, "delete"), (9, "insert"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    [{"schema": "middle"}, {"expired": "ignore"}, {"content": "rows"}, {"content": None}],
)
def test_words_that_mean_nothing_are_refused(asked: Any) -> None:
    """INC-4, INC-6, INC-7."""
    table, _ = made()
    with pytest.raises(InvalidRangeError):
        table.changes(starting_version=0, **asked)
