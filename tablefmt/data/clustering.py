"""Clustering: rewrites live rows of data files in another order, within bounded memory.

A sample determines ranges of the order. Every row goes to its range, and each range is sorted on
its own. Spec: CMP-5, CMP-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.bounds import nan_counts
from tablefmt.data.file_stream import row_groups
from tablefmt.data.range_spool import RangeSpool
from tablefmt.data.read import read_files
from tablefmt.data.rewrite import Rewriting, physical_batches
from tablefmt.data.row_order import SAMPLE_ROWS, RowOrder, learn_order
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.entry import AddedFiles
from tablefmt.model.schema import Field, is_float

RANGE_BYTES = 64 << 20
"""Approximate Arrow data of one range, which is sorted in memory."""

SPOOL_BYTES = 128 << 20
"""Arrow data of rows in memory that wait for their range to be sorted. More rows go to disk."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """Description of a rewrite in another order. A value that can be sent to other processes."""

    rewriting: Rewriting
    by: tuple[Field, ...]
    curve: str

    def sample(self, files: pa.Table, step: int) -> pa.Table:
        """Return every `step`-th live row of files, with the columns of the order.

        Args:
            files: as for `read_files`.
            step: 1 or more.
        """
        schema = self.rewriting.metadata.schema
        shape = pa.schema([(field.physical, arrow_type(field.type)) for field in self.by])
        parts, at = [], 0
        for batch in read_files(self.rewriting.store, files, schema, self.by):
            chosen = batch.take(pa.array(np.arange(-at % step, batch.num_rows, step)))
            parts.append(pa.RecordBatch.from_arrays(chosen.columns, schema=shape))
            at += batch.num_rows
        return pa.Table.from_batches(parts, shape)

    def write(self, files: pa.Table, prefix: str, rows_max: int | None = None) -> AddedFiles | None:
        """Write the live rows of files in order.

        Arguments, result and errors are those of `Rewriting.in_order`. Also raises StoreError if
        the disk for temporary files is full.
        """
        rows = int(pc.sum(files["rows"]).as_py() or 0) - int(pc.sum(files["deleted"]).as_py() or 0)
        sample = self.sample(files, sample_step(rows))
        batches = self.rows(files)
        first = next(batches, None)
        if first is None:
            return None
        ranges = max(1, -(-rows * first.nbytes // first.num_rows // RANGE_BYTES))
        order = learn_order(sample, self.by, self.curve, ranges)
        partition = self.rewriting.partition(files)
        return self.write_rows(chain([first], batches), order, prefix, partition, rows_max)

    def rows(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return the live rows of files in the form of data files."""
        schema = self.rewriting.metadata.schema
        batches = read_files(self.rewriting.store, files, schema, schema.fields)
        return physical_batches(batches, schema)

    def write_rows(
        self,
        batches: Iterable[pa.RecordBatch],
        order: RowOrder,
        prefix: str,
        partition: dict[str, Any],
        rows_max: int | None = None,
    ) -> AddedFiles | None:
        """Write rows in order. Arguments as for `Rewriting.write`; errors as for `write`."""
        nan: set[int] = set()
        floats = [field for field in self.rewriting.stats if is_float(field.type)]
        with RangeSpool(order.count, SPOOL_BYTES) as spool:
            for batch in batches:
                spool.put(batch, order.ranges(batch))
                counts = nan_counts(pa.Table.from_batches([batch]), floats) if floats else {}
                nan.update(field for field, count in counts.items() if count)
            groups = row_groups(_in_order(spool, order))
            return self.rewriting.write(groups, prefix, partition, frozenset(nan), rows_max)

    def put_apart(
        self, files: pa.Table, order: RowOrder, together: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the live rows of files by groups of `together` ranges of the order.

        Each group number appears once, in ascending order.
        """
        with RangeSpool(-(-order.count // together), SPOOL_BYTES) as spool:
            for batch in self.rows(files):
                spool.put(batch, order.ranges(batch) // together)
            yield from spool.ranges()


def sample_step(rows: int) -> int:
    """Return the sampling step for learning the order of `rows` rows."""
    return max(1, rows // SAMPLE_ROWS)


def _in_order(spool: RangeSpool, order: RowOrder) -> Iterator[pa.RecordBatch]:
    for _, rows in spool.ranges():
        yield from order.sorted(rows).to_batches()
