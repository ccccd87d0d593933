"""Pairs of target and source rows that a MERGE found, and keys of the rows that it inserts.

Pairs are pure, over arrays of one length; what found them makes no difference. A row changes once.
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
"""What becomes of a target row."""

ACTIONS = {Action.DELETE: DELETED, Action.UPDATE: UPDATED}

NO_SOURCE = -1

Places = NDArray[np.int32] | NDArray[np.int64]

KEYS_SHOWN = 10
"""A refusal names so many keys at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of rows, and target rows that no source row matches but a clause applies to."""

    file: Places
    """Place of the target row's file among the files opened."""
    position: NDArray[np.int64]
    """Of the target row in its file."""
    source: NDArray[np.int64]
    """Number of the source row; NO_SOURCE: none matches."""
    action: NDArray[np.int64]
    """What the first clause that applies does: KEPT, DELETED or UPDATED."""

    def __len__(self) -> int:
        return len(self.file)

    def target_rows(self, chosen: NDArray[np.bool_], ids: NDArray[np.int64]) -> dict[int, BitMap64]:
        """The target rows of some pairs, as positions by file id.

        Args:
            chosen: which pairs.
            ids: of the files opened.
        """
        return positions_by_file(self.file[chosen], self.position[chosen], ids)


def changed_twice(pairs: Pairs) -> NDArray[np.int64]:
    """Of each target row that several source rows would change, the second such pair.

    Returns:
        Places among the pairs; the target rows ascend by file and position.
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
    """The pairs for which the statement is refused, as of `changed_twice`; empty if it is not."""
    if analysis.deletes_always:
        return np.zeros(0, np.int64)
    return changed_twice(pairs)


def several_changes(rows: int, keys: Sequence[dict[str, Any]]) -> MergeCardinalityError:
    """The refusal.

    Args:
        rows: how many rows of the table several source rows would change, at least.
        keys: of some of them.
    """
    shown = "; ".join(", ".join(f"{n}={v!r:.100}" for n, v in key.items()) for key in keys)
    return MergeCardinalityError(
        f"{rows} rows of the table or more match several source rows that would change them: "
        f"{shown}. Nothing was changed; make the source's rows differ in what ON compares",
        list(keys),
    )


def positions_by_file(
    files: Places, rows: NDArray[np.int64], ids: NDArray[np.int64]
) -> dict[int, BitMap64]:
    """Sets of positions by file id, from pairs in any order.

    Args:
        files: places among `ids`.
        rows: positions, as many.
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
    """The keys that the source holds (CFL-18); None if nothing can be said by them.

    Args:
        analysis: the statement.
        rows: how many the source has.
        columns: gives the values of `key_parts`, of the types of `key_fields`.
        later: it can be asked when the statement is done too. Then it is when a winner is to be
            judged: hardly ever.
    """
    fields = analysis.key_fields
    if not fields or rows > KEYS_MAX:
        return None
    ids = tuple(field.id for field in fields)
    if later:
        return _LaterKeys(ids, lambda: key_hashes(columns(), fields))
    return Keys(ids, key_hashes(columns(), fields))


def key_hashes(columns: Sequence[pa.ChunkedArray], fields: Sequence[Field]) -> NDArray[np.uint64]:
    """The hashes of the keys that rows have, as of ADD-8."""
    return hash_keys([column.combine_chunks() for column in columns], [f.type for f in fields])


class _LaterKeys(Keys):
    """Keys whose hashes are worked out when somebody asks for them."""

    __slots__ = ("_hash", "_hashes")
    _hash: Callable[[], NDArray[np.uint64]]
    _hashes: NDArray[np.uint64] | None

    def __init__(self, columns: tuple[int, ...], hash: Callable[[], NDArray[np.uint64]]) -> None:
        for name, value in (("columns", columns), ("_hash", hash), ("_hashes", None)):
            object.__setattr__(self, name, value)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """As of `Keys`."""
        if self._hashes is None:
            object.__setattr__(self, "_hashes", self._hash())
        assert self._hashes is not None, "it was worked out above"
        return self._hashes
