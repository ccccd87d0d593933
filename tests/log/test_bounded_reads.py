"""A log of a few bytes that claims much costs little. Spec: LOG-2, LOG-5, STO-24, STO-25."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import tablefmt
from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    LogGapError,
    UnsupportedFeatureError,
)
from tablefmt.log import strict_json
from tablefmt.log.codec import decode
from tablefmt.log.compacted_log import read_compacted, unpack
from tablefmt.log.log_reader import read_from, tail_windows
from tablefmt.log.object_names import VERSION_MAX, entry_key, log_segment_key
from tablefmt.log.strict_json import amount_problem
from tablefmt.model.positions import ROWS_MAX, live_mask, row_span
from tablefmt.snapshot.head import check_writable
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.store_wrappers import CountingStore
from tests.tables import handle, ids, memory, new_table, rows, with_history

pytestmark = pytest.mark.broken_tables

FAR = [10**6, 10**12, VERSION_MAX - 1, VERSION_MAX]


@contextmanager
def little(most: int = 64 << 20, seconds: float = 5) -> Iterator[None]:
    """Less memory than that, by what Python allocates, and less time.

    A thread that allocates while tracing stops can end the process (CPython before 3.12.9).
    """
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
        assert time.process_time() - began < seconds
    finally:
        for thread in threading.enumerate():
            if thread.name.startswith("tablefmt-"):
                thread.join()
        tracemalloc.stop()


@pytest.mark.parametrize("number", FAR)
@pytest.mark.parametrize("body", [b"", b"junk", None])
@pytest.mark.parametrize("versions", [3, 20])
def test_an_entry_with_a_far_number_is_a_gap(
    number: int, body: bytes | None, versions: int
) -> None:
    """LOG-2, LOG-8: the names alone show the gap, for any number. An open handle goes on."""
    store = with_history(versions)
    table = handle(store)
    store.put(entry_key(number), store.get(entry_key(2)) if body is None else body)
    counting = CountingStore(store)
    expected = LogGapError if body is None else CorruptEntryError
    with little(), pytest.raises(expected) as caught:
        LogView.open(counting)
    named = f"version {versions}" if body is None else entry_key(number)
    assert named in str(caught.value)
    assert len(counting.requests) < 1200
    with little():
        table.append(rows(1))
    assert table.version == versions


def test_a_log_without_a_gap_is_opened_at_any_length() -> None:
    """LOG-5: the same requests as before the numbers were doubted."""
    store = with_history(700)
    counting = CountingStore(store)
    assert LogView.open(counting).head.version == 699
    asked = [key for verb, key in counting.requests if verb == "get"]
    assert all(asked.count(entry_key(version)) == 1 for version in range(700))


@pytest.mark.slow
def test_a_hint_with_a_far_number_costs_requests_alone() -> None:
    """LOG-6."""
    for number in FAR:
        store = with_history(5)
        checkpoint = f"_log/checkpoints/{number:020d}.{'ab' * 16}.json"
        hint = {"table": "ab" * 16, "version": number, "checkpoint": checkpoint}
        store.put("_log/hint.json", orjson.dumps(hint))
        with little():
            assert LogView.open(store).head.version == 4
            handle(store).verify()


def test_an_entry_and_a_hint_with_the_last_number_are_a_gap() -> None:
    """LOG-2, LOG-6, KEY-1: no version follows the last number."""
    store = with_history(5)
    checkpoint = f"_log/checkpoints/{VERSION_MAX:020d}.{'ab' * 16}.json"
    hint = {"table": "ab" * 16, "version": VERSION_MAX, "checkpoint": checkpoint}
    store.put("_log/hint.json", orjson.dumps(hint))
    store.put(entry_key(VERSION_MAX), store.get(entry_key(2)))
    with little(), pytest.raises(LogGapError, match="version 5"):
        LogView.open(store)


def test_nothing_follows_the_last_version() -> None:
    """KEY-1: asking for what follows it ends, and writing it is refused."""
    store = with_history(3)
    assert list(tail_windows(store, VERSION_MAX + 1)) == []
    assert read_from(store, VERSION_MAX + 1, VERSION_MAX, ["_log/hint.json"])[0] == []
    head = LogView.open(store).head
    with pytest.raises(UnsupportedFeatureError, match="the last possible one"):
        check_writable(replace(head, version=VERSION_MAX))


@pytest.mark.parametrize("key", [entry_key(1), entry_key(2)])
def test_an_entry_of_many_gigabytes_is_damage(key: str, tmp_path: Path) -> None:
    """STO-24: the entry is in the log at the open, or the next one of an open handle."""
    table = tablefmt.create(str(tmp_path), "id BIGINT")
    table.append([{"id": 1}])
    (tmp_path / key).touch()
    os.truncate(tmp_path / key, 20 << 30)
    with little(), pytest.raises(CorruptEntryError, match="21474836480 bytes; at most") as caught:
        tablefmt.open(str(tmp_path))
    assert caught.value.key == key
    if key == entry_key(2):
        for attempt in (table.refresh, lambda: table.delete("id = 1")):
            with little(), pytest.raises(CorruptEntryError, match="21474836480 bytes"):
                attempt()


def test_derived_objects_that_are_too_long_are_skipped(tmp_path: Path) -> None:
    """STO-24, CKP-6: hint, root and block of 20 GB."""
    table = tablefmt.create(str(tmp_path), "id BIGINT")
    for number in range(20):
        table.append([{"id": number}])
    written = table.checkpoint()
    for key in ("_log/hint.json", written.path, log_segment_key(0, 15)):
        assert (tmp_path / key).exists()
        os.truncate(tmp_path / key, 20 << 30)
        with little():
            again = tablefmt.open(str(tmp_path))
            assert sorted(again.to_arrow()["id"].to_pylist()) == list(range(20))


@pytest.mark.slow
def test_json_that_would_take_much_memory_is_not_parsed() -> None:
    """STO-25: objects, arrays and texts are counted before; brackets in a text are none."""
    arrays = b'{"x_":[' + b"[]," * (strict_json.CONTAINERS_MAX) + b"0]}"
    texts = b'{"x_":[' + b'"",' * (strict_json.TEXTS_MAX + 1) + b"0]}"
    commas = b'{"x_":[' + b"0," * (strict_json.COMMAS_MAX + 1) + b"0]}"
    assert "objects and arrays" in (amount_problem(arrays) or "")
    assert "texts" in (amount_problem(texts) or "")
    assert amount_problem(b'{"x_":"' + b'[{\\"' * strict_json.CONTAINERS_MAX + b'"}') is None
    assert "commas" in (amount_problem(commas) or "")
    of_text = b'{"x_":"' + b"," * (strict_json.COMMAS_MAX + 1) + b'"}'
    assert amount_problem(of_text) is None
    for body in (arrays, texts, commas):
        whole = (
            body[:-1] + b',"checksum":"' + hashlib.sha256(body[:-1]).hexdigest().encode() + b'"}'
        )
        with little(100 << 20), pytest.raises(CorruptEntryError, match="at most") as caught:
            decode(whole, 1)
        assert (caught.value.rule, caught.value.key) == ("ENT-2", entry_key(1))


@pytest.mark.slow
def test_a_huge_text_is_counted_in_little_memory() -> None:
    """STO-25: 60 MB of arrays; masks as long as the text took 6 times as much."""
    for item in (b"[],", b"0,", b'"ab",'):
        body = b'{"x_":[' + item * ((60 << 20) // len(item)) + b"0]}"
        with little(20 << 20):
            assert "at most" in (amount_problem(body) or "")


@pytest.mark.parametrize("at", range(6))
def test_strings_that_cross_pieces_are_left_out(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENT-1: pieces of any length give the same text without strings."""
    text = rb'{"a":["[,\"\\",1,"",{"b":"]"}]}'
    monkeypatch.setattr(strict_json, "_CHUNK_BYTES", at + 1)
    assert strict_json._without_strings(text) == b"{:[,1,,{:}]}"


