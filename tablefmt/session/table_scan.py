"""Reads of a table: the handle at one version, its scans, and the error of a version given up.

A scan is planned from metadata, then read as Arrow batches. Data that cannot be read because its
version was given up is told as that here and nowhere else, and not as damage. Reads pass through
it, and so does all work of a statement on the version that it is pinned to, by whatever engine.
Spec: DAT-5, ENT-13, ENT-14.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_results import BatchSource
from tablefmt.data.row_reader import answer_schema, count_rows, read_files
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.errors import (
    CorruptDataError,
    TablefmtError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.argument_checks import checked_limit
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.cached_property import cached_property
from tablefmt.model.log_entry import Metadata
from tablefmt.model.times import Time
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


@contextmanager
def told_if_given_up(store: Store, version: int) -> Iterator[None]:
    """What is read inside is of a version that was kept when it was chosen.

    Args:
        store: the table's root. Asked for the log only where a file cannot be read.
        version: the one read; of a range the first.

    Raises:
        VersionNotFoundError: ENT-13, a vacuum gave the version up meanwhile.
        TableNotFoundError: ENT-14, the table was dropped meanwhile, with its data.
        CorruptDataError: DAT-5, it is damage.
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
    """A read of one snapshot. Nothing is read until one of the methods asks for it.

    What reads rows raises CorruptDataError (DAT-5) if a data file is not what was written.
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
        """Somebody asked for this version, by number or time: its rows are a constant (CFL-22)."""
        self.columns = chosen_columns(snapshot.schema, columns)
        self.limit = checked_limit(limit)
        self.selection = select_rows(where, snapshot.schema)
        """The rows asked for, as the condition was then: a list may be another one later."""
        self.predicate, self._condition = self.selection.predicate, self.selection.rows

    @property
    def version(self) -> int:
        """The ID version that is read."""
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """Of the answer."""
        return answer_schema(self.columns)

    @cached_property
    def survivors(self) -> pa.Table:
        """The live files that may hold matching rows, with the log's columns."""
        return self.snapshot.matching(self.predicate)

    @cached_property
    def _readable(self) -> pa.Table:
        return self.snapshot.with_vectors(self.survivors)

    def files(self) -> pa.Table:
        """The files that would be read: id, path, size, rows, deleted, version, partition values.

        `rows` is as written, `deleted` how many of them are gone, `version` the one that added the
        file; `partition` is a struct with the partition columns' names, absent if unpartitioned.
        """
        return describe_files(self.survivors, self.snapshot)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in the order of the files' ids; at most `limit` rows in all."""
        return self._batches()

    def to_arrow(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(list(self._batches(kept=True)), self.schema)

    def _batches(self, kept: bool = False) -> Iterator[pa.RecordBatch]:
        left = self.limit
        if left == 0:
            return
        files, schema = self._readable, self.snapshot.schema
        if left is not None and self._condition is None:
            files = first_files(files, left)
        # Where a condition decides, how many files it takes to have so many rows is not known.
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
        )
        with told_if_given_up(self.store, self.version):
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                yield batch if left >= batch.num_rows else batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def count(self) -> int:
        """Rows; without a condition from metadata alone."""
        files = self.survivors if self._condition is None else self._readable
        with told_if_given_up(self.store, self.version):
            rows = count_rows(self.store, files, self.snapshot.schema, self._condition)
        return rows if self.limit is None else min(rows, self.limit)

    def explain(self) -> str:
        """What would be read, of how much, and why."""
        total, rows, size = self.snapshot.totals
        kept = self.survivors
        sums = (int(pc.sum(kept[c]).as_py() or 0) for c in ("rows", "deleted", "size"))
        kept_rows, kept_gone, kept_bytes = sums
        if self.predicate is not None:
            why = f"pruned by {to_sql(self.predicate)}"
        elif self._condition is not None:
            why = "a pyarrow expression filters rows; it does not prune files"
        else:
            why = "no condition"
        return (
            f"version {self.version}: {kept.num_rows} of {total} files, "
            f"{kept_rows - kept_gone} of {rows} rows, {kept_bytes} of {size} bytes; {why}; "
            f"columns {', '.join(f.name for f in self.columns)}"
        )


def first_files(files: pa.Table, rows: int) -> pa.Table:
    """As many files as hold so many rows, or all of them."""
    live = files["rows"].to_numpy() - files["deleted"].to_numpy()
    return files.slice(0, int(np.searchsorted(np.cumsum(live), rows)) + 1)


