"""Keys that a condition lists: `k IN (1, 2)` is TRUE only for rows with these keys. Pure.

Spec: CFL-18.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.expressions.predicate import And, Comparison, In, Predicate, normalise
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.key_hashes import hash_keys
from tablefmt.model.schema import Field, Primitive, Type

LISTED_MAX = 10_000
"""Maximum number of keys to list, counting every combination of the columns' values."""

_STORAGE = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
_LISTED = {"boolean", "byte", "short", "integer", "long", "string", "binary", *_STORAGE}
"""Types whose equal values have the same hash."""


def listed_keys(predicate: Predicate, columns: Sequence[int]) -> NDArray[np.uint64] | None:
    """Return the hashes of the keys of all rows for which the condition can be TRUE.

    Args:
        predicate: the condition.
        columns: field ids, at least one, in the order of the hash.

    Returns:
        Hashes ascending, each once; None if the condition does not list values of every column.
    """
    by_column: dict[int, tuple[Field, tuple[Any, ...]]] = {}
    for field, values in _equalities(normalise(predicate)):
        known = by_column.get(field.id)
        if _is_listed(field.type) and (known is None or len(values) < len(known[1])):
            by_column[field.id] = field, values
    if any(column not in by_column for column in columns):
        return None
    parts = [by_column[column] for column in columns]
    if math.prod(len(values) for _, values in parts) > LISTED_MAX:
        return None
    keys = itertools.product(*(values for _, values in parts))
    transposed = list(zip(*keys, strict=True)) or [()] * len(parts)
    kinds = [field.type for field, _ in parts]
    arrays = [_array(values, kind) for values, kind in zip(transposed, kinds, strict=True)]
    return hash_keys(arrays, kinds)


def _equalities(predicate: Predicate) -> Iterator[tuple[Field, tuple[Any, ...]]]:
    """Yield the AND-ed parts that list a column's values. NULL equals nothing."""
    if isinstance(predicate, And):
        for item in predicate.items:
            yield from _equalities(item)
    elif isinstance(predicate, In):
        yield predicate.field, tuple(v for v in predicate.values if v is not None)
    elif isinstance(predicate, Comparison) and predicate.op in ("=", "<=>"):
        yield predicate.field, (predicate.value,)


def _is_listed(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name in _LISTED


def _array(values: Sequence[Any], kind: Type) -> pa.Array:
    target = arrow_type(kind)
    assert isinstance(kind, Primitive), "one of the listed types"
    if kind.name in _STORAGE:
        return pa.array(values, _STORAGE[kind.name]).cast(target)
    return pa.array(values, target)
