"""Plan of a change read: rows deleted and added, and the files and columns to read for them.

The plan needs only the entries of the range. It reads earlier state only for files that a commit of
the range deleted rows from. A restore can bring back a dropped column. In between, some files may
hold its values, but a compaction leaves them out. So these values are NULL, to make the result
independent of compactions. Spec: INC-3 .. INC-7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.changes.change_schema import dropped_columns, lost_columns, without_columns
from tablefmt.changes.changed_rows import net_files
from tablefmt.changes.commit_rows import DELETE, INSERT, WENT, CommitFacts, FileChanges, Touched
from tablefmt.changes.version_range import Covered
from tablefmt.errors import InvalidArgumentError, LostCheckpointError
from tablefmt.log.log_reader import WINDOW_MAX
from tablefmt.log.overflow_metadata import read_overflows
from tablefmt.model.import_layouts import with_layouts
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, OverflowFile, StoredEntry
from tablefmt.model.schema import Schema
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.folding import fold
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.segments import find_files, joined
from tablefmt.snapshot.table_state import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class TouchedRange:
    """Files that the commits of a range touched, and the commits that change the table."""

    touched: Touched
    commits: Sequence[CommitFacts]

    def changes(self, view: LogView, mask: NDArray[np.bool_] | None = None) -> list[FileChanges]:
        """Return changes in the order of versions; within a version, deleted rows come first.

        Args:
            view: the log, at or after the end of the range.
            mask: leave out commits that touch none of these files of `touched`; None: none.

        Raises:
            CorruptTableError: as `plan_changes`.
        """
        versions = None if mask is None else self.touched.touching(mask)
        changes: list[FileChanges] = []
        for commit in self.commits:
            if versions is not None and commit.version not in versions:
                continue
            before = view.metadata_at(max(commit.version - 1, 0))
            after = view.metadata_at(commit.version)
            imports = {**after.imports, **before.imports}
            found = self.touched.by(commit, before, after)
            changes += [replace(one, files=with_layouts(one.files, imports)) for one in found]
        return changes


def plan_changes(view: LogView, range_: Covered) -> list[FileChanges]:
    """Return changes in the order of versions; within a version, deleted rows come before added
    rows.

    Args:
        view: the log, at or after the end of the range.
        range_: the versions.

    Raises:
        VersionNotFoundError: the range begins at the base version of the log.
        CorruptTableError: any rule of replay, deletion vectors or lineage. Examples: a row deleted
            twice (DEL-4), a deletion of a deleted row (DEL-1), runs that differ from the rows of an
            output (LIN-2).
    """
    found = touched_in(view, range_)
    return [] if found is None else found.changes(view)


def touched_in(
    view: LogView, range_: Covered, note: Callable[[Entry], None] | None = None
) -> TouchedRange | None:
    """Return the files that a range touched; None if there are none.

    Args:
        view: the log, at or after the end of the range.
        range_: the versions.
        note: called with each entry of the range, in order.

    Raises:
        As `plan_changes`.
    """
    if range_.empty:
        return None
    before = range_.before
    history = FileHistory()
    if before >= 0:
        history = _as_of(view, history, before)
    commits: list[CommitFacts] = []
    for first in range(before + 1, range_.last + 1, WINDOW_MAX):
        entries = view.entries_after(first - 1, min(range_.last, first + WINDOW_MAX - 1))
        for entry in map(_entry, entries):
            if note is not None:
                note(entry)
            if entry.operation.cls not in NOT_LOGICAL:
                commits.append(CommitFacts.of(entry))
        sides = read_overflows(view.store, entries)
        if before >= 0:
            history = _with_earlier(view, before, history, _taken_out(entries, sides[1]))
        history = fold(history, map(_entry, entries), *sides)
    if not history.segments:
        return None
    touched = Touched(joined(history.segments), Deltas.joined(history.deltas))
    return TouchedRange(touched, commits)


def rows_at(view: LogView, version: int, change: str, stamp: int) -> FileChanges:
    """Return all rows of a version as if the commit `stamp` had made this change to all of them.

    Raises:
        CorruptTableError: as `LogView.snapshot`.
    """
    return rows_of(view.snapshot(version), change, stamp, view.timestamp_at(stamp))


def rows_of(snapshot: Snapshot, change: str, stamp: int, when: int) -> FileChanges:
    """Return all rows of a snapshot as if the commit `stamp` at `when` had made the change."""
    files = snapshot.with_vectors(snapshot.files)
    if "vector" not in files.column_names:
        files = files.append_column("vector", pa.nulls(files.num_rows, pa.large_binary()))
    return FileChanges(stamp, when, change, snapshot.partition_ids, files)


def _taken_out(
    entries: Sequence[StoredEntry], overflow_deletes: dict[int, pa.Table]
) -> NDArray[np.int64]:
    """Return the ids of the files that entries remove or delete rows from; ascending."""
    ids = [np.zeros(0, np.int64)]
    for entry in map(_entry, entries):
        ids.append(np.asarray(entry.remove, np.int64))
        if isinstance(entry.delete, OverflowFile):
            ids.append(overflow_deletes[entry.version]["file"].to_numpy())
        elif entry.delete is not None:
            ids.append(np.asarray(entry.delete.file, np.int64))
    return np.unique(np.concatenate(ids))


def _with_earlier(
    view: LogView, before: int, history: FileHistory, ids: NDArray[np.int64]
) -> FileHistory:
    """Return the history extended by the given files that were live at `before`. None was touched
    since.
    """
    totals = view.totals_at(before)
    ids = ids[ids < totals.next_id]
    found = find_files(history.segments, ids)
    ids = np.setdiff1d(ids, np.concatenate([ids[:0], *(ids[at] for _, _, at in found)]))
    if not len(ids):
        return history
    earlier = view.files_at(before)
    while True:
        try:
            chosen = earlier.only(earlier.marked(ids))
            # The types of its columns may have changed since.
            return history.with_files(_as_of(view, chosen, before, history.version))
        except LostCheckpointError as lost:
            earlier = view.instead(lost, before)


def _as_of(
    view: LogView, history: FileHistory, version: int, types_of: int | None = None
) -> FileHistory:
    """Return `FileHistory.as_of`, with the column types of that version or of a later one."""
    metadata = view.metadata_at(version if types_of is None else types_of)
    described = view.metadata_version_at(version)
    return history.as_of(version, view.totals_at(version), metadata, described)


def _entry(stored: StoredEntry) -> Entry:
    return stored.entry


Contents = Literal["changes", "net", "append"]
CONTENTS = get_args(Contents)


def known_content(content: str) -> str:
    """Return one of CONTENTS. Raises InvalidArgumentError."""
    if content not in CONTENTS:
        raise InvalidArgumentError(
            f"content {content!r} is unknown; expected one of {', '.join(CONTENTS)}"
        )
    return content


def planned(
    view: LogView, range_: Covered, content: str, schema: Schema, *, whole: bool = False
) -> list[FileChanges]:
    """Return the changes to read, in order. They may contain equal rows that cancel.

    Args:
        view: the log, at or after the end of the range.
        range_: the versions.
        content: one of CONTENTS.
        whole: for "net", return all rows of both ends, without cancelling.
        schema: the schema of the result.

    Raises:
        CorruptTableError: as `plan_changes`. UnsupportedFeatureError: as `lost_columns`.
    """
    if not range_.is_kept:
        end = rows_at(view, range_.last, INSERT, range_.last)
        then = view.metadata_at(range_.last).schema
        return [without_columns(end, dropped_columns(schema, then))]
    if range_.empty:
        return []
    lost = lost_columns(view, range_, schema, ends=content != "changes")
    before = range_.before
    if whole:
        changes = _both_ends(view, range_)
        versions = [before if c.change in WENT else range_.last for c in changes]
    elif content == "changes":
        changes = plan_changes(view, range_)
        versions = [c.version - (c.change in WENT) for c in changes]
    else:
        # A commit can delete rows of files without the column, so it does not show their values.
        every = _both_ends(view, range_) if lost else plan_changes(view, range_)
        changes = net_files(every, range_.last, view.timestamp_at(range_.last))
        versions = [before if c.change in WENT else range_.last for c in changes]
    if not lost:
        return changes
    ids = [dropped_columns(schema, view.metadata_at(max(0, v)).schema) for v in versions]
    return [without_columns(*each) for each in zip(changes, ids, strict=True)]


def _both_ends(view: LogView, range_: Covered) -> list[FileChanges]:
    """Return a deletion of every row before the range, and an insertion of every row at its end."""
    came = rows_at(view, range_.last, INSERT, range_.last)
    if range_.before < 0:
        return [came]
    return [rows_at(view, range_.before, DELETE, range_.last), came]
