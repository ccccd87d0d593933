"""A repair exports a wrong copy again, also after a kill at any request. Spec: VFY-4, XPT-1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tablefmt.export.export_check import CHECKS, copy_problems
from tablefmt.export.table_export import target_of
from tablefmt.maintenance.repair import repair
from tablefmt.maintenance.verify import verify
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.testing import FaultyStore, Killed
from tests.system.transactions.world import copy_to
from tests.tables import contents_of, handle, ids, memory, new_table, rows

HEAD = 5


def table_with_copy(name: str) -> MemoryStore:
    store = memory()
    table = new_table(store)
    table.alter.set_properties({"export": name})
    for number in range(4):
        table.append(rows(number))
    assert copy_problems(LogView.open(store)) == []
    return store


def spoil_commit(store: Store, name: str) -> None:
    """Change an object in the middle of the copy, so that its readers see other rows."""
    if name == "delta":
        (key,) = [k.key for k in store.list_after("_delta_log/") if k.key.endswith("3.json")]
        lines = store.get(key).splitlines()
        store.put(key, b"\n".join(line for line in lines if not line.startswith(b'{"add"')))
    else:
        key = max(k.key for k in store.list_after("metadata/") if k.key.endswith(".avro"))
        store.put(key, store.get(key)[:-9])


def spoil_pointer(store: Store, name: str) -> None:
    """Remove the newest commit but one, which the copy's readers need."""
    folder = {"delta": "_delta_log/", "iceberg": "metadata/snap-"}[name]
    keys = [k.key for k in store.list_after(folder) if k.key.endswith(("4.json", ".avro"))]
    store.delete(keys[-1])


@pytest.mark.parametrize("name", ["delta", "iceberg"])
@pytest.mark.parametrize("spoil", [spoil_commit, spoil_pointer])
def test_a_wrong_copy_is_exported_again(name: str, spoil: Callable[[Store, str], None]) -> None:
    damaged = table_with_copy(name)
    spoil(damaged, name)
    (finding,) = verify(damaged).findings
    assert finding.kind == "wrong-copy"
    kept = contents_of(damaged)
    assert repair(damaged).ok
    assert contents_of(damaged) == kept
    stopped = done = 0
    for at in range(3, 400, 4):
        store = copy_to(damaged, memory())
        plan: Any = lambda i, verb, key, at=at: "kill_after" if i == at else None  # noqa: E731
        faulty = FaultyStore(store, plan)
        try:
            done = repair(faulty, dry_run=False).ok
        except Killed:
            stopped += 1
        assert {one.kind for one in verify(store).findings} <= {"wrong-copy"}
        assert ids(handle(store)) == [0, 1, 2, 3]
        assert repair(store, dry_run=False).ok
        if not faulty.fired["kill_after"]:
            break
    assert done
    assert stopped >= 3
    _assert_copied(store, name)
    handle(store).append(rows(4))
    _assert_copied(store, name)


def _assert_copied(store: Store, name: str) -> None:
    """The copy has the files of the newest version, by its own rules."""
    view = LogView.open(store)
    newest = target_of(name).newest(store)
    assert newest is not None
    mark = target_of(name).read_mark(newest[1])
    assert mark is not None
    assert mark.shown == view.head.version
    files = view.snapshot().files
    assert CHECKS[name](store, mark.version).keys() == set(files["path"].to_pylist())
    assert verify(store).ok


def test_a_copy_of_another_program_is_left_alone() -> None:
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    store.put("_delta_log/" + "0" * 20 + ".json", b'{"commitInfo":{}}')
    assert verify(store).ok
    done = repair(store, dry_run=False)
    assert done.steps == ()
    assert store.get("_delta_log/" + "0" * 20 + ".json") == b'{"commitInfo":{}}'
