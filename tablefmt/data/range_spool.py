"""Rows put apart by numbered ranges: in memory, and on disk as soon as they are too many."""

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
    """What was put in, range by range. A context: what is on disk goes at its end.

    Not to be shared between threads.
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
        """Add rows, each with the number of its range; those of one range stay in order.

        Raises:
            StoreError: the disk of temporary files is full.
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
                    f"rows that wait for others could not be put aside in {tempfile.gettempdir()}"
                    f" ({error.strerror or error}); free some space there, or set TMPDIR"
                ) from error

    def ranges(self) -> Iterator[tuple[int, pa.Table]]:
        """The number and the rows of each range that has any, in the order of numbers; once."""
        for number in range(len(self._held)):
            rows = self.take(number)
            if rows is not None:
                yield number, rows

    def take(self, number: int) -> pa.Table | None:
        """The rows of a range, which are here no longer; None if it has none."""
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
        """What is on disk of a range; it goes from there."""
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
