"""Row groups of files: which ones are read, where they are, and how many at once.

Spec: DAT-4, DEL-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

THREADS = 16
"""Footers read at once."""

PIECE_BYTES = 128 << 20
"""Of Arrow data, as far as that is known before: Arrow decodes what it is asked for ahead of
whoever asks for rows, and stops at 1 GiB by itself."""

UNKNOWN_BYTES = 16
"""A value of text, or of what is nested, beside what it takes in the file."""

EXPANSION = 3
"""Times its length in the file that text takes."""

Spans = list[tuple[int, int]]
"""Runs of positions: the first, and how many."""

Part = tuple[ds.ParquetFileFragment, Spans]
"""Row groups of a file, and where they are in it."""


def whole_parts(files: ds.FileSystemDataset, rows: Sequence[int]) -> list[Part]:
    """All of every file."""
    return [(file, [(0, n)]) for file, n in zip(files.get_fragments(), rows, strict=True)]


def passing_parts(files: ds.FileSystemDataset, pushed: pc.Expression) -> list[Part]:
    """The row groups of every file for which a condition can be true; it takes their footers."""

    def passing(fragment: ds.ParquetFileFragment) -> Part:
        part = fragment.subset(filter=pushed, schema=files.schema)
        starts, counts = extents(fragment)
        return part, [(int(starts[group.id]), int(counts[group.id])) for group in part.row_groups]

    return in_parallel(passing, files)


def inhabited_part(part: Part, live: NDArray[np.bool_]) -> Part:
    """Those row groups of a whole file that hold a row which is live."""
    fragment, _ = part
    starts, counts = extents(fragment)
    if counts.sum() != len(live) or not counts.all():
        return part
    groups = np.flatnonzero(np.add.reduceat(live, starts, dtype=np.int64)).tolist()
    if not groups or len(groups) == len(counts):
        return part
    spans = [(int(starts[group]), int(counts[group])) for group in groups]
    return fragment.subset(row_group_ids=groups), spans


def in_parallel(find: Callable[[ds.ParquetFileFragment], Part], files: ds.Dataset) -> list[Part]:
    """Of every file."""
    fragments = list(files.get_fragments())
    if len(fragments) == 1:
        return [find(fragments[0])]
    with ThreadPoolExecutor(max(1, min(THREADS, len(fragments)))) as pool:
        return list(pool.map(find, fragments))


def extents(fragment: ds.ParquetFileFragment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first position of every row group of a file, and how many rows it has."""
    footer = fragment.metadata
    counts = np.array(
        [footer.row_group(i).num_rows for i in range(footer.num_row_groups)], np.int64
    )
    return np.cumsum(counts) - counts, counts


def row_bytes(schema: pa.Schema, names: Sequence[str], files: pa.Table) -> list[int]:
    """What a row of these columns takes as Arrow data, more or less, for each file.

    Args:
        schema: the columns that there are.
        names: of those that are read.
        files: `size`, in bytes, and `rows`.
    """
    widths = [_width(schema.field(name).type) for name in names]
    unknown = widths.count(None)
    fixed = sum(width for width in widths if width is not None) + UNKNOWN_BYTES * unknown
    if not unknown:
        return [max(1, fixed)] * files.num_rows
    rows = np.maximum(files["rows"].to_numpy(), 1)
    each: list[int] = (fixed + EXPANSION * files["size"].to_numpy() // rows).tolist()
    return each


def _width(kind: pa.DataType) -> int | None:
    try:
        bits: int = kind.bit_width
    except ValueError:
        return None
    return max(1, bits // 8)


def pieces(
    parts: Sequence[Part], widths: Sequence[int], most_bytes: int | None = None
) -> Iterator[list[Part]]:
    """The parts that hold anything, in order, in runs of so many bytes at most, or one row group.

    Args:
        parts: none of them of the same file.
        widths: of each, bytes of a row.
        most_bytes: PIECE_BYTES unless given.
    """
    most_bytes = most_bytes or PIECE_BYTES
    run: list[Part] = []
    held = 0
    for part, width in zip(parts, widths, strict=True):
        for some in _cut(part, most_bytes // width):
            length = width * _rows(some)
            if run and held + length > most_bytes:
                yield run
                run, held = [], 0
            run.append(some)
            held += length
    if run:
        yield run


def _cut(part: Part, most: int) -> Iterator[Part]:
    """Parts of so many rows at most, or one row group: any two that follow each other have more."""
    fragment, spans = part
    if _rows(part) <= most:
        if spans:
            yield part
        return
    groups = [group.id for group in fragment.row_groups]
    if len(groups) != len(spans):
        spans = list(zip(*(each.tolist() for each in extents(fragment)), strict=True))
    start = held = 0
    for at, (_, count) in enumerate(spans):
        if at > start and held + count > most:
            yield fragment.subset(row_group_ids=groups[start:at]), spans[start:at]
            start, held = at, 0
        held += count
    yield fragment.subset(row_group_ids=groups[start:]), spans[start:]


def _rows(part: Part) -> int:
    return sum(count for _, count in part[1])
