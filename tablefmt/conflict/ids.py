"""Sets of file ids as ascending arrays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tablefmt.conflict.facts import NO_IDS, Ids


def ascending(ids: Iterable[int]) -> Ids:
    """Return the ids as an ascending array, each once."""
    numbers: Ids = np.unique(np.fromiter(ids, np.int64))
    return numbers


def is_among(values: Ids, ids: Ids) -> NDArray[np.bool_]:
    """Return a mask of the `values` that are among the ascending `ids`. It does not scan the
    ids.
    """
    if len(ids) == 0 or len(values) == 0:
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
    equal: NDArray[np.bool_] = ids[at] == values
    return equal


def shared(few: Sequence[int] | Ids, ids: Ids) -> Ids:
    """Return the elements of `few` that are among the ascending `ids`."""
    if len(few) == 0 or len(ids) == 0:
        return NO_IDS
    values = np.asarray(few, np.int64)
    common: Ids = values[is_among(values, ids)]
    return common


def without(ids: Ids, others: Ids) -> Ids:
    """Return the ascending `ids` that are not among the ascending `others`."""
    left: Ids = ids[~is_among(ids, others)]
    return left


def union(*parts: Ids) -> Ids:
    """Return all ids, ascending, each once."""
    some = [part for part in parts if len(part)]
    if not some:
        return NO_IDS
    both: Ids = np.unique(np.concatenate(some)) if len(some) > 1 else some[0]
    return both
