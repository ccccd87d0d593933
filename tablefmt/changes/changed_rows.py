"""Changed rows: read from file changes in their order, and reduced to net changes.

Files of many small commits are read together. If several commits deleted rows of one file, the file
is decoded once. Rows for later commits wait in memory, if they fit. Net changes are the difference
between the two ends of a range: rows that were added and deleted within it are excluded by
position, without reading them. Spec: INC-3, INC-6, DAT-4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.changes.change_schema import schema_of_files
from tablefmt.changes.commit_rows import (
    DELETE,
    INSERT,
    WENT,
    FileChanges,
    change_row_mapping,
    chosen_rows,
    first_uses,
    masks_of,
    only_rows,
    rows_of_change,
    shared_files,
    with_rows,
)
from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.row_comparison import row_difference
from tablefmt.data.row_reader import LocatedRows, answer_schema, locate_rows
from tablefmt.model.import_layouts import LAYOUT
from tablefmt.model.schema import Field, Schema
from tablefmt.store.object_store import Store

WAITING_BYTES = 128 << 20
"""Approximate limit on the memory of rows that wait for a later commit."""

DECODED = 4
"""Approximate bytes in memory per byte in a file."""

RUN_FILES = 4096
"""Maximum number of files of small commits that are read together."""

_READ = ("path", "size", "rows", "footer", "deleted", "vector", LAYOUT)

ChangedRows = tuple[FileChanges, pa.RecordBatch]


@dataclass(frozen=True, slots=True, eq=False)
class RowReader:
    """Reader for changed rows of one table."""

    store: Store
    schema: Schema
    columns: Sequence[Field]
    condition: RowFilter | None = None

    def read(self, changes: Sequence[FileChanges]) -> Iterator[ChangedRows]:
        """Yield batches in the order of `changes`, each with its change. No batch is empty.

        Raises:
            As `read_files`.
        """
        waiting = _Waiting(self, changes)
        for run in _runs(changes, waiting.shared):
            at = run[0][0]
            counts = [files.num_rows for _, files in run]
            of_file = np.repeat([index for index, _ in run], counts)
            files = pa.concat_tables([f for _, f in run], promote_options="default")
            for located in self.located(files, changes[at].lost):
                index = int(of_file[located.file])
                while at < index:
                    yield from waiting.rows_of(at)
                    at += 1
                yield changes[index], located.rows
            for index in range(at, run[-1][0] + 1):
                yield from waiting.rows_of(index)

    def located(self, files: pa.Table, lost: frozenset[int]) -> Iterator[LocatedRows]:
        """Yield the rows of files that their vectors leave; NULL in the columns `lost`.

        No two files may have the same path. The condition does not use the columns `lost`.
        """
        schema = schema_of_files(self.schema, lost)
        columns = [schema.by_id(column.id) for column in self.columns]
        return locate_rows(self.store, files, schema, columns, self.condition)


def _runs(
    changes: Sequence[FileChanges], shared: Mapping[int, NDArray[np.bool_]]
) -> Iterator[list[tuple[int, pa.Table]]]:
    """Yield changes that are read together, with their numbers, without the files in `shared`.

    Every change is in one run, in order. The files of a run have different paths, and values of the
    same columns.
    """
    run: list[tuple[int, pa.Table]] = []
    known: set[str] = set()
    for index, change in enumerate(changes):
        files = change.files
        if index in shared:
            files = files.filter(pa.array(~shared[index]))
        names = [n for n in files.column_names if n in _READ or n.startswith("partition.")]
        paths = files["path"].to_pylist() if files.num_rows <= RUN_FILES else []
        if run and (
            files.num_rows > RUN_FILES
            or len(known) + len(paths) > RUN_FILES
            or not changes[run[0][0]].is_like(change)
            or not known.isdisjoint(paths)
        ):
            yield run
            run, known = [], set()
        run.append((index, files.select(names)))
        known.update(paths)
        if files.num_rows > RUN_FILES:
            yield run
            run = []
    if run:
        yield run


class _Waiting:
    """Rows of files that several commits deleted rows from. Rows wait here until their commit's
    turn.
    """

    def __init__(self, reader: RowReader, changes: Sequence[FileChanges]) -> None:
        self._reader, self._changes = reader, changes
        columns = len(reader.columns)
        self._uses = shared_files(
            changes, WAITING_BYTES, lambda files, place: _row_bytes(files, place, columns)
        )
        """Changes that a file is in, and its place in each, by file id."""
        self.shared = masks_of(changes, self._uses)
        self._rows: dict[int, list[pa.RecordBatch]] = {}
        self._read: set[int] = set()

    def rows_of(self, index: int) -> Iterator[ChangedRows]:
        """Yield the rows of these files for one change. Callers ask for changes in order."""
        if index not in self.shared:
            return
        ids = self._changes[index].files["id"].filter(pa.array(self.shared[index])).to_pylist()
        fresh = [file for file in ids if file not in self._read]
        if fresh:
            self._take_in(index, fresh)
        for rows in self._rows.pop(index, ()):
            yield self._changes[index], rows

    def _take_in(self, index: int, ids: Sequence[int]) -> None:
        """Read files for the first change that needs them, and for all later changes."""
        self._read.update(ids)
        turns = [change_row_mapping(self._changes, self._uses[file]) for file in ids]
        files = first_uses(self._changes, {file: self._uses[file] for file in ids})
        files = only_rows(files, [positions for positions, _ in turns])
        for located in self._reader.located(files, self._changes[index].lost):
            positions, of_change = turns[located.file]
            turn = of_change[np.searchsorted(positions, located.positions)]
            order = np.argsort(turn, kind="stable")
            rows, turn = located.rows.take(pa.array(order)), turn[order]
            starts = np.flatnonzero(np.diff(turn, prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(turn)], strict=True):
                part = rows.slice(start, end - start)
                self._rows.setdefault(int(turn[start]), []).append(part)


def _row_bytes(files: pa.Table, place: int, columns: int) -> int:
    """Return the approximate memory of the rows of a change in one of its files, in bytes."""
    size, rows = (files[name][place].as_py() for name in ("size", "rows"))
    return int(rows_of_change(files, place) * (DECODED * size / rows + 8 * columns))


def net_files(changes: Sequence[FileChanges], version: int, timestamp: int) -> list[FileChanges]:
    """Return rows deleted by a range, then rows added by it, without rows that were only there
    between.

    Each change is a `delete` or `insert` of the given version. Equal rows may be in both kinds.

    Args:
        changes: all commits of the range, in order.
        version: the last version of the range.
        timestamp: its commit timestamp, µs UTC.
    """
    went, came = (
        [c for c in changes if (c.change in WENT) is removed] for removed in (True, False)
    )
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
    went, came = (
        [c for c in changes if (c.change in WENT) is removed] for removed in (True, False)
    )
    shape = answer_schema(reader.columns)
    rows_went, rows_came = ((b for _, b in reader.read(side)) for side in (went, came))
    lost = lost_of(changes)
    compared = [at for at, column in enumerate(reader.columns) if column.id not in lost]
    for is_new, batch in row_difference(rows_went, rows_came, shape, compared):
        yield (came if is_new else went)[0], batch
