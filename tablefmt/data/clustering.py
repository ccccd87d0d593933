"""Live rows of data files written again in another order, whatever fits into memory of them.

A sample says what ranges there are, every row goes to its range, each range is sorted by itself.
Spec: CMP-5, CMP-6.
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
"""Arrow data of a range, about: it is sorted in memory."""

SPOOL_BYTES = 128 << 20
"""Arrow data of rows that wait for their range to be sorted; more are on disk."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """How rows are written in another order. A value that travels to other processes."""

    rewriting: Rewriting
    by: tuple[Field, ...]
    curve: str

    def sample(self, files: pa.Table, step: int) -> pa.Table:
        """Every so manieth live row of files, the columns that the order goes by.

        Args:
            files: as `read_files` takes them.
            step: from 1 on.
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
        """Write the live rows of files in order. Arguments, answer and errors as of
        `Rewriting.in_order`; StoreError too if the disk of temporary files is full.
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
        """The live rows of files, as data files hold them."""
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
        """Write rows in order. Arguments as of `Rewriting.write`; errors as of `write`."""
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
        """The live rows of files by ranges of the order, so many of them at once; each number is
        given once, rising.
        """
        with RangeSpool(-(-order.count // together), SPOOL_BYTES) as spool:
            for batch in self.rows(files):
                spool.put(batch, order.ranges(batch) // together)
            yield from spool.ranges()


def sample_step(rows: int) -> int:
    """One row in how many an order of so many rows is learnt from."""
    return max(1, rows // SAMPLE_ROWS)


def _in_order(spool: RangeSpool, order: RowOrder) -> Iterator[pa.RecordBatch]:
    for _, rows in spool.ranges():
        yield from order.sorted(rows).to_batches()
