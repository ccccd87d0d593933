"""Read a metadata table in the Python data source: `format("tablefmt").load("/t#files")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tablefmt.spark.backends.arrow.arrow_tasks import packed, unpacked

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