def test_a_writer_says_that_an_entry_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-25: before it writes; the table stays as it was."""
    table = new_table(memory())
    monkeypatch.setattr(strict_json, "CONTAINERS_MAX", 500)
    with pytest.raises(UnsupportedFeatureError, match="objects and arrays; at most 500"):
        table.append(rows(1), user_metadata={"many": [[] for _ in range(600)]})
    table.append(rows(2), user_metadata={"few": [[]]})
    assert ids(table) == [2]


def test_a_block_of_line_ends_is_not_split() -> None:
    """STO-25: 65 KB that would be 67 million entries."""
    block = gzip.compress(b"\n" * (64 << 20))
    with little(most=150 << 20), pytest.raises(CorruptEntryError, match="does not hold"):
        unpack(block, 16)


def test_blocks_are_unpacked_one_at_a_time() -> None:
    """STO-25, HIS-2: reading stops at bytes that the newest entry does not confirm."""
    store = with_history(64)
    bomb = gzip.compress(b"\n".join([b" " * (4 << 20)] * 15 + [b""]) + b"\n")
    for start in (0, 16, 32, 48):
        store.put(log_segment_key(start, start + 15), bomb)
    with little(most=200 << 20):
        assert read_compacted(store, 0, 63, 63) is None
        assert read_compacted(store, 0, VERSION_MAX, VERSION_MAX) is None


def test_rows_of_a_file_are_not_listed_beyond_what_a_file_has() -> None:
    """STO-25: an entry may say any number of rows."""
    assert len(row_span(5)) == 5
    assert list(row_span(3, 6)) == [3, 4, 5]
    for work in (lambda: row_span(ROWS_MAX + 1), lambda: live_mask(None, 1 << 62)):
        with little(), pytest.raises(CorruptTableError, match="at most"):
            work()
