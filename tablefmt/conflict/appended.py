"""Rows that a concurrent commit added and that a read might have returned. Pure.

Spec: CFL-8, CFL-17, CFL-18.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tablefmt.conflict.facts import PendingCommit, Read, Winner
from tablefmt.conflict.matrix import ROW, matrix_of
from tablefmt.expressions.condition_keys import listed_keys
from tablefmt.expressions.prune import Mask, may_match
from tablefmt.model.entry import NOT_LOGICAL, AddedFiles
from tablefmt.model.key_hashes import decode_all_hashes, decode_hashes


def new_files(winner: Winner) -> Mask:
    """Return a mask of the added files with new rows. The other files hold moved rows (LIN-1)."""
    entry = winner.entry
    count = len(entry.add) if entry.add is not None else 0
    if entry.operation.cls in NOT_LOGICAL:
        return np.zeros(count, np.bool_)
    new = np.ones(count, np.bool_)
    if entry.lineage is not None:
        new[np.asarray(entry.lineage.output, np.int64)] = False
    return new


def may_have_read(winner: Winner, pending: PendingCommit, read: Read) -> Mask:
    """Return a mask of the added files that may hold a row that the read would have returned
    (CFL-8).

    A file with unknown statistics counts as a match.
    """
    mask = new_files(winner)
    if not mask.any():
        return mask
    if read.predicate is not None and winner.files is not None:
        partitions = frozenset(pending.metadata.partition_by) if pending.metadata else frozenset()
        mask &= may_match(read.predicate, winner.files, partitions)
    if mask.any() and _sets_nothing_read(winner, pending, read):
        updated = _column(winner, "updated")
        if updated is not None:
            mask &= ~np.array([v is True for v in updated], np.bool_)
    if mask.any():
        _without_other_keys(winner, read, mask)
    return mask


def _sets_nothing_read(winner: Winner, pending: PendingCommit, read: Read) -> bool:
    """Return True if CFL-17 excludes the updated rows of the concurrent commit.

    It set none of the columns that the read used, so its new rows match exactly if the old rows
    did. The read version must also know the files of the old rows.
    """
    update = winner.entry.update
    if update is None or update.set is None or read.columns is None or not read.by_row:
        return False
    if matrix_of(pending.granularity, pending.delete_mode) != ROW:
        return False
    if not read.columns.isdisjoint(update.set):
        return False
    return all(
        file < pending.next_id or file in pending.known
        for file, marks in winner.deletes.items()
        if marks.updated
    )


def _without_other_keys(winner: Winner, read: Read, mask: Mask) -> None:
    """Clear the mask for files whose keys are known and include no key of the read (CFL-18)."""
    update = winner.entry.update
    packed = _column(winner, "keys") if update is not None and update.keys else None
    if update is None or packed is None:
        return
    known = _keys_of(read, update.keys)
    if known is None:
        return
    small: list[int] = []
    for at in np.flatnonzero(mask).tolist():
        if packed[at] is None:
            continue
        if len(packed[at]) <= _SMALL:
            small.append(at)
            continue
        few, many = sorted((decode_hashes(packed[at]), known), key=len)
        mask[at] = bool(_is_in(few, many).any())
    if small:
        # One search over all small sets is faster than a thousand searches.
        hashes, ends = decode_all_hashes([packed[at] for at in small])
        common = np.concatenate([[0], np.cumsum(_is_in(hashes, known))])
        mask[small] = common[ends[1:]] > common[ends[:-1]]


def _keys_of(read: Read, columns: tuple[int, ...]) -> _Hashes | None:
    """Return the hashes of all keys that rows of the read set can have."""
    if read.keys is not None and read.keys.columns == columns:
        return read.keys.hashes
    return None if read.predicate is None else listed_keys(read.predicate, columns)


_SMALL = 8192
"""Size below which hashes of a file are searched together with others: bytes or characters."""

_Hashes = NDArray[np.uint64]


def _is_in(hashes: _Hashes, among: _Hashes) -> Mask:
    """Return a mask of the hashes that occur in `among`, which is ascending."""
    if len(among) == 0:
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(among, hashes), len(among) - 1)
    equal: Mask = among[at] == hashes
    return equal


def _column(winner: Winner, name: str) -> Any:
    """Return a column of the added files, from the entry or from its overflow metadata file.

    Return None if it is unknown.
    """
    add = winner.entry.add
    if isinstance(add, AddedFiles):
        return add.columns.get(name)
    if winner.files is None or name not in winner.files.column_names:
        return None
    return winner.files[name].to_pylist()
