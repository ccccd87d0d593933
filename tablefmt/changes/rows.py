"""Reader for the rows of file changes, in their order. Spec: INC-3, DAT-4.

Files of many small commits are read together. If several commits deleted rows of one file, the file
is decoded once. Rows for later commits wait in memory, if they fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.schema import schema_of_files
from tablefmt.changes.shared_files import (
    first_uses,
    masks_of,
    only_rows,
    rows_of_change,
    shared_files,
    turns_of,
)
from tablefmt.data.matching import RowFilter
from tablefmt.data.read import LocatedRows, locate_rows
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store

WAITING_BYTES = 128 << 20
"""Approximate limit on the memory of rows that wait for a later commit."""

DECODED = 4
"""Approximate bytes in memory per byte in a file."""

RUN_FILES = 4096
"""Maximum number of files of small commits that are read together."""

_READ = ("path", "size", "rows", "footer", "deleted", "vector")

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
        turns = [turns_of(self._changes, self._uses[file]) for file in ids]
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
