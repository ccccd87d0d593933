"""Checkpoints that a view uses, and those it does not use again. Spec: CKP-5, CKP-6."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.errors import LostCheckpointError
from tablefmt.log.object_names import root_version
from tablefmt.snapshot import checkpoint_reader
from tablefmt.snapshot.checkpoint_base import NOTHING
from tablefmt.snapshot.checkpoint_reader import (
    BLAMED_MAX,
    CheckpointBase,
    listed_roots,
    read_base,
    usable_bases,
)
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import CountingStore
from tests.tables import memory, new_table, rows


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """Checkpoints of the versions 2, 4 and 6; none names a part of another one."""
    store = memory()
    table = new_table(store)
    for version in range(1, 7):
        table.overwrite(rows(version))
        if version % 2 == 0:
            table.checkpoint()
    return store


def lost(key: str) -> LostCheckpointError:
    return LostCheckpointError("it is missing", key=key, rule="CKP-3")


def test_usable_checkpoints_are_the_newest_ones_first(store: MemoryStore) -> None:
    """CKP-6: up to a version, without some, and at most as many as asked for."""
    roots = listed_roots(store)

    def versions(last: int, **how: object) -> list[int]:
        return [base.version for base in usable_bases(store, last, **how)]  # type: ignore[arg-type]

    assert versions(6) == [6, 4, 2]
    assert (versions(5), versions(4), versions(1)) == ([4, 2], [4, 2], [])
    assert versions(6, without=frozenset(roots[1:2])) == [6, 2]
    assert [versions(6, tries=n) for n in (0, 1, 2)] == [[], [6], [6, 4]]
    assert versions(5, tries=1) == [4]


def test_a_base_that_is_sound_stays(store: MemoryStore) -> None:
    """CKP-6: another thread may have replaced the one with the lost part already."""
    base = read_base(store, listed_roots(store)[0])
    (part,) = [segment.files.path for segment in base.files.segments]  # type: ignore[attr-defined]
    counting = CountingStore(store)
    kept = CheckpointBase(base)
    assert kept.another(counting, lost("_log/checkpoints/parts/other.parquet"), 6) is base
    assert counting.requests == []
    assert kept.another(store, lost(part), 6).version == 4
    assert kept.base.version == 4
    again = CheckpointBase(NOTHING)
    assert again.another(store, lost(part), 6).version == 4


def test_an_entry_that_contradicts_all_checkpoints_is_read_itself(store: MemoryStore) -> None:
    """CKP-9: after two roots that contradict the log, the entries alone are read."""
    kept = CheckpointBase(read_base(store, listed_roots(store)[0]))
    found = [kept.another(store, lost(root), 6).version for root in listed_roots(store)]
    assert BLAMED_MAX == 2
    assert found[1:] == [-1, -1]


def test_an_older_version_is_read_without_roots_that_contradict_the_log(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-9: the next older checkpoint first; after two of them, the entries alone."""
    roots = {version: key for key in listed_roots(store) if (version := root_version(key))}
    tried: list[int] = []
    real = checkpoint_reader.replay

    def contradicting(store: Any, files: Any, version: int, compacted_to: int = -1) -> Any:
        tried.append(files.version)
        if files.version in roots:
            raise lost(roots[files.version])
        return real(store, files, version, compacted_to)

    monkeypatch.setattr(checkpoint_reader, "replay", contradicting)
    base = read_base(store, roots[6])
    found = CheckpointBase(base).older(store, base.files, 5)
    assert (tried, found.version) == ([4, 2, -1], 5)
