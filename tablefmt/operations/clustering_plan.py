"""Plan of a clustering: which files are sorted together. Pure.

A clustering by named columns sorts every partition whole. A clustering in the table's own order
sorts the new files, and leaves files that are in order. The files that one version added to a
partition are a run. A sorted run is found by the bounds of its files, of any writer. As in a
log-structured merge tree, runs of about the same size are merged when there are several of them,
so each row is rewritten a logarithmic number of times. Spec: CMP-5, CMP-8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.clustering_order import sort_places, sortable
from tablefmt.expressions.file_pruning import Mask
from tablefmt.model.scalar_values import BOUND_LENGTH_MAX
from tablefmt.model.schema import Field
from tablefmt.operations.compact_plan import (
    CODE,
    DELETED,
    HOLES,
    IN_ORDER,
    LARGE,
    ORDERED,
    OVERLAPS,
    SMALL,
    TOO_LARGE,
    FilesByPartition,
    LayoutPlan,
    Numbers,
    PlannedGroup,
    bins,
    group_of,
)

FAN_IN = 4
"""Runs of about the same size that are merged together. With fewer, they stay."""

COMPLETE = 1024
"""Multiple of the target size from which on a run is never merged again."""

OPENED = 0.6
"""A run of n files is sorted if a search for one point opens at most this times n + 1 of them."""

_Shares = NDArray[np.float64]


def plan_clustering(
    files: pa.Table, partition: dict[str, str], version: int, target: int
) -> LayoutPlan:
    """Return a plan with every partition as one group (CMP-5). Arguments as in
    `plan_compaction`."""
    table = FilesByPartition(files, list(partition))
    starts = np.flatnonzero(np.diff(table.partition, prepend=-1))
    places = np.split(np.arange(len(table)), starts[1:]) if len(starts) else []
    shown = table.shown(table.partition, np.full(len(table), CODE[ORDERED]), partition)
    groups = tuple(group_of(table, each, target) for each in places)
    return LayoutPlan(version, "CLUSTER", target, groups, shown)


def plan_ordering(
    files: pa.Table, partition: dict[str, str], by: Sequence[Field], version: int, target: int
) -> LayoutPlan:
    """Return a plan that sorts only the files that need it (CMP-8).

    Args:
        files: as for `plan_compaction`, with `added` and the bounds of the columns.
        partition: as for `plan_compaction`.
        by: the columns of the order.
        version: of the files.
        target: target size of a file in bytes, at least 1.
    """
    table = FilesByPartition(files, list(partition))
    bounds = [_bounds(table.table, field) for field in by]
    runs = _Runs.of(table.partition, table.table["added"].to_numpy())
    opened, known = _opened(bounds, runs)
    # A sorted run of fewer files may look mixed, as a curve has few cuts at places that suit it.
    mixed = known & (opened > OPENED * (runs.counts + 1)) & (runs.counts >= FAN_IN)
    holes = table.deleted > DELETED * table.rows
    alone = holes | (table.live_bytes > TOO_LARGE * target)
    # One version may add files of very different sizes: it copied some, or restored them.
    rows = (table.rows - table.deleted).astype(np.float64)
    usual = (runs.sums(rows) / runs.counts)[runs.numbers]
    alone |= (rows < usual / 2) & (table.live_bytes < LARGE * target)
    sizes = runs.sums(np.where(alone, 0.0, table.live_bytes))
    # Level 0 has the new files.
    new = alone | (mixed | (sizes < LARGE * target))[runs.numbers]
    level = np.where(new, 0, _levels(sizes, target)[runs.numbers])
    several, overlaps = _together(table, runs, level, bounds, opened)
    merged = (level > 0) & (several >= FAN_IN) & overlaps
    dirty = holes | (table.live_bytes > TOO_LARGE * target) | mixed[runs.numbers]
    chosen = merged | ((level == 0) & ((several > 1) | dirty))
    groups, group = _groups(table, level, chosen, target)
    why = np.where(merged | mixed[runs.numbers], CODE[OVERLAPS], CODE[SMALL])
    why = np.where(holes, CODE[HOLES], why)
    shown = table.shown(group, np.where(group >= 0, why, CODE[IN_ORDER]), partition)
    return LayoutPlan(version, "CLUSTER", target, groups, shown)


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Files by run. A run has the files that one version added to one partition."""

    numbers: NDArray[np.intp]
    """Number of the run of each file."""
    counts: Numbers
    """Number of files of each run."""

    @classmethod
    def of(cls, partition: Numbers, key: Numbers) -> _Runs:
        """Return runs of the files of a partition with equal keys."""
        distinct, codes = np.unique(key, return_inverse=True)
        both = partition * (len(distinct) + 1) + codes.reshape(-1)
        _, numbers, counts = np.unique(both, return_inverse=True, return_counts=True)
        return cls(numbers.reshape(-1), counts.astype(np.int64))

    def sums(self, values: _Shares) -> _Shares:
        """Return the sum of each run."""
        sums: _Shares = np.bincount(self.numbers, values, len(self.counts)).astype(np.float64)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """Ranks of the bounds of one column, from 0. Equal values have equal ranks."""

    lower: Numbers
    upper: Numbers
    unknown: Mask
    """Files without bounds, or with bounds that were cut."""


