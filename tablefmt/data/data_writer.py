"""Writing of Arrow data to Parquet files: split by partition, in bounded memory, durable on return.

CHECK constraints are checked over Arrow rows before they are written. Spec: DAT-2, DAT-3, DAT-6,
DAT-13, ADD-1 .. ADD-5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.column_cast import cast_to_schema, match_columns
from tablefmt.data.generated_values import GeneratedValues
from tablefmt.data.identity_values import IdentityValues
from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.parquet_writer import write_file
from tablefmt.data.selection import select_rows
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.check_constraints import broken, labelled, shown_columns, violation_of
from tablefmt.expressions.generated_columns import generated_columns
from tablefmt.log.object_names import data_folder
from tablefmt.model.arrow_types import arrow_type, file_schema
from tablefmt.model.identity_columns import Claim
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.partition_transforms import transform_of
from tablefmt.model.scalar_values import encode, shown_value
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.store.object_store import Store


class Checks:
    """The compiled constraints of a table. Not thread-safe."""

    def __init__(self, metadata: Metadata, filled: Collection[int] = ()) -> None:
        """Compile all constraints. Raises UnsupportedFeatureError if one needs Spark, with its
        name.

        Args:
            metadata: of the table.
            filled: ids of generated columns that this writer computes, so they need no check.
        """
        self._metadata = metadata
        sure = {each.constraint for each in generated_columns(metadata) if each.field.id in filled}
        names = (name for name in metadata.constraints if name not in sure)
        self._tests = {name: _test(name, metadata) for name in names}

    def check(self, rows: pa.Table) -> None:
        """Refuse the rows if a condition is FALSE for one of them. NULL passes, as in SQL.

        Args:
            rows: rows as data files store them, with physical names.

        Raises:
            ConstraintViolationError: names the constraint and shows a row.
            InvalidPredicateError: a condition has no result for a row, such as an overflow.
        """
        for name, test in self._tests.items():
            failing = _chosen(rows, test)
            if failing.num_rows:
                fields = shown_columns(self._metadata.schema)
                row = {f.name: shown_value(failing.column(f.physical)[0]) for f in fields}
                condition = self._metadata.constraints[name].condition
                raise broken(name, condition, row, f"{failing.num_rows} of {rows.num_rows} rows")


def _test(name: str, metadata: Metadata) -> RowFilter:
    broken_by = violation_of(name, metadata)
    try:
        rows = select_rows(broken_by, metadata.schema).rows
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(
            f"{labelled(name, metadata.constraints[name].condition)} cannot be evaluated without "
            f"Spark ({error}). Write with Spark, or drop the constraint.",
            error.features,
        ) from None
    assert rows is not None, "a condition was given"
    return rows


def _chosen(rows: pa.Table, test: RowFilter) -> pa.Table:
    exact = test.pushed if test.exact is None else test.exact
    if exact is None or isinstance(exact, pc.Expression):
        return rows.filter(exact)
    parts = [batch.filter(exact(batch)) for batch in rows.to_batches()]
    return pa.Table.from_batches(parts, rows.schema)


FLUSH_BYTES = 192 << 20
"""Most Arrow data held in memory before it is written. A stream of any length takes less than half
a gigabyte in all.
"""

THREADS = 8
"""Files of one chunk written in parallel: enough to hide a remote store's latency."""

HELD_FILES = max(2, min(4, pa.cpu_count()))
"""Chunks of in-memory rows written in parallel; encoding takes a core each."""

SHARED_FILE_BYTES = 64 << 10
"""Most bytes of Arrow data of a file that goes into a shared data folder (DAT-1)."""

_Job: TypeAlias = tuple[str, pa.Table, dict[str, Any]]
"""A file to write: its key, its rows, and its partition values as columns of ADD-1."""


