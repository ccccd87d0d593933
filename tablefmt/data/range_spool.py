"""Spill buffer of rows by numbered ranges: in memory, and on disk beyond a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import StoreError


class RangeSpool:
    """Rows by range. A context manager; its end removes the temporary files.

    Not thread-safe.
    """

    def __init__(self, ranges: int, memory_limit: int) -> None:
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(ranges)]
        self._limit = memory_limit
        self._size = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> RangeSpool:
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
            try:
                self._store()
            except OSError as error:
                raise StoreError(
                    f"cannot write spilled rows to {tempfile.gettempdir()}"
                    f" ({error.strerror or error}). Free some space there, or set TMPDIR."
                ) from error

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
