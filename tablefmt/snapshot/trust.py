"""Checks, where files are used, that a checkpoint fits the log. Pure.

Parts are checked one by one as they are read. Some errors show only in all parts together, or in a
later entry. These checks find them and reject the checkpoint.

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
    """Refuse a checkpoint whose files differ from the counts in the version's entry.

    Args:
        files: all live files, perhaps without some columns.
        totals: the statistics of their version.
        history: the history of the files.

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
        message = "the number of its files, rows or bytes differs from the entry"
        raise _given_up(history, message, "CKP-9")


def check_distinct(files: pa.Table, history: FileHistory) -> None:
    """Refuse a checkpoint that names one of these files twice.

    Args:
        files: some live files, in the order of ids.
        history: the history of the files.

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
