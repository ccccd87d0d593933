"""Removal of a dropped table's copies, with the data files that they show.

A copy is removed only if it was made from the table's log. Everything that another program wrote
blocks the removal, because its readers would lose their files. Spec: RET-8, XPT-13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tablefmt.errors import ExportBlockedError
from tablefmt.export.delta_vectors import vectors_prefix
from tablefmt.export.export_run import mark_problem
from tablefmt.export.export_target import started
from tablefmt.export.table_export import TARGETS, target_of
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location_checks import TABLE_FORMATS
from tablefmt.store.object_store import Store

_NAMES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "delta": (
        "_delta_log/",
        ("_last_checkpoint", r"[0-9]{20}\.checkpoint\.parquet", r"[0-9]{20}\.json"),
    ),
    "iceberg": (
        "metadata/",
        (
            r"snap-[0-9]+-[0-9a-f]{16}\.avro",
            r"(data|deletes|vectors)-[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{16}\.(avro|parquet|puffin)",
            r"v[0-9]+\.metadata\.json",
            r"version-hint\.text",
        ),
    ),
}
"""By target: the folder, and its names of XPT-20 and of Delta's section, in the order of removal.

The object that fixes the start goes last. Until then it tells that the folder is a copy's.
"""

assert set(_NAMES) == set(TARGETS)


@dataclass(frozen=True, slots=True)
class RemovableCopy:
    """The objects of one copy of a table."""

    target: str
    folder: str
    """Folder of the metadata, which is empty afterwards."""
    steps: tuple[tuple[str, ...], ...]
    """Keys, in the order of removal. Keys of one step may go in any order."""


def removable_copies(store: Store, view: LogView) -> list[RemovableCopy]:
    """Return the copies that were made from a table's log, with all their objects.

    A source that was imported in place is not a copy, nor is the copy of another table.

    Args:
        store: the table's root.
        view: its log, at the head.

    Raises:
        ExportBlockedError: another program wrote to a copy.
        StoreError, CorruptTableError.
    """
    copies = []
    for name, (folder, names) in _NAMES.items():
        keys = [one.key for one in store.list_after(folder)]
        newest = _newest_of(store, view, name) if keys else None
        if newest is not None:
            start = target_of(name).start_key
            steps = [[key for key in keys if re.fullmatch(folder + each, key)] for each in names]
            steps.append([key for key in keys if key == start])
            known = {key for step in steps for key in step if _number(key) <= _number(newest)}
            _check_known(store, name, folder, set(keys) - known)
            if name == "delta":
                prefix = vectors_prefix(view.head.table)
                steps.insert(0, [one.key for one in store.list_after(prefix)])
            held = tuple(tuple(step) for step in steps if step)
            copies.append(RemovableCopy(name, folder.rstrip("/"), held))
    return copies


def _newest_of(store: Store, view: LogView, name: str) -> str | None:
    """Return the newest commit of this table's copy, "" if it has none; None without a copy.

    Raises:
        ExportBlockedError: the newest commit was not made from the log.
    """
    target, table = target_of(name), view.head.table
    fixed = started(store, target.start_key)
    begun = fixed is not None and fixed[0] == table
    newest = target.newest(store)
    mark = None if newest is None else target.read_mark(newest[1])
    if newest is None or (not begun and (mark is None or mark.table != table)):
        return "" if begun else None
    why = "it was not written by tablefmt" if mark is None else mark_problem(mark, view)
    if why:
        raise ExportBlockedError(store.uri, name, newest[0], why)
    return newest[0]


def _number(key: str) -> int:
    """Return the number in the name of a foreign commit; 0 for other objects."""
    match = re.fullmatch(r"_delta_log/([0-9]{20})\.json|metadata/v([0-9]+)\.metadata\.json", key)
    return 0 if match is None else int(match[1] or match[2])


def _check_known(store: Store, name: str, folder: str, others: set[str]) -> None:
    """Refuse a copy among whose objects another program's metadata is."""
    foreign = min((key for key in others if TABLE_FORMATS[folder][1].fullmatch(key)), default=None)
    if foreign is not None:
        raise ExportBlockedError(store.uri, name, foreign, "it was not written by tablefmt")
