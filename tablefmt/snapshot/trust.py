"""Whether files that were read from a checkpoint go with the log: told where they are used. Pure.

Parts are checked one by one as they are read. What only all of them together can show, or an entry
that comes after them, shows here, and gives the checkpoint up.
Spec: CKP-6, CKP-9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptEntryError, LostCheckpointError
from tablefmt.model.entry import Totals
from tablefmt.model.sums import exact_sum
from tablefmt.snapshot.files import FileHistory

PATHS_COMPARED = 1 << 16
"""Of so many files it is looked whether two have one path; that takes a microsecond a file."""


@contextmanager
def blamed(files: FileHistory) -> Iterator[None]:
    """Run work that uses files: what breaks a rule of the log may be the checkpoint's fault.

    Raises:
        LostCheckpointError: it may be, and the checkpoint is to be given up.
        CorruptEntryError: the files were not read from a checkpoint.
    """
    try:
        yield
    except CorruptEntryError as error:
        if not files.checkpoint:
            raise
        message = f"it does not go with the log ({error.key}: {error.detail})"
        raise _given_up(files, message, error.rule) from error


def check_complete(files: pa.Table, totals: Totals, history: FileHistory) -> None:
    """Refuse a checkpoint whose files are not those that the entry of the version counts.

    Args:
        files: all live files, perhaps without some columns.
        totals: of their version.
        history: that they are of.

    Raises:
        LostCheckpointError: CKP-9.
    """
    if not history.checkpoint or history.is_held:
        return
    expected = {"rows": totals.rows, "size": totals.bytes, "deleted": totals.deleted}
    names = [name for name in expected if name in files.column_names]
    if files.num_rows != totals.files or any(
        exact_sum(files[name].to_numpy()) != expected[name] for name in names
    ):
        message = "its files, their rows or bytes are not as many as the entry says"
        raise _given_up(history, message, "CKP-9")


def check_distinct(files: pa.Table, history: FileHistory) -> None:
    """Refuse a checkpoint that names one of these files twice.

    Args:
        files: some live files, in the order of ids.
        history: that they are of.

    Raises:
        LostCheckpointError: CKP-9.
    """
    if not history.checkpoint or history.is_held:
        return
    ids = files["id"].to_numpy()
    twice = bool(np.any(ids[1:] == ids[:-1]))
    if "path" in files.column_names and len(ids) <= PATHS_COMPARED:
        twice |= pc.count_distinct(files["path"]).as_py() != len(ids)
    if twice:
        raise _given_up(history, "it names a file twice", "CKP-9")


def _given_up(files: FileHistory, message: str, rule: str) -> LostCheckpointError:
    return LostCheckpointError(message, key=files.checkpoint, rule=rule)
