"""Data files as input of Arrow's scanner, prefetched before the scanner reads.

Many files of a remote store are fetched in parallel, and the next ones while Arrow decodes. Files
of a local disk are passed on open; footers of the next ones are read while it decodes. Spec: DAT-4,
DAT-5, ADD-7.
"""

from __future__ import annotations

import io
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tablefmt.data.file_checksum import END_BYTES, End
from tablefmt.log.bounded_parquet import check_end, checked_footer
from tablefmt.log.parquet_footer import Leaf, Outline, leaves_of, top_level
from tablefmt.store.buffers import PositionedReader, lent, reader_of
from tablefmt.store.object_store import KeyNotFoundError, Range, Store

WHOLE_BYTES = 1 << 20
"""Remote files up to this length are fetched whole, because a second round trip takes longer."""

SCAN_TASK_BYTES = 64 << 20
"""Bytes of remote files that are held before Arrow decodes them. As many again are being fetched.
"""

PART_BYTES = 16 << 20
"""Most bytes of one request. Longer ranges are split into parallel requests."""

GAP_BYTES = 1 << 20
"""Ranges of one file with at most this gap are fetched as one."""

_Item = TypeVar("_Item")


class DataFiles(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]
    """Arrow file system with the data files of one table, by their keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: dict[str, tuple[int, End]] = {}
        self._outlines: dict[str, Outline | None] = {}
        self._ranges: dict[str, RangedFile] = {}

    @property
    def on_disk(self) -> bool:
        """True if the files are on a disk of this machine."""
        return self._store.traits.on_disk

    def hold(self, path: str, size: int, end: End) -> None:
        """Add a file whose footer bytes are fetched. Raises ValueError: its footer is damaged."""
        self._outlines[path] = check_end(end.body)
        self._files[path] = (size, end)

    def is_whole(self, path: str) -> bool:
        """Return whether all bytes of a file are fetched."""
        return self._files[path][1].start == 0

    def footer(self, path: str) -> pq.FileMetaData:
        """Return the footer of a file. Raises Arrow's errors for an invalid footer."""
        return checked_footer(self._files[path][1].body)

    def leaves(self, path: str) -> tuple[Leaf, ...]:
        """Return the columns of a file, in the order of its chunks."""
        body = memoryview(self._files[path][1].body)
        length = int.from_bytes(body[-8:-4], "little")
        return leaves_of(bytes(body[-8 - length : -8]))

    def column_names(self, path: str) -> frozenset[str]:
        """Return the top-level columns of a file; none if its footer is unusual."""
        return frozenset() if self._outlines[path] is None else top_level(self.leaves(path))

    def outline(self, path: str) -> Outline | None:
        """Return the parts of the footer of a file; None: Arrow finds no footer."""
        return self._outlines[path]

    def whole(self, path: str) -> bytes | None:
        """Return the bytes of a file, if they are fetched and ADD-7 covers all of them."""
        size, end = self._files[path]
        return end.body if end.start == 0 and size <= END_BYTES else None

    def expect(self, path: str, ranges: Sequence[tuple[int, int]]) -> RangedFile:
        """Announce the ranges of a file that will be read, for remote files that are not whole."""
        size, end = self._files[path]
        self._ranges[path] = RangedFile(self._store, path, size, end, ranges)
        return self._ranges[path]

    def expected(self, path: str) -> RangedFile | None:
        """Return a file whose ranges are announced already."""
        return self._ranges.get(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file: fetched bytes come from memory, the rest from the store."""
        size, end = self._files[path]
        if end.start == 0:
            return reader_of(end.body)
        if not self._store.traits.remote:
            opened = self._store.open_file(path)
            if opened is not None:
                return opened
        held = self._ranges.get(path) or RangedFile(self._store, path, size, end, ())
        return held.opened()

    def drop(self, paths: Iterable[str]) -> None:
        """Release the fetched bytes of files, except what every reader of them reads first."""
        for path in paths:
            if path in self._ranges:
                size, end = self._files[path]
                self._files[path] = (size, end.shortened(size))
                self._ranges[path].drop()

    def get_type_name(self) -> str:
        """Return the type name that Arrow requires."""
        return "tablefmt"

    def normalize_path(self, path: str) -> str:
        """Return the key unchanged."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        """Return the file information from the log."""
        kind = pyarrow.fs.FileType.File
        return [pyarrow.fs.FileInfo(path, kind, size=self._files[path][0]) for path in paths]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise io.UnsupportedOperation("this file system is read-only")

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
    delete_root_dir_contents = get_file_info_selector = move = open_append_stream = _refuse
    open_input_stream = open_output_stream = _refuse


class RangedFile:
    """A remote file with announced ranges, which are fetched many at once when first needed.

    A range is released once it is read to its end. Other ranges are fetched one by one.
    Thread-safe.
    """

    def __init__(
        self, store: Store, path: str, size: int, end: End, ranges: Iterable[tuple[int, int]]
    ) -> None:
        self.size = size
        self._store = store
        self._path = path
        self._end = end
        parts = list(in_parts(ranges, end.start))
        self._starts = [start for start, _ in parts]
        self._lengths = [length for _, length in parts]
        self._bodies: list[bytes | None] = [None] * len(parts)
        self._left = list(self._lengths)
        self._lock = threading.Lock()

    @property
    def expected_bytes(self) -> int:
        """Bytes in the announced ranges and in the end."""
        return sum(self._lengths) + len(self._end.body)

    def missing(self, first: int = 0, most: int = SCAN_TASK_BYTES) -> list[int]:
        """Return parts from `first` on that were never fetched, of about `most` bytes in total."""
        chosen: list[int] = []
        length = 0
        for at in range(first, len(self._starts)):
            if self._bodies[at] is not None or self._left[at] <= 0:
                continue
            length += self._lengths[at]
            if chosen and length > most:
                break
            chosen.append(at)
        return chosen

    def wanted(self, parts: Iterable[int]) -> list[Range]:
        """Return the ranges of these parts, for the store."""
        return [(self._path, self._starts[at], self._lengths[at]) for at in parts]

    def give(self, parts: Iterable[int], bodies: Iterable[bytes | None]) -> None:
        """Accept the store's answer. KeyNotFoundError: the file no longer exists."""
        for at, body in zip(parts, bodies, strict=True):
            if body is None:
                raise KeyNotFoundError(self._path)
            self._bodies[at] = body

    def drop(self) -> None:
        """Release all fetched bytes."""
        with self._lock:
            self._bodies = [None] * len(self._bodies)
            self._end = self._end.shortened(self.size)

    def piece(self, start: int, stop: int) -> bytes | memoryview:
        """Return bytes from `start`, at most up to `stop`; at least one unless the file is
        truncated.
        """
        if start >= self._end.start:
            return memoryview(self._end.body)[start - self._end.start : stop - self._end.start]
        at = bisect_right(self._starts, start) - 1
        if at < 0 or start >= self._starts[at] + self._lengths[at]:
            following = self._starts[at + 1] if at + 1 < len(self._starts) else self._end.start
            return self._store.get_range(self._path, start, min(stop, following) - start)
        with self._lock:
            if self._bodies[at] is None:
                self._left[at] = max(self._left[at], 1)
                parts = self.missing(at, SCAN_TASK_BYTES // 2)
                self.give(parts, self._store.get_ranges(self.wanted(parts)))
            body = self._bodies[at] or b""
            piece = memoryview(body)[start - self._starts[at] : stop - self._starts[at]]
            self._left[at] -= len(piece)
            if self._left[at] <= 0:
                self._bodies[at] = None
        return piece

    def opened(self) -> pa.NativeFile:
        """Return an open file for Arrow."""
        return pa.PythonFile(lent(_Reader(self)), mode="r")


class _Reader(PositionedReader):
    """One reader of a file, with its own position."""

    def __init__(self, file: RangedFile) -> None:
        super().__init__(file.size)
        self._file = file

    def read(self, length: int = -1) -> bytes:
        """Return the next bytes; fewer at the end."""
        stop = self.size if length < 0 else min(self.size, self._at + length)
        pieces: list[bytes | memoryview] = []
        while self._at < stop:
            piece = self._file.piece(self._at, stop)
            if not piece:
                break
            pieces.append(piece)
            self._at += len(piece)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)


def open_data_file(store: Store, path: str, size: int) -> pa.NativeFile:
    """Open one data file of that length, read as Arrow requests. Raises KeyNotFoundError,
    StoreError.
    """
    opened = store.open_file(path)
    if opened is not None:
        return opened
    start = 0 if size <= WHOLE_BYTES else size - END_BYTES
    end = End(start, store.get_range(path, start, size + 1 - start), size)
    if start == 0:
        return reader_of(end.body)
    return RangedFile(store, path, size, end, ()).opened()


def in_parts(ranges: Iterable[tuple[int, int]], stop: int) -> Iterator[tuple[int, int]]:
    """Yield first byte and length of the requests, ascending: close ranges joined, long ones split.

    Pure.

    Args:
        ranges: first byte and length of each range, in any order.
        stop: bytes from here on are not requested.
    """
    joined: list[list[int]] = []
    for start, length in sorted(ranges):
        if joined and start - joined[-1][1] <= GAP_BYTES:
            joined[-1][1] = max(joined[-1][1], start + length)
        else:
            joined.append([start, start + length])
    for first, end in joined:
        for start in range(first, min(end, stop), PART_BYTES):
            yield start, min(PART_BYTES, min(end, stop) - start)


def column_ranges(
    footer: pq.FileMetaData, groups: Iterable[int], names: frozenset[str] | None
) -> list[tuple[int, int]]:
    """Return first byte and length of the chunks of top-level columns in row groups.

    Args:
        footer: footer of the file.
        groups: row groups, from 0.
        names: names of the columns; None for all.
    """
    columns = footer.schema.to_arrow_schema()
    ends = list(accumulate(_leaves(field.type) for field in columns))
    leaves = [
        leaf
        for field, end in zip(columns, ends, strict=True)
        if names is None or field.name in names
        for leaf in range(end - _leaves(field.type), end)
    ]
    if ends and ends[-1] != footer.num_columns:
        # Another writer used a layout that is not understood here, so read everything.
        leaves = list(range(footer.num_columns))
    ranges = []
    for group in groups:
        described = footer.row_group(group)
        for leaf in leaves:
            chunk = described.column(leaf)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            ranges.append((start, chunk.total_compressed_size))
    return ranges


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet columns for a column of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if kind.num_fields == 0:
        return 1
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))


def ahead(items: Callable[[], Iterator[_Item]]) -> Iterator[_Item]:
    """Yield the items; make the next one while the caller uses one.

    The prefetched item is released with the iterator.
    """
    remaining = items()
    pool = ThreadPoolExecutor(1, thread_name_prefix="tablefmt-read")
    try:
        coming = pool.submit(next, remaining, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, remaining, None)
            yield item
            del item
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
