"""The log is read whole and in order, or not at all; hints and junk change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from tablefmt.errors import (
    CorruptEntryError,
    LogGapError,
    TablefmtError,
    TableNotFoundError,
    TableReplacedError,
)
from tablefmt.log.codec import encode
from tablefmt.log.log_reader import LIKELY_MAX, read_tail
from tablefmt.log.object_names import HINT, entry_key
from tablefmt.model.log_entry import AddedFiles, OperationClass, Totals
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import StoredObject
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tests.tables import handle, ids, memory, new_table, next_entry, rows, with_history

pytestmark = pytest.mark.broken_tables


def opened(store: MemoryStore) -> tuple[int, CountingStore]:
    """The head that a cold open finds, and what it asked for."""
    counting = CountingStore(store)
    return LogView.open(counting).head.version, counting


def hint(store: MemoryStore, version: object, table: str = "ab" * 16) -> None:
    store.put(HINT, orjson.dumps({"table": table, "version": version}))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 17, 100, 700])
@pytest.mark.parametrize("hinted", [None, 0, 1, 0.5, "fresh"])
def test_opening_takes_three_dependent_rounds_at_most(count: int, hinted: Any) -> None:
    """LOG-5: a listing that runs beside the gets of the hinted entries adds no round."""
    store = with_history(count)
    head = count - 1
    at = None if hinted is None else head if hinted == "fresh" else int(head * hinted)
    if at is not None:
        hint(store, at)  # type: ignore[arg-type]
    found, counting = opened(store)  # type: ignore[arg-type]
    reads = [verb for verb, _ in counting.requests if verb in ("get", "list_after")]
    writes = [key for verb, key in counting.requests if verb == "put"]
    beside = at is not None and count >= 8 and "list_after" in reads
    assert found == head
    assert counting.rounds - len(writes) - (1 if beside else 0) <= 3
    assert reads.count("list_after") <= 1
    assert writes in ([], [HINT])
    asked = [key for verb, key in counting.requests if verb == "get" and key != HINT]
    assert all(asked.count(entry_key(v)) == 1 for v in range(count))


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"garbage",
        b"[]",
        b"null",
        b'{"version":"9"}',
        b'{"version":-1}',
        b'{"version":1.5}',
        b'{"version":true}',
        b'{"version":9223372036854775807}',
        b'{"version":1000000000000,"table":"x"}',
        b'{"version":3}',
        b'{"version":19}',
        b'{"version":40}',
        b"x" * 5000,
    ],
)
@pytest.mark.parametrize("count", [3, 8, 20])
def test_a_hint_changes_nothing_but_requests(count: int, body: bytes | None) -> None:
    """LOG-6: missing, unreadable, stale, of another table, ahead, or absurd."""
    store = with_history(count)
    if body is not None:
        store.put(HINT, body)
    found, counting = opened(store)  # type: ignore[arg-type]
    assert found == count - 1
    assert len(counting.requests) < LIKELY_MAX + 100


def test_a_hint_that_is_ahead_is_put_right() -> None:
    """LOG-6: otherwise every reader would pay for it."""
    store = with_history(9)
    hint(store, 5000)  # type: ignore[arg-type]
    assert opened(store)[0] == 8  # type: ignore[arg-type]
    assert orjson.loads(store.get(HINT))["version"] == 8
    assert opened(store)[1].counts["get"] < 15  # type: ignore[arg-type]


def test_a_reader_that_may_not_write_leaves_no_hint_and_reads() -> None:
    """LOG-6."""

    class ReadOnly(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            raise TablefmtError("read-only")

    store = with_history(30)
    assert LogView.open(ReadOnly(store)).head.version == 29
    assert store.get_many([HINT]) == [None]


@pytest.mark.parametrize("count", [5, 8, 9, 40])
@pytest.mark.parametrize("hinted", [False, True])
def test_a_missing_entry_is_a_gap_wherever_it_is(count: int, hinted: bool) -> None:
    """LOG-2, LOG-7: the missing entry is in the middle, or at the start."""
    for missing in {0, 1, count // 2, count - 2}:
        store = with_history(count)
        if hinted:
            hint(store, count - 1)  # type: ignore[arg-type]
        store.delete(entry_key(missing))
        with pytest.raises(LogGapError) as caught:
            LogView.open(store)
        assert caught.value.missing == missing
        assert f"not version {missing}" in str(caught.value)


@pytest.mark.parametrize("gap", [11, 14, 60])
def test_a_warm_handle_finds_a_gap_too(gap: int) -> None:
    """LOG-2."""
    store = with_history(10)
    table = handle(store)
    extended = with_history_from(store, 80)  # type: ignore[arg-type]
    store.delete(entry_key(gap))
    with pytest.raises(LogGapError) as caught:
        table.refresh()
    assert (caught.value.missing, extended) == (gap, 89)


def with_history_from(store: MemoryStore, count: int) -> int:
    view = LogView.open(store)
    for _ in range(count):
        entry = next_entry(view)
        store.put(entry_key(entry.version), encode(entry))
        view.refresh()
    return view.head.version


class WrittenWhileRead(ForwardingStore):
    """A store whose first listing of every window misses one entry that has just been written."""

    def __init__(self, inner: MemoryStore, hide: Sequence[int]) -> None:
        super().__init__(inner)
        self.hide = {entry_key(version) for version in hide}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        hidden = self.hide & set(keys)
        self.hide -= hidden
        bodies = super().get_many(keys)
        return [None if k in hidden else b for k, b in zip(keys, bodies, strict=True)]


@pytest.mark.parametrize("hide", [[2], [0, 1, 4], [9], [12, 13], [19]])
def test_an_entry_written_while_the_window_is_read_is_no_gap(hide: list[int]) -> None:
    """LOG-2: only a second request shows it.

    The entries read are contiguous and above all seen before.
    """
    store = with_history(20)
    view = LogView.open(WrittenWhileRead(store, hide))  # type: ignore[arg-type]
    assert view.head.version >= min(hide) - 1
    view.refresh()
    assert view.head.version == 19

    warm = LogView(store, read_tail(store, 0)[:2])
    warm.store = WrittenWhileRead(store, [v for v in hide if v > 2])  # type: ignore[arg-type]
    for _ in range(3):
        warm.refresh()
    assert warm.head.version == 19


def test_a_listing_is_no_proof_of_the_end() -> None:
    """LOG-4: a store whose listing lags behind by some names."""

    class StaleListing(ForwardingStore):
        def list_after(self, prefix: str, after: str | None = None) -> Any:
            return iter(list(super().list_after(prefix, after))[:-1])

    store = with_history(20)
    assert LogView.open(StaleListing(store)).head.version == 19


def test_names_that_are_none_are_ignored() -> None:
    """KEY-1: short, padded, signed, with a suffix, in folders, temporary, probes."""
    store = with_history(12)
    for name in (
        "7.json",
        "007.json",
        "0000000000000000012.json",
        "000000000000000000012.json",
        "00000000000000000012.JSON",
        "00000000000000000012.json.tmp",
        "-0000000000000000012.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١٢.json",
        "99999999999999999999.json",
        "00000000000000000012.json/x",
        ".tmp-abc",
        ".probe-abc",
        "x/00000000000000000012.json",
    ):
        store.put(f"_log/{name}", b"junk")
    assert opened(store)[0] == 11  # type: ignore[arg-type]


def test_junk_without_an_entry_is_no_table() -> None:
    """LOG-7."""
    store = memory()
    store.put("_log/7.json", b"junk")
    store.put("data/x/0.parquet", b"junk")
    with pytest.raises(TableNotFoundError, match="no table at memory:"):
        LogView.open(store)


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("LOG-3", lambda e: replace(e, table="cd" * 16)),
        ("LOG-1", lambda e: replace(e, previous="0" * 64)),
        ("TIM-1", lambda e: replace(e, timestamp=e.timestamp - 1, time_version=e.timestamp - 1)),
        ("TIM-2", lambda e: replace(e, time_version=e.timestamp - 5)),
        (
            "TIM-2",
            lambda e: replace(e, operation=replace(e.operation, cls=OperationClass.MINOR_COMPACT)),
        ),
        ("RPL-3", lambda e: replace(e, totals=replace(e.totals, files=7))),
        ("RPL-3", lambda e: replace(e, totals=replace(e.totals, next_id=7))),
        ("RPL-3", lambda e: replace(e, totals=replace(e.totals, metadata_version=1))),
    ],
)
def test_an_entry_that_does_not_follow_is_refused_at_open_and_at_refresh(
    rule: str, spoil: Callable[[Any], Any]
) -> None:
    """LOG-1, LOG-3, TIM-1, TIM-2, RPL-3: the handle keeps its version."""
    store = with_history(4)
    table = handle(store)
    bad = spoil(next_entry(table.context.view))
    store.put(entry_key(4), encode(bad))
    for attempt in (table.refresh, table.refresh, lambda: LogView.open(store)):
        with pytest.raises((CorruptEntryError, TableReplacedError)) as caught:
            attempt()
        assert caught.value.rule == rule
    assert table.version == 3
    assert table.to_arrow().num_rows == 0


def removal(view: LogView, ids_: list[int], rows_: int, size: int) -> Any:
    totals = view.head.totals
    left = Totals(
        files=totals.files - len(ids_),
        rows=totals.rows - rows_,
        bytes=totals.bytes - size,
        next_id=totals.next_id,
        metadata_version=totals.metadata_version,
    )
    return next_entry(view, remove=ids_, totals=left)


def damaged_files() -> Any:
    path = f"data/{'e' * 32}/0.parquet"
    added = {"path": [path], "size": [9], "rows": [1]}
    return [
        pytest.param("RPL-2", lambda v: removal(v, [99], 0, 0), id="never added"),
        pytest.param("RPL-3", lambda v: removal(v, [1], 0, v.head.totals.bytes), id="rows"),
        pytest.param("RPL-3", lambda v: removal(v, [1], 1, 1), id="bytes"),
        pytest.param(
            "ADD-1",
            lambda v: next_entry(
                v,
                add=AddedFiles({**added, "partition.2": ["a"]}),  # type: ignore[dict-item]
                totals=replace(
                    v.head.totals,
                    files=v.head.totals.files + 1,
                    rows=v.head.totals.rows + 1,
                    bytes=v.head.totals.bytes + 9,
                    next_id=v.head.totals.next_id + 1,
                ),
            ),
            id="partition value without partitioning",
        ),
    ]


@pytest.mark.parametrize(("rule", "spoil"), damaged_files())
def test_damage_in_the_files_is_told_every_time(rule: str, spoil: Any) -> None:
    """RPL-2, RPL-3, ADD-1: the same error however often somebody asks, and never a traceback."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    bad = spoil(table.context.view)
    store.put(entry_key(2), encode(bad))
    again = handle(store)
    for _ in range(3):
        with pytest.raises(CorruptEntryError) as caught:
            again.scan()
        assert (caught.value.rule, caught.value.key) == (rule, entry_key(2))


