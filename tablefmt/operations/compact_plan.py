"""Plan of a compaction: the files to combine, and the reasons why others stay. Pure.

Files of one partition are combined in the order of their rows, up to the target size.
Spec: CMP-1 .. CMP-4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.conflict.read_write_sets import Ids
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.data.data_writer import codes_of
from tablefmt.expressions.file_pruning import Mask
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.log_entry import PARTITIONING
from tablefmt.printable import number_of, printable_lines

MINOR, MAJOR = "minor", "major"
Kind = Literal["minor", "major"]
KINDS = get_args(Kind)

LARGE = 0.75
"""Share of the target size from which on a file is large enough to stay."""

TOO_LARGE = 2
"""Multiple of the target size above which a MAJOR compaction splits a file."""

DELETED = 0.05
"""Share of deleted rows above which a file is rewritten."""

Numbers = NDArray[np.int64]

SMALL, HOLES, PARTITION, ENOUGH, ALONE, BASE, ORDERED, OVERLAPS, IN_ORDER, OLDER, CURRENT = (
    "small",
    "many deleted rows",
    "its partition is rewritten",
    "large enough",
    "small; no other file to combine with",
    "a base file",
    "its partition is clustered",
    "its values overlap with those of other files",
    "in order",
    "an older partitioning",
    "the current partitioning",
)
REASONS = (
    SMALL, HOLES, PARTITION, ENOUGH, ALONE, BASE, ORDERED, OVERLAPS, IN_ORDER, OLDER, CURRENT,
)  # fmt: skip
"""Reasons why a file is rewritten or stays."""

CODE = {reason: code for code, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGroup:
    """Files that one rewrite reads. Each group conflicts independently (CFL-15)."""

    files: Ids
    """Ids, in the order in which their rows are written."""
    outputs: int = 1
    """Approximate number of new files."""
    rows_max: int | None = None
    """Most rows of a new file; None: all rows go into one file."""


@dataclass(frozen=True, slots=True, eq=False)
class LayoutPlan(ArrowReport):
    """Preview of a compaction or clustering, which also is the input of its rewrite.

    `print` shows a summary. `to_arrow` has a row for every examined file.
    """

    version: int
    """The version that was examined."""
    operation: str
    """Name of the operation, as in the history."""
    target: int
    """Target size of a file in bytes."""
    groups: tuple[PlannedGroup, ...]
    files: pa.Table = field(repr=False)
    """See `to_arrow`."""

    def to_arrow(self) -> pa.Table:
        """Return all examined files, in order of partition and id.

        The columns are id, path, `partition` (a struct, absent without partitioning), size, rows,
        deleted, `group` and `reason`. `group` is the number of the group, from 0, or NULL for a
        file that stays.
        """
        return self.files

    def __str__(self) -> str:
        group = self.files["group"].to_numpy()
        sizes, chosen = self.files["size"].to_numpy(), ~np.isnan(group.astype(float))
        would = f"version {self.version}: {self.operation} would rewrite"
        outputs = number_of(sum(group.outputs for group in self.groups), "file")
        head = (
            f"{would} {int(chosen.sum())} of {number_of(self.files.num_rows, 'file')} "
            f"({int(sizes[chosen].sum())} bytes) into about {outputs} of up to {self.target} "
            "bytes each"
            if self.groups
            else f"{would} none of {number_of(self.files.num_rows, 'file')}"
        )
        shown = [
            f"  group {at}: {number_of(len(one.files), 'file')} into {one.outputs}"
            for at, one in enumerate(self.groups[:SHOWN])
        ]
        if len(self.groups) > SHOWN:
            shown.append(f"  and {len(self.groups) - SHOWN} more groups")
        counts = zip(*_counted(self.files["reason"]), strict=True)
        why = [f"  {number_of(count, 'file')}: {reason}" for reason, count in sorted(counts)]
        return printable_lines([head, *shown, *why])


SHOWN = 20
"""Most groups in the printed summary."""


def _counted(reasons: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    counts = reasons.value_counts()
    return counts.field("values").to_pylist(), counts.field("counts").to_pylist()


def plan_compaction(
    files: pa.Table, partition: dict[str, str], version: int, kind: str, target: int
) -> LayoutPlan:
    """Return the plan of a compaction (CMP-1, CMP-2).

    Args:
        files: live files, with `id`, `path`, `size`, `rows`, `deleted` and the columns of
            `partition`.
        partition: names of columns of `files`, mapped to the names of the table's columns.
        version: of the files.
        kind: one of KINDS.
        target: target size of a file in bytes, at least 1.
    """
    table = FilesByPartition(files, list(partition))
    big = table.live_bytes >= LARGE * target
    holes = table.deleted > DELETED * table.rows
    chosen = ~big | holes | np.full(len(table), kind == MAJOR)
    starts, places = bins(table.partition, table.live_bytes, chosen, target)
    count = np.diff(np.append(starts, len(places)))
    group = np.full(len(table), -1, np.int64)
    group[places] = np.repeat(np.arange(len(starts)), count)
    worth = count > 1
    worth |= np.bincount(group[places], holes[places], len(starts)).astype(bool)
    if kind == MAJOR:
        dirty = (table.deleted > 0) | (table.live_bytes > TOO_LARGE * target)
        # Files of this table's own writers need no import (CMP-2).
        dirty |= table.imported
        dirty[places] |= worth[group[places]]
        worth = np.isin(table.partition[places[starts]], table.partition[dirty])
    # The last number is for files in no run.
    number = np.append(np.where(worth, np.cumsum(worth) - 1, -1), -1)
    group = number[group]
    if kind == MAJOR:
        reasons = np.where(group >= 0, CODE[PARTITION], CODE[BASE])
    else:
        stays = np.where(big & ~holes, CODE[ENOUGH], CODE[ALONE])
        reasons = np.where(group >= 0, np.where(holes, CODE[HOLES], CODE[SMALL]), stays)
    groups = [
        group_of(table, places[start : start + n], target)
        for start, n in zip(starts[worth].tolist(), count[worth].tolist(), strict=True)
    ]
    name = f"COMPACT {kind.upper()}"
    shown = table.shown(group, reasons, partition)
    return LayoutPlan(version, name, target, tuple(groups), shown)


def group_of(
    table: FilesByPartition,
    places: NDArray[np.intp],
    target: int,
    files_for: Callable[[float], int] = math.ceil,
) -> PlannedGroup:
    """Return a group of the files at some places.

    Args:
        table: the files.
        places: of the group's files, in the order of their rows.
        target: target size of a file in bytes.
        files_for: number of new files for a size, in multiples of the target.
    """
    size = float(table.live_bytes[places].sum())
    rows = int((table.rows[places] - table.deleted[places]).sum())
    outputs = max(1, min(rows, files_for(size / target)))
    if outputs == 1:
        return PlannedGroup(table.ids[places])
    return PlannedGroup(table.ids[places], outputs, -(-rows // outputs))


class FilesByPartition:
    """Columns of files, sorted by partition and id."""

    def __init__(self, files: pa.Table, keys: list[str]) -> None:
        if PARTITIONING in files.column_names:
            keys = [*keys, PARTITIONING]
        codes = codes_of([files[key].combine_chunks() for key in keys], files.num_rows)
        # Partitions are numbered in the order of their first files.
        firsts = np.unique(codes, return_index=True)[1]
        ranks = np.empty(len(firsts), np.int64)
        ranks[np.argsort(firsts)] = np.arange(len(firsts))
        codes = ranks[codes]
        ids = files["id"].to_numpy()
        order = np.lexsort((ids, codes))
        self.table = files.take(pa.array(order))
        self.partition: Numbers = codes[order]
        self.ids: Ids = ids[order]
        self.rows: Numbers = self.table["rows"].to_numpy()
        self.deleted: Numbers = self.table["deleted"].to_numpy()
        self.imported: Mask = np.zeros(len(order), bool)
        if NUMBER in self.table.column_names:
            self.imported = self.table[NUMBER].is_valid().to_numpy()
        left = 1 - self.deleted / np.maximum(self.rows, 1)
        self.live_bytes = self.table["size"].to_numpy() * left

    def __len__(self) -> int:
        return len(self.ids)

    def shown(self, group: Numbers, reasons: Numbers, partition: dict[str, str]) -> pa.Table:
        """Return the table of `LayoutPlan.to_arrow`."""
        columns = {name: self.table[name] for name in ("id", "path", "size", "rows", "deleted")}
        if partition:
            values = [self.table[key].combine_chunks() for key in partition]
            columns["partition"] = pa.StructArray.from_arrays(values, names=[*partition.values()])
        columns["group"] = pa.array(group, pa.int64(), mask=group < 0)
        coded = pa.DictionaryArray.from_arrays(pa.array(reasons, pa.int32()), list(REASONS))
        columns["reason"] = coded.cast(pa.string())
        return pa.table(columns)


def bins(
    partition: Numbers, sizes: NDArray[np.float64], chosen: Mask, target: int
) -> tuple[Numbers, NDArray[np.intp]]:
    """Return the chosen files in runs of at most `target` bytes, each of one partition.

    Returns:
        The starts of the runs as indices into the second array, and the places of the chosen files.
    """
    places = np.flatnonzero(chosen)
    ends = np.cumsum(sizes[places])
    borders = np.append(np.flatnonzero(np.diff(partition[places])) + 1, len(places))
    starts = []
    at, border = 0, 0
    while at < len(places):
        while borders[border] <= at:
            border += 1
        starts.append(at)
        before = ends[at - 1] if at else 0.0
        fitting = int(np.searchsorted(ends, before + target, "right"))
        at = min(max(fitting, at + 1), int(borders[border]))
    return np.array(starts, np.int64), places
