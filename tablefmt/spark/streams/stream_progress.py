"""Offsets of a stream, the effect of each commit, and the limits of a batch. Pure.

Spark stores the offset as text in its checkpoint. Spec: STR-2, STR-3, STR-4.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tablefmt.changes.commit_rows import RESTORE
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, OverflowFile
from tablefmt.spark.streams.stream_options import StreamOptions

FORMAT = 1
"""Format of the offset text. Higher formats are rejected."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Next file to read: a version, and an index in its files.

    Positions of a stream are ordered: its first snapshot comes before the changes.
    """

    version: int
    files: int = 0
    """Number of files of the version that were read."""
    snapshot: bool = False
    """True for files of the stream's first snapshot, not of the commit."""

    @property
    def known(self) -> int:
        """Newest version that the position depends on. -1 for none."""
        return self.version if self.snapshot or self.files else self.version - 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in the log of one table, and the start of the stream."""

    table: str
    """The table's id."""
    position: Position
    entry: str | None
    """SHA-256 of the entry of `position.known`. None if that is -1."""
    began: Position

    def to_json(self) -> str:
        """Return the offset as text. Equal offsets have equal texts."""
        return json.dumps(
            {
                "format": FORMAT,
                "table": self.table,
                "version": self.position.version,
                "files": self.position.files,
                "snapshot": self.position.snapshot,
                "entry": self.entry,
                "began": self.began.version,
                "beganWithSnapshot": self.began.snapshot,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> StreamOffset:
        """Return the offset of a text from `to_json`.

        Raises:
            InvalidRangeError: the text is damaged, or no offset of tablefmt.
            UnsupportedFeatureError: a later release wrote it.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise _malformed(text) from None
        if not isinstance(values, dict) or type(values.get("format")) is not int:
            raise _malformed(text)
        if values["format"] > FORMAT:
            raise UnsupportedFeatureError(
                "the stream's checkpoint was written by a later release: its offsets have format "
                f"{values['format']}, and this release reads {FORMAT}; use the later release",
                ["stream:offset"],
            )
        offset = _offset(values)
        if offset is None:
            raise _malformed(text)
        return offset


_KINDS = {
    "format": int,
    "table": str,
    "version": int,
    "files": int,
    "snapshot": bool,
    "entry": str,
    "began": int,
    "beganWithSnapshot": bool,
}


def _offset(values: dict[str, Any]) -> StreamOffset | None:
    """Return the offset with these values. None if they are invalid."""
    if values.keys() != _KINDS.keys():
        return None
    for name, kind in _KINDS.items():
        if type(values[name]) is not kind and not (name == "entry" and values[name] is None):
            return None
        if kind is int and values[name] < 0:
            return None
    position = Position(values["version"], values["files"], values["snapshot"])
    began = Position(values["began"], 0, values["beganWithSnapshot"])
    if (values["entry"] is None) != (position.known < 0) or began.version > position.version:
        return None
    if position.snapshot and (not began.snapshot or began.version != position.version):
        return None
    return StreamOffset(values["table"], position, values["entry"], began)


def _malformed(text: str) -> InvalidRangeError:
    return InvalidRangeError(
        f"the stream's checkpoint has an offset that tablefmt did not write: {text:.200}. It is "
        "damaged, or of another source; start the stream with a new checkpoint"
    )


class Effect(Enum):
    """Effect of a commit on the rows of the table."""

    NOTHING = "nothing"
    APPENDED = "appended"
    """Added rows, and removed none."""
    DELETED = "deleted"
    """Removed rows, and added none."""
    CHANGED = "changed"
    """Added and removed rows, or restored an earlier version."""


def effect_of(entry: Entry) -> Effect:
    """Return the effect of a commit, from its entry alone.

    Compaction has no effect, and files that lineage names as outputs are no added rows. But each
    removed file counts as removed rows: the entry does not say whether all its rows were copied.
    """
    if entry.operation.cls in NOT_LOGICAL:
        return Effect.NOTHING
    copied = 0 if entry.lineage is None else len(set(entry.lineage.output))
    added = (0 if entry.add is None else len(entry.add)) > copied
    removed = len(entry.remove) > 0 or _marks_older_files(entry)
    if not added and not removed:
        return Effect.NOTHING
    if entry.operation.name == RESTORE or (added and removed):
        return Effect.CHANGED
    return Effect.APPENDED if added else Effect.DELETED


def _marks_older_files(entry: Entry) -> bool:
    """Return whether a commit deletes rows of files that it did not add itself.

    Imports and clones add files that had lost rows before (IMP-5, CLN-1).
    """
    if entry.delete is None or entry.previous is None:
        return False
    if isinstance(entry.delete, OverflowFile) or entry.add is None:
        return True
    return entry.delete.file[0] < entry.totals.next_id - len(entry.add)


def is_read(entry: Entry, options: StreamOptions) -> bool:
    """Return whether the stream reads a commit. False: the commit is skipped.

    Raises:
        UnsupportedFeatureError: the commit changes rows, and a stream of appended rows cannot
            represent that.
    """
    effect = effect_of(entry)
    if effect is Effect.NOTHING:
        return False
    if options.changes or effect is Effect.APPENDED:
        return True
    if options.skip_changes or (options.ignore_deletes and effect is Effect.DELETED):
        return False
    deletes = effect is Effect.DELETED
    does = "deletes rows" if deletes else "deletes or updates rows"
    ignoring = "ignoreDeletes=true skips commits that only delete, " if deletes else ""
    raise UnsupportedFeatureError(
        f"version {entry.version} ({entry.operation.name}) {does}, but the stream returns appended "
        "rows only. Nothing of this version was read. With readChangeFeed=true the stream returns "
        f"these changes, too; {ignoring}skipChangeCommits=true skips all such commits",
        ["stream:change-commit"],
    )


def touched_files(entry: Entry) -> int:
    """Return the most files that are read for a commit."""
    marked = 0 if entry.delete is None else len(entry.delete)
    return (0 if entry.add is None else len(entry.add)) + len(entry.remove) + marked


@dataclass(slots=True)
class Allowance:
    """Remaining limits of a batch. None is no limit."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    begun: bool = False
    """True if the batch has a file."""

    @property
    def is_used_up(self) -> bool:
        """True if a limit is reached."""
        return any(
            limit is not None and limit <= 0 for limit in (self.files, self.bytes, self.rows)
        )

    def take(self, sizes: NDArray[np.int64], rows: NDArray[np.int64], *, whole: bool) -> int:
        """Take files from the first on, and return their number: 0 if a limit is reached already.

        Args:
            sizes: the sizes of the files in their order, in bytes.
            rows: their numbers of rows.
            whole: True takes all files or none.
        """
        count = 0 if self.is_used_up else len(sizes)
        if count and not whole:
            if self.files is not None:
                count = min(count, self.files)
            if self.bytes is not None:
                # The file that reaches the limit is the last one taken.
                sums = np.cumsum(sizes[:count])
                count = min(count, int(np.searchsorted(sums, self.bytes)) + 1)
            if self.rows is not None:
                # A file that would exceed the limit waits for the next batch.
                fitting = int(np.searchsorted(np.cumsum(rows[:count]), self.rows, side="right"))
                count = min(count, max(fitting, 0 if self.begun else 1))
        self.begun = self.begun or count > 0
        if self.files is not None:
            self.files -= count
        if self.bytes is not None:
            self.bytes -= int(sizes[:count].sum())
        if self.rows is not None:
            self.rows -= int(rows[:count].sum())
        return count
