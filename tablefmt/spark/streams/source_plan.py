"""What a stream makes of each commit, and how much goes into a batch. Pure. Spec: STR-3, STR-4."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tablefmt.changes.commit_rows import RESTORE
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.entry import NOT_LOGICAL, Entry
from tablefmt.spark.streams.source_options import StreamOptions


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
    carried = 0 if entry.lineage is None else len(set(entry.lineage.output))
    came = (0 if entry.add is None else len(entry.add)) > carried
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
