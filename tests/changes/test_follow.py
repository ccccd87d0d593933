"""Following commits as they land: rows, cursors to resume from, and store requests."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.changes.version_range import with_cursors
from tablefmt.errors import ChangesExpiredError, InvalidRangeError
from tablefmt.log.object_names import entry_key
from tablefmt.store.store_wrappers import CountingStore
from tests.changes.histories import History
from tests.tables import Clock, behind, memory, new_table, rows


def described(pair: tuple[pa.RecordBatch, int]) -> tuple[list[tuple[str, int]], int]:
    batch, last = pair
    return [(r["_change_type"], r["id"]) for r in batch.to_pylist()], last


def test_commits_come_as_they_land() -> None:
    """INC-8: the commits of the range come first, then the command polls for new ones."""
    clock, store = Clock(), memory()
    table = new_table(store, clock=clock)
    table.append(rows(1, 2))
    steps = iter([lambda: table.append(rows(3)), lambda: None, lambda: table.delete("id = 1")])
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        next(steps)()

    follower = behind(table, store)
    object.__setattr__(follower.context.environment, "sleep", sleep)
    following = follower.changes(after_version=0).follow(poll=0.25)
    assert [described(next(following)) for _ in range(3)] == [
        ([("insert", 1), ("insert", 2)], 1),
        ([("insert", 3)], 2),
        ([("delete", 1)], 3),
    ]
    assert slept == [0.25] * 3


def test_one_request_is_made_when_nothing_is_new() -> None:
    """INC-8, LOG-4: a poll requests the next entry. One new entry takes one more request."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    counting = CountingStore(store)
    follower = behind(table, counting)
    looks = itertools.count()
    asked: list[list[Any]] = []

    def sleep(seconds: float) -> None:
        asked.append(list(counting.requests))
        counting.reset()
        if next(looks) == 3:
            table.append(rows(2))

    object.__setattr__(follower.context.environment, "sleep", sleep)
    following = follower.changes(after_version=1).follow()
    counting.reset()
    assert described(next(following)) == ([("insert", 2)], 2)
    assert asked == [[("get", entry_key(2))]] * 4
    logs = Counter(key for _, key in counting.requests if key.startswith("_log"))
    assert set(logs) <= {entry_key(v) for v in range(2, 12)}
    assert logs[entry_key(2)] == 1


@pytest.mark.share(2)
@pytest.mark.parametrize("stop", range(1, 12))
def test_resuming_from_a_cursor_loses_and_repeats_nothing(stop: int) -> None:
    """INC-8: rows are dealt with up to the cursor, and those beyond it come again."""
    history = History(21).run(9)
    head = history.table.version
    cursor, dealt, pending = 0, [], []
    following = history.table.changes(after_version=0)
    for count, (batch, last) in enumerate(
        with_cursors(following.to_batches(), 0, following.last_version), 1
    ):
        pending += batch.to_pylist()
        if last > cursor:
            dealt, pending, cursor = [*dealt, *pending], [], last
        if count == stop:
            break
    rest = history.table.changes(after_version=cursor).to_arrow().to_pylist()
    whole = history.table.changes(after_version=0, ending_version=head).to_arrow().to_pylist()
    assert dealt + rest == whole


def test_who_waits_is_told_soon_that_what_comes_next_was_given_up() -> None:
    """INC-8, INC-7: within seconds, and not by silence until entries stay no longer."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    follower = behind(table, store)
    freshness = follower.context.view.freshness
    began, looks = freshness.clock(), itertools.count()
    freshness.clock = lambda: began

    def sleep(_seconds: float) -> None:
        look = next(looks)
        assert look < 3, "it waits for ever"
        if look == 0:
            for number in range(2, 6):
                table.append(rows(number))
            table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
        freshness.clock = lambda: began + 2.5 * look

    object.__setattr__(follower.context.environment, "sleep", sleep)
    following = follower.changes(after_version=0).follow()
    assert described(next(following)) == ([("insert", 1)], 1)
    with pytest.raises(ChangesExpiredError) as told:
        next(following)
    assert told.value.requested == 2
    assert next(looks) == 3
    table.changes(after_version=told.value.earliest_version - 1)


@pytest.mark.parametrize("poll", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_a_time_to_wait_is_a_number_of_seconds(poll: Any) -> None:
    """INC-8: a range with an end is refused too, before any read."""
    table = new_table()
    with pytest.raises(InvalidRangeError, match="seconds"):
        table.changes(after_version=0).follow(poll)
    with pytest.raises(InvalidRangeError, match="end"):
        table.changes(after_version=0, ending_version=0).follow()


def test_rows_in_the_place_of_what_expired_are_marked() -> None:
    """INC-7, INC-8: two snapshots in a row have two numbers. An empty snapshot is reported too."""
    store, clock = memory(), Clock()
    table = new_table(store, clock=clock)
    table.append(rows(1, 2))

    def give_up(*ids: int) -> None:
        table.overwrite(rows(*ids)) if ids else table.truncate()
        table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)

    give_up(3, 4)
    follower = behind(table, store)
    steps = iter([lambda: give_up(5), lambda: give_up(), lambda: table.append(rows(6))])
    object.__setattr__(follower.context.environment, "sleep", lambda _: next(steps)())
    following = follower.changes(after_version=0, expired="snapshot").follow()
    seen = []
    while not seen or seen[-1][2] is not None:
        pair = next(following)
        seen.append((*described(pair), pair.snapshot))
    versions = [snapshot for _, _, snapshot in seen[:-1]]
    assert [changes for changes, _, _ in seen] == [
        [("insert", 3), ("insert", 4)],
        [("insert", 5)],
        [],
        [("insert", 6)],
    ]
    assert len({*versions}) == 3
    assert [last for _, last, _ in seen[:-1]] == versions