def describe_files(files: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Files for people: see `Scan.files`."""
    columns = {name: files[name] for name in ("id", "path", "size", "rows", "deleted")}
    columns["version"] = files["added"]
    if snapshot.metadata.partition_by:
        values = [files[f"partition.{i}"].combine_chunks() for i in snapshot.metadata.partition_by]
        names = snapshot.metadata.partition_names
        columns["partition"] = pa.StructArray.from_arrays(values, names=names)
    return pa.table(columns)


class RowKeywords(TypedDict, total=False):
    """Which rows and columns. What they mean: `ReadableTable.scan`."""

    columns: Sequence[str] | None
    where: Condition
    version: int | None
    timestamp: Time | None


class ScanKeywords(RowKeywords, total=False):
    """The keywords of `ReadableTable.scan`."""

    limit: int | None


class ReadableTable:
    """The address of a table, its definition and its rows at one version.

    The handle itself stands for all rows of its version where the Arrow stream protocol is spoken:
    `pa.table(table)`, `polars.DataFrame(table)`, `FROM table` in DuckDB.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context

    @property
    def uri(self) -> str:
        """Where the table is; holds no secret."""
        return self.context.store.uri

    @property
    def id(self) -> str:
        """The table's own id, 32 hex digits: stays when the table is moved."""
        return self.context.view.head.table

    @property
    def version(self) -> int:
        """The ID version that this handle reads."""
        return self.context.version

    @property
    def oldest_version(self) -> int:
        """The earliest ID version that can be read, as far as is known here (ENT-13)."""
        return self.context.view.head.totals.oldest

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow types; comments are b"comment" in the metadata of fields."""
        return to_arrow(self._metadata.schema)

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition columns, in order."""
        return self._metadata.partition_names

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that are set."""
        return dict(self._metadata.properties)

    @property
    def comment(self) -> str | None:
        """What people say of the table; None for nothing."""
        return self._metadata.comment

    @property
    def constraints(self) -> dict[str, str]:
        """The conditions of the CHECK constraints, by name."""
        return {name: each.condition for name, each in self._metadata.constraints.items()}

    @property
    def _metadata(self) -> Metadata:
        return self.context.view.metadata_at(self.version)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        version: int | None = None,
        timestamp: Time | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A read of one version: the handle's, or the one asked for. Nothing is read yet.

        Args:
            columns: names of top-level columns, in the order of the answer; all for None.
            where: rows for which it is TRUE: SQL text (PRN-3); filter tuples, as pyarrow.parquet
                takes them: `[("id", ">", 1)]`; or a pyarrow expression (PRN-15).
            version: the ID version.
            timestamp: or a time, for the newest version of then (TIM-4): an aware datetime, or
                ISO 8601 text, UTC without a zone.
            limit: the most rows, from 0.

        Raises:
            VersionNotFoundError: no such version, or a time before the first.
            InvalidRangeError: a version and a time; what is neither; the limit.
            SchemaMismatchError: a column that is not there.
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
        """`scan(...)` as one Arrow table. Raises as `scan`, and CorruptDataError (DAT-5)."""
        return self.scan(**how).to_arrow()

    def to_reader(self, **how: Unpack[ScanKeywords]) -> pa.RecordBatchReader:
        """`scan(...)` as a stream, read as it is asked for. Raises as `to_arrow`."""
        return self.scan(**how).to_reader()

    def to_pandas(self, **how: Unpack[ScanKeywords]) -> Any:
        """`scan(...)` as a pandas frame. Raises as `to_arrow`, and UnsupportedFeatureError where
        pandas is not installed.
        """
        return self.scan(**how).to_pandas()

    def to_polars(self, **how: Unpack[ScanKeywords]) -> Any:
        """`scan(...)` as a polars DataFrame. Raises as `to_arrow`, and UnsupportedFeatureError
        where polars is not installed.
        """
        return self.scan(**how).to_polars()

    def count(self, **how: Unpack[ScanKeywords]) -> int:
        """How many rows `scan(...)` gives; without a condition no data file is read. Raises as
        `to_arrow`.
        """
        return self.scan(**how).count()

    def head(self, n: int = 5, **how: Unpack[RowKeywords]) -> pa.Table:
        """The first `n` rows of `scan(...)`, or all if there are fewer. Raises as `to_arrow`."""
        return self.scan(**how, limit=n).to_arrow()

    def __arrow_c_schema__(self) -> Any:
        return self.scan().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)
