"""Rows at positions that are known: of each row group that holds some, as much is decoded as lies
before the last of them. Spec: DAT-4, DEL-1.

Arrow's scanner decodes row groups whole, and text as text before any row is left out.
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
"""Decoded at once: after the last row that is wanted no more than these are."""

FEW = 8
"""Of that many rows, fewer than one are taken one by one."""

THREADS = max(1, pa.cpu_count())
"""Row groups decoded at once."""


class _Job(NamedTuple):
    place: int
    """Of the file."""
    group: int
    """The row group."""
    start: int
    """Its first position."""
    positions: NDArray[np.int64]
    """Those of the rows, in the file."""


class PickedRows:
    """Rows of files at known positions."""

    def __init__(
        self, files: ds.FileSystemDataset, positions: Mapping[int, NDArray[np.int64]]
    ) -> None:
        """Look at the footers of those that hold some.

        Args:
            files: whole files.
            positions: by the place of a file, ascending.
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
        """Rows that are decoded to have them."""
        return sum(int(job.positions[-1]) + 1 - job.start for job in self._jobs)

    @property
    def of_rows(self) -> int:
        """Rows of all the files."""
        return sum(fragment.metadata.num_rows for fragment in self._fragments)

    def batches(self, names: Sequence[str], located: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The place of a file, and the rows of one of its row groups.

        Args:
            names: the columns wanted.
            located: POSITION comes after the columns.

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
            raise pa.ArrowInvalid("two columns have one name")
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
        """The rows, as the file has them."""
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
        raise ValueError("there are fewer rows than the log says")


def _taken(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    if len(rows) * FEW < batch.num_rows:
        return batch.take(pa.array(rows))
    mask: NDArray[np.bool_] = np.zeros(batch.num_rows, bool)
    mask[rows] = True
    return batch.filter(pa.array(mask))


def _nothing(positions: NDArray[np.int64]) -> pa.RecordBatch:
    """As many rows without a column that anybody wants."""
    return pa.RecordBatch.from_arrays([pa.nulls(len(positions))], [POSITION])
