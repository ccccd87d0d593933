"""A handle on a table that can be read: the scan, and short forms of what scans answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from tablefmt.data.selection import Condition
from tablefmt.model.times import Time
from tablefmt.session.handle import Handle
from tablefmt.session.scan import Scan

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RowKeywords(TypedDict, total=False):
    """Which rows and columns. What they mean: `ReadableHandle.scan`."""

    columns: Sequence[str] | None
    where: Condition
    version: int | None
    timestamp: Time | None


class ScanKeywords(RowKeywords, total=False):
    """The keywords of `ReadableHandle.scan`."""

    limit: int | None


class ReadableHandle(Handle):
    """The reading half of a table.

    The handle itself stands for all rows of its version where the Arrow stream protocol is spoken:
    `pa.table(table)`, `polars.DataFrame(table)`, `FROM table` in DuckDB.
    """

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
