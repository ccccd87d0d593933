"""Files that several commits of a range deleted rows from: read once, if it saves work. Pure.

Each row is in one change only, because it is deleted once (DEL-4).
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
"""Change numbers, and the place of a file in each change."""


def shared_files(
    changes: Sequence[FileChanges], room: int, cost: Callable[[pa.Table, int], int]
) -> dict[int, Uses]:
    """Return files that several changes deleted rows from, as many as fit into the memory limit.

    For each file, return the changes with values of the same columns as the first change.

    Args:
        changes: the changes of a range.
        room: the memory limit, for the rows of all changes of a file except its first.
        cost: return the memory of a change's rows of a file, from its files and the file's place.
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
    """Return, by change, a mask of its files that are in `shared`."""
    masks: dict[int, NDArray[np.bool_]] = {}
    for index, place in itertools.chain.from_iterable(shared.values()):
        if index not in masks:
            masks[index] = np.zeros(changes[index].files.num_rows, bool)
        masks[index][place] = True
    return masks


def rows_of_change(files: pa.Table, place: int) -> int:
    """Return the number of rows of a change in one of its files."""
    rows, others = (files[name][place].as_py() for name in ("rows", "deleted"))
    return int(rows - others)


def turns_of(
    changes: Sequence[FileChanges], uses: Uses
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of a file that changes deleted, ascending, and the change of each."""
    chosen = [
        np.asarray(chosen_rows(changes[index].files, place).to_array(), np.int64)
        for index, place in uses
    ]
    positions = np.concatenate(chosen)
    of_change = np.repeat([index for index, _ in uses], [len(each) for each in chosen])
    order = np.argsort(positions)
    return positions[order], of_change[order]


def only_rows(files: pa.Table, positions: Sequence[NDArray[np.int64]]) -> pa.Table:
    """Return the files with the given positions only."""
    chosen = {at: BitMap64(each.astype(np.uint64)) for at, each in enumerate(positions)}
    return with_rows(files, chosen)


def first_uses(changes: Sequence[FileChanges], shared: Mapping[int, Uses]) -> pa.Table:
    """Return the files of `shared` in the order of their ids, as listed in the first change of
    each.
    """
    files = [changes[uses[0][0]].files.slice(uses[0][1], 1) for _, uses in sorted(shared.items())]
    return pa.concat_tables(files, promote_options="default")