def _bounds(files: pa.Table, field: Field) -> _Bounds:
    """Return the ranks of a column's bounds. A file with NULL alone is below all values."""
    count = files.num_rows
    names = f"lower.{field.id}", f"upper.{field.id}"
    if not set(names) <= set(files.column_names):
        return _Bounds(np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, bool))
    lower, upper = (files[name].combine_chunks() for name in names)
    unknown = pc.or_(lower.is_null(), upper.is_null())
    if pa.types.is_string(lower.type) or pa.types.is_binary(lower.type):
        length = pc.utf8_length if pa.types.is_string(lower.type) else pc.binary_length
        unknown = pc.or_(
            unknown, pc.greater_equal(length(lower), BOUND_LENGTH_MAX).fill_null(False)
        )
    nothing = np.zeros(count, bool)
    if f"nulls.{field.id}" in files.column_names:
        nothing = _mask(pc.equal(files[f"nulls.{field.id}"], files["rows"]).combine_chunks())
    ranks = _ranks(pa.concat_arrays([lower, upper]))
    at_least, at_most = np.where(nothing, 0, ranks[:count]), np.where(nothing, 0, ranks[count:])
    return _Bounds(at_least, at_most, _mask(unknown) & ~nothing)


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _ranks(values: pa.Array) -> Numbers:
    """Return the dense rank of each value, from 1; arbitrary for NULL."""
    keys = sortable(values)
    places = sort_places([keys])
    ordered = keys.take(pa.array(places))
    ranks = np.ones(len(values), np.int64)
    step = pc.not_equal(ordered.slice(1), ordered.slice(0, max(0, len(values) - 1)))
    ranks[places[1:]] += np.cumsum(_mask(step))
    return ranks


def _opened(bounds: Sequence[_Bounds], runs: _Runs) -> tuple[_Shares, Mask]:
    """Return how many files of each run a search for one point opens, and where that is known.

    It is an estimate, as if the columns were independent.
    """
    numbers, counts = runs.numbers, runs.counts
    share: _Shares = np.ones(len(numbers))
    narrow, unknown = np.ones(len(numbers), bool), np.zeros(len(numbers), bool)
    for one in bounds:
        share *= _overlapping(one, runs) / counts[numbers]
        narrow &= one.lower == one.upper
        unknown |= one.unknown
    # A file with a single point cannot be narrower.
    opened = runs.sums(np.where(narrow, 1 / counts[numbers], share))
    return opened, runs.sums(unknown.astype(np.float64)) == 0


def _overlapping(one: _Bounds, runs: _Runs) -> _Shares:
    """Return for each file the number of files of its run with common values, itself included.

    Two files that only touch have no common value, unless one of them has a single value.
    """
    width = int(max(one.lower.max(initial=0), one.upper.max(initial=0))) + 1
    lower, upper = runs.numbers * width + one.lower, runs.numbers * width + one.upper
    lowers, uppers, point = np.sort(lower), np.sort(upper), lower == upper
    ends = np.cumsum(runs.counts)[runs.numbers]
    firsts = ends - runs.counts[runs.numbers]
    below = np.where(
        point, np.searchsorted(uppers, lower, "left"), np.searchsorted(uppers, lower, "right")
    )
    above = np.where(
        point, np.searchsorted(lowers, upper, "right"), np.searchsorted(lowers, upper, "left")
    )
    overlapping: _Shares = (above - below).astype(np.float64)
    assert bool(np.all((below >= firsts) & (above <= ends)))
    return overlapping


def _levels(sizes: _Shares, target: int) -> Numbers:
    """Return the level of runs by their size, from 1. Complete runs have level -1."""
    scaled = np.maximum(sizes / (LARGE * target), 1.0)
    levels = 1 + np.floor(np.log(scaled) / math.log(FAN_IN) + 1e-9).astype(np.int64)
    found: Numbers = np.where(sizes >= COMPLETE * target, -1, levels)
    return found


def _together(
    table: FilesByPartition,
    runs: _Runs,
    level: Numbers,
    bounds: Sequence[_Bounds],
    opened: _Shares,
) -> tuple[Numbers, Mask]:
    """Return for each file how many runs its level has in its partition, and if they overlap."""
    levels = _Runs.of(table.partition, level)
    pairs = np.unique(levels.numbers * len(runs.counts) + runs.numbers)
    of_level, of_run = np.divmod(pairs, len(runs.counts)) if len(pairs) else (pairs, pairs)
    several = np.bincount(of_level, minlength=len(levels.counts))
    apart = np.bincount(of_level, opened[of_run], len(levels.counts))
    jointly, known = _opened(bounds, levels)
    # Runs that share no values open as many files as one of them.
    overlaps = known & (jointly > apart / 2)
    return several[levels.numbers], overlaps[levels.numbers]


def _groups(
    table: FilesByPartition, level: Numbers, chosen: Mask, target: int
) -> tuple[tuple[PlannedGroup, ...], Numbers]:
    """Return the chosen files in groups of one partition and level, and each file's group."""
    key = table.partition * (int(level.max(initial=0)) + 2) + level + 1
    order = np.argsort(key, kind="stable")
    starts, at = bins(key[order], table.live_bytes[order], chosen[order], COMPLETE * target)
    group = np.full(len(table), -1, np.int64)
    groups: list[PlannedGroup] = []
    for places in np.split(order[at], starts[1:]) if len(starts) else []:
        group[places] = len(groups)
        groups.append(group_of(table, places, target, round))
    return tuple(groups), group
