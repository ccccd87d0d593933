"""SparkTable: the verbs of `Table` on DataFrames, run by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.model.times import Time
from tablefmt.operations.context import Commit
from tablefmt.spark.changes import changes_dataframe
from tablefmt.spark.options import parse_options
from tablefmt.spark.read import read_at
from tablefmt.spark.write import append_rows, overwrite_rows
from tablefmt.table import Table
from tablefmt.table import create as create_table
from tablefmt.table import open as open_table


class SparkTable:
    """A table and a session. Reads and writes begin at the newest version."""

    def __init__(self, spark: Any, table: Table) -> None:
        self.spark = spark
        self.table = table
        """The same table through Arrow: everything that needs no Spark."""

    def __repr__(self) -> str:
        return f"Spark{self.table!r}"

    def to_df(self, version: int | None = None, timestamp: Time | None = None) -> Any:
        """The table as a DataFrame pinned to a version; by default the newest there is now.

        Raises:
            VersionNotFoundError, InvalidRangeError: no such version or time.
        """
        self.table.refresh()
        return read_at(self.spark, self.table.context, version, timestamp)

    def append(self, df: Any, **options: Any) -> Commit:
        """Add the rows of a DataFrame. `options` and errors: as `tablefmt.spark.write`."""
        return append_rows(self.table.context, df, parse_options(options))

    def overwrite(
        self, df: Any, *, where: str | None = None, dynamic_partitions: bool = False, **options: Any
    ) -> Commit:
        """Replace the whole table, the partitions for which `where` holds, or those of `df`.

        `options` and errors: as `tablefmt.spark.write`.
        """
        if where is not None:
            options["replaceWhere"] = where
        if dynamic_partitions:
            options["partitionOverwriteMode"] = "dynamic"
        return overwrite_rows(self.table.context, df, parse_options(options))

    def changes(self, **bounds: Any) -> Any:
        """Row changes of a range as a DataFrame. Arguments and errors: as `Table.changes`.

        `columns` and `where` are left to the DataFrame: Spark prunes by them itself.
        """
        return changes_dataframe(self.spark, self.table.changes(**bounds))

    def history(self, limit: int | None = None) -> Any:
        """`Table.history` as a DataFrame, newest first."""
        return self.spark.createDataFrame(self.table.history(limit))


def open(spark: Any, uri: str, *, storage_options: Mapping[str, Any] | None = None) -> SparkTable:
    """Open a table. Raises as `tablefmt.open`, and UnsupportedFeatureError for what Spark lacks."""
    return SparkTable(spark, open_table(uri, storage_options=storage_options))


def create(
    spark: Any,
    uri: str,
    schema: Any,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    exist_ok: bool = False,
) -> SparkTable:
    """Make a table with no rows. Arguments and errors: as `tablefmt.create`."""
    table = create_table(
        uri,
        schema,
        partition_by=partition_by,
        properties=properties,
        storage_options=storage_options,
        exist_ok=exist_ok,
    )
    return SparkTable(spark, table)
