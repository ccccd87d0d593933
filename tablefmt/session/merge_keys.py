"""The keys that the source of a MERGE holds, and those of the rows that it inserts.

Spec: ADD-8, CFL-18.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.conflict.facts import Keys
from tablefmt.model.key_hashes import KEYS_MAX, hash_keys
from tablefmt.model.schema import Field
from tablefmt.session.merge_analysis import MergeAnalysis


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
