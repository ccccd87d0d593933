"""Checkpoint base: the state at a version, in place of all entries up to it. Pure.

Without a base, a log is read from version 0. With a base, the earlier entries are read only to
answer questions about older versions.

Parts are checked one by one as they are read. Some errors show only in all parts together, or in a
later entry. The checks here, where files are used, find them and reject the checkpoint.

Spec: CKP-6, CKP-9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptEntryError, LostCheckpointError
from tablefmt.model.log_entry import Totals
from tablefmt.snapshot.checkpoint_root import Root
from tablefmt.snapshot.file_columns import exact_sum
from tablefmt.snapshot.file_history import FileHistory
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


PATHS_COMPARED = 1 << 16
"""Maximum number of files compared for equal paths; it takes a microsecond per file."""


@contextmanager
def blamed(files: FileHistory) -> Iterator[None]:
    """Run work that uses files. If a rule of the log is broken, suspect the checkpoint.

    Raises:
        LostCheckpointError: the checkpoint may be at fault, and must not be used any more.
        CorruptEntryError: the files were not read from a checkpoint.
    """
    try:
        yield
    except CorruptEntryError as error:
        if not files.checkpoint:
            raise
        message = f"it does not fit the log ({error.key}: {error.detail})"
        raise _given_up(files, message, error.rule) from error


def check_complete(files: pa.Table, totals: Totals, history: FileHistory) -> None:
    """Refuse a checkpoint whose files differ from the sums in the version's entry.

    Their number and deleted rows were compared with the entry when the root and the parts of
    `deletes` were read. A root lists no sizes, and its rows include those of removed files.

    Args:
        files: all live files, perhaps without some columns.
        totals: the statistics of their version.
        history: the history of the files.

    Raises:
        LostCheckpointError: CKP-9.
    """
    if history.is_held:
        return
    expected = {"rows": totals.rows, "size": totals.bytes}
    names = [name for name in expected if name in files.column_names]
    if any(exact_sum(files[name].to_numpy()) != expected[name] for name in names):
        message = "the number of its rows or bytes differs from the entry"
        raise _given_up(history, message, "CKP-9")


def check_distinct(files: pa.Table, history: FileHistory) -> None:
    """Refuse a checkpoint that names one of these files twice.

    Args:
        files: some live files, in the order of ids.
        history: the history of the files.

    Raises:
        LostCheckpointError: CKP-9.
    """
    if history.is_held:
        return
    ids = files["id"].to_numpy()
    twice = bool(np.any(ids[1:] == ids[:-1]))
    if "path" in files.column_names and len(ids) <= PATHS_COMPARED:
        twice |= pc.count_distinct(files["path"]).as_py() != len(ids)
    if twice:
        raise _given_up(history, "it names a file twice", "CKP-9")


def _given_up(files: FileHistory, message: str, rule: str) -> LostCheckpointError:
    return LostCheckpointError(message, key=files.checkpoint, rule=rule)
