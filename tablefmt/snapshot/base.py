"""What a log's state can stand on: all that its entries up to a version said. Pure.

Without one a log is read from version 0. A base takes the place of those entries: of them nothing
is asked for but what older versions were.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tablefmt.snapshot.checkpoints.root import Root
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.head import Head


@dataclass(frozen=True, slots=True)
class Base:
    """The state at a version; by default that before version 0, of nothing."""

    head: Head | None = None
    """Of the version, with its applications."""
    created: int | None = None
    """Commit timestamp of version 0, µs UTC."""
    described: int | None = None
    """The version that brought the metadata in force (ADD-9); None: `totals.metadata_version`."""
    files: FileHistory = field(default_factory=FileHistory)
    """The live files; `first` and `version` are the version, and paths are known to be distinct."""
    root: Root | None = None
    """Of the checkpoint that it was made of."""
    key: str = ""
    """The name of that; "" for none."""

    @property
    def version(self) -> int:
        """The version; -1 for nothing."""
        return -1 if self.head is None else self.head.version

    @property
    def first(self) -> int:
        """The oldest version that a log on this base can answer for."""
        return max(0, self.version)


NOTHING = Base()
"""What a log stands on whose entries are all read."""
