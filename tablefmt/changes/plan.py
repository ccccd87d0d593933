"""Which files' rows a range of versions inserted and deleted. Spec: INC-3, INC-4.

Planned from the entries of the range. What was before it is looked at for nothing but files that a
commit of the range took out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.changes.range import Covered
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.log.reader import WINDOW_MAX
from tablefmt.log.side_files import read_sides
from tablefmt.model.entry import NOT_LOGICAL, Entry, SideFile, StoredEntry
from tablefmt.snapshot.deletes import Deltas, with_vectors
from tablefmt.snapshot.file_columns import of_partitioning
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.folding import fold
from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.segments import Segment, joined

DELETE = "delete"
INSERT = "insert"

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


NO_FILES = pa.schema(
    [("path", pa.string()), *((name, pa.int64()) for name in ("size", "rows", "deleted", "id"))]
).empty_table()
"""What `FileChanges.files` has at least."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files whose rows one commit inserted, or deleted, as a whole."""

    version: int
    timestamp: int
    """The entry's commit timestamp, µs UTC."""
    change: str
    """INSERT or DELETE."""
    partition_ids: frozenset[int]
    """The partition columns that files had when these came or went: later they may be others."""
    files: pa.Table
    """As `read_files` takes them: those deleted have the rows that were live till then."""


def plan_changes(view: LogView, range_: Covered) -> list[FileChanges]:
    """Changes in the order of versions; within one, deletes first.

    Args:
        view: the log, at or after the end of the range.
        range_: the versions.

    Raises:
        UnsupportedFeatureError: INC-4, a commit in the range changed rows otherwise.
        VersionNotFoundError: the range begins at what the log stands on.
        CorruptTableError: any rule of replay.
    """
    if range_.empty:
        return []
    before = range_.first - 1
    history = FileHistory()
    if before >= 0:
        history = history.as_of(before, view.totals_at(before), view.metadata_at(before))
    times: dict[int, int] = {}
    for first in range(range_.first, range_.last + 1, WINDOW_MAX):
        entries = view.entries_after(first - 1, min(range_.last, first + WINDOW_MAX - 1))
        for stored in entries:
            if stored.entry.operation.cls not in NOT_LOGICAL:
                _check_whole_files(stored.entry)
                times[stored.version] = stored.entry.timestamp
        sides = read_sides(view.store, entries)
        if before >= 0:
            taken_out = _taken_out(entries, sides[1])
            history = _with_earlier(view, before, history, taken_out)
        history = fold(history, [stored.entry for stored in entries], *sides)
    return _changes(history, times, view)


def _check_whole_files(entry: Entry) -> None:
    """Refuse a commit that changed rows by other means than whole files (INC-4)."""
    if entry.delete is not None or entry.lineage is not None:
        raise UnsupportedFeatureError(
            f"version {entry.version} changed single rows, and this version cannot read such "
            "changes yet; read up to the version before it, or read whole snapshots",
            ["changes:row-deletes"],
        )


def _taken_out(
    entries: Sequence[StoredEntry], side_deletes: dict[int, pa.Table]
) -> NDArray[np.int64]:
    """Ids of the files that entries remove, or take rows out of; ascending."""
    ids = [np.zeros(0, np.int64)]
    for entry in (stored.entry for stored in entries):
        ids.append(np.asarray(entry.remove, np.int64))
        if isinstance(entry.delete, SideFile):
            ids.append(side_deletes[entry.version]["file"].to_numpy())
        elif entry.delete is not None:
            ids.append(np.asarray(entry.delete.file, np.int64))
    return np.unique(np.concatenate(ids))


def _with_earlier(
    view: LogView, before: int, history: FileHistory, ids: NDArray[np.int64]
) -> FileHistory:
    """The history with those of the files that were there at `before`; none was touched since."""
    totals = view.totals_at(before)
    ids = ids[ids < totals.next_id]
    for _, _, lines in list(history.find(ids)):
        ids = np.setdiff1d(ids, ids[lines])
    if not len(ids):
        return history
    earlier = view.files_at(before)
    # By now its columns may have other types.
    metadata = view.metadata_at(history.version)
    return history.with_files(earlier.only(earlier.marked(ids)).as_of(before, totals, metadata))


def _changes(history: FileHistory, times: dict[int, int], view: LogView) -> list[FileChanges]:
    """What the commits did whose timestamps are given, to files that are all in the history."""
    if not history.segments:
        return []
    whole, deltas = joined(history.segments), Deltas.joined(history.deltas)
    logical = np.fromiter(times, np.int64, len(times))
    removed, added = (
        _by_version(at, whole.files.ids, logical) for at in (whole.removed, whole.files.added)
    )
    changes = []
    for version in sorted(removed.keys() | added.keys()):
        for change, places in ((DELETE, removed), (INSERT, added)):
            if version in places:
                # Those that went had the rows they had before.
                at = version - (change == DELETE)
                by = frozenset(view.metadata_at(at).partition_by)
                files = of_partitioning(_files(whole, deltas, places[version], at), by)
                changes.append(FileChanges(version, times[version], change, by, files))
    return changes


def _files(whole: Segment, deltas: Deltas, places: NDArray[np.int64], version: int) -> pa.Table:
    """Files with the rows they had at a version: those that went before came and went earlier."""
    ids = whole.files.ids[places]
    files = whole.files.table.take(pa.array(places)).append_column("id", pa.array(ids))
    deleted = pa.array(deltas.counts(ids, version))
    return with_vectors(files.append_column("deleted", deleted), deltas, version)


def _by_version(
    versions: NDArray[np.int64], ids: NDArray[np.int64], logical: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Places of files, in the order of ids, by the version that touched them, if it is logical."""
    at = np.flatnonzero(np.isin(versions, logical))
    order = at[np.lexsort((ids[at], versions[at]))]
    return dict(_runs(order, versions[order]))


def _runs(
    places: NDArray[np.int64], versions: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    starts = np.flatnonzero(np.diff(versions, prepend=-1))
    ends = np.append(starts[1:], len(versions))[: len(starts)]
    for start, end in zip(starts, ends, strict=True):
        yield int(versions[start]), places[start:end]
