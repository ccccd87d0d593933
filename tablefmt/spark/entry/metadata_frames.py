"""Metadata tables as DataFrames: by the name of the table, or by a path such as `/t#files`.

Rows travel as Arrow batches, so a table of many files costs no Python object per file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.operations.metadata_tables import metadata_path, metadata_rows
from tablefmt.session.table_context import TableContext
from tablefmt.spark.pyspark_objects import DataFrame, Session, StructType
from tablefmt.spark.spark_options import ReadOptions
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.location import open_store


def metadata_at(path: str | None, storage: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the table and the kind of a path such as `/t#files`. None for any other path.

    A table may have a path with such an ending. Its rows are read, not its metadata.
    """
    found = None if path is None else metadata_path(path)
    if found is None or path is None or _is_table(path, storage):
        return None
    return found if _is_table(found[0], storage) else None


def _is_table(path: str, storage: Mapping[str, Any]) -> bool:
    return open_context_if_exists(open_store(path, storage)) is not None


def read_metadata(context: TableContext, kind: str, options: ReadOptions) -> pa.Table:
    """Return the rows that a read with options gives.

    Raises:
        UnsupportedFeatureError: the options ask for row changes. Other errors as `metadata_rows`.
    """
    if options.changes is not None:
        raise UnsupportedFeatureError(
            f"{kind} has no row changes; leave readChangeFeed out", ["option:readChangeFeed"]
        )
    return metadata_rows(context, kind, options.version, options.timestamp)


def spark_schema(rows: pa.Table) -> StructType:
    """Return the columns as Spark's types."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(to_spark_json(from_arrow(rows.schema)))


def metadata_frame(spark: Session, uri: str, kind: str, options: ReadOptions) -> DataFrame:
    """Return a metadata table of the table at `uri`. Raises as `read_metadata`."""
    context = open_context(open_store(uri, options.storage_options))
    rows = read_metadata(context, kind, options)
    return spark.createDataFrame(rows, spark_schema(rows))
