"""Reuse of an earlier checkpoint's manifest segments: which to keep, which files to write. Pure.

Spec: CKP-7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.expressions.file_pruning import Mask
from tablefmt.snapshot.checkpoint_root import SegmentPart
from tablefmt.snapshot.segments import SEGMENT_FILES

REMOVED_SHARE = 4
"""A manifest segment is rewritten if more than 1/REMOVED_SHARE of its lines are removed files."""

DENSE = 64
"""Maximum ratio of the id range to the number of live ids for a lookup array of all ids."""


@dataclass(frozen=True, slots=True)
class KnownSegment:
    """Manifest segment of an earlier checkpoint."""

    part: SegmentPart
    ids: NDArray[np.int64]
    """Ids of all its lines."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Manifest segment that the new checkpoint keeps."""

    known: KnownSegment
    gone: BitMap64 | None
    """Lines whose files were removed."""


def members(ids: NDArray[np.int64], of: NDArray[np.int64]) -> Mask:
    """Return a mask of the ids that are among others. Each of these is at least 1."""
    return among(of, len(ids))(ids)


def among(of: NDArray[np.int64], asked: int) -> Callable[[NDArray[np.int64]], Mask]:
    """Return `members` of a fixed set of ids, for several calls. Its lookup table is built once.

    Args:
        of: the ids, each at least 1.
        asked: the number of ids that all calls together pass.
    """
    if not len(of) or not asked:
        return lambda ids: np.zeros(len(ids), bool)
    top = int(of.max())
    if top > DENSE * (len(of) + asked):
        return lambda ids: np.isin(ids, of)
    known = np.zeros(top + 1, bool)
    known[of] = True

    def are_known(ids: NDArray[np.int64]) -> Mask:
        mask: Mask = known[np.minimum(ids, top)] & (ids <= top)
        return mask

    return are_known


def kept_segments(known: Sequence[KnownSegment], live: NDArray[np.int64]) -> list[Kept]:
    """Return the manifest segments to keep. Live files in none of them are written again.

    Like a binary counter, small segments are merged into the new ones. So every file is written
    O(log n) times over a long life, and few segments are small.

    Args:
        known: the manifest segments of the checkpoint before.
        live: ids of the files of this checkpoint.
    """
    kept = []
    written = len(live)
    is_live = among(live, sum(len(segment.ids) for segment in known))
    for segment in known:
        alive = is_live(segment.ids)
        count = int(np.count_nonzero(alive))
        if count * REMOVED_SHARE >= len(alive) * (REMOVED_SHARE - 1) and count:
            gone = None if count == len(alive) else BitMap64(np.flatnonzero(~alive).tolist())
            kept.append((count, Kept(segment, gone)))
            written -= count
    result = []
    for count, one in sorted(kept, key=lambda each: each[0]):
        if written and count <= 2 * written and count + written <= SEGMENT_FILES:
            written += count
        else:
            result.append(one)
    return result


def in_order(files: pa.Table, partition_by: Sequence[int]) -> pa.Table:
    """Return the files sorted by partition, then by the most selective bounds, then by id."""
    partitions = [f"partition.{i}" for i in partition_by if f"partition.{i}" in files.column_names]
    keys = [*partitions, *clustering(files, frozenset(partition_by))]
    order = [(name, "ascending") for name in [*keys, "id"]]
    if any(pa.types.is_nested(files.schema.field(name).type) for name in keys):
        return files
    return files.take(pc.sort_indices(files, order))


SAMPLE = 1 << 12
"""Number of files sampled to find the most selective bounds."""


def clustering(files: pa.Table, partition_ids: frozenset[int]) -> list[str]:
    """Return the lower bound column to sort files by: the one whose ranges overlap least; empty if
    none.
    """
    step = max(1, files.num_rows // SAMPLE)
    some = files.take(pa.array(np.arange(0, files.num_rows, step)))
    best: tuple[float, str] | None = None
    for name in files.column_names:
        side, _, field_id = name.partition(".")
        if side != "lower" or int(field_id) in partition_ids:
            continue
        share = _overlap(some, name, f"upper.{field_id}")
        if share is not None and (best is None or share < best[0]):
            best = (share, name)
    return [] if best is None else [best[1]]


def _overlap(files: pa.Table, lower: str, upper: str) -> float | None:
    """Return the share of files that overlap the next one by lower bound; None if unknown."""
    if upper not in files.column_names or files.num_rows < 2:
        return None
    try:
        bounds = files.take(pc.sort_indices(files, [(lower, "ascending")]))
        overlaps = pc.greater_equal(bounds[upper].slice(0, len(bounds) - 1), bounds[lower].slice(1))
    except (pa.ArrowException, NotImplementedError):
        return None
    share = pc.mean(pc.fill_null(overlaps, True).cast(pa.float64())).as_py()
    return None if share is None else float(share)
