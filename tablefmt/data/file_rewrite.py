"""Rewrite of live rows of data files: in their order, clustered, or by another partitioning.

A compaction streams, and works on any thread, and in any process that sees the store. A clustering
writes another order within bounded memory. A sample determines ranges of the order. Every row goes
to its range, and each range is sorted on its own. Spec: LIN-1, DAT-9, ADD-1, CMP-5, CMP-6, EVO-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.clustering_order import SAMPLE_ROWS, RowOrder, learn_order
from tablefmt.data.column_bounds import nan_counts
from tablefmt.data.data_writer import Gathered, write_data
from tablefmt.data.file_prefetch import ahead
from tablefmt.data.mixed_files import write_mixed
from tablefmt.data.parquet_writer import GROUP_ROWS, Encodings, row_groups, write_groups
from tablefmt.data.row_reader import answer_schema, read_files
from tablefmt.data.spill_buffers import RangeSpill
from tablefmt.data.stored_groups import StoredRows, suits_copies
from tablefmt.data.value_conversion import relabelled
from tablefmt.log.object_names import data_folder
from tablefmt.model.arrow_types import arrow_type, file_schema
from tablefmt.model.identity_columns import without_identities
from tablefmt.model.log_entry import OWN, PARTITIONING, AddedFiles, Metadata
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.store.object_store import Store


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Description of a rewrite of rows of one version.

    A value that can be sent to other processes.
    """

    store: Store
    transaction: str
    """Transaction that names the folder of the new files."""
    metadata: Metadata
    """Metadata of the version."""
    stats: tuple[Field, ...]
    """Columns to keep bounds for."""

    def in_order(
        self, files: pa.Table, prefix: str, rows_max: int | None = None
    ) -> AddedFiles | None:
        """Write the live rows of files into one file, or into several of `rows_max` rows.

        Args:
            files: files of one partition, in the order of their rows; as for `read_files`, with
                partition values and NaN counts if there are any.
            prefix: prefix of the names of the new files.
            rows_max: most rows of a file; None: one file for all.

        Returns:
            The files written, durable; None if no row is live.

        Raises:
            CorruptDataError: DAT-5, a file is damaged.
            StoreError: the store refused a file.
        """
        schema = self.metadata.schema
        if rows_max is None and suits_copies(files, schema):
            live = int(pc.sum(files["rows"]).as_py() or 0)
            if live >= 2 * GROUP_ROWS:
                return self._partly_copied(files, prefix)

        def groups() -> Iterator[pa.Table]:
            batches = read_files(self.store, files, schema, schema.fields)
            return row_groups(physical_batches(batches, schema))

        # Read one group while the group before it is written.
        return self.write(
            ahead(groups), prefix, self.partition(files), self.may_be_nan(files), rows_max
        )

    def _partly_copied(self, files: pa.Table, prefix: str) -> AddedFiles | None:
        """Write the live rows of files into one file, with stored pages where they fit."""
        schema, may_be_nan = self.metadata.schema, self.may_be_nan(files)
        # The log confirms that a copied column of floats has no NaN.
        floats = [f for f in schema.fields if is_float(f.type)]
        never = {f.physical for f in floats if _nans(files, f) != 0}
        rows = StoredRows(self.store, files, schema, frozenset(never))
        groups = ahead(rows.groups)
        first = next(groups, None)
        if first is None:
            return None
        key = f"{data_folder(self.transaction)}{prefix}0.parquet"
        row = write_mixed(
            self.store,
            key,
            chain([first], groups),
            schema,
            self.stats,
            rows.layout or Encodings(),
            may_be_nan=may_be_nan,
        )
        gathered = Gathered()
        gathered.take({**row, **self.partition(files)})
        return gathered.added()

    def write(
        self,
        groups: Iterable[pa.Table],
        prefix: str,
        partition: dict[str, Any],
        may_be_nan: frozenset[int],
        rows_max: int | None = None,
    ) -> AddedFiles | None:
        """Write row groups, columns by physical name, as `in_order` does.

        Args:
            groups: as `row_groups` yields them.
            prefix: prefix of the names of the new files.
            partition: as `partition` returns it.
            may_be_nan: as for `write_groups`.
            rows_max: most rows of a file; None: one file for all.
        """
        gathered, numbers = Gathered(), count()
        for file in _in_files(groups, rows_max):
            key = f"{data_folder(self.transaction)}{prefix}{next(numbers)}.parquet"
            row = write_groups(
                self.store, key, file, self.metadata.schema, self.stats, may_be_nan=may_be_nan
            )
            gathered.take({**row, **partition})
        return gathered.added()

    def repartitioned(self, files: pa.Table, prefix: str) -> AddedFiles | None:
        """Write the live rows of files by the current partitioning (EVO-5).

        Args, returns and raises as `in_order`, with files of any partitions.
        """
        schema = self.metadata.schema
        batches = read_files(self.store, files, schema, schema.fields)
        # The rows were checked when they were added.
        under = replace(without_identities(self.metadata), constraints={})
        return write_data(
            self.store,
            self.transaction,
            pa.RecordBatchReader.from_batches(answer_schema(schema.fields), batches),
            under,
            self.stats,
            prefix=prefix,
        )

    def partition(self, files: pa.Table) -> dict[str, Any]:
        """Return the partition of the files, as columns of ADD-1.

        Files of an older partitioning keep it (EVO-4).
        """
        values: dict[str, Any] = {}
        ids = self.metadata.partition_by
        if PARTITIONING in files.column_names and self.metadata.is_evolved:
            number = files[PARTITIONING][0].as_py()
            ids, values = self.metadata.numbered[number], {PARTITIONING: number}
        for field_id in ids:
            name, own = f"partition.{field_id}", f"{OWN}{field_id}"
            known = files[own if own in files.column_names else name]
            first = known.slice(0, 1).combine_chunks()
            values[name] = encode(first, self.metadata.schema.by_id(field_id).type)[0]
        return values

    def may_be_nan(self, files: pa.Table) -> frozenset[int]:
        """Return the ids of columns of floats whose row groups get no statistics (DAT-9).

        Columns with bounds, for which the log does not decide it, are read for a NaN. A column
        without bounds is not worth a read: it is returned unless the log says that it has none.
        """
        floats = [f for f in self.metadata.schema.fields if is_float(f.type)]
        unknown = [f for f in floats if _nans(files, f) != 0]
        schema, bounded = self.metadata.schema, [f for f in unknown if f in self.stats]
        holding = {f.id for f in unknown if f not in self.stats}
        if bounded:
            names = [f.physical for f in bounded]
            for batch in read_files(self.store, files, schema, bounded):
                rows = pa.Table.from_batches([batch.rename_columns(names)])
                holding.update(i for i, nans in nan_counts(rows, bounded).items() if nans)
        return frozenset(holding)


