"""Pages of a row group that hold wanted rows, as small Parquet files in memory.

Arrow decodes whole column chunks. A few rows of a row group lie in few of its pages. This module
copies those pages, as they are, into a file with a footer of its own. Arrow then decodes that file,
and verifies the checksums of the pages. Spec: DAT-4, DAT-5.

Only columns without nesting have as many values in a page as rows. For other columns, and where a
page holds something unusual, nothing is picked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.page_files import StoredChunk, is_known_form, page_file
from tablefmt.log.bounded_parquet import Page, chunk_extent, pages_between
from tablefmt.log.parquet_footer import Leaf, binary

WORTH = 0.7
"""Pages are picked if they hold at most this share of the row group's rows."""


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
        return sum(page.unpacked for chunk in self.chunks for page in chunk.pages)

    def file(self) -> pa.Buffer:
        """Return them as a Parquet file with one row group."""
        return pa.py_buffer(page_file([(self.total, self.chunks)]))


def flat_columns(leaves: Sequence[Leaf]) -> dict[str, int]:
    """Return the top-level columns without nesting by name, each with its index."""
    return {
        leaf.path[slice(*binary(leaf.path, 1))].decode(): at
        for at, leaf in enumerate(leaves)
        if leaf.path[0] >> 4 == 1 and leaf.levels[0] == 0
    }


def picked_pages(
    source: Any,
    group: pq.RowGroupMetaData,
    leaves: Sequence[Leaf],
    places: Mapping[str, int],
    rows: NDArray[np.int64],
) -> list[PickedPages]:
    """Return the pages that hold some rows of a row group. Columns that are left out are read
    whole.

    Args:
        source: the file, which can seek.
        group: the row group.
        leaves: the columns of its footer.
        places: the wanted columns without nesting, each with its index among the leaves.
        rows: ascending positions in the row group; at least one.

    Raises:
        ValueError: a page header is invalid, or a column has a different number of rows.
    """
    alike: dict[bytes, list[_Chunk]] = {}
    held: dict[bytes, NDArray[np.int64]] = {}
    for name, place in places.items():
        chunk = _chunk(source, name, group.column(place), leaves[place])
        if chunk is None:
            continue
        firsts = np.cumsum([0, *(page.values for page in chunk.pages)])
        if firsts[-1] != group.num_rows:
            raise ValueError("a column chunk has a different number of rows than its row group")
        key = firsts.tobytes()
        alike.setdefault(key, []).append(chunk)
        held[key] = firsts
    found = []
    for key, chunks in alike.items():
        firsts = held[key]
        pages = np.searchsorted(firsts, rows, side="right") - 1
        hit, among = np.unique(pages, return_inverse=True)
        counts = np.diff(firsts)[hit]
        if counts.sum() <= WORTH * group.num_rows:
            # How far each page moved to the front.
            moved = firsts[hit] - (np.cumsum(counts) - counts)
            stored = [_stored(source, chunk, hit.tolist()) for chunk in chunks]
            names = tuple(chunk.name for chunk in chunks)
            found.append(PickedPages(names, int(counts.sum()), stored, rows - moved[among]))
    return found


class _Chunk(NamedTuple):
    name: str
    leaf: Leaf
    described: pq.ColumnChunkMetaData
    dictionary: Page | None
    pages: list[Page]


def _chunk(source: Any, name: str, described: pq.ColumnChunkMetaData, leaf: Leaf) -> _Chunk | None:
    """Return the pages of a column chunk; None if it cannot be picked from."""
    if not is_known_form(described):
        return None
    pages = list(pages_between(source, *chunk_extent(described)))
    dictionary = pages.pop(0) if pages and pages[0].is_dictionary else None
    if any(page.is_dictionary or not page.values for page in pages):
        return None
    return _Chunk(name, leaf, described, dictionary, pages)


def _stored(source: Any, chunk: _Chunk, hit: Sequence[int]) -> StoredChunk:
    """Return the dictionary and the chosen pages of a chunk."""
    first = [] if chunk.dictionary is None else [chunk.dictionary]
    chosen = [*first, *(chunk.pages[index] for index in hit)]
    parts = []
    for start, stop in _runs(chosen):
        source.seek(start)
        parts.append(source.read(stop - start))
    return StoredChunk(chunk.leaf, chunk.described, chosen, parts)


def _runs(pages: Iterable[Page]) -> list[tuple[int, int]]:
    """Return the byte ranges of pages, with adjacent pages as one range."""
    runs: list[tuple[int, int]] = []
    for page in pages:
        stop = page.start + page.header + page.packed
        if runs and runs[-1][1] == page.start:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((page.start, stop))
    return runs
