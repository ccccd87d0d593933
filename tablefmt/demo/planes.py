"""Execution backends of the demo: Spark handles files itself, or Arrow does through Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from tablefmt import spark as tablefmt_spark
from tablefmt.session.commit_result import Commit
from tablefmt.spark.backends.choice import choose
from tablefmt.store.open import open_store
from tablefmt.table import Table
from tablefmt.table import create as create_table


class Plane(Protocol):
    """A table that accepts and returns Spark DataFrames."""

    name: str
    table: Table

    def append(self, frame: Any) -> Commit:
        """Add rows."""

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""


class SparkPlane:
    """Backend in which Spark reads and writes the files itself."""

    name = "Spark reads and writes the data files itself"

    def __init__(self, table: Any) -> None:
        self._table = table
        self.table: Table = table.table

    def append(self, frame: Any) -> Commit:
        """Add rows."""
        commit: Commit = self._table.append(frame)
        return commit

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""
        commit: Commit = self._table.overwrite(frame, where=where)
        return commit

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""
        return self._table.to_df(**point)

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""
        return self._table.changes(**bounds)


class ArrowPlane:
    """Backend in which Python reads and writes the files; rows pass Spark as Arrow tables."""

    name = "Arrow in this process reads and writes the data files, fed from Spark by toArrow()"

    def __init__(self, spark: Any, table: Table) -> None:
        self._spark = spark
        self.table = table

    def append(self, frame: Any) -> Commit:
        """Add rows."""
        return self.table.append(frame.toArrow())

    def overwrite(self, frame: Any, where: str) -> Commit:
        """Replace the rows for which `where` holds."""
        return self.table.overwrite(frame.toArrow(), where=where)

    def read(self, **point: Any) -> Any:
        """Return a DataFrame of one version; the newest by default."""
        return self._spark.createDataFrame(self.table.refresh().to_arrow(**point))

    def changes(self, **bounds: Any) -> Any:
        """Return a DataFrame of the row changes of a range."""
        return self._spark.createDataFrame(self.table.changes(**bounds).to_arrow())


def make(
    spark: Any, uri: str, schema: pa.Schema, storage_options: Mapping[str, Any] | None
) -> Plane:
    """Create a table partitioned by month, on Spark's native backend if the store allows it.

    Raises:
        TableExistsError: there is a table already.
        StoreError: the store does not answer.
    """
    if _spark_can(spark, uri, storage_options):
        return SparkPlane(
            tablefmt_spark.create(
                spark, uri, schema, partition_by=["month"], storage_options=storage_options
            )
        )
    table = create_table(uri, schema, partition_by=["month"], storage_options=storage_options)
    return ArrowPlane(spark, table)


def _spark_can(spark: Any, uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Return whether Spark's native backend works. Called before anything is created."""
    return choose(spark, open_store(uri, storage_options)).name == "native"
