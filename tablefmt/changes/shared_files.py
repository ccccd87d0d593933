"""Files out of which several commits of a range took rows: scanned once, where that pays. Pure.

No row is in two of these: it goes once (DEL-4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.changes.commit_rows import WENT, FileChanges, chosen_rows, with_rows

Uses = list[tuple[int, int]]
"""Changes, by their numbers, and the place of a file in each."""


def shared_files(
    changes: Sequence[FileChanges], room: int, cost: Callable[[pa.Table, int], int]
) -> dict[int, Uses]:
    """Files in several changes that took rows out, as many as there is room for; of a file those
    changes to which it has values of the same columns as to the first.

    Args:
        changes: of a range.
        room: for the rows of all changes of a file but its first.
        cost: of a change's rows of a file: its files, and the place of that one.
    """
    uses: dict[int, Uses] = {}
    if len(changes) == 1:
        return uses
    for index, change in enumerate(changes):
        if change.change in WENT and change.files["vector"].null_count < change.files.num_rows:
            partial = np.flatnonzero(change.files["vector"].is_valid().to_numpy())
            ids = change.files["id"].to_numpy()[partial]
            for place, file in zip(partial.tolist(), ids.tolist(), strict=True):
                each = uses.setdefault(file, [])
                if not each or changes[each[0][0]].is_like(change):
                    each.append((index, place))
    kept = {}
    for file, each in uses.items():
        if len(each) > 1:
            room -= sum(cost(changes[index].files, place) for index, place in each[1:])
            if room < 0:
                break
            kept[file] = each
    return kept


def masks_of(
    changes: Sequence[FileChanges], shared: Mapping[int, Uses]
) -> dict[int, NDArray[np.bool_]]:
    """By change those of its files that are in `shared`."""
    masks: dict[int, NDArray[np.bool_]] = {}
    for index, place in itertools.chain.from_iterable(shared.values()):
        if index not in masks:
            masks[index] = np.zeros(changes[index].files.num_rows, bool)
        masks[index][place] = True
    return masks


def rows_of_change(files: pa.Table, place: int) -> int:
    """How many rows of one of its files a change has."""
    rows, others = (files[name][place].as_py() for name in ("rows", "deleted"))
    return int(rows - others)


def turns_of(
    changes: Sequence[FileChanges], uses: Uses
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of a file that changes took out, ascending, and which one took each."""
    chosen = [
        np.asarray(chosen_rows(changes[index].files, place).to_array(), np.int64)
        for index, place in uses
    ]
    positions = np.concatenate(chosen)
    of_change = np.repeat([index for index, _ in uses], [len(each) for each in chosen])
    order = np.argsort(positions)
    return positions[order], of_change[order]


def only_rows(files: pa.Table, positions: Sequence[NDArray[np.int64]]) -> pa.Table:
    """The files with some rows of each alone, by their positions."""
    chosen = {at: BitMap64(each.astype(np.uint64)) for at, each in enumerate(positions)}
    return with_rows(files, chosen)


def first_uses(changes: Sequence[FileChanges], shared: Mapping[int, Uses]) -> pa.Table:
    """The files of `shared` in the order of their ids, as the first change that has each does."""
    files = [changes[uses[0][0]].files.slice(uses[0][1], 1) for _, uses in sorted(shared.items())]
    return pa.concat_tables(files, promote_options="default")
