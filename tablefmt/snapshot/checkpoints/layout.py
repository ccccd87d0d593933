"""Which files of a checkpoint stay in the segments of the one before, and which are written. Pure.

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

from tablefmt.snapshot.checkpoints.root import SegmentPart
from tablefmt.snapshot.segments import SEGMENT_FILES, Mask

GONE_SHARE = 4
"""A segment of which more than one line in so many is gone is written anew."""

DENSE = 64
"""Ids are looked up in an array of all ids, if that is at most so many times as long as the live
ones."""


@dataclass(frozen=True, slots=True)
class KnownSegment:
    """A segment of an earlier checkpoint."""

    part: SegmentPart
    ids: NDArray[np.int64]
    """Of all of its lines."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One that goes on to be of use."""

    known: KnownSegment
    gone: BitMap64 | None
    """The lines that are no files any more."""


def members(ids: NDArray[np.int64], of: NDArray[np.int64]) -> Mask:
    """Say which of the ids are among others, each of which is at least 1."""
    return among(of, len(ids))(ids)


def among(of: NDArray[np.int64], asked: int) -> Callable[[NDArray[np.int64]], Mask]:
    """Return `members` of the same ids, for several calls: the table of ids is made once.

    Args:
        of: the ids, each at least 1.
        asked: how many ids all calls together ask about.
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
    """The segments that stay; whatever is live and in none of them is written anew.

    Like a binary counter: small segments are taken up into what is written, so that every file is
    written O(log n) times over a long life, and there are few small ones.

    Args:
        known: of the checkpoint before.
        live: ids of the files of this one.
    """
    kept = []
    written = len(live)
    is_live = among(live, sum(len(segment.ids) for segment in known))
    for segment in known:
        alive = is_live(segment.ids)
        count = int(np.count_nonzero(alive))
        if count * GONE_SHARE >= len(alive) * (GONE_SHARE - 1) and count:
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
    """The files by partition, then by the bounds that tell them apart best, then by id."""
    partitions = [f"partition.{i}" for i in partition_by if f"partition.{i}" in files.column_names]
    keys = [*partitions, *clustering(files, frozenset(partition_by))]
    order = [(name, "ascending") for name in [*keys, "id"]]
    if any(pa.types.is_nested(files.schema.field(name).type) for name in keys):
        return files
    return files.take(pc.sort_indices(files, order))


SAMPLE = 1 << 12
"""Files looked at for what tells them apart."""


def clustering(files: pa.Table, partition_ids: frozenset[int]) -> list[str]:
    """The lower bounds that files are best sorted by: those whose ranges overlap least; or none."""
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
    """Of neighbours by lower bound, the share that overlaps; None where that cannot be told."""
    if upper not in files.column_names or files.num_rows < 2:
        return None
    try:
        bounds = files.take(pc.sort_indices(files, [(lower, "ascending")]))
        overlaps = pc.greater_equal(bounds[upper].slice(0, len(bounds) - 1), bounds[lower].slice(1))
    except (pa.ArrowException, NotImplementedError):
        return None
    share = pc.mean(pc.fill_null(overlaps, True).cast(pa.float64())).as_py()
    return None if share is None else float(share)
