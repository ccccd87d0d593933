"""Data files as Arrow's scanner gets them: what it will read is there before it asks.

A remote store is asked for many files at once, and for the next of them while Arrow decodes; files
of a local disk are handed on open. Spec: DAT-4, DAT-5, ADD-7.
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

from tablefmt.data.checksum import END_BYTES, End
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.store.buffers import lent, reader_of
from tablefmt.store.protocol import KeyNotFoundError, Range, Store

WHOLE_BYTES = 1 << 20
"""Remote files up to this length are fetched whole: a second round trip takes longer than that."""

PORTION_BYTES = 64 << 20
"""Of remote files, held at once before Arrow decodes them; as much again is on its way."""

PART_BYTES = 8 << 20
"""Most that one request brings: long ranges come as several, side by side."""

GAP_BYTES = 1 << 20
"""Ranges of one file that are no further apart are fetched as one."""

_Item = TypeVar("_Item")


class DataFiles(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]
    """A file system for Arrow that holds data files of one table, by their keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: dict[str, tuple[int, End]] = {}
        self._ranges: dict[str, RangedFile] = {}

    def hold(self, path: str, size: int, end: End) -> None:
        """Add a file, of which the end is there."""
        self._files[path] = (size, end)

    def is_whole(self, path: str) -> bool:
        """Whether all of a file is there."""
        return self._files[path][1].start == 0

    def footer(self, path: str) -> pq.FileMetaData:
        """Of a file. Raises what Arrow does for one that is none."""
        return footer_of(self._files[path][1].body)

    def promise(self, path: str, ranges: Sequence[tuple[int, int]]) -> RangedFile:
        """Say which ranges of a file will be read; for remote files that are not whole."""
        size, end = self._files[path]
        self._ranges[path] = RangedFile(self._store, path, size, end, ranges)
        return self._ranges[path]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """What is there of it, with whatever brings the rest."""
        size, end = self._files[path]
        if end.start == 0:
            return reader_of(end.body)
        if not self._store.remote:
            opened = self._store.open_file(path)
            if opened is not None:
                return opened
        held = self._ranges.get(path) or RangedFile(self._store, path, size, end, ())
        return held.opened()

    def drop(self, paths: Iterable[str]) -> None:
        """Let go of what was fetched of files."""
        for path in paths:
            if path in self._ranges:
                self._ranges[path].drop()

    def get_type_name(self) -> str:
        """Arrow asks for one."""
        return "tablefmt"

    def normalize_path(self, path: str) -> str:
        """Keys stay as they are."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        """By the log."""
        kind = pyarrow.fs.FileType.File
        return [pyarrow.fs.FileInfo(path, kind, size=self._files[path][0]) for path in paths]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("data files are read, and nothing else")

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
    delete_root_dir_contents = get_file_info_selector = move = open_append_stream = _refuse
    open_input_stream = open_output_stream = _refuse


class RangedFile:
    """A remote file, of which some ranges are promised: they come many at once, when first needed.

    A range that is read to its end is let go. What was not promised is fetched by itself. Safe
    between threads.
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
    def promised(self) -> int:
        """Bytes."""
        return sum(self._lengths)

    def missing(self, first: int = 0, most: int = PORTION_BYTES) -> list[int]:
        """Parts from one on that were never there, about as long as `most` together at most."""
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
        """What to ask the store for."""
        return [(self._path, self._starts[at], self._lengths[at]) for at in parts]

    def give(self, parts: Iterable[int], bodies: Iterable[bytes | None]) -> None:
        """What the store answered. KeyNotFoundError: the file is not there any more."""
        for at, body in zip(parts, bodies, strict=True):
            if body is None:
                raise KeyNotFoundError(self._path)
            self._bodies[at] = body

    def drop(self) -> None:
        """Let go of all that was fetched."""
        with self._lock:
            self._bodies = [None] * len(self._bodies)

    def piece(self, start: int, stop: int) -> bytes | memoryview:
        """Bytes from `start` on, not beyond `stop`; at least one unless the file is cut short."""
        if start >= self._end.start:
            return memoryview(self._end.body)[start - self._end.start : stop - self._end.start]
        at = bisect_right(self._starts, start) - 1
        if at < 0 or start >= self._starts[at] + self._lengths[at]:
            following = self._starts[at + 1] if at + 1 < len(self._starts) else self._end.start
            return self._store.get_range(self._path, start, min(stop, following) - start)
        with self._lock:
            if self._bodies[at] is None:
                self._left[at] = max(self._left[at], 1)
                parts = self.missing(at, PORTION_BYTES // 2)
                self.give(parts, self._store.get_ranges(self.wanted(parts)))
            body = self._bodies[at] or b""
            piece = memoryview(body)[start - self._starts[at] : stop - self._starts[at]]
            self._left[at] -= len(piece)
            if self._left[at] <= 0:
                self._bodies[at] = None
        return piece

    def opened(self) -> pa.NativeFile:
        """For Arrow."""
        return pa.PythonFile(lent(_Reader(self)), mode="r")


class _Reader(io.RawIOBase):
    """One reader of a file, at a place of its own."""

    def __init__(self, file: RangedFile) -> None:
        self._file = file
        self._at = 0

    def read(self, length: int = -1) -> bytes:
        """The next bytes; fewer at the end."""
        size = self._file.size
        stop = size if length < 0 else min(size, self._at + length)
        pieces: list[bytes | memoryview] = []
        while self._at < stop:
            piece = self._file.piece(self._at, stop)
            if not piece:
                break
            pieces.append(piece)
            self._at += len(piece)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True


def open_data_file(store: Store, path: str, size: int) -> pa.NativeFile:
    """One data file of that length, read as Arrow asks. Raises KeyNotFoundError, StoreError."""
    opened = store.open_file(path)
    if opened is not None:
        return opened
    start = 0 if size <= WHOLE_BYTES else size - END_BYTES
    end = End(start, store.get_range(path, start, size + 1 - start), size)
    if start == 0:
        return reader_of(end.body)
    return RangedFile(store, path, size, end, ()).opened()


def in_parts(ranges: Iterable[tuple[int, int]], stop: int) -> Iterator[tuple[int, int]]:
    """First byte and length of what to ask for, ascending: near ranges as one, long ones in parts.

    Pure.

    Args:
        ranges: first byte and length of each, in any order.
        stop: what lies from here on is not asked for.
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
    """First byte and length of the chunks of top-level columns in row groups.

    Args:
        footer: of the file.
        groups: row groups, from 0.
        names: of the columns; None: all.
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
        # A shape of another writer's that is not understood here: everything, then.
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
    """Parquet columns that a column of this type is made of."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if kind.num_fields == 0:
        return 1
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))


def ahead(items: Callable[[], Iterator[_Item]]) -> Iterator[_Item]:
    """The same items; the next one is made while one is used. It is let go with the iterator."""
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
