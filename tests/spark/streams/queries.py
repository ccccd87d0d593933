"""Streams for tests: a source with one file per batch, and the expected rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.spark.entry import stream_verbs
from tablefmt.spark.streams import stream_sink

DDL = "id long, p string"


class Feed:
    """A folder of files, one a batch, and the checkpoint of the query that reads it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.source = folder / "source"
        self.checkpoint = folder / "checkpoint"
        self.source.mkdir(parents=True)
        self.rows: list[tuple[int, str]] = []
        """All that was put."""
        self._files = 0

    def put(self, *ids: int) -> None:
        """One more file."""
        rows = [(i, "ab"[i % 2]) for i in ids]
        columns = {"id": pa.array(ids, pa.int64()), "p": pa.array([p for _, p in rows])}
        path = self.source / f"{self._files:05d}.parquet"
        pq.write_table(pa.table(columns), path)
        # Spark takes files by their times, and those may be the same.
        os.utime(path, (1_700_000_000 + self._files,) * 2)
        self._files += 1
        self.rows += rows

    def batches(self) -> Any:
        """A stream of the files."""
        reader = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.source))

    def writer(self, mode: str = "append", frame: Any = None, **options: Any) -> Any:
        """Return a writer of all new rows to a table."""
        stream = self.batches() if frame is None else frame
        writer = stream.writeStream.format("tablefmt").outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.options(**options).trigger(availableNow=True)

    def run(self, to: str, **options: Any) -> Any:
        """Run a query until all that is new was written. Raises what ends it."""
        return ended(lambda: self.writer(**options).start(to))

    def forget(self, batch: int) -> None:
        """Take the note that a batch was written: as if Spark was killed before it."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()


def ended(start: Callable[[], Any]) -> Any:
    """Return a query after its end. Raise the error that ended it."""
    query = start()
    query.awaitTermination()
    return query


def storage_options_of_sinks(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return a list that gets the names of the storage options of each sink that is made."""
    told: list[set[str]] = []

    def sink_of(mode: str, given: Any, partition_by: Any) -> Any:
        told.append({name for name in given if name.startswith("storage.")})
        return stream_sink.sink_of(mode, given, partition_by)

    monkeypatch.setattr(stream_verbs, "sink_of", sink_of)
    return told
