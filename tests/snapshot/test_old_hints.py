"""Hints and checkpoints of long ago where a log has no beginning: no old head, no lost commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tablefmt.errors import CorruptTableError, LogGapError
from tablefmt.log.compacted_log import write_log_segments
from tablefmt.log.log_reader import FIRST_WINDOW, Hint, write_hint
from tablefmt.log.object_names import CHECKPOINTS, HINT, HISTORY, entry_key, log_segment_range
from tablefmt.snapshot.checkpoint_reader import TRIED_MAX, listed_roots
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tests.tables import Clock, Dated, handle, ids, new_table, rows

DAY = 86_400.0
LATELY: Any = {"retention": 5 * DAY, "dry_run": False, "breaks_running_transactions": True}


def expired(changed: int, versions: int = 40) -> tuple[Dated, Clock, list[Hint]]:
    """A log that goes on for long after versions up to one that all change the metadata, so that
    their entries stay; and every hint that was ever right, with the checkpoint it named.
    """
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    hints = []
    for version in range(1, versions):
        clock.forward(DAY)
        if version <= changed:
            table.alter.set_properties({"user.n": str(version)})
        else:
            table.append(rows(version))
        root = table.checkpoint().path
        hints += [Hint(lag, root) for lag in (version, version + 3)]
    handle(store, clock).expire_log(**LATELY)
    return store, clock, hints


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("changed", [FIRST_WINDOW, 12])
def test_an_old_hint_opens_no_old_head(changed: int) -> None:
    """LOG-6, LOG-8, RET-9: the checkpoint roots of versions without entries may still exist."""
    store, clock, hints = expired(changed)
    table = handle(store, clock)
    newest, expected = table.version, ids(table)
    assert store.get_many([entry_key(20)]) == [None]
    for hint in hints:
        write_hint(store, table.context.view.head.table, hint)
        late = handle(store, clock)
        assert (late.version, ids(late)) == (newest, expected), hint
    write_hint(store, table.context.view.head.table, hints[2])
    assert handle(store, clock).append(rows(1000)).version == newest + 1
    assert ids(handle(store, clock)) == sorted([*expected, 1000])


class Keeping(ForwardingStore):
    """Does not remove some objects."""

    def __init__(self, inner: Store, kept: frozenset[str]) -> None:
        super().__init__(inner)
        self.kept = kept

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        failures = self.inner.delete_many([key for key in keys if key not in self.kept])
        return {**failures, **{key: "it is locked" for key in keys if key in self.kept}}


def test_entries_that_stay_by_accident_vouch_for_no_others() -> None:
    """RET-9: the first versions go first, and nothing goes while one of them does not."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(1, 40):
        clock.forward(DAY)
        table.append(rows(number))
    early = Hint(12, handle(store, clock).checkpoint().path)
    locked = Keeping(store, frozenset(entry_key(v) for v in (2, 3)))
    report = handle(locked, clock).expire_log(**LATELY)
    assert sorted(report.failures) == sorted(locked.kept)
    assert report.deleted == FIRST_WINDOW - 1 - len(locked.kept)
    assert None not in store.get_many([entry_key(v) for v in range(FIRST_WINDOW, 40)])
    again = handle(store, clock).expire_log(**LATELY)
    assert not again.failures
    assert again.deleted == again.entries.num_rows
    write_hint(store, table.context.view.head.table, early)
    assert ids(handle(store, clock)) == list(range(1, 40))


def test_a_log_that_nothing_was_removed_from_is_opened_without_a_listing() -> None:
    """LOG-5: two rounds, and no request more than what they name."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(1, 21):
        table.append(rows(number))
    table.checkpoint()
    counting = CountingStore(store)
    handle(counting, clock)
    assert {verb for verb, _ in counting.requests} == {"get"}


@pytest.mark.broken_tables
@pytest.mark.parametrize("hint", ["right", "of a lost root", "none"])
def test_a_gap_after_a_checkpoint_is_no_end(hint: str) -> None:
    """LOG-2: an entry is missing and later ones exist, for every hint."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(1, 41):
        table.append(rows(number))
        if number == 20:
            root = table.checkpoint().path
    store.delete(entry_key(21))
    if hint == "none":
        store.delete(HINT)
    else:
        lost = root.replace(root[-37:-5], "0" * 32)
        named = root if hint == "right" else lost
        write_hint(store, table.context.view.head.table, Hint(21, named))
    with pytest.raises(LogGapError, match="not version 21"):
        handle(store, clock)


@pytest.mark.broken_tables
def test_damaged_checkpoints_hide_no_sound_one() -> None:
    """CKP-6, LOG-8: if entries expired, every checkpoint is tried."""
    store, clock, _ = expired(0)
    table = handle(store, clock)
    expected = ids(table)
    for _ in range(TRIED_MAX + 3):
        table.append(rows(0))
        path = table.checkpoint().path
        store.put(path, store.get(path)[:-9])
    assert ids(handle(store, clock)) == [*[0] * (TRIED_MAX + 3), *expected]


@pytest.mark.broken_tables
def test_without_a_sound_checkpoint_an_expired_log_is_refused() -> None:
    """LOG-8: this may show only when the files are planned. No wrong version is read."""
    store, clock, _ = expired(0)
    open_already = handle(store, clock)
    for part in [one.key for one in store.list_after(CHECKPOINTS)]:
        if part.endswith(".parquet"):
            store.delete(part)
    for table in (open_already, handle(store, clock)):
        with pytest.raises(CorruptTableError, match="no checkpoint"):
            ids(table)
    for root in listed_roots(store):
        store.delete(root)
    with pytest.raises(CorruptTableError, match="no checkpoint"):
        handle(store, clock)


@pytest.mark.slow
def test_log_segments_are_written_after_expired_entries() -> None:
    """HIS-3: a block that lacks some of its entries keeps no later one from being written."""
    store, clock, _ = expired(0, 100)
    kept = handle(store, clock).context.view.head.totals.oldest
    for one in [*store.list_after(HISTORY)]:
        store.delete(one.key)
    assert kept % 16
    assert kept > 64
    newest = handle(store, clock).version
    write_log_segments(store, -1, newest)
    blocks = {log_segment_range(one.key) for one in store.list_after(HISTORY)}
    ends = range(kept + 16 - kept % 16 + 15, newest + 1, 16)
    assert blocks == {(end - 15, end) for end in ends}
