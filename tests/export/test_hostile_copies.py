"""Copies that somebody else wrote into: errors of the tree, and a table that goes on.

Spec: STO-25, SEC-1, XPT-1, XPT-22.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from pyroaring import BitMap64

from tablefmt.errors import (
    CorruptTableError,
    ExportBlockedError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.export import export_run
from tablefmt.export.delta_target import LAST_CHECKPOINT, MARK_BYTES
from tablefmt.export.delta_vectors import VectorFile, vector_bytes
from tablefmt.export.iceberg_metadata import HINT
from tablefmt.export.table_export import target_of
from tablefmt.log.bounded_avro import long_bytes
from tablefmt.store import memory_store
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import most_of
from tests.system.fuzzed_copies import avro_file
from tests.tables import handle, memory, new_table, rows

Json = dict[str, Any]


def copied(to: str) -> MemoryStore:
    """Return a table of three versions with a copy."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    table.export(to)  # type: ignore[arg-type]
    return store


def goes_on(store: MemoryStore, to: str) -> Exception:
    """Return the error of the next export. The table itself can be written, read and checked."""
    handle(store).append(rows(9))
    with pytest.raises(TablefmtError) as caught:
        handle(store).export(to)  # type: ignore[arg-type]
    assert handle(store).to_arrow(where="id = 9").num_rows == 1
    handle(store).verify()
    handle(store).vacuum(dry_run=True)
    return caught.value


def tags(change: Callable[[Json], object]) -> Callable[[bytes], bytes]:
    def changed(body: bytes) -> bytes:
        first, _, rest = body.partition(b"\n")
        line = orjson.loads(first)
        change(line["commitInfo"]["tags"])
        return orjson.dumps(line) + b"\n" + rest

    return changed


def state(**more: Any) -> Callable[[bytes], bytes]:
    def change(held: Json) -> None:
        known = orjson.loads(held["tablefmt.state"])
        held["tablefmt.state"] = orjson.dumps(known | more).decode()

    return tags(change)


@pytest.mark.parametrize(
    "change",
    [
        tags(lambda held: held.update({"tablefmt.version": "1e999"})),
        tags(lambda held: held.update({"tablefmt.version": "9" * 5000})),
        tags(lambda held: held.update({"tablefmt.shown": "-1"})),
        tags(lambda held: held.update({"tablefmt.shown": "3"})),
        tags(lambda held: held.update({"tablefmt.state": 7})),
        tags(lambda held: held.update({"tablefmt.state": "[]"})),
        state(spans=[]),
        state(spans=[[1]]),
        state(spans=7),
        state(changes={"1": [["int"]]}),
        state(features=[7]),
        state(time=1 << 63),
        state(checkpoint="x"),
        lambda body: b"[" * 5000,
        lambda body: b'{"a":' + b"[]," * (1 << 21) + b"\n",
        lambda body: b"",
    ],
)
def test_a_mark_of_another_shape_blocks_the_export(change: Callable[[bytes], bytes]) -> None:
    """XPT-1: a commit of Delta whose mark no exporter could have written."""
    store = copied("delta")
    key, body = target_of("delta").newest(store) or ("", b"")
    store.put(key, change(body))
    assert isinstance(goes_on(store, "delta"), ExportBlockedError)


@pytest.mark.parametrize(
    "body", [b"", b"9" * 5000, b"-5", b'{"version":1e99}', b"{}", b"[" * 99999]
)
def test_hints_of_copies_are_only_hints(body: bytes) -> None:
    """A hint that is wrong, far or endless costs requests alone."""
    for to, key in (("delta", LAST_CHECKPOINT), ("iceberg", HINT)):
        store = copied(to)
        store.put(key, body)
        handle(store).append(rows(9))
        assert handle(store).export(to).version == 3  # type: ignore[arg-type]
        assert handle(store).verify().ok


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_objects_that_are_too_long_are_not_read(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-24: a hint is skipped, the newest commit blocks the export; and none is written."""
    store = copied(to)
    hint = LAST_CHECKPOINT if to == "delta" else HINT
    store.put(hint, b" " * (most_of(hint) + 1))
    handle(store).append(rows(8))
    assert handle(store).export(to).exported == 3  # type: ignore[arg-type]
    monkeypatch.setattr(export_run, "most_of", lambda key: 100)
    table = handle(store)
    table.append(rows(10))
    before = sorted(one.key for one in store.list_after(""))
    with pytest.raises(UnsupportedFeatureError, match=r"at most 100 are allowed \(rule STO-24\)"):
        table.export(to)  # type: ignore[arg-type]
    assert sorted(one.key for one in store.list_after("")) == before
    key, _ = target_of(to).newest(store) or ("", b"")
    monkeypatch.setattr(memory_store, "most_of", lambda key: MARK_BYTES)
    store.put(key, b" " * (MARK_BYTES + 1))
    assert isinstance(goes_on(store, to), ExportBlockedError)


@pytest.mark.parametrize("name", ["schemas", "snapshots", "partition-specs", "snapshot-log"])
@pytest.mark.parametrize("value", [7, None, [], [7], [{}], {"a": []}])
def test_iceberg_metadata_of_another_shape_is_damage(name: str, value: Any) -> None:
    """XPT-22: metadata with a right mark that somebody changed elsewhere."""
    store = copied("iceberg")
    key, body = target_of("iceberg").newest(store) or ("", b"")
    store.put(key, orjson.dumps(orjson.loads(body) | {name: value}))
    handle(store).append(rows(9))
    try:
        handle(store).export("iceberg")
    except (CorruptTableError, ExportBlockedError):
        pass
    handle(store).verify()
    assert handle(store).to_arrow(where="id = 9").num_rows == 1


def test_a_manifest_list_that_would_take_much_memory_is_damage() -> None:
    """STO-25: a list without end, before an export and a check of the copy."""
    store = copied("iceberg")
    key = next(one.key for one in store.list_after("metadata/snap-"))
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": {
        "type": "array", "items": "null"}}]}  # fmt: skip
    store.put(key, avro_file(schema, [(1, long_bytes(1 << 40) + b"\0")], {}, "null"))
    assert "not a readable Avro file" in str(goes_on(store, "iceberg"))
    assert "not a readable Avro file" in str(handle(store).verify().findings[0])


@pytest.mark.slow
def test_a_checkpoint_of_a_copy_that_is_damaged_is_a_problem() -> None:
    """STO-26: a footer that ends Arrow's process is refused before Arrow reads it."""
    store = copied("delta")
    key = next(one.key for one in store.list_after("") if one.key.endswith("checkpoint.parquet"))
    body = bytearray(store.get(key))
    for at in range(9, 400, 3):
        damaged = bytes(body[:-at]) + b"\xff" + bytes(body[len(body) - at + 1 :])
        store.put(key, damaged)
        handle(store).verify()
    store.put(key, b"PAR1")
    assert "cannot be read" in str(handle(store).verify().findings[0])


def test_vectors_that_others_wrote_are_checked_before_the_library_reads_them() -> None:
    """DEL-2: the bitmap library does not check its bytes."""
    positions = BitMap64([1, 2, 3])
    file = VectorFile("ab" * 16, 1)
    file.add(vector_bytes(positions)[:4] + b"\xff" * 50)
    file.add(b"")
    file.add(vector_bytes(positions))
    read = VectorFile.read("ab" * 16, 1, bytes(file.body))
    assert read.find(vector_bytes(BitMap64([9])), BitMap64([9])) is None
    assert read.find(b"other", positions) is not None
