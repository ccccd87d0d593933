"""Parquet objects of a checkpoint: written once, read by columns, row groups and lines.

All data read is checked: the footer by its SHA-256, pages by their checksums. Spec: CKP-3, CKP-6.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import LostCheckpointError
from tablefmt.log.bounded_parquet import footer_of, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.object_names import part_key
from tablefmt.log.page_files import flat_columns
from tablefmt.log.parquet_footer import Leaf, leaves_of
from tablefmt.log.text_lines import text_lines
from tablefmt.model.cached_property import cached_property
from tablefmt.snapshot.checkpoint_root import Part
from tablefmt.snapshot.segments import Places
from tablefmt.store.buffers import PositionedReader, lent
from tablefmt.store.object_store import KeyNotFoundError, Range, Store

ROW_GROUP = 1 << 15
"""Lines per row group. A reader of all columns of few files reads this many lines."""

PAGE_BYTES = 1 << 15
"""Bytes of a page before compression: about 500 paths. A plan decodes only the pages of paths that
it keeps. It decodes whole chunks of the other columns, which takes less time.
"""

_PAGE_LINES = 1 << 9
"""The writer checks the size of a page after this many lines."""

GAP_BYTES = 64 << 10
"""Ranges with at most this gap are requested as one."""


def encode_part(columns: pa.Table) -> bytes:
    """Return the bytes of a Parquet object with these columns."""
    sink = pa.BufferOutputStream()
    partitions = [name for name in columns.column_names if name.startswith("partition.")]
    encodings = {
        field.name: encoding
        for field in columns.schema
        if field.name not in partitions and (encoding := _encoding(field.type))
    }
    pq.write_table(
        columns,
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=partitions or False,
        column_encoding=encodings or None,
        data_page_size=PAGE_BYTES,
        write_batch_size=_PAGE_LINES,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=True,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _encoding(kind: pa.DataType) -> str | None:
    """Return the encoding that takes the least time to decode; None: plain. It is also short."""
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "DELTA_BINARY_PACKED"
    return "BYTE_STREAM_SPLIT" if pa.types.is_floating(kind) else None


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

    @property
    def footer(self) -> pq.FileMetaData:
        """Return the Parquet footer. Raises LostCheckpointError."""
        return self._opened[0]

    @cached_property
    def _opened(self) -> tuple[pq.FileMetaData, dict[str, tuple[int, Leaf]]]:
        """Return the footer, and its flat columns by name, each with its index."""
        part = self.part
        try:
            end = self._store.get_range(part.path, part.size - part.footer, part.footer + 1)
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        if digest(end) != part.footer_sha256:
            raise self.lost("its footer differs from the root")
        try:
            footer = footer_of(end)
            leaves = leaves_of(bytes(end[-8 - int.from_bytes(end[-8:-4], "little") : -8]))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.lost(error) from None
        if not rows_are(footer, part.files):
            raise self.lost("its number of lines differs from the root")
        return footer, {name: (at, leaves[at]) for name, at in flat_columns(leaves).items()}

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
        with self._source(known, chosen) as source:
            return self._decoded(source, known, chosen)

    def read_lines(self, names: Sequence[str], lines: Places) -> pa.Table:
        """Return columns of some lines, ascending; one chunk each. Raises as `read`."""
        groups, group_of = np.unique(
            np.searchsorted(self.starts, lines, side="right") - 1, return_inverse=True
        )
        if not len(groups):
            return self.read(names, [])
        chosen, within = groups.tolist(), lines - self.starts[groups][group_of]
        sizes = np.diff(self.starts)[groups]
        with self._source(names, chosen) as source:
            of_groups = np.split(within, np.cumsum(np.bincount(group_of))[:-1])
            texts = {name: self._texts(source, name, chosen, of_groups) for name in names}
            rest = [name for name in names if texts[name] is None]
            at = pa.array((np.cumsum(sizes) - sizes)[group_of] + within)
            whole = self._decoded(source, rest, chosen).take(at) if rest else None
        found = {n: whole[n] if whole is not None and n in rest else texts[n] for n in names}
        return pa.table(found).combine_chunks()

    def _texts(
        self, source: Any, name: str, groups: Sequence[int], lines: Sequence[Places]
    ) -> pa.ChunkedArray | None:
        """Return some lines of a column of texts; None if it has to be decoded whole."""
        leaf = self._opened[1].get(name)
        if leaf is None or not pa.types.is_string(self.schema.field(name).type):
            return None
        return text_lines(source, self.footer, leaf, groups, lines)

    @contextmanager
    def _source(self, names: Sequence[str], groups: Sequence[int]) -> Iterator[Any]:
        """Open the object, with at least these columns. Errors of reading name the part."""
        try:
            opened = self._store.open_file(self.part.path)
            source = opened or pa.PythonFile(lent(self._fetched(names, groups)), mode="r")
            with source:
                yield source
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise self.lost(error) from None

    def _decoded(self, source: Any, names: Sequence[str], chosen: Sequence[int]) -> pa.Table:
        """Return whole columns of row groups, one chunk each."""
        columns = read_bounded(source, self.footer, names, chosen)
        if columns.num_rows != sum(map(self._lines_of, chosen)):
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


class _Ranges(PositionedReader):
    """Parts of an object as a file of its full length. A read outside them returns no bytes."""

    def __init__(self, size: int, ranges: Sequence[Range], bodies: Sequence[bytes]) -> None:
        super().__init__(size)
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
