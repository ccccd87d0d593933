"""Pages of a row group that hold wanted rows, as small Parquet files in memory.

Arrow decodes whole column chunks. A few rows of a row group lie in few of its pages. This module
copies those pages, as they are, into a file with a footer of its own. Arrow then decodes that file,
and verifies the checksums of the pages. Spec: DAT-4, DAT-5.

Only columns without nesting have as many values in a page as rows. For other columns, and where a
page holds something unusual, nothing is picked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.log.bounded_parquet import chunk_extent
from tablefmt.log.page_files import StoredChunk, flat_columns, known_form, page_file
from tablefmt.log.page_table import PageTable, pages_of_files, read_at
from tablefmt.log.parquet_footer import Leaf

WORTH = 0.7
"""Pages are picked if they hold at most this share of the row group's rows."""


class WantedRows(NamedTuple):
    """Wanted rows of a row group."""

    source: Any
    """The file, which can seek."""
    group: pq.RowGroupMetaData
    leaves: Sequence[Leaf]
    """The columns of its footer."""
    places: Mapping[str, int]
    """The wanted columns without nesting, each with its index among the leaves."""
    rows: NDArray[np.int64]
    """Ascending positions in the row group; at least one."""


class PickedPages(NamedTuple):
    """Pages of columns whose pages begin at the same rows."""

    names: tuple[str, ...]
    total: int
    """Rows of the pages."""
    chunks: Sequence[StoredChunk]
    """The dictionary and the pages of every column."""
    rows: NDArray[np.int64]
    """Positions of the wanted rows among those of the pages."""

    @property
    def unpacked(self) -> int:
        """Bytes of the pages after decompression."""
        return sum(chunk.unpacked for chunk in self.chunks)

    def file(self) -> pa.Buffer:
        """Return them as a Parquet file with one row group."""
        return pa.py_buffer(page_file([(self.total, self.chunks)]))


def picked_pages(wanted: Sequence[WantedRows], verified: bool) -> Iterator[list[PickedPages]]:
    """Yield the pages that hold some rows, for each row group. Columns that are left out are read
    whole.

    Args:
        wanted: the row groups.
        verified: compare the checksums of the pages, because their reader does not.

    Raises:
        ValueError: a page header or a checksum is invalid, or a column has a different number of
            rows.
    """
    chunks = [
        _Chunk(at, name, leaf, form, *chunk_extent(described))
        for at, some in enumerate(wanted)
        for name, place in some.places.items()
        if (form := known_form(leaf := some.leaves[place], described := some.group.column(place)))
    ]
    sources = [(wanted[chunk.of].source, chunk.start, chunk.stop) for chunk in chunks]
    pages = pages_of_files(sources)
    rows = _rows(pages)
    dictionaries, unusual = _dictionaries(pages)
    stored = _Stored(pages, verified)
    alike: list[dict[bytes, list[int]]] = [{} for _ in wanted]
    for at, chunk in enumerate(chunks):
        if unusual[at]:
            continue
        if rows[at] != wanted[chunk.of].group.num_rows:
            raise ValueError(_MISCOUNTED)
        first = pages.firsts[at] + dictionaries[at]
        key = pages.values[first : pages.firsts[at + 1]].tobytes()
        alike[chunk.of].setdefault(key, []).append(at)
    for some, same in zip(wanted, alike, strict=True):
        found: list[PickedPages] = []
        for key, places in same.items():
            firsts = np.cumsum([0, *np.frombuffer(key, np.int64)])
            held = np.searchsorted(firsts, some.rows, side="right") - 1
            hit, among = np.unique(held, return_inverse=True)
            counts = np.diff(firsts)[hit]
            if counts.sum() > WORTH * some.group.num_rows:
                continue
            # How far each page moved to the front.
            moved = firsts[hit] - (np.cumsum(counts) - counts)
            parts = [
                stored.chunk(chunks[at], sources[at][0], at, bool(dictionaries[at]), hit.tolist())
                for at in places
            ]
            names = tuple(chunks[at].name for at in places)
            found.append(PickedPages(names, int(counts.sum()), parts, some.rows - moved[among]))
        yield found