@dataclass(slots=True)
class Gathered:
    """Descriptions of the files written so far, as columns (ADD-1)."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    count: int = 0

    def take(self, row: dict[str, Any]) -> None:
        """Add one file. Columns that it lacks are unknown (VAL-4)."""
        if self.count == 0:
            self.columns = {name: [value] for name, value in row.items()}
            self.count = 1
            return
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (self.count - len(column)))
            column.append(value)
        self.count += 1

    def added(self) -> AddedFiles | None:
        """Return the columns at equal length; None if there is no file."""
        if self.count > 1:
            for column in self.columns.values():
                column.extend([None] * (self.count - len(column)))
        return AddedFiles(self.columns) if self.count else None


def write_data(
    store: Store,
    transaction: str,
    reader: pa.RecordBatchReader,
    metadata: Metadata,
    stats: Sequence[Field],
    *,
    prefix: str = "",
    shared_key: str | None = None,
    compression: str = "zstd",
    rows_max: int | None = None,
    in_memory: bool = False,
    claim: Claim | None = None,
    updates: bool = False,
) -> AddedFiles | None:
    """Write every row of `reader` under the transaction's folder.

    Args:
        store: the store to write to; each file is durable on return (ADD-5).
        transaction: the transaction that names the folder.
        reader: rows; columns by name.
        metadata: schema, partitioning and constraints of the table.
        stats: columns to keep bounds for.
        prefix: prefix of the files' names, which separates several writers of one transaction.
        shared_key: key in a shared data folder for the file, if there is one small file only.
        compression: a Parquet codec, by Arrow's name for it.
        rows_max: most rows of a file, 1 or more; None for no limit.
        in_memory: the caller holds all rows anyway, so parallel files need no extra memory.
        claim: claims numbers for identity columns; None: a table with such columns is refused.
        updates: the rows are new versions of older rows, which have their numbers.

    Returns:
        The files, none without rows; None if there were no rows.

    Raises:
        SchemaMismatchError, ConstraintViolationError (DAT-3, DAT-13), InvalidPredicateError: the
            data does not fit.
        UnsupportedFeatureError: a constraint that only Spark can evaluate. The caller must remove
            the files written so far.
    """
    gathered = Gathered()
    rows_of = whole_rows(reader.schema, metadata, claim=claim, updates=updates)

    numbers = count()

    def jobs(chunk: pa.Table) -> Iterator[_Job]:
        rows = rows_of(chunk)
        for part, values, alone in _marked(_bounded(_split(rows, metadata), rows_max)):
            number = next(numbers)
            key = f"{data_folder(transaction)}{prefix}{number}.parquet"
            if shared_key and alone and number == 0 and _is_small(part):
                key = shared_key
            yield key, part, values

    def write(job: _Job) -> dict[str, Any]:
        key, rows, values = job
        return {**write_file(store, key, rows, metadata.schema, stats, compression), **values}

    # map() releases a chunk before it requests the next one.
    chunks = map(jobs, _chunks(reader))
    if in_memory:
        written = side_by_side(write, chain.from_iterable(chunks), HELD_FILES)
    else:
        written = chain.from_iterable(side_by_side(write, each, THREADS) for each in chunks)
    for row in written:
        gathered.take(row)
    return gathered.added()


def _is_small(rows: pa.Table) -> bool:
    return int(rows.get_total_buffer_size()) <= SHARED_FILE_BYTES


def whole_rows(
    given: pa.Schema,
    metadata: Metadata,
    *,
    checked: bool = True,
    claim: Claim | None = None,
    updates: bool = False,
) -> Callable[[pa.Table], pa.Table]:
    """Return the function that makes rows of data files of given rows.

    Identity columns are filled (IDN-3), and generated columns that the rows lack are computed
    (GEN-3).

    Args:
        given: columns of the given rows.
        metadata: of the table.
        checked: also check the constraints. Otherwise identity columns stay NULL.
        claim, updates: as in `write_data`.

    Raises:
        SchemaMismatchError: the columns do not fit.
        UnsupportedFeatureError: a constraint or a generated column that needs Spark.
    """
    schema, generated = metadata.schema, GeneratedValues(metadata)
    numbered = IdentityValues.of(metadata, claim, updates=updates, checked=checked)
    positions = match_columns(given, schema, generated.ids | numbered.ids)
    missing = {
        field.id
        for field, at in zip(schema.fields, positions, strict=True)
        if at is None and field.id in generated.ids
    }
    generated.prepare(missing)
    shape, checks = file_schema(schema), Checks(metadata, missing) if checked else None
    before = numbered.relaxed(schema)

    def whole(rows: pa.Table) -> pa.Table:
        made = numbered.filled(cast_to_schema(rows, positions, before, shape))
        made = generated.filled(made, missing)
        if checks is not None:
            checks.check(made)
        return made

    return whole


def _marked(
    parts: Iterator[tuple[pa.Table, dict[str, Any]]],
) -> Iterator[tuple[pa.Table, dict[str, Any], bool]]:
    """Yield the parts, each with whether it is the only one."""
    first, second = next(parts, None), next(parts, None)
    if first is None or second is None:
        yield from () if first is None else ((*first, True),)
        return
    for part, values in chain((first, second), parts):
        yield part, values, False


def _chunks(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield non-empty tables of at most FLUSH_BYTES. Nothing else references a yielded table."""
    held: list[pa.RecordBatch] = []
    size = 0

    def taken() -> pa.Table:
        whole = pa.Table.from_batches(held)
        held.clear()
        return whole

    for whole in reader:
        width = whole.nbytes
        # A table that is passed as one batch may have any size.
        rows = max(1, whole.num_rows * FLUSH_BYTES // max(width, 1))
        for start in range(0, whole.num_rows, rows):
            batch = whole.slice(start, rows) if rows < whole.num_rows else whole
            length = width if batch is whole else batch.nbytes
            if held and size + length > FLUSH_BYTES:
                yield taken()
                size = 0
            held.append(batch)
            size += length
            del batch
        del whole
    if held:
        yield taken()


def _split(rows: pa.Table, metadata: Metadata) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """Yield rows by partition with exact values (VAL-2). Order within a partition is kept."""
    columns = metadata.partition_fields
    if not columns:
        yield rows, {}
        return
    keys = [comparable(partition_column(rows, c, metadata.schema), c) for c in columns]
    codes = codes_of(keys, rows.num_rows)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ordered = rows.take(pa.array(order)) if len(starts) > 1 else rows
    ends = [*starts[1:], rows.num_rows]
    firsts = pa.array(order[starts])
    values = {c.id: encode(k.take(firsts), c.type) for c, k in zip(columns, keys, strict=True)}
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = {f"partition.{i}": column[at] for i, column in values.items()}
        yield ordered.slice(int(start), int(end - start)), part


def partition_column(rows: pa.Table, field: Field, schema: Schema) -> pa.ChunkedArray:
    """Return the values by which a partition column, or a hidden field, separates rows of files.

    Spec: HID-3.
    """
    if field.transform is None:
        return rows[field.physical]
    made = transform_of(field, schema)
    chunks = [made.values(each) for each in rows[made.column.physical].chunks]
    return pa.chunked_array(chunks, arrow_type(field.type))


def codes_of(keys: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
    """Return a number for every row, equal for rows that are equal in all columns."""
    codes = np.zeros(rows, np.int64)
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        # Renumbering after every column keeps the product from overflowing.
        combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(combined, return_inverse=True)[1]
    return codes


def comparable(values: pa.ChunkedArray, column: Field) -> pa.Array:
    """Return partition values in comparable form: one zero, one NaN."""
    whole = values.combine_chunks()
    if is_float(column.type):
        whole = pc.add(whole, pa.scalar(0.0, whole.type))
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(float("nan"), whole.type), whole)
    return whole


def _bounded(
    parts: Iterable[tuple[pa.Table, dict[str, Any]]], rows_max: int | None
) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """Split the parts so that none has more than `rows_max` rows."""
    for rows, values in parts:
        step = rows_max or rows.num_rows
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step), values
