"""Reads of a table: the handle at one version, its scans, and the error for an expired version.

A scan is planned from metadata, then read as Arrow batches. Vacuum may remove the files of the
version that is read. Then the error names the version instead of damage. Only this module decides
that, for all reads, and for all work of a statement on its snapshot, on every engine.
Spec: DAT-5, ENT-13, ENT-14.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_results import BatchSource, polars_frame
from tablefmt.data.row_reader import answer_schema, count_rows, read_files
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.errors import (
    CorruptDataError,
    TablefmtError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tablefmt.expressions.generated_columns import check_conditions, generated_expressions
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.argument_checks import checked_limit
from tablefmt.model.argument_names import check_method_names
from tablefmt.model.arrow_types import arrow_type, to_arrow
from tablefmt.model.cached_property import cached_property
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.identity_columns import identity_texts
from tablefmt.model.log_entry import OWN, PARTITIONING, Metadata
from tablefmt.model.properties import plain_properties
from tablefmt.model.schema import Field
from tablefmt.model.times import Time
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.file_columns import WITHOUT_BOUNDS
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from typing_extensions import Unpack


@contextmanager
def explain_given_up_version(store: Store, version: int) -> Iterator[None]:
    """Turn errors about missing data into errors about the version, if a vacuum gave it up.

    Args:
        store: the table's root. The log is read only after a file could not be read.
        version: the version read inside the context; of a range, the first.

    Raises:
        VersionNotFoundError: ENT-13, a vacuum gave up the version in the meantime.
        TableNotFoundError: ENT-14, the table was dropped with its data in the meantime.
        CorruptDataError: DAT-5, a data file is damaged.
    """
    try:
        yield
    except CorruptDataError:
        try:
            head = LogView.open(store).head
        except TableNotFoundError as dropped:
            raise dropped from None
        except TablefmtError:
            head = None
        if head is not None and max(version, 0) < head.totals.oldest:
            raise VersionNotFoundError(
                f"version {version}", head.totals.oldest, head.version
            ) from None
        raise


class Scan(BatchSource):
    """A read of one snapshot. Nothing is read before one of the methods is called.

    Methods that read rows raise CorruptDataError (DAT-5) if a data file is not what was written.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        limit: int | None = None,
        asked: bool = False,
    ) -> None:
        self.store = store
        self.snapshot = snapshot
        self.asked = asked
        """True if the caller requested this version by number or time: its rows are constants
        (CFL-22)."""
        self.columns = chosen_columns(snapshot.schema, columns)
        self.limit = checked_limit(limit)
        self.selection = select_rows(where, snapshot.schema)
        """Selection by the condition at the time of the call. A list may change later."""
        self.predicate, self._condition = self.selection.predicate, self.selection.rows

    @property
    def version(self) -> int:
        """The version that is read."""
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return answer_schema(self.columns)

    @cached_property
    def survivors(self) -> pa.Table:
        """The live files that may hold matching rows, with the log's columns but bounds."""
        return self.snapshot.matching(self.predicate, WITHOUT_BOUNDS)

    @cached_property
    def _readable(self) -> pa.Table:
        return self.snapshot.with_vectors(self.survivors)

    def files(self) -> pa.Table:
        """Return the files to read: id, path, size, rows, deleted, version, partition values.

        `rows` counts rows as written, `deleted` those of them that were deleted. `version` is the
        one that added the file. `partition` is a struct of the partition columns, absent without
        partitioning.
        """
        return file_listing(self.survivors, self.snapshot)

    def partitions(self) -> pa.Table:
        """Return the partitions of the files to read: partition, files, rows, bytes.

        `partition` is a struct of the partition columns, absent without partitioning. `rows` does
        not count deleted rows. Rows are in the order of the values, NULL last.

        If files have different partitionings, the struct has the columns of all of them, and
        `partitioned_by` says which of them partition the files.
        """
        return partition_listing(self.survivors, self.snapshot)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches in the order of the files' ids, with at most `limit` rows in all."""
        return self._batches()

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table."""
        return pa.Table.from_batches(list(self._batches(kept=True)), self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars DataFrame. Text that polars decodes is not copied.

        Raises:
            UnsupportedFeatureError: polars is not installed.
        """
        return polars_frame(self.schema, lambda: self._batches(kept=True, views=True))

    def _batches(self, kept: bool = False, views: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows. `kept`: the caller keeps all batches in memory. `views`: text may be
        views."""
        left = self.limit
        if left == 0:
            return
        schema = self.snapshot.schema
        if left is None or self._condition is not None:
            files = self._readable
        elif "survivors" in self.__dict__:
            files = first_files(self._readable, left)
        else:
            files = self.snapshot.with_vectors(self.snapshot.first(left, WITHOUT_BOUNDS))
        # With a condition, the number of files that give enough rows is unknown.
        eager = left is None or self._condition is None
        batches = read_files(
            self.store,
            files,
            schema,
            self.columns,
            self._condition,
            eager=eager,
            first=left,
            kept=kept,
            views=views,
        )
        with explain_given_up_version(self.store, self.version):
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                yield batch if left >= batch.num_rows else batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def count(self) -> int:
        """Return the number of rows. Without a condition it comes from metadata alone."""
        files = self.survivors if self._condition is None else self._readable
        with explain_given_up_version(self.store, self.version):
            rows = count_rows(self.store, files, self.snapshot.schema, self._condition)
        return rows if self.limit is None else min(rows, self.limit)

    def explain(self) -> str:
        """Return a text about the files, rows and bytes to read, and the reason for pruning."""
        total, rows, size = self.snapshot.totals
        kept = self.survivors
        sums = (int(pc.sum(kept[c]).as_py() or 0) for c in ("rows", "deleted", "size"))
        kept_rows, kept_deleted, kept_bytes = sums
        if self.predicate is not None:
            why = f"pruned by {to_sql(self.predicate)}"
        elif self._condition is not None:
            why = "a pyarrow expression filters rows; it does not prune files"
        else:
            why = "no condition"
        return (
            f"version {self.version}: reads {kept.num_rows} of {total} files, "
            f"{kept_rows - kept_deleted} of {rows} rows, {kept_bytes} of {size} bytes; {why}; "
            f"columns {', '.join(f.name for f in self.columns)}"
        )


def first_files(files: pa.Table, rows: int) -> pa.Table:
    """Return the first files that together hold `rows` live rows, or all files."""
    live = files["rows"].to_numpy() - files["deleted"].to_numpy()
    return files.slice(0, int(np.searchsorted(np.cumsum(live), rows)) + 1)


def file_listing(files: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Return files in the form of `Scan.files`."""
    columns = {name: files[name] for name in ("id", "path", "size", "rows", "deleted")}
    columns["version"] = files["added"]
    if snapshot.metadata.all_partition_ids:
        columns["partition"] = _partition_values(files, snapshot)
    if snapshot.metadata.is_evolved:
        columns["partitioned_by"] = _declarations(files, snapshot)
    return pa.table(columns)


def partition_listing(files: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Return the partitions of files in the form of `Scan.partitions`."""
    metadata = snapshot.metadata
    held = [_held(files, field) for field in metadata.all_partition_fields]
    keys = [name for name in held if name in files.column_names]
    if metadata.is_evolved:
        keys.append(PARTITIONING)
    live = files.select([*keys, "size"])
    live = live.append_column("live", pc.subtract(files["rows"], files["deleted"]))
    sums: list[Any] = [("live", "count"), ("live", "sum"), ("size", "sum")]
    found = live.group_by(keys).aggregate(sums)
    if files.num_rows == 0:
        found = found.slice(0, 0)
    if keys:
        found = found.sort_by([(key, "ascending") for key in keys])
    names = {"files": "live_count", "rows": "live_sum", "bytes": "size_sum"}
    columns = {name: found[of] for name, of in names.items()}
    if metadata.all_partition_ids:
        columns = {"partition": _partition_values(found, snapshot), **columns}
    if metadata.is_evolved:
        columns["partitioned_by"] = _declarations(found, snapshot)
    return pa.table(columns)


def _held(files: pa.Table, field: Field) -> str:
    """Return the name of the column with the partition values of a field."""
    own = f"{OWN}{field.id}"
    return own if own in files.column_names else f"partition.{field.id}"


def _partition_values(files: pa.Table, snapshot: Snapshot) -> pa.StructArray:
    """Return the values of all partition fields; NULL for fields that do not partition a file."""
    fields = snapshot.metadata.all_partition_fields
    held = [_held(files, field) for field in fields]
    values = [
        files[name].combine_chunks()
        if name in files.column_names
        else pa.nulls(files.num_rows, arrow_type(field.type))
        for name, field in zip(held, fields, strict=True)
    ]
    return pa.StructArray.from_arrays(values, names=[field.name for field in fields])


def _declarations(files: pa.Table, snapshot: Snapshot) -> pa.Array:
    """Return how each file is partitioned, as it is declared: `region, days(ts)`."""
    metadata = snapshot.metadata
    texts = {
        number: ", ".join(metadata.partitioned_as(number).partition_names)
        for number in metadata.numbered
    }
    return pa.array([texts[number] for number in files[PARTITIONING].to_pylist()], pa.string())


class RowKeywords(TypedDict, total=False):
    """Keywords for rows and columns. See `ReadableTable.scan`."""

    columns: Sequence[str] | None
    where: Condition
    version: int | str | None
    timestamp: Time | None


class ScanKeywords(RowKeywords, total=False):
    """The keywords of `ReadableTable.scan`."""

    limit: int | None


@check_method_names
class ReadableTable:
    """The address of a table, its definition, and its rows at one version.

    Through the Arrow C stream interface, the handle gives all rows of its version:
    `pa.table(table)`, `polars.DataFrame(table)`, `FROM table` in DuckDB.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context

    @property
    def uri(self) -> str:
        """Location of the table, without secrets."""
        return self.context.store.uri

    @property
    def id(self) -> str:
        """The table's own id, 32 hex digits. It stays the same when the table is moved."""
        return self.context.view.head.table

    @property
    def version(self) -> int:
        """The version that this handle reads."""
        return self.context.version

    @property
    def oldest_version(self) -> int:
        """The earliest version that can be read, as far as this handle knows (ENT-13)."""
        return self.context.view.head.totals.oldest

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow types. Comments are b"comment" in the metadata of fields."""
        return to_arrow(self._metadata.schema)

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition columns, in order."""
        return self._metadata.partition_names

    @property
    def cluster_by(self) -> list[str]:
        """Names of the columns of the clustering order; none without an order (CMP-8)."""
        return [field.name for field in clustering_of(self._metadata)]

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that are set."""
        return plain_properties(self._metadata)

    @property
    def comment(self) -> str | None:
        """The comment of the table; None: no comment."""
        return self._metadata.comment

    @property
    def constraints(self) -> dict[str, str]:
        """The conditions of the CHECK constraints, by name."""
        return check_conditions(self._metadata)

    @property
    def generated(self) -> dict[str, str]:
        """The expressions of the generated columns, by the names of the columns (GEN-1)."""
        return generated_expressions(self._metadata)

    @property
    def identity(self) -> dict[str, str]:
        """The clauses of the identity columns, by the names of the columns (IDN-1)."""
        return identity_texts(self._metadata)

    @property
    def _metadata(self) -> Metadata:
        return self.context.view.metadata_at(self.version)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        version: int | str | None = None,
        timestamp: Time | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read of the handle's version, or of the given one. Nothing is read yet.

        Args:
            columns: names of top-level columns, in the order of the result; None: all.
            where: rows for which it is TRUE. SQL text (PRN-3); filter tuples as in pyarrow.parquet:
                `[("id", ">", 1)]`; or a pyarrow expression (PRN-15).
            version: the version, or the name of a tag (TAG-1).
            timestamp: read the newest version at this time instead (TIM-4). An aware datetime, or
                ISO 8601 text, UTC without a zone.
            limit: most rows, at least 0.

        Raises:
            VersionNotFoundError: no such version, or a time before the first.
            InvalidRangeError: both a version and a time; an invalid one; an invalid limit.
            SchemaMismatchError: a column that does not exist.
            InvalidPredicateError, UnsupportedFeatureError: the condition.
        """
        asked = version is not None or timestamp is not None
        snapshot = self.context.view.snapshot(self.context.resolve_point(version, timestamp))
        return Scan(
            self.context.store,
            snapshot,
            columns=columns,
            where=where,
            limit=limit,
            asked=asked,
        )

    def to_arrow(self, **how: Unpack[ScanKeywords]) -> pa.Table:
        """Return `scan(...)` as one Arrow table. Raises as `scan`, and CorruptDataError (DAT-5)."""
        return self.scan(**how).to_arrow()

    def to_reader(self, **how: Unpack[ScanKeywords]) -> pa.RecordBatchReader:
        """Return `scan(...)` as a stream that is read on demand. Raises as `to_arrow`."""
        return self.scan(**how).to_reader()

    def to_pandas(self, **how: Unpack[ScanKeywords]) -> pd.DataFrame:
        """Return `scan(...)` as a pandas DataFrame.

        Raises as `to_arrow`, and UnsupportedFeatureError if pandas is not installed.
        """
        return self.scan(**how).to_pandas()

    def to_polars(self, **how: Unpack[ScanKeywords]) -> pl.DataFrame:
        """Return `scan(...)` as a polars DataFrame.

        Raises as `to_arrow`, and UnsupportedFeatureError if polars is not installed.
        """
        return self.scan(**how).to_polars()

    def count(self, **how: Unpack[ScanKeywords]) -> int:
        """Return the number of rows of `scan(...)`. Without a condition no data file is read.

        Raises as `to_arrow`.
        """
        return self.scan(**how).count()

    def head(self, n: int = 5, **how: Unpack[RowKeywords]) -> pa.Table:
        """Return the first `n` rows of `scan(...)`, or all if there are fewer. Raises as
        `to_arrow`."""
        return self.scan(**how, limit=n).to_arrow()

    def __arrow_c_schema__(self) -> Any:
        return self.scan().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)
