"""Metadata tables as DataFrames: by the name of the table, or by a path such as `/t#files`.

The Python data source reads them too. Rows travel as Arrow batches, so a table of many files costs
no Python object per file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.operations.metadata_tables import metadata_path, metadata_rows
from tablefmt.session.table_context import TableContext
from tablefmt.spark.backends.arrow.arrow_tasks import packed, unpacked
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


ROWS_OF_A_TASK = 1 << 16
"""Rows that one partition carries: some megabytes."""


class MetadataReader(DataSourceReader):
    """Passes rows that the driver has on to tasks, as Arrow batches."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: pa.Table | None = rows

    def __getstate__(self) -> dict[str, None]:
        """Return the state without rows: they travel as partitions, not with every task."""
        return {"rows": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Return at least one partition, as Spark requires."""
        assert self.rows is not None
        starts = range(0, max(self.rows.num_rows, 1), ROWS_OF_A_TASK)
        return [InputPartition(packed(self.rows.slice(at, ROWS_OF_A_TASK))) for at in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield from unpacked(partition.value).to_batches()
