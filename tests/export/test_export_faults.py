"""Exports with a fault at any request of the store, reads included (XPT-1, XPT-3)."""

from __future__ import annotations

import pytest

from tablefmt import Table
from tablefmt.errors import ExportBlockedError, TablefmtError
from tablefmt.export import delta_target
from tablefmt.store.object_store import Store
from tablefmt.testing.faults import Fault, FaultyStore, Killed
from tests.tables import contents_of, handle, new_table, rows

COPIES = ("_delta_log/", "deletion_vector_", "metadata/")
DERIVED = ("checkpoint", "version-hint")
"""Parts of names of objects that only save time."""


def copied(store: Store) -> dict[str, bytes]:
    """Return all objects of copies."""
    return contents_of(store, *COPIES)


def history() -> Table:
    """Return a table with appends, deletes in a vector object and inline, and a restore."""
    table = new_table(partitioned=True)
    table.append(rows(*range(3000), p=["a", "b"] * 1500))
    table.delete("id % 7 = 0 OR id % 11 = 3")
    table.delete("id = 5")
    table.restore(version=2)
    return table


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("to", ["delta", "iceberg"])
@pytest.mark.parametrize(
    "fault",
    [
        # The same as a kill after the request before.
        pytest.param("kill_before", marks=pytest.mark.soak),
        "kill_after",
        "lost_request",
        "lost_answer",
    ],
)
def test_a_fault_at_any_request_changes_no_copy(
    monkeypatch: pytest.MonkeyPatch, to: str, fault: Fault
) -> None:
    """XPT-1: from nothing, and from a copy of version 1: the bytes of an undisturbed export."""
    monkeypatch.setattr(delta_target, "CHECKPOINT_EVERY", 2)
    table = history()
    store = table.context.store
    table.export(to, start=1)  # type: ignore[arg-type]
    whole = copied(store)
    first = {key: body for key, body in whole.items() if not _is_later(key)}
    for begun in ({}, first):
        stopped = 0
        for at in range(500):
            for key in copied(store):
                store.delete(key)
            for key, body in begun.items():
                store.put(key, body)
            faulty = FaultyStore(store, lambda n, verb, key, at=at: fault if n == at else None)
            try:
                handle(faulty).export(to, start=1)  # type: ignore[arg-type]
            except ExportBlockedError:
                raise
            except (Killed, TablefmtError):
                stopped += 1
            report = handle(store).export(to, start=1)  # type: ignore[arg-type]
            assert (report.exported, report.held) == (table.version, None), at
            found = copied(store)
            lost = {key for key in whole.keys() - found.keys() if "checkpoint" not in key}
            assert lost == set(), at
            same = {k: v for k, v in found.items() if not any(part in k for part in DERIVED)}
            assert same == {k: whole[k] for k in same}, at
            if not faulty.fired:
                break
        else:
            raise AssertionError("the export never ran without a fault")
        assert stopped > 5


def _is_later(key: str) -> bool:
    """Return whether an object of a copy is of a version after 1."""
    name = key.rpartition("/")[2]
    if key.startswith("_delta_log/"):
        return name.startswith("_last") or (name[0] == "0" and int(name[:20]) > 1)
    if key.startswith("deletion_vector_") or name == "version-hint.text":
        return True
    number = name.removeprefix("v").partition(".")[0] if name[0] == "v" else name.split("-")[1]
    return number.isdigit() and int(number) > 2
