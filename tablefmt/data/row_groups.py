"""Row groups of files: selection, positions, and the split into pieces of bounded size.

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
"""Footers read in parallel."""

PIECE_BYTES = 128 << 20
"""Approximate Arrow data of one piece. Arrow decodes ahead of its consumer, and by itself stops
only at 1 GiB.
"""

UNKNOWN_BYTES = 16
"""Overhead of a text or nested value in memory, in bytes."""

EXPANSION = 3
"""Assumed size of text in memory, as a multiple of its size in the file."""

Spans = list[tuple[int, int]]
"""Runs of positions: the first position, and the count."""

Part = tuple[ds.ParquetFileFragment, Spans]
"""Row groups of a file, and their positions in it."""


def whole_parts(files: ds.FileSystemDataset, rows: Sequence[int]) -> list[Part]:
    """Return all row groups of every file."""
    return [(file, [(0, n)]) for file, n in zip(files.get_fragments(), rows, strict=True)]


def passing_parts(files: ds.FileSystemDataset, pushed: pc.Expression) -> list[Part]:
    """Return each file's row groups for which a condition can be true. It reads the footers."""

    def passing(fragment: ds.ParquetFileFragment) -> Part:
        part = fragment.subset(filter=pushed, schema=files.schema)
        starts, counts = extents(fragment)
        return part, [(int(starts[group.id]), int(counts[group.id])) for group in part.row_groups]

    return in_parallel(passing, files)


def inhabited_part(part: Part, live: NDArray[np.bool_]) -> Part:
    """Return the row groups of a whole file that hold a live row."""
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
    """Apply `find` to every file, in parallel."""
    fragments = list(files.get_fragments())
    if len(fragments) == 1:
        return [find(fragments[0])]
    with ThreadPoolExecutor(max(1, min(THREADS, len(fragments)))) as pool:
        return list(pool.map(find, fragments))


def extents(fragment: ds.ParquetFileFragment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first position and the row count of every row group of a file."""
    footer = fragment.metadata
    counts = np.array(
        [footer.row_group(i).num_rows for i in range(footer.num_row_groups)], np.int64
    )
    return np.cumsum(counts) - counts, counts


def row_bytes(schema: pa.Schema, names: Sequence[str], files: pa.Table) -> list[int]:
    """Return the approximate Arrow bytes of a row of these columns, for each file.

    Args:
        schema: all columns of the files.
        names: the columns to read.
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
    """Yield non-empty parts in order, in runs of at most `most_bytes`, or of one row group.

    Args:
        parts: at most one part of each file.
        widths: bytes of a row, for each part.
        most_bytes: limit; by default PIECE_BYTES.
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
    """Split a part into parts of at most `most` rows, or of one row group.

    Any two consecutive parts together exceed the limit.
    """
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