def check_counts(
    source: Any, group: pq.RowGroupMetaData, leaves: Sequence[Leaf], names: Iterable[str]
) -> None:
    """Check that the pages of columns without nesting have a value for each row of a row group.

    No checksum covers page headers. A reader that stops before the end of the row group would not
    notice a wrong number of values, and return values of other rows.

    Args:
        source: the file, which can seek.
        group: the row group.
        leaves: all columns of the file.
        names: the columns that will be read.

    Raises:
        ValueError: a page header is invalid, or a column has a different number of rows.
    """
    flat = flat_columns(leaves)
    chunks = [chunk_extent(group.column(flat[name])) for name in names if name in flat]
    pages = pages_of_files([(source, start, stop) for start, stop in chunks])
    if (_rows(pages) != group.num_rows).any():
        raise ValueError(_MISCOUNTED)


_MISCOUNTED = "a column chunk has a different number of rows than its row group"


def _rows(pages: PageTable) -> NDArray[np.int64]:
    """Return the number of values of each chunk."""
    return pages.sums(np.where(pages.is_dictionary, 0, pages.values))


class _Chunk(NamedTuple):
    of: int
    """Index of the row group."""
    name: str
    leaf: Leaf
    form: bytes
    start: int
    stop: int


def _dictionaries(pages: PageTable) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which chunks begin with a dictionary, and which cannot be picked from."""
    count = len(pages.firsts) - 1
    is_first = np.zeros(len(pages.start), bool)
    inhabited = np.diff(pages.firsts) > 0
    firsts = pages.firsts[:-1][inhabited]
    is_first[firsts] = True
    begins = np.zeros(count, bool)
    begins[inhabited] = pages.is_dictionary[firsts]
    odd = np.flatnonzero(np.where(pages.is_dictionary, ~is_first, pages.values == 0))
    unusual = np.zeros(count, bool)
    unusual[np.searchsorted(pages.firsts, odd, side="right") - 1] = True
    return begins, unusual


class _Stored:
    """Copies pages out of column chunks."""

    def __init__(self, pages: PageTable, verified: bool) -> None:
        self._verified = verified
        self._firsts: list[int] = pages.firsts.tolist()
        bodies = pages.start + pages.header
        self._spans: list[tuple[int, int, int, int, int]] = list(
            zip(
                pages.start.tolist(),
                bodies.tolist(),
                (bodies + pages.packed).tolist(),
                (pages.header + pages.unpacked).tolist(),
                pages.checksum.tolist(),
                strict=True,
            )
        )
        """The start of each page, of its bytes after the header, their end, the bytes after
        decompression with the header, and the checksum.
        """

    def chunk(
        self, chunk: _Chunk, source: Any, at: int, dictionary: bool, hit: Sequence[int]
    ) -> StoredChunk:
        """Return the dictionary and the chosen data pages of a chunk. Raises ValueError."""
        first = self._firsts[at]
        chosen = [self._spans[first + dictionary + index] for index in hit]
        if dictionary:
            chosen.insert(0, self._spans[first])
        breaks = [
            index + 1 for index, (one, after) in enumerate(pairwise(chosen)) if one[2] != after[0]
        ]
        parts = [
            self._read(source, chosen[start:stop])
            for start, stop in pairwise([0, *breaks, len(chosen)])
        ]
        length = chosen[0][2] - chosen[0][0] if dictionary else 0
        return StoredChunk(chunk.leaf, chunk.form, length, sum(span[3] for span in chosen), parts)

    def _read(self, source: Any, run: Sequence[tuple[int, int, int, int, int]]) -> bytes:
        """Return the bytes of adjacent pages."""
        start = run[0][0]
        part = read_at(source, run[-1][2] - start, start)
        if len(part) != run[-1][2] - start:
            raise ValueError("a column chunk is truncated")
        if self._verified:
            view = memoryview(part)
            for _, body, stop, _, checksum in run:
                if checksum >= 0 and checksum != zlib.crc32(view[body - start : stop - start]):
                    raise ValueError("a page does not match its checksum")
        return part
