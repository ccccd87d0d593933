"""Streaming rewrite of live rows of data files in their order, for compaction.

Works on any thread, and in any process that sees the store. Spec: LIN-1, DAT-9, ADD-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.bounds import nan_counts
from tablefmt.data.fetch import ahead
from tablefmt.data.file_stream import row_groups, write_groups
from tablefmt.data.nested_values import relabelled
from tablefmt.data.read import read_files
from tablefmt.data.write import Gathered
from tablefmt.log.names import data_folder
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.model.values import encode
from tablefmt.store.protocol import Store


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

        def groups() -> Iterator[pa.Table]:
            batches = read_files(self.store, files, schema, schema.fields)
            return row_groups(physical_batches(batches, schema))

        # Read one group while the group before it is written.
        return self.write(
            ahead(groups), prefix, self.partition(files), self.may_be_nan(files), rows_max
        )

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

    def partition(self, files: pa.Table) -> dict[str, Any]:
        """Return the partition of the files, as columns of ADD-1."""
        values = {}
        for field_id in self.metadata.partition_by:
            name = f"partition.{field_id}"
            first = files[name].slice(0, 1).combine_chunks()
            values[name] = encode(first, self.metadata.schema.by_id(field_id).type)[0]
        return values

    def may_be_nan(self, files: pa.Table) -> frozenset[int]:
        """Return the ids of columns with bounds that hold a NaN in a live row.

        Columns for which the log does not decide it are read.
        """
        unknown = [f for f in self.stats if is_float(f.type) and _nans(files, f) != 0]
        if not unknown:
            return frozenset()
        schema = self.metadata.schema
        holding: set[int] = set()
        for batch in read_files(self.store, files, schema, unknown):
            rows = pa.Table.from_batches([batch.rename_columns([f.physical for f in unknown])])
            holding.update(i for i, nans in nan_counts(rows, unknown).items() if nans)
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
        room, group = rows_max, first
        while group is not None:
            if room is not None and group.num_rows > room:
                held.append(group.slice(room))
                group = group.slice(0, room)
            if group.num_rows:
                yield group
            if room is not None:
                room -= group.num_rows
                if room == 0:
                    return
            group = next(rest, None)

    while (first := held.pop() if held else next(rest, None)) is not None:
        yield of_one_file(first)
