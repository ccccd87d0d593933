"""Parquet objects of a checkpoint: written once, read by columns and row groups. Spec: CKP-3.

All data read is checked: the footer by its SHA-256, pages by their checksums.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import LostCheckpointError
from tablefmt.log.bounded_parquet import footer_of, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.names import part_key
from tablefmt.model.cached import cached_property
from tablefmt.snapshot.checkpoints.root import Part
from tablefmt.store.buffers import lent
from tablefmt.store.protocol import KeyNotFoundError, Range, Store

ROW_GROUP = 1 << 13
"""Lines per row group. A reader of all columns of few files reads this many lines."""

GAP_BYTES = 64 << 10
"""Ranges with at most this gap are requested as one."""

_DELTA = ("id", "added", "size", "rows", "footer", "written", "file", "version")


def encode_part(columns: pa.Table) -> bytes:
    """Return the bytes of a Parquet object with these columns."""
    sink = pa.BufferOutputStream()
    encodings = {name: "DELTA_BINARY_PACKED" for name in _DELTA if name in columns.column_names}
    encodings |= {name: "DELTA_BYTE_ARRAY" for name in ("path",) if name in columns.column_names}
    pq.write_table(
        columns,
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=[n for n in columns.column_names if n.startswith(("partition.", "nulls."))],
        column_encoding=encodings,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=True,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def write_part(store: Store, nonce: str, columns: pa.Table) -> Part:
    """Store columns as a part with a name of its own."""
    body = encode_part(columns)
    key = part_key(nonce)
    store.put(key, body)
    footer = struct.unpack("<I", body[-8:-4])[0] + 8
    return Part(
        path=key,
        size=len(body),
        sha256=digest(body),
        footer=footer,
        footer_sha256=digest(body[-footer:]),
        files=columns.num_rows,
    )


class PartFile:
    """Reader of one part."""

    def __init__(self, store: Store, part: Part) -> None:
        self.part = part
        self._store = store

    def lost(self, reason: object) -> LostCheckpointError:
        """Return the error that names this part."""
        text = str(reason).splitlines()[0][:200]
        message = f"a part of a checkpoint cannot be read: {text}"
        return LostCheckpointError(message, key=self.part.path, rule="CKP-3")

    @cached_property
    def footer(self) -> pq.FileMetaData:
        """Return the Parquet footer. Raises LostCheckpointError."""
        part = self.part
        try:
            end = self._store.get_range(part.path, part.size - part.footer, part.footer + 1)
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        if digest(end) != part.footer_sha256:
            raise self.lost("its footer differs from the root")
        try:
            footer = footer_of(end)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.lost(error) from None
        if not rows_are(footer, part.files):
            raise self.lost("its number of lines differs from the root")
        return footer

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of its columns. Raises LostCheckpointError."""
        try:
            return self.footer.schema.to_arrow_schema()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.lost(error) from None

    @cached_property
    def starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the first line of each row group, and the number of lines."""
        footer = self.footer
        rows = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
        return np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return columns of all lines, or of some row groups, ascending; one chunk each.

        Raises:
            LostCheckpointError: the part is missing or damaged. StoreError: no answer.
        """
        known = list(names)
        chosen = list(range(self.footer.num_row_groups) if groups is None else groups)
        try:
            opened = self._store.open_file(self.part.path)
            source = opened or pa.PythonFile(lent(self._fetched(known, chosen)), mode="r")
            with source:
                columns = read_bounded(source, self.footer, known, chosen)
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise self.lost(error) from None
        if columns.column_names != known or columns.num_rows != sum(map(self._lines_of, chosen)):
            raise self.lost("its number of lines differs from its footer")
        return columns

    def _lines_of(self, group: int) -> int:
        return int(self.starts[group + 1] - self.starts[group])

    def _fetched(self, names: Collection[str], groups: Iterable[int]) -> io.RawIOBase:
        """Return the object as a file that holds these columns, fetched in one round of
        requests.
        """
        spans = []
        wanted = set(names)
        for at in groups:
            group = self.footer.row_group(at)
            for number in range(group.num_columns):
                column = group.column(number)
                if column.path_in_schema in wanted:
                    offsets = (column.dictionary_page_offset, column.data_page_offset)
                    start = min(offset for offset in offsets if offset)
                    spans.append((start, start + column.total_compressed_size))
        ranges = [(self.part.path, start, end - start) for start, end in _merged(sorted(spans))]
        bodies = self._store.get_ranges(ranges)
        if any(body is None for body in bodies):
            raise KeyNotFoundError(self.part.path)
        return _Ranges(self.part.size, ranges, [body or b"" for body in bodies])


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1] + GAP_BYTES:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class _Ranges(io.RawIOBase):
    """Parts of an object as a file of its full length. A read outside them returns no bytes."""

    def __init__(self, size: int, ranges: Sequence[Range], bodies: Sequence[bytes]) -> None:
        self._size, self._at = size, 0
        self._held = [(start, body) for (_, start, _), body in zip(ranges, bodies, strict=True)]

    def read(self, size: int = -1) -> bytes:
        """Read as any file does."""
        for start, body in self._held:
            if start <= self._at < start + len(body):
                end = len(body) if size < 0 else self._at - start + size
                piece = body[self._at - start : end]
                self._at += len(piece)
                return piece
        return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek as any file does."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True
