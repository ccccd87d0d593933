"""The rows of file changes, read in their order. Spec: INC-3, DAT-4.

Files of many small commits are read together. A file out of which several commits took rows is
decoded once, if the rows that wait for their turn fit into memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.changes.commit_rows import WENT, FileChanges
from tablefmt.data.matching import RowFilter
from tablefmt.data.read import LocatedRows, locate_rows
from tablefmt.model.positions import live_mask, pack_positions
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store

WAITING_BYTES = 128 << 20
"""What rows may take, about, that were read with those of an earlier commit."""

DECODED = 4
"""Bytes in memory for one in a file, about."""

RUN_FILES = 4096
"""Files of small commits that are read together, at most."""

_READ = ("path", "size", "rows", "footer", "deleted", "vector")

ChangedRows = tuple[FileChanges, pa.RecordBatch]

Uses = list[tuple[int, int]]
"""Changes, by their numbers, and the place of a file in each."""


@dataclass(frozen=True, slots=True, eq=False)
class RowReader:
    """Reads files of one table."""

    store: Store
    schema: Schema
    columns: Sequence[Field]
    condition: RowFilter | None = None

    def read(self, changes: Sequence[FileChanges]) -> Iterator[ChangedRows]:
        """Batches in the order of `changes`, each with the one it is of. None is empty.

        Raises:
            As `read_files`.
        """
        waiting = _Waiting(self, changes)
        for run in _runs(changes, waiting.shared):
            at = run[0][0]
            counts = [files.num_rows for _, files in run]
            of_file = np.repeat([index for index, _ in run], counts)
            files = pa.concat_tables([f for _, f in run], promote_options="default")
            for located in self.located(files):
                index = int(of_file[located.file])
                while at < index:
                    yield from waiting.rows_of(at)
                    at += 1
                yield changes[index], located.rows
            for index in range(at, run[-1][0] + 1):
                yield from waiting.rows_of(index)

    def located(self, files: pa.Table) -> Iterator[LocatedRows]:
        """The rows of files, no two of one path, that their vectors leave."""
        return locate_rows(self.store, files, self.schema, self.columns, self.condition)


def _runs(
    changes: Sequence[FileChanges], shared: Mapping[int, NDArray[np.bool_]]
) -> Iterator[list[tuple[int, pa.Table]]]:
    """Changes that are read together, with their numbers; those of `shared` without these files.

    Every change is in one of them, in order. The files of a run have different paths, and values of
    the same columns.
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
            or changes[run[0][0]].partition_ids != change.partition_ids
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
    """Files out of which several commits took rows: what was read before its turn waits here."""

    def __init__(self, reader: RowReader, changes: Sequence[FileChanges]) -> None:
        self._reader, self._changes = reader, changes
        self._uses = _shared_files(changes, len(reader.columns))
        """By file id the changes that it is in, and its place in each."""
        self.shared: dict[int, NDArray[np.bool_]] = {}
        """By change the files of it that are read here."""
        for index, place in itertools.chain.from_iterable(self._uses.values()):
            if index not in self.shared:
                self.shared[index] = np.zeros(changes[index].files.num_rows, bool)
            self.shared[index][place] = True
        self._rows: dict[int, list[pa.RecordBatch]] = {}
        self._read: set[int] = set()

    def rows_of(self, index: int) -> Iterator[ChangedRows]:
        """What these files have of one change; changes come in their order."""
        if index not in self.shared:
            return
        ids = self._changes[index].files["id"].filter(pa.array(self.shared[index])).to_pylist()
        fresh = [file for file in ids if file not in self._read]
        if fresh:
            self._take_in(index, fresh)
        for rows in self._rows.pop(index, ()):
            yield self._changes[index], rows

    def _take_in(self, index: int, ids: Sequence[int]) -> None:
        """Read files for the change that is the first to need them, and for all later ones."""
        self._read.update(ids)
        places = [dict(self._uses[file])[index] for file in ids]
        files = self._changes[index].files.take(places)
        turns = [self._turns(file) for file in ids]
        counts = [len(positions) for positions, _ in turns]
        vectors = []
        for rows, (positions, _) in zip(files["rows"].to_pylist(), turns, strict=True):
            others = BitMap64(range(rows)) - BitMap64(positions.astype(np.uint64))
            vectors.append(pack_positions(others) if others else None)
        deleted = pa.array(files["rows"].to_numpy() - np.array(counts, np.int64))
        for name, values in (
            ("vector", pa.array(vectors, pa.large_binary())),
            ("deleted", deleted),
        ):
            files = files.set_column(files.column_names.index(name), name, values)
        for located in self._reader.located(files):
            positions, of_change = turns[located.file]
            turn = of_change[np.searchsorted(positions, located.positions)]
            order = np.argsort(turn, kind="stable")
            rows, turn = located.rows.take(pa.array(order)), turn[order]
            starts = np.flatnonzero(np.diff(turn, prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(turn)], strict=True):
                part = rows.slice(start, end - start)
                self._rows.setdefault(int(turn[start]), []).append(part)

    def _turns(self, file: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions of a file that changes took out, ascending, and which one took each."""
        chosen = [_chosen(self._changes[index], place) for index, place in self._uses[file]]
        positions = np.concatenate(chosen)
        of_change = np.repeat([index for index, _ in self._uses[file]], [len(c) for c in chosen])
        order = np.argsort(positions)
        return positions[order], of_change[order]


def _chosen(change: FileChanges, place: int) -> NDArray[np.int64]:
    """The positions of a file of a change."""
    rows, vector = (change.files[name][place].as_py() for name in ("rows", "vector"))
    return np.flatnonzero(live_mask(vector, rows))


def _shared_files(changes: Sequence[FileChanges], columns: int) -> dict[int, Uses]:
    """Files in several changes that took rows out, as many as may wait in memory.

    No row is in two of these: it goes once (DEL-4).
    """
    uses: dict[int, Uses] = {}
    for index, change in enumerate(changes):
        if change.change in WENT and change.files["vector"].null_count < change.files.num_rows:
            partial = np.flatnonzero(change.files["vector"].is_valid().to_numpy())
            ids = change.files["id"].to_numpy()[partial]
            for place, file in zip(partial.tolist(), ids.tolist(), strict=True):
                uses.setdefault(file, []).append((index, place))
    several = {file: each for file, each in uses.items() if len(each) > 1}
    room, kept = WAITING_BYTES, {}
    for file, each in several.items():
        room -= sum(_row_bytes(changes[i].files, place, columns) for i, place in each[1:])
        if room < 0:
            break
        kept[file] = each
    return kept


def _row_bytes(files: pa.Table, place: int, columns: int) -> int:
    """What the rows of a change in one of its files take in memory, about."""
    size, rows, others = (files[name][place].as_py() for name in ("size", "rows", "deleted"))
    return int((rows - others) * (DECODED * size / rows + 8 * columns))
