"""Rows at known positions, decoded only up to the last one in each row group.

Arrow's scanner decodes whole row groups, and builds all text before it drops rows. Spec: DAT-4,
DEL-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.known_values import known_values
from tablefmt.data.plain_read import shaped_column
from tablefmt.data.row_groups import extents
from tablefmt.data.scanner import POSITION
from tablefmt.data.side_by_side import side_by_side

BATCH_ROWS = 1 << 14
"""Rows decoded at once. At most this many are decoded after the last wanted row."""

FEW = 8
"""If fewer than one row in FEW is wanted, rows are taken one by one."""

THREADS = max(1, pa.cpu_count())
"""Row groups decoded in parallel."""


class _Job(NamedTuple):
    place: int
    """Index of the file."""
    group: int
    """Index of the row group."""
    start: int
    """Position of the row group's first row."""
    positions: NDArray[np.int64]
    """Positions of the wanted rows in the file."""


class PickedRows:
    """Rows of files at known positions."""

    def __init__(
        self, files: ds.FileSystemDataset, positions: Mapping[int, NDArray[np.int64]]
    ) -> None:
        """Read the footers of files with wanted rows.

        Args:
            files: whole files.
            positions: ascending positions by the index of the file.
        """
        self._schema, self._filesystem = files.schema, files.filesystem
        self._fragments = list(files.get_fragments())
        self._jobs = [
            job for place in sorted(positions) for job in self._of_file(place, positions[place])
        ]

    def _of_file(self, place: int, positions: NDArray[np.int64]) -> Iterator[_Job]:
        starts, _ = extents(self._fragments[place])
        groups = np.searchsorted(starts, positions, side="right") - 1
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        for some in np.split(positions, firsts[1:]):
            group = int(np.searchsorted(starts, some[0], side="right")) - 1
            yield _Job(place, group, int(starts[group]), some)

    @property
    def decoded(self) -> int:
        """Rows that must be decoded."""
        return sum(int(job.positions[-1]) + 1 - job.start for job in self._jobs)

    @property
    def of_rows(self) -> int:
        """Rows in all the files."""
        return sum(fragment.metadata.num_rows for fragment in self._fragments)

    def batches(self, names: Sequence[str], located: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the index of a file, and the wanted rows of one of its row groups.

        Args:
            names: the columns to return.
            located: add the column POSITION at the end.

        Raises:
            ValueError: a file holds fewer rows. Arrow's own errors: it cannot be read.
        """

        def read(job: _Job) -> tuple[int, pa.RecordBatch]:
            columns = self._columns(job, names)
            if located:
                columns.append(pa.array(job.positions))
            return job.place, pa.RecordBatch.from_arrays(
                columns, [*names, POSITION][: len(columns)]
            )

        return side_by_side(read, iter(self._jobs), THREADS)

    def _columns(self, job: _Job, names: Sequence[str]) -> list[pa.Array]:
        fragment = self._fragments[job.place]
        there = fragment.physical_schema
        if any(there.names.count(name) > 1 for name in names):
            raise pa.ArrowInvalid("two columns of the file have the same name")
        read = [name for name in names if name in there.names]
        known = known_values(fragment)
        pieces = list(self._pieces(fragment, job, read)) if read else [_nothing(job.positions)]
        columns = []
        for target in (self._schema.field(name) for name in names):
            chunks = [shaped_column(piece, target, known) for piece in pieces]
            columns.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
        return columns

    def _pieces(
        self, fragment: ds.ParquetFileFragment, job: _Job, read: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows in the file's own types."""
        kinds = [fragment.physical_schema.field(name) for name in read]
        coded = [field.name for field in kinds if pa.types.is_dictionary(field.type)]
        start, stop = job.start, int(job.positions[-1])
        with self._filesystem.open_input_file(fragment.path) as source:
            file = pq.ParquetFile(
                source,
                metadata=fragment.metadata,
                read_dictionary=coded,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=[job.group], columns=list(read), use_threads=False
            ):
                first, after = np.searchsorted(job.positions, [start, start + batch.num_rows])
                if first < after:
                    yield _taken(batch, job.positions[first:after] - start)
                start += batch.num_rows
                if start > stop:
                    return
        raise ValueError("the file has fewer rows than the log says")


def _taken(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    if len(rows) * FEW < batch.num_rows:
        return batch.take(pa.array(rows))
    mask: NDArray[np.bool_] = np.zeros(batch.num_rows, bool)
    mask[rows] = True
    return batch.filter(pa.array(mask))


def _nothing(positions: NDArray[np.int64]) -> pa.RecordBatch:
    """Return a batch with the right number of rows and only a placeholder column."""
    return pa.RecordBatch.from_arrays([pa.nulls(len(positions))], [POSITION])
