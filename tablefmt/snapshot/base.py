"""Checkpoint base: the state at a version, in place of all entries up to it.

Without a base, a log is read from version 0. With a base, the earlier entries are read only to
answer questions about older versions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tablefmt.snapshot.checkpoints.root import Root
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.head import Head


@dataclass(frozen=True, slots=True)
class Base:
    """State at a version. The default is the empty state before version 0."""

    head: Head | None = None
    """Head of the version, with its applications."""
    created: int | None = None
    """Commit timestamp of version 0, µs UTC."""
    described: int | None = None
    """Version that wrote the metadata in force (ADD-9); None: `totals.metadata_version`."""
    files: FileHistory = field(default_factory=FileHistory)
    """Live files. `first` and `version` are the base's version, and no two files have one path."""
    root: Root | None = None
    """Root of the checkpoint that the base was made of."""
    key: str = ""
    """Name of that root; "" if there is none."""

    @property
    def version(self) -> int:
        """Return the version; -1 for the empty state."""
        return -1 if self.head is None else self.head.version

    @property
    def first(self) -> int:
        """Return the oldest version that a log on this base can read without earlier entries."""
        return max(0, self.version)


NOTHING = Base()
"""Base of a log whose entries are all read."""
