"""What Spark's workers do for a compaction or a clustering: files in, files out, no row in between.

Values that travel to the workers. Where rows have to go from one worker to another they are bytes
that nobody looks into. Spec: CMP-1, CMP-5, CMP-6.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablefmt.data.clustering import Clustering, sample_step
from tablefmt.data.rewrite import Rewriting
from tablefmt.data.row_order import RowOrder
from tablefmt.model.entry import AddedFiles
from tablefmt.session.files import TransactionFiles
from tablefmt.spark.backends.arrow.tasks import packed
from tablefmt.spark.runtime.failures import carrying

PARCEL_BYTES = 4 << 20
"""Arrow data of rows that go from worker to worker as one value, at most about."""

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@contextmanager
def _attempt(rewriting: Rewriting, number: int) -> Iterator[str]:
    """What the names of the files of one attempt begin with; they go if it fails."""
    prefix = f"{number:05d}-{secrets.token_hex(8)}-"
    files = TransactionFiles(rewriting.store, rewriting.transaction, shared=True)
    with carrying(), files.removed_on_failure((prefix,)):
        yield prefix


@dataclass(frozen=True, slots=True, eq=False)
class CompactTask:
    """Writes groups of files again, in their order."""

    rewriting: Rewriting
    groups: tuple[pa.Table, ...]
    rows_max: tuple[int | None, ...]

    def write(self, group: int) -> AddedFiles | None:
        """What came of one group. Raises as `Rewriting.in_order`, with a record for `recovered`."""
        with _attempt(self.rewriting, group) as prefix:
            return self.rewriting.in_order(self.groups[group], prefix, self.rows_max[group])


@dataclass(frozen=True, slots=True, eq=False)
class SampleTask:
    """Reads what orders are learnt from."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    """Files, and the number of the group that they are of."""
    steps: tuple[int, ...]
    """One row in how many is taken of each group."""

    def read(self, part: int) -> tuple[int, bytes]:
        """A group's number, and rows of it. Raises CorruptDataError, as of `CompactTask.write`."""
        group, files = self.parts[part]
        with carrying():
            return group, packed(self.clustering.sample(files, self.steps[group]))


@dataclass(frozen=True, slots=True, eq=False)
class ApartTask:
    """Reads rows and puts them apart by where they are to go."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    orders: tuple[RowOrder, ...]
    together: tuple[int, ...]
    """Ranges of each group's order that are written by one task."""
    firsts: tuple[int, ...]
    """The number of the first of those tasks."""

    def read(self, part: int) -> Iterator[tuple[int, bytes]]:
        """The number of a task that writes, and rows for it."""
        group, files = self.parts[part]
        order, together = self.orders[group], self.together[group]
        with carrying():
            for number, rows in self.clustering.put_apart(files, order, together):
                for parcel in _parcels(rows):
                    yield self.firsts[group] + number, parcel


@dataclass(frozen=True, slots=True, eq=False)
class OrderTask:
    """Writes the rows of some ranges in order, as one file."""

    clustering: Clustering
    orders: tuple[RowOrder, ...]
    partitions: tuple[dict[str, Any], ...]
    group_of: tuple[int, ...]
    """Of every task that writes."""

    def write(self, number: int, parcels: Iterable[bytes]) -> AddedFiles | None:
        """What came of one task's rows. Raises as of `CompactTask.write`."""
        group = self.group_of[number]
        with _attempt(self.clustering.rewriting, number) as prefix:
            return self.clustering.write_rows(
                _opened(parcels), self.orders[group], prefix, self.partitions[group]
            )


def steps_of(rows: Iterable[int]) -> tuple[int, ...]:
    """Of groups of so many rows, one row in how many is enough for an order."""
    return tuple(map(sample_step, rows))


def _parcels(rows: pa.Table) -> Iterator[bytes]:
    step = max(1, rows.num_rows * PARCEL_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as stream:
            stream.write_table(rows.slice(start, step))
        yield sink.getvalue().to_pybytes()


def _opened(parcels: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for parcel in parcels:
        with pa.ipc.open_stream(parcel) as stream:
            yield from stream
