"""Spill buffers for rows that are read repeatedly: in memory, or on disk beyond a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa


@contextmanager
def spooled(reader: pa.RecordBatchReader, memory_limit: int) -> Iterator[pa.Table]:
    """Yield the rows of a stream as a table, valid within the block.

    Args:
        reader: a stream, which is read to its end once.
        memory_limit: bytes; beyond it, the rows are in a memory-mapped temporary file.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        held.append(batch)
        size += batch.nbytes
        if size > memory_limit:
            break
    else:
        yield pa.Table.from_batches(held, reader.schema)
        return
    with tempfile.NamedTemporaryFile(prefix="tablefmt-", suffix=".arrow") as file:
        with pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, reader.schema) as out:
            while held:
                out.write_batch(held.pop(0))
            for batch in reader:
                out.write_batch(batch)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


KEPT_BYTES = 64 << 20
"""Bytes of a stream kept in memory for a second read. The rest is on disk."""


class Kept:
    """A stream that can be read again from its first row. Rows that were read are kept.

    Not thread-safe. Only the most recent reader may be used.
    """

    def __init__(self, source: pa.RecordBatchReader, memory_limit: int = KEPT_BYTES) -> None:
        self._source = source
        self._limit = memory_limit
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: Any = None
        self._out: Any = None
        self.schema: pa.Schema = source.schema
        self.lost = False
        """True if the disk is full or failed: rows that were read cannot be read again."""

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader over all rows from the first on. Must not be called if `lost`."""
        assert not self.lost, "the kept rows are lost"
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from list(self._held)
        if self._out is not None:
            with pa.memory_map(self._file.name) as mapped:
                # The stream has no end mark yet, so this reads exactly what was written.
                yield from pa.ipc.open_stream(mapped)
        for batch in self._source:
            self._keep(batch)
            yield batch

    def _keep(self, batch: pa.RecordBatch) -> None:
        if self.lost:
            return
        self._size += batch.nbytes
        if self._size <= self._limit:
            self._held.append(batch)
            return
        try:
            if self._out is None:
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - outlives the call
                    prefix="tablefmt-", suffix=".arrow"
                )
                self._out = pa.ipc.new_stream(self._file, self.schema)
            self._out.write_batch(batch)
            self._file.flush()
        except (OSError, pa.ArrowException):
            # Keeping the rows is a precaution. The work itself can go on.
            self._drop()
            self.lost = True

    def _drop(self) -> None:
        self._held = []
        if self._file is not None:
            # Leave the stream unfinished: it will not be read, and the disk may be full.
            self._out, file, self._file = None, self._file, None
            file.close()
