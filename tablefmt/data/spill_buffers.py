"""Spill buffers of rows: in memory, or on disk beyond a limit.

One kind is for rows that are read repeatedly, the other for rows by numbered ranges.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import StoreError


@contextmanager
def spilled(reader: pa.RecordBatchReader, memory_limit: int) -> Iterator[pa.Table]:
    """Yield the rows of a stream as a table, valid within the block.

    Args:
        reader: a stream, which is read to its end once.
        memory_limit: bytes; beyond it, the rows are in a memory-mapped temporary file.

    Raises:
        StoreError: the disk for temporary files is full. Errors of the stream.
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
    with ExitStack() as stack:
        with _of_disk():
            file = stack.enter_context(
                tempfile.NamedTemporaryFile(prefix="tablefmt-", suffix=".arrow")
            )
        _write_rows(file.name, reader, held)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def _write_rows(path: str, reader: pa.RecordBatchReader, held: list[pa.RecordBatch]) -> None:
    """Write the held batches and the rest of a stream to a file."""
    with _of_disk():
        sink = pa.OSFile(path, "wb")
        out = pa.ipc.new_file(sink, reader.schema)
    try:
        while held:
            with _of_disk():
                out.write_batch(held.pop(0))
        # The stream may fail too, with errors of its own.
        for batch in reader:
            with _of_disk():
                out.write_batch(batch)
        with _of_disk():
            out.close()
    finally:
        with suppress(OSError, pa.ArrowException):
            sink.close()


@contextmanager
def _of_disk() -> Iterator[None]:
    """Convert errors of the disk for temporary files. Raises StoreError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"cannot write spilled rows to {tempfile.gettempdir()}"
            f" ({reason}). Free some space there, or set TMPDIR."
        ) from error


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


class RangeSpill:
    """Rows by range. A context manager; its end removes the temporary files.

    Not thread-safe.
    """

    def __init__(self, ranges: int, memory_limit: int) -> None:
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(ranges)]
        self._limit = memory_limit
        self._size = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> RangeSpill:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def put(self, rows: pa.RecordBatch, ranges: NDArray[np.int64]) -> None:
        """Add rows, each with the number of its range. Rows of one range keep their order.

        Raises:
            StoreError: the disk for temporary files is full.
        """
        order = np.argsort(ranges, kind="stable")
        apart = rows.take(pa.array(order))
        numbers, starts = np.unique(ranges[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        for number, start, end in zip(numbers, starts, ends, strict=True):
            self._held[number].append(apart.slice(start, end - start))
        self._size += apart.nbytes
        if self._size > self._limit:
            with _of_disk():
                self._store()

    def ranges(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the number and the rows of each non-empty range, ascending; works once."""
        for number in range(len(self._held)):
            rows = self.take(number)
            if rows is not None:
                yield number, rows

    def take(self, number: int) -> pa.Table | None:
        """Remove and return the rows of a range; None if it has none."""
        batches = [*self._stored(number), *self._held[number]]
        self._held[number].clear()
        return pa.Table.from_batches(batches) if batches else None

    def _store(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tablefmt-")
        for number, held in enumerate(self._held):
            if held:
                with (
                    open(self._path(number), "ab") as file,
                    pa.ipc.new_stream(file, held[0].schema) as out,
                ):
                    for batch in held:
                        out.write_batch(batch)
                held.clear()
        self._size = 0

    def _stored(self, number: int) -> list[pa.RecordBatch]:
        """Return the spilled rows of a range, and delete their file."""
        if self._folder is None or not self._path(number).exists():
            return []
        batches: list[pa.RecordBatch] = []
        with open(self._path(number), "rb") as file:
            size = self._path(number).stat().st_size
            while file.tell() < size:
                with pa.ipc.open_stream(file) as stream:
                    batches.extend(stream)
        self._path(number).unlink()
        return batches

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}.arrows"
