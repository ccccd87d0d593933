"""Rows that have to be looked at again and again, in memory or, if they are too many, on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa


@contextmanager
def spooled(reader: pa.RecordBatchReader, memory_limit: int) -> Iterator[pa.Table]:
    """The rows of a stream as a table, while the block lasts.

    Args:
        reader: read to its end, once.
        memory_limit: bytes; with more the rows are in a temporary file that is mapped.
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
"""Of a stream that may have to be read again, so much is kept in memory and the rest on disk."""


class Kept:
    """A stream that can be read again from its first row: what was read of it is kept.

    Not to be shared between threads. Only the reader that was asked for last may be read.
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
        """The disk would not take them: what was read cannot be read again."""

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def reader(self) -> pa.RecordBatchReader:
        """All rows, from the first on. Not for who finds `lost`."""
        assert not self.lost, "the rows are gone"
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from list(self._held)
        if self._out is not None:
            with pa.memory_map(self._file.name) as mapped:
                # Of no more than was written: there is no end mark yet.
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
            # To keep them is a precaution; the work itself can go on.
            self._drop()
            self.lost = True

    def _drop(self) -> None:
        self._held = []
        if self._file is not None:
            # Unfinished on purpose: nobody reads it any more, and the disk may be full.
            self._out, file, self._file = None, self._file, None
            file.close()
