"""Pairs of target and source rows that a MERGE found, and keys of the rows that it inserts.

Pairs are arrays of equal length, independent of the engine that found them. The code is pure. A
MERGE changes each row at most once.
Spec: MRG-4, ADD-8, CFL-18.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import Keys
from tablefmt.errors import MergeCardinalityError
from tablefmt.expressions.merge_statement import Action
from tablefmt.model.content_hashes import KEYS_MAX, hash_keys
from tablefmt.model.schema import Field
from tablefmt.session.merge_analysis import MergeAnalysis

KEPT, DELETED, UPDATED = range(3)
"""Outcomes of a target row."""

ACTIONS = {Action.DELETE: DELETED, Action.UPDATE: UPDATED}

NO_SOURCE = -1

Places = NDArray[np.int32] | NDArray[np.int64]

KEYS_SHOWN = 10
"""Most keys in the message of an error."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of rows. A target row without a source row has a pair if a clause applies to it."""

    file: Places
    """Index of the target row's file among the opened files."""
    position: NDArray[np.int64]
    """Position of the target row in its file."""
    source: NDArray[np.int64]
    """Number of the source row; NO_SOURCE: none matches."""
    action: NDArray[np.int64]
    """Action of the first clause that applies: KEPT, DELETED or UPDATED."""

    def __len__(self) -> int:
        return len(self.file)

    def target_rows(self, chosen: NDArray[np.bool_], ids: NDArray[np.int64]) -> dict[int, BitMap64]:
        """Return the target rows of some pairs, as positions by file id.

        Args:
            chosen: mask of the pairs.
            ids: of the opened files.
        """
        return positions_by_file(self.file[chosen], self.position[chosen], ids)


def changed_twice(pairs: Pairs) -> NDArray[np.int64]:
    """Return the second pair of every target row that several source rows would change.

    Returns:
        Indices of pairs, in order of the target rows' file and position.
    """
    changing = np.flatnonzero((pairs.action != KEPT) & (pairs.source != NO_SOURCE))
    rows = pairs.file[changing], pairs.position[changing]
    order = np.lexsort((pairs.source[changing], rows[1], rows[0]))
    file, position = rows[0][order], rows[1][order]
    same = (file[1:] == file[:-1]) & (position[1:] == position[:-1])
    second = same & ~np.concatenate([[False], same[:-1]])[: len(same)]
    places: NDArray[np.int64] = changing[order[1:][second]]
    return places


def must_not_change(analysis: MergeAnalysis, pairs: Pairs) -> NDArray[np.int64]:
    """Return the pairs for which the MERGE must fail, in the order of `changed_twice`."""
    if analysis.deletes_always:
        return np.zeros(0, np.int64)
    return changed_twice(pairs)


def several_changes(rows: int, keys: Sequence[dict[str, Any]]) -> MergeCardinalityError:
    """Return the error for target rows that several source rows would change.

    Args:
        rows: number of the target rows, at least.
        keys: of some of them.
    """
    shown = "; ".join(", ".join(f"{n}={v!r:.100}" for n, v in key.items()) for key in keys)
    return MergeCardinalityError(
        f"at least {rows} rows of the table match several source rows that would change them: "
        f"{shown}. Nothing was changed; remove source rows with the same values for ON",
        list(keys),
    )


def positions_by_file(
    files: Places, rows: NDArray[np.int64], ids: NDArray[np.int64]
) -> dict[int, BitMap64]:
    """Return sets of positions by file id, from pairs in any order.

    Args:
        files: indices into `ids`.
        rows: positions, one for each of `files`.
        ids: ids of files.
    """
    if not len(files):
        return {}
    if not np.all(files[1:] >= files[:-1]):
        order = np.argsort(files, kind="stable")
        files, rows = files[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], files[1:] != files[:-1]]))
    parts = np.split(rows.astype(np.uint64), starts[1:])
    return {
        int(ids[place]): BitMap64(part) for place, part in zip(files[starts], parts, strict=True)
    }


def source_keys(
    analysis: MergeAnalysis,
    rows: int,
    columns: Callable[[], Sequence[pa.ChunkedArray]],
    *,
    later: bool = False,
) -> Keys | None:
    """Return the keys of the source (CFL-18); None if keys do not identify the rows that were read.

    Args:
        analysis: the statement.
        rows: number of source rows.
        columns: gives the values of `key_parts`, in the types of `key_fields`.
        later: `columns` may be called after the statement too. Then it is called only to judge a
            concurrent commit, which is rare.
    """
    fields = analysis.key_fields
    if not fields or rows > KEYS_MAX:
        return None
    ids = tuple(field.id for field in fields)
    if later:
        return _LaterKeys(ids, lambda: key_hashes(columns(), fields))
    return Keys(ids, key_hashes(columns(), fields))


def key_hashes(columns: Sequence[pa.ChunkedArray], fields: Sequence[Field]) -> NDArray[np.uint64]:
    """Return the hashes of the rows' keys (ADD-8)."""
    return hash_keys([column.combine_chunks() for column in columns], [f.type for f in fields])


class _LaterKeys(Keys):
    """Keys with hashes that are computed on first use."""

    __slots__ = ("_hash", "_hashes")
    _hash: Callable[[], NDArray[np.uint64]]
    _hashes: NDArray[np.uint64] | None

    def __init__(self, columns: tuple[int, ...], hash: Callable[[], NDArray[np.uint64]]) -> None:
        for name, value in (("columns", columns), ("_hash", hash), ("_hashes", None)):
            object.__setattr__(self, name, value)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Hashes as in `Keys`."""
        if self._hashes is None:
            object.__setattr__(self, "_hashes", self._hash())
        assert self._hashes is not None, "computed above"
        return self._hashes
