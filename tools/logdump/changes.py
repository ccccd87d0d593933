"""Find the rows that an entry deleted and added: written from INC-5 alone.

Sets of positions are runs, as in `logdump.rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logdump.rows import Runs, columns_of, join, positions
from logdump.rules import TIMELESS, side_columns
from logdump.shapes import Json

KINDS = ("delete", "update_preimage", "update_postimage", "insert")
"""Change types in the order of a result (INC-3)."""


def row_changes(
    entry: Json,
    added: list[Json],
    before: dict[int, Json],
    load: Callable[[str], bytes],
) -> list[Json]:
    """Return the entry's row changes by file and kind, with `type`, `file`, `path` and `rows`.

    `added` are the files that it adds, `before` the files that were live before it. Equal rows that
    a RESTORE moves are included (INC-6).
    """
    if entry["operation"]["class"] in TIMELESS:
        return []
    marks = _marks(entry, load)
    outputs, carried = _lineage(entry, added)
    removed = [before[identity] for identity in entry.get("remove", ())]
    stays = _stays(removed, added, marks)
    told: dict[str, list[Json]] = {kind: [] for kind in KINDS}

    def tell(kind: str, file: Json, rows: Runs, *others: Runs) -> None:
        for other in others:
            rows = without(rows, other)
        if rows:
            named = {"file": file["id"], "path": file["path"]}
            told[kind].append({"type": kind, **named, "rows": [[*run] for run in rows]})

    gone = {file["id"] for file in removed}
    for identity, file in sorted(before.items()):
        deleted, updated = marks.get(identity, ([], []))
        same = (carried.get(identity, []), stays.get(identity, []))
        if identity in gone:
            deleted = without(without([(0, file["rows"])], _runs(file["gone"])), updated)
        tell("delete", file, deleted, *same)
        tell("update_preimage", file, updated, *same)
    for file, image in zip(added, _updated(entry, added, load), strict=True):
        rows: Runs = [] if file["id"] in outputs else [(0, file["rows"])]
        marked = marks.get(file["id"], ())
        kind = "update_postimage" if image else "insert"
        tell(kind, file, rows, *marked, stays.get(file["id"], []))
    return [one for kind in KINDS for one in told[kind]]


def without(runs: Runs, other: Runs) -> Runs:
    """Return the positions of the first that are not in the second."""
    left: Runs = []
    for first, end in runs:
        at = first
        for start, stop in other:
            if stop <= at or start >= end:
                continue
            if start > at:
                left.append((at, start))
            at = max(at, stop)
        if at < end:
            left.append((at, end))
    return left


def _runs(pairs: list[Any]) -> Runs:
    return [(first, end) for first, end in pairs]


def _marks(entry: Json, load: Callable[[str], bytes]) -> dict[int, tuple[Runs, Runs]]:
    """Return the deleted rows and the updated rows by file."""
    if "delete" not in entry:
        return {}
    columns = columns_of(entry, load)
    lines = zip(columns["file"], columns["deleted"], columns["updated"], strict=True)
    return {file: (positions(deleted), positions(updated)) for file, deleted, updated in lines}


def _lineage(entry: Json, added: list[Json]) -> tuple[set[int], dict[int, Runs]]:
    """Return the files with only copied rows, and the copied rows by input (LIN-1)."""
    lineage = entry.get("lineage")
    if lineage is None:
        return set(), {}
    carried: dict[int, Runs] = {}
    names = ("input", "start", "rows", "dropped")
    for identity, start, rows, dropped in zip(*(lineage[name] for name in names), strict=True):
        run = without([(start, start + rows)], positions(dropped))
        carried[identity] = join(sorted(carried.get(identity, []) + run))
    return {added[at]["id"] for at in lineage["output"]}, carried


def _stays(
    removed: list[Json], added: list[Json], marks: dict[int, tuple[Runs, Runs]]
) -> dict[int, Runs]:
    """Return the rows, by id, of files that the entry removes and adds again with the same path."""
    paths = {file["path"]: file for file in added}
    stays: dict[int, Runs] = {}
    for file in removed:
        again = paths.get(file["path"])
        if again is not None and again["rows"] == file["rows"]:
            live = without([(0, file["rows"])], _runs(file["gone"]))
            for each in marks.get(again["id"], ()):
                live = without(live, each)
            stays[file["id"]] = stays[again["id"]] = live
    return stays


def _updated(entry: Json, added: list[Json], load: Callable[[str], bytes]) -> list[bool]:
    """Return, for each added file, True if its rows are new versions of other rows."""
    add = entry.get("add", {})
    side = add.get("side")
    columns = side_columns(load(side["path"]), side["files"]) if side else add
    return columns.get("updated") or [False] * len(added)