def test_a_file_is_removed_once() -> None:
    """RPL-2."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    table.append(rows(2))
    table.overwrite(rows(3))
    bad = removal(table.context.view, [1], 0, 0)
    store.put(entry_key(bad.version), encode(bad))
    with pytest.raises(CorruptEntryError, match="removed before") as caught:
        handle(store).scan()
    assert caught.value.rule == "RPL-2"


def test_a_live_path_is_not_added_again_and_a_dead_one_may_be() -> None:
    """ADD-1."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    first = table.scan().files().to_pylist()[0]
    columns = {k: [first[k]] for k in ("path", "size", "rows")}
    totals = table.context.view.head.totals
    twice = replace(totals, files=2, rows=2, bytes=2 * first["size"], next_id=totals.next_id + 1)
    bad = next_entry(table.context.view, add=AddedFiles(columns), totals=twice)
    store.put(entry_key(2), encode(bad))
    with pytest.raises(CorruptEntryError, match="a live file") as caught:
        handle(store).scan()
    assert (caught.value.rule, caught.value.key) == ("ADD-1", entry_key(2))

    moved = replace(totals, next_id=totals.next_id + 1)
    good = next_entry(table.context.view, add=AddedFiles(columns), remove=[1], totals=moved)
    store.put(entry_key(2), encode(good))
    assert ids(handle(store)) == [1]


