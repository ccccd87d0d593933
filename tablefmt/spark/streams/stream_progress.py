"""How far a stream has come, what it makes of each commit, how much goes into a batch. Pure.

Spark keeps the offset as text in its checkpoint. Spec: STR-2, STR-3, STR-4.
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
from tablefmt.model.log_entry import NOT_LOGICAL, Entry
from tablefmt.spark.streams.stream_options import StreamOptions

FORMAT = 1
"""Of the text. A reader refuses higher ones."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """What is read next: a version, from one of its files on.

    Positions of one stream are ordered: the snapshot that it began with comes before the changes.
    """

    version: int
    files: int = 0
    """How many of its files were read."""
    snapshot: bool = False
    """They are those of the snapshot that the stream began with, and not what the commit did."""

    @property
    def known(self) -> int:
        """The newest version that this relies on; -1 for none."""
        return self.version if self.snapshot or self.files else self.version - 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in the log of one table, and where the stream began."""

    table: str
    """The table's id."""
    position: Position
    entry: str | None
    """SHA-256 of the entry of `position.known`; None where there is none."""
    began: Position

    def to_json(self) -> str:
        """Text; equal offsets have equal texts."""
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
        """What `to_json` gave.

        Raises:
            InvalidRangeError: it is none of ours, or damaged.
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
                f"the stream's checkpoint was written by a later release: its offsets have format "
                f"{values['format']}, and this one reads {FORMAT}; use that release",
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
    """None: they are not those of an offset."""
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
        f"the stream's checkpoint holds an offset that is none of tablefmt's: {text:.200}; it is "
        "damaged, or belongs to another source. Begin the stream with a new checkpoint"
    )


class Effect(Enum):
    """What a commit did to the rows of the table."""

    NOTHING = "nothing"
    APPENDED = "appended"
    """It brought rows, and took none."""
    DELETED = "deleted"
    """It took rows, and brought none."""
    CHANGED = "changed"
    """Both; or it restored an earlier version."""


def effect_of(entry: Entry) -> Effect:
    """By the entry alone. What compaction moves neither goes nor comes, nor do files come that
    lineage names as outputs; but every file that it removes counts as rows that go: whether all of
    them were carried over, an entry does not say.
    """
    if entry.operation.cls in NOT_LOGICAL:
        return Effect.NOTHING
    copied = 0 if entry.lineage is None else len(set(entry.lineage.output))
    came = (0 if entry.add is None else len(entry.add)) > copied
    went = len(entry.remove) > 0 or entry.delete is not None
    if not came and not went:
        return Effect.NOTHING
    if entry.operation.name == RESTORE or (came and went):
        return Effect.CHANGED
    return Effect.APPENDED if came else Effect.DELETED


def is_read(entry: Entry, options: StreamOptions) -> bool:
    """Whether rows of a commit are in the stream, or it is passed over.

    Raises:
        UnsupportedFeatureError: it is one that a stream of appended rows cannot tell.
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
    ignoring = "ignoreDeletes=true passes over commits that only delete, " if deletes else ""
    raise UnsupportedFeatureError(
        f"version {entry.version} ({entry.operation.name}) {does}, and the stream gives rows that "
        "were appended alone. Nothing of it was read. With the option readChangeFeed=true the "
        f"stream gives such changes too, {ignoring}and skipChangeCommits=true passes over them",
        ["stream:change-commit"],
    )


def touched_files(entry: Entry) -> int:
    """At most so many files are read for a commit."""
    marked = 0 if entry.delete is None else len(entry.delete)
    return (0 if entry.add is None else len(entry.add)) + len(entry.remove) + marked


@dataclass(slots=True)
class Allowance:
    """How much more goes into a batch; None is no limit."""

    files: int | None
    bytes: int | None

    @property
    def is_used_up(self) -> bool:
        """Nothing more goes in."""
        return (self.files is not None and self.files <= 0) or (
            self.bytes is not None and self.bytes <= 0
        )

    def take(self, sizes: NDArray[np.int64], *, whole: bool) -> int:
        """How many of some files go in, from the first on: none if it is used up, else one or more.

        Args:
            sizes: of the files in their order, bytes.
            whole: all of them, or none.
        """
        count = 0 if self.is_used_up else len(sizes)
        if count and not whole:
            if self.files is not None:
                count = min(count, self.files)
            if self.bytes is not None:
                # The file with which the limit is reached is the last that goes in.
                sums = np.cumsum(sizes[:count])
                count = min(count, int(np.searchsorted(sums, self.bytes)) + 1)
        if self.files is not None:
            self.files -= count
        if self.bytes is not None:
            self.bytes -= int(sizes[:count].sum())
        return count
