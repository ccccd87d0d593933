"""Entries many at a time are the entries, in few requests, and never anything else."""

from __future__ import annotations

import random
from itertools import pairwise

import logdump
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.commit.environment import SYSTEM
from tablefmt.errors import CorruptEntryError
from tablefmt.log import compacted_log
from tablefmt.log.compacted_log import (
    SIZES,
    WASTE,
    cover,
    pack,
    read_entries,
    unpack,
    write_log_segments,
)
from tablefmt.log.log_reader import read_range
from tablefmt.log.object_names import HISTORY, entry_key, log_segment_key, log_segment_range
from tablefmt.session.checkpoint_writing import checkpoint_of
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tests.tables import handle, memory, new_table, rows, with_history

pytestmark = pytest.mark.broken_tables


@pytest.fixture(scope="module")
def long() -> Store:
    """Return a log of 1,100 entries, compacted up to 1,050."""
    store = with_history(1100)
    assert write_log_segments(store, -1, 1050) == 1050 // 16 + 1050 // 256
    return store


@given(st.integers(0, 20_000), st.integers(1, 9_000), st.integers(-1, 30_000))
def test_a_cover_is_the_range_and_little_more(first: int, count: int, compacted_to: int) -> None:
    """HIS-1: every version once, in order; of a block that is read a good part is wanted."""
    last = first + count - 1
    objects = list(cover(first, last, compacted_to))
    assert objects[0][0] <= first
    assert objects[-1][1] >= last
    assert all(a[1] + 1 == b[0] or a[1] + 1 == first for a, b in pairwise(objects))
    for start, end in objects:
        size = end - start + 1
        assert size == 1 or (size in SIZES and start % size == 0 and end <= compacted_to)
        assert (min(end, last) - max(start, first) + 1) * WASTE >= size


@pytest.mark.parametrize("seed", range(12))
def test_what_is_read_is_the_log(long: Store, seed: int) -> None:
    """HIS-2: any range, packed or not."""
    chance = random.Random(seed)
    first = chance.randrange(1100)
    last = chance.randrange(first, 1100)
    assert read_entries(long, first, last, 1050) == list(read_range(long, first, last))


def test_ten_in_the_middle_are_three_objects_at_most(long: Store) -> None:
    """HIS-1: two blocks, and the last entry itself; a thousand are few more."""
    for first in range(300, 340):
        counting = CountingStore(long)
        read_entries(counting, first, first + 9, 1050)
        assert counting.rounds == 1
        assert len(counting.requests) <= 3, first
    counting = CountingStore(long)
    read_entries(counting, 0, 1050, 1050)
    assert len(counting.requests) == 4 + 1 + 10 + 1
    counting.requests.clear()
    read_entries(counting, 3, 5, 1050)
    assert [key for _, key in counting.requests] == [entry_key(v) for v in (3, 4, 5)]


@pytest.mark.slow
def test_blocks_that_are_not_the_log_are_not_read(long: Store) -> None:
    """HIS-2: damaged, of other entries, of another table, missing."""
    other = with_history(300)
    write_log_segments(other, -1, 255)
    store = with_history(300)
    write_log_segments(store, -1, 299)
    expected = list(read_range(store, 0, 299))
    block = store.get(log_segment_key(0, 255))
    bodies = unpack(block, 256)
    swapped = [*bodies[:5], bodies[6], bodies[5], *bodies[7:]]
    for key in (log_segment_key(0, 255), log_segment_key(256, 271)):
        whole = store.get(key)
        for bad in (
            *(b"", b"x", whole[:-1], whole[: len(whole) // 2], whole + b"x", whole + whole),
            pack(bodies[:-1]),
            pack(swapped),
            pack([b"{}"] * 256),
            other.get(log_segment_key(0, 255)),
            whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
        ):
            store.put(key, bad)
            assert read_entries(store, 0, 299, 299) == expected
        store.delete(key)
        assert read_entries(store, 0, 299, 299) == expected
        store.put(key, whole)


def test_the_same_entries_are_the_same_block() -> None:
    """HIS-1, HIS-3: every writer makes the same bytes, from entries and from smaller segments."""
    store = with_history(300)
    bodies = store.get_many([entry_key(v) for v in range(256)])
    whole = pack([body or b"" for body in bodies])
    write_log_segments(store, -1, 20)
    assert write_log_segments(store, 15, 299) == 17 + 1
    assert store.get(log_segment_key(0, 255)) == whole
    store.delete(log_segment_key(0, 255))
    store.put(log_segment_key(16, 31), store.get(log_segment_key(32, 47)))
    assert write_log_segments(store, -1, 299) == 1
    assert store.get(log_segment_key(0, 255)) == whole
    assert write_log_segments(store, -1, 299) == 0


def test_a_large_block_is_made_of_small_ones_without_reading_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HIS-2: the chain of digests is sufficient."""
    store = with_history(300)
    write_log_segments(store, -1, 254)
    monkeypatch.setattr(compacted_log, "decode", lambda *_: pytest.fail("an entry was decoded"))
    before = CountingStore(store)
    assert write_log_segments(before, 254, 255) == 2
    blocks = [log_segment_key(at, at + 15) for at in range(0, 256, 16)]
    got = [key for verb, key in before.requests if verb == "get"]
    assert got == [*(entry_key(v) for v in range(240, 256)), *blocks, entry_key(255)]
    whole = pack([store.get(entry_key(v)) for v in range(256)])
    assert store.get(log_segment_key(0, 255)) == whole


def test_a_block_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """HIS-1, ENT-2: the unpacked size of a segment is bounded."""
    monkeypatch.setattr(compacted_log, "LOG_SEGMENT_BYTES_MAX", 1000)
    with pytest.raises(CorruptEntryError, match="HIS-1"):
        unpack(pack([b"x" * 100] * 16), 16)


def test_they_come_with_a_checkpoint_and_serve_history_and_older_versions() -> None:
    """HIS-3: time travel from a checkpoint reads log segments."""
    store = memory()
    table = new_table(store)
    for n in range(70):
        table.append(rows(n))
    checkpoint_of(LogView.open(store), SYSTEM.nonce)
    ranges = [log_segment_range(each.key) for each in store.list_after(HISTORY)]
    assert ranges == [(at, at + 15) for at in range(0, 64, 16)]
    expected = table.history().to_pylist()
    counting = CountingStore(store)
    late = handle(counting)
    counting.requests.clear()
    assert late.history().to_pylist() == expected
    assert len([key for _, key in counting.requests if key != entry_key(71)]) == 4 + 7
    counting.requests.clear()
    assert late.to_arrow(version=60)["id"].to_pylist() == list(range(60))
    assert len({key for _, key in counting.requests if key.startswith("_log/")}) <= 8
    counting.requests.clear()
    changed = late.changes(starting_version=20, ending_version=29).to_arrow()
    assert sorted(changed["id"].to_pylist()) == list(range(19, 29))
    assert len([key for _, key in counting.requests if key.startswith(HISTORY)]) <= 2
    assert tablefmt.open(store.uri).verify().ok
    assert logdump.read(store.uri)["findings"] == []
    store.put(log_segment_key(16, 31), store.get(log_segment_key(32, 47)))
    assert [f["rule"] for f in logdump.read(store.uri)["findings"]] == ["HIS-2"]
    assert late.history().to_pylist() == expected