def test_refreshing_asks_once_if_nothing_is_new_and_lists_never() -> None:
    """LOG-4: it reads every new entry once, in growing windows."""
    store = with_history(10)
    counting = CountingStore(store)
    view = LogView.open(counting)
    counting.reset()
    assert view.refresh() == []
    assert counting.requests == [("get", entry_key(10))]
    with_history_from(store, 300)  # type: ignore[arg-type]
    counting.reset()
    assert [s.version for s in view.refresh()] == list(range(10, 310))
    asked = [key for _, key in counting.requests]
    assert counting.counts["list_after"] == 0
    assert all(asked.count(entry_key(v)) == 1 for v in range(10, 310))
    assert counting.rounds <= 5


@pytest.mark.parametrize("when", ["listed", "asked again"])
def test_a_log_that_begins_while_it_is_asked_for_is_no_gap(when: str) -> None:
    """LOG-4, LOG-7: its first entries are not there yet, and a listing may name any of them."""
    whole = with_history(3)

    class Beginning(ForwardingStore):
        begun = False

        def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
            return super().get_many(keys) if self.begun else [None] * len(keys)

        def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
            self.begun = True
            names = list(super().list_after(prefix, after))
            return iter(names[1:] if when == "asked again" else names)

    assert LogView.open(Beginning(whole)).head.version == 2
    whole.delete(entry_key(0))
    with pytest.raises(LogGapError):
        LogView.open(Beginning(whole))
