"""Net changes: the difference between the two ends of a range. Spec: INC-6.

Rows that were added and deleted within the range are excluded by position, without reading them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.changes.commit_rows import (
    DELETE,
    INSERT,
    WENT,
    FileChanges,
    chosen_rows,
    with_rows,
)
from tablefmt.changes.rows import RowReader
from tablefmt.data.read import answer_schema
from tablefmt.data.row_difference import row_difference


def net_files(changes: Sequence[FileChanges], version: int, timestamp: int) -> list[FileChanges]:
    """Return rows deleted by a range, then rows added by it, without rows that were only there
    between.

    Each change is a `delete` or `insert` of the given version. Equal rows may be in both kinds.

    Args:
        changes: all commits of the range, in order.
        version: the last version of the range.
        timestamp: its commit timestamp, µs UTC.
    """
    went, came = ([c for c in changes if (c.change in WENT) is gone] for gone in (True, False))
    rows_went, rows_came = _several(went, came)
    net = []
    for kind, each, own, other in (
        (DELETE, went, rows_went, rows_came),
        (INSERT, came, rows_came, rows_went),
    ):
        left = {file: rows - other[file] if file in other else rows for file, rows in own.items()}
        for change in each:
            files = _left(change.files, left)
            if files.num_rows:
                net.append(
                    replace(
                        change,
                        version=version,
                        timestamp=timestamp,
                        change=kind,
                        files=files,
                        cancels=True,
                    )
                )
    return net


def _several(
    went: Sequence[FileChanges], came: Sequence[FileChanges]
) -> tuple[dict[int, BitMap64], dict[int, BitMap64]]:
    """Return the deleted and the added rows, by file id, of files in more than one change."""
    ids = [c.files["id"].to_numpy() for c in (*went, *came)]
    known, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *ids]), return_counts=True)
    several = known[counts > 1]
    return _rows_of(went, several), _rows_of(came, several)


def _rows_of(changes: Sequence[FileChanges], ids: NDArray[np.int64]) -> dict[int, BitMap64]:
    rows: dict[int, BitMap64] = {}
    for change in changes:
        of_change = change.files["id"].to_numpy()
        for place in np.flatnonzero(np.isin(of_change, ids)).tolist():
            file = int(of_change[place])
            chosen = chosen_rows(change.files, place)
            rows[file] = rows[file] | chosen if file in rows else chosen
    return rows


def _left(files: pa.Table, left: dict[int, BitMap64]) -> pa.Table:
    """Return the files with the rows in `left`, and clear `left` for them."""
    ids = files["id"].to_numpy()
    special = np.flatnonzero(np.isin(ids, np.fromiter(left, np.int64, len(left))))
    if not len(special):
        return files
    chosen = {}
    for place in special.tolist():
        # A later change of the same file must not return these rows again.
        chosen[place], left[int(ids[place])] = left[int(ids[place])], BitMap64()
    files = with_rows(files, chosen)
    return files.filter(pc.less(files["deleted"], files["rows"]))


def together(changes: Iterable[FileChanges]) -> Iterator[list[FileChanges]]:
    """Yield changes in runs.

    A run holds either changes of one version whose rows may cancel, or other changes. In a run of
    other changes, all lack columns or none does.
    """

    def run(change: FileChanges) -> tuple[int, bool]:
        return (change.version, True) if change.cancels else (-1, bool(change.lost))

    return (list(each) for _, each in itertools.groupby(changes, run))


def may_cancel(changes: Sequence[FileChanges]) -> bool:
    """Return True if equal rows of a run may cancel, so that all columns must be read."""
    return changes[0].cancels and len({change.change in WENT for change in changes}) == 2


def lost_of(changes: Iterable[FileChanges]) -> frozenset[int]:
    """Return the ids of the columns that are NULL in all rows of some of the changes."""
    return frozenset[int]().union(*(change.lost for change in changes))


def difference(
    reader: RowReader, changes: Sequence[FileChanges]
) -> Iterator[tuple[FileChanges, pa.RecordBatch]]:
    """Yield the rows of a run without rows that cancel, each batch with a change of its kind.

    Args:
        reader: it must read all columns if rows may cancel.
        changes: a run.
    """
    if not may_cancel(changes):
        yield from reader.read(changes)
        return
    went, came = ([c for c in changes if (c.change in WENT) is gone] for gone in (True, False))
    shape = answer_schema(reader.columns)
    rows_went, rows_came = ((b for _, b in reader.read(side)) for side in (went, came))
    lost = lost_of(changes)
    compared = [at for at, column in enumerate(reader.columns) if column.id not in lost]
    for is_new, batch in row_difference(rows_went, rows_came, shape, compared):
        yield (came if is_new else went)[0], batch
