"""An object is brought whole only if it is no longer than one of its name may be. Spec: STO-24."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tablefmt.log.object_names import (
    deletes_key,
    entry_key,
    log_segment_key,
    overflow_key,
    part_key,
    root_key,
)
from tablefmt.store import object_store
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import KINDS, TooLong, length_of, object_kind
from tests.tables import memory

NONCE = "ab" * 16
NAMES = {
    "_log/hint.json": "hint",
    entry_key(7): "entry",
    root_key(7, NONCE): "root of a checkpoint",
    log_segment_key(0, 15): "compacted log segment",
    part_key(NONCE): "part of a checkpoint",
    overflow_key(NONCE): "overflow metadata file",
    deletes_key(NONCE): "overflow metadata file",
    "_log/x": "other name below _log",
    "_delta_log/_last_checkpoint": "hint of a copy",
    "metadata/version-hint.text": "hint of a copy",
    "metadata/v7.metadata.json": "metadata of a copy",
    "metadata/tablefmt-start.json": "metadata of a copy",
    "_delta_log/_tablefmt_start.json": "metadata of a copy",
    "_delta_log/00000000000000000007.json": "other object of a copy",
    "_delta_log/00000000000000000007.checkpoint.parquet": "other object of a copy",
    "metadata/data-7-1-1-40161c2d44843bed.avro": "other object of a copy",
    "data/metadata/x.json": "other object",
    "_log/00000000000000000007.json\n": "other name below _log",
    "data/x\n.parquet": "other object",
}


def test_every_name_has_a_kind() -> None:
    """STO-24: the names that the log gives are those that the table knows."""
    assert {key: object_kind(key).name for key in NAMES} == NAMES
    assert set(NAMES.values()) == {kind.name for kind in KINDS}


def test_the_specification_says_the_same_lengths() -> None:
    """STO-24: lengths are compared by kind, in bytes."""
    page = Path("spec/store.md").read_text().partition("### STO-24")[2].partition("###")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([0-9,]+) \|", page, re.MULTILINE)
    said = {name.strip("`"): int(most.replace(",", "")) for name, most in rows}
    assert said == {kind.name: kind.most for kind in KINDS}


def test_a_file_of_many_gigabytes_is_not_read(tmp_path: Path) -> None:
    """STO-24: a sparse file of 20 GB uses no space on the disk."""
    store = LocalStore(str(tmp_path))
    for key in (entry_key(7), "_log/hint.json"):
        store.put(key, b"{")
        os.truncate(tmp_path / key, 20 << 30)
        many = store.get_many([key, entry_key(8)])
        assert [length_of(store.get(key)), length_of(many[0] or b""), many[1]] == [20 << 30] * 2 + [
            None
        ]
        assert store.get_range(key, 0, 1) == b"{"


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_the_longest_is_read_and_one_byte_more_is_not(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-24: whichever way it is asked for."""
    store = memory() if place == "memory" else LocalStore(str(tmp_path))
    most = object_store.HINT_BYTES_MAX
    store.put("_log/hint.json", b"x" * most)
    assert store.get("_log/hint.json") == b"x" * most
    assert store.get_many(["_log/hint.json"]) == [b"x" * most]
    store.put("_log/hint.json", b"x" * (most + 1))
    for body in (store.get("_log/hint.json"), store.get_many(["_log/hint.json"])[0]):
        assert isinstance(body, TooLong)
        assert (body, body.length, bool(body)) == (b"", most + 1, True)