def physical_batches(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Convert rows of `read_files` to the form of data files."""
    shape = file_schema(schema)
    for batch in batches:
        arrays = [relabelled(a, f.type) for a, f in zip(batch.columns, shape, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _nans(files: pa.Table, field: Field) -> int | None:
    """Return the files' NaN count by the log, including deleted rows; None: unknown."""
    name = f"nans.{field.id}"
    if name not in files.column_names or files[name].null_count:
        return None
    return int(pc.sum(files[name]).as_py() or 0)


def _in_files(groups: Iterable[pa.Table], rows_max: int | None) -> Iterator[Iterator[pa.Table]]:
    """Yield the groups of each file; a group may be split between two files."""
    rest = iter(groups)
    held: list[pa.Table] = []

    def of_one_file(first: pa.Table) -> Iterator[pa.Table]:
        budget, group = rows_max, first
        while group is not None:
            if budget is not None and group.num_rows > budget:
                held.append(group.slice(budget))
                group = group.slice(0, budget)
            if group.num_rows:
                yield group
            if budget is not None:
                budget -= group.num_rows
                if budget == 0:
                    return
            group = next(rest, None)

    while (first := held.pop() if held else next(rest, None)) is not None:
        yield of_one_file(first)


RANGE_BYTES = 64 << 20
"""Approximate Arrow data of one range, which is sorted in memory."""

SPILL_BYTES = 128 << 20
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
        fields = self.rewriting.metadata.schema.fields
        floats = [field for field in fields if is_float(field.type)]
        with RangeSpill(order.count, SPILL_BYTES) as spill:
            for batch in batches:
                spill.put(batch, order.ranges(batch))
                counts = nan_counts(pa.Table.from_batches([batch]), floats) if floats else {}
                nan.update(field for field, count in counts.items() if count)
            groups = row_groups(_in_order(spill, order))
            return self.rewriting.write(groups, prefix, partition, frozenset(nan), rows_max)

    def put_apart(
        self, files: pa.Table, order: RowOrder, together: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the live rows of files by groups of `together` ranges of the order.

        Each group number appears once, in ascending order.
        """
        with RangeSpill(-(-order.count // together), SPILL_BYTES) as spill:
            for batch in self.rows(files):
                spill.put(batch, order.ranges(batch) // together)
            yield from spill.ranges()


def sample_step(rows: int) -> int:
    """Return the sampling step for learning the order of `rows` rows."""
    return max(1, rows // SAMPLE_ROWS)


def _in_order(spill: RangeSpill, order: RowOrder) -> Iterator[pa.RecordBatch]:
    for _, rows in spill.ranges():
        yield from order.sorted(rows).to_batches()
