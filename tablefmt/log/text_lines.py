"""Texts of a few lines of a Parquet object, from the pages that hold them.

The path of a data file is the longest of its columns in a checkpoint. A plan that keeps one file in
a thousand needs few of them, in every row group. So paths have short pages, and only the pages with
a wanted line are decoded. Spec: CKP-3, STO-25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.log.bounded_parquet import chunk_extent, most_expanded
from tablefmt.log.page_files import StoredChunk, known_form, page_file
from tablefmt.log.page_table import pages_of_bodies
from tablefmt.log.parquet_footer import Leaf

WORTH = 0.7
"""Pages are picked if they hold at most this share of the lines."""

_DENSE = 8
"""Pages are not looked for if more than one line in this many is wanted."""

_PLAIN = frozenset({"PLAIN", "RLE"})
"""Encodings in which texts take no more memory than their unpacked page."""


def text_lines(
    source: Any,
    footer: pq.FileMetaData,
    leaf: tuple[int, Leaf],
    groups: Sequence[int],
    lines: Sequence[NDArray[np.int64]],
) -> pa.ChunkedArray | None:
    """Return the texts of some lines of a flat column; None if the whole column must be decoded.

    Args:
        source: the object, as a file that can seek.
        footer: its footer.
        leaf: the index of the column among the footer's, and the column.
        groups: row groups, ascending.
        lines: ascending positions in each of these row groups; at least one of each.

    Raises:
        ValueError: a page header is invalid, or the pages need more memory than STO-25 allows.
        pyarrow.ArrowException, OSError: it is damaged.
    """
    at, column = leaf
    described = [(group, group.column(at)) for group in map(footer.row_group, groups)]
    total = sum(group.num_rows for group, _ in described)
    if sum(map(len, lines)) * _DENSE > total:
        return None
    forms = [known_form(column, chunk) for _, chunk in described]
    if any(not _PLAIN.issuperset(chunk.encodings) for _, chunk in described) or None in forms:
        return None
    bodies = [_body(source, *chunk_extent(chunk)) for _, chunk in described]
    pages = pages_of_bodies(bodies)
    if pages.is_dictionary.any():
        return None
    if pages.sums(pages.values).tolist() != [group.num_rows for group, _ in described]:
        raise ValueError("a column chunk has a different number of lines than its row group")
    picked: list[tuple[int, list[StoredChunk]]] = []
    places: list[NDArray[np.int64]] = []
    before = stored = unpacked = 0
    for form, body, first, last, wanted in zip(
        forms, bodies, pages.firsts[:-1], pages.firsts[1:], lines, strict=True
    ):
        assert form is not None
        starts = np.cumsum([0, *pages.values[first:last]])
        hit, among = np.unique(
            np.searchsorted(starts, wanted, side="right") - 1, return_inverse=True
        )
        counts = np.diff(starts)[hit]
        chosen = first + hit
        begins = pages.start[chosen]
        ends = begins + (pages.header + pages.packed)[chosen]
        parts = [body[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
        length = int((pages.header + pages.unpacked)[chosen].sum())
        # The pages stand one after the other in the file in memory.
        places.append(before + (wanted - starts[hit][among]) + (np.cumsum(counts) - counts)[among])
        picked.append((int(counts.sum()), [StoredChunk(column, form, 0, length, parts)]))
        before += int(counts.sum())
        stored += sum(map(len, parts))
        unpacked += length
    if before > WORTH * total:
        return None
    if unpacked > most_expanded(stored):
        raise ValueError(f"its {stored} bytes would take {unpacked} bytes of memory or more")
    with pq.ParquetFile(
        pa.BufferReader(page_file(picked)), page_checksum_verification=True, pre_buffer=False
    ) as file:
        texts = file.read(use_threads=False).column(0)
    if len(texts) != before:
        raise ValueError("its pages have a different number of lines than their headers say")
    return texts.take(pa.array(np.concatenate(places)))


def _body(source: Any, start: int, stop: int) -> bytes:
    """Return the bytes of a column chunk."""
    source.seek(start)
    body: bytes = source.read(stop - start)
    return body
