"""What stands on a checkpoint is the log as read from version 0, at every version."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tablefmt.commit.environment import SYSTEM
from tablefmt.log.hint import Hint, write_hint
from tablefmt.log.names import CHECKPOINTS, HINT, entry_key
from tablefmt.session.checkpoint import checkpoint_at, checkpoint_of
from tablefmt.snapshot.checkpoints import layout
from tablefmt.snapshot.checkpoints.write import Checkpoint, Known
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store
from tablefmt.store.wrap import CountingStore
from tests.snapshot.grown import changes_of, grow, said_of
from tests.tables import Clock, handle, ids, memory, new_table, rows


def written(store: Store, before: Known | None = None) -> Checkpoint:
    """A checkpoint of the newest version."""
    return checkpoint_of(LogView.open(store), SYSTEM.nonce, before)


@pytest.mark.parametrize("seed", [1, 2, 3, pytest.param(None, marks=pytest.mark.soak)])
def test_a_checkpoint_and_a_tail_are_the_whole_log(
    seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-1, RPL-1 .. RPL-5, DEL-4: each builds on the one before; older versions from entries."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print("seed", seed)
    chance = random.Random(seed)
    monkeypatch.setattr(layout, "SEGMENT_FILES", chance.choice([4, 10, 1000]))
    monkeypatch.setattr("tablefmt.snapshot.checkpoints.write.SEGMENT_FILES", 7)
    monkeypatch.setattr("tablefmt.snapshot.checkpoints.parts.ROW_GROUP", chance.choice([2, 1000]))
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=chance.random() < 0.5, clock=clock)
    table.alter.add_column("n", "int")
    before: Known | None = None
    roots: list[Checkpoint] = []
    for _ in range(5):
        grow(table, chance, 5)
        # By one who stays, or by one who opens the table at the last one.
        roots.append(written(store, before))
        before = roots[-1].known if chance.random() < 0.5 else None
    grow(table, chance, 3)
    entries = LogView.open(store, whole=True).entries_after(-1)
    whole = LogView(store, entries, whole=True)
    newest = whole.head.version
    expected = [said_of(LogView(store, entries[: v + 1]), v) for v in range(newest + 1)]
    described = [whole.metadata_version_at(v) for v in range(newest + 1)]
    for root in roots:
        write_hint(store, whole.head.table, Hint(root.version, root.path))
        view = LogView.open(store)
        assert (view.base.version, view.base.key) == (root.version, root.path)
        assert (view.head, view.created) == (whole.head, whole.created)
        assert view.read_head == whole.read_head
        for version in chance.sample(range(newest + 1), newest + 1):
            assert said_of(view, version) == expected[version], version
            assert view.metadata_version_at(version) == described[version]
        assert LogView.open(store).snapshot().history.sums() == whole.snapshot().history.sums()
        first = chance.randrange(1, newest + 1)
        assert changes_of(view, first, newest) == changes_of(whole, first, newest)
    at = chance.randrange(newest + 1)
    older = checkpoint_at(store, at, SYSTEM.nonce)
    write_hint(store, whole.head.table, Hint(newest, older.path))
    view = LogView.open(store)
    assert [said_of(view, v) for v in range(newest + 1)] == expected
