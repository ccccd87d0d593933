"""Overlap of conditions, decided without data: if two can hold for one row, and listed keys. Pure.

`k IN (1, 2)` is TRUE only for rows with these keys. The truth of a comparison changes only at its
constant. So a few values of each column represent all values: the constants of both conditions, the
values next to them, NULL and NaN. Spec: CFL-18, CFL-19.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.expressions.file_pruning import may_match
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    Like,
    Not,
    Or,
    Predicate,
    fields,
    normalise,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.content_hashes import hash_keys
from tablefmt.model.schema import Decimal, Field, Primitive, Type, is_float

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


COMBINATIONS_MAX = 4096
"""Maximum number of value combinations to try for several columns. Beyond it, try column by
column.
"""

_RANGES = {
    "byte": 8,
    "short": 16,
    "integer": 32,
    "long": 64,
    "date": 32,
    "timestamp": 64,
    "timestamp_ntz": 64,
}
"""Bits of the types that have whole steps."""


def may_both_hold(one: Predicate, other: Predicate) -> bool:
    """Return True if some row may make both TRUE. False is a proof; True may be conservative.

    Args:
        one, other: over top-level columns of one schema.
    """
    both = And((one, other))
    columns = {f.id: f for f in _columns(both)}
    if any(isinstance(leaf, Like) for leaf in _leaves(both)):
        return True
    samples = {i: list(_samples(columns[i], both)) for i in fields(both)}
    if math.prod(map(len, samples.values())) <= COMBINATIONS_MAX:
        return _tried(both, columns, list(samples), list(product(*samples.values())))
    # A column that is not given is unknown, so one column alone may prove that both never hold.
    return all(_tried(both, columns, [i], [(v,) for v in samples[i]]) for i in samples)


def _tried(
    both: Predicate, columns: dict[int, Field], ids: list[int], rows: list[tuple[Any, ...]]
) -> bool:
    arrays = {
        f"partition.{i}": _column_array([row[at] for row in rows], columns[i])
        for at, i in enumerate(ids)
    }
    arrays["rows"] = pa.array([1] * len(rows), pa.int64())
    return bool(may_match(both, pa.table(arrays), frozenset(ids)).any())


def _column_array(values: list[Any], column: Field) -> pa.Array:
    kind = arrow_type(column.type)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


def _leaves(predicate: Predicate) -> Iterator[Any]:
    if isinstance(predicate, And | Or):
        for item in predicate.items:
            yield from _leaves(item)
    elif isinstance(predicate, Not):
        yield from _leaves(predicate.item)
    else:
        yield predicate


def _columns(predicate: Predicate) -> Iterator[Field]:
    return (leaf.field for leaf in _leaves(predicate) if hasattr(leaf, "field"))


def _samples(column: Field, both: Predicate) -> Iterator[Any]:
    """Yield values of one column that represent all of its values."""
    yield None
    named: set[Any] = set()
    for leaf in _leaves(both):
        if isinstance(leaf, Comparison) and leaf.field.id == column.id:
            named.add(leaf.value)
        elif isinstance(leaf, In) and leaf.field.id == column.id:
            named.update(v for v in leaf.values if v is not None)
    if is_float(column.type):
        yield math.nan
        named = {v for v in named if v == v} | {-math.inf, math.inf, 0.0}
    yield from _beside(column, named)


def _beside(column: Field, named: Iterable[Any]) -> Iterator[Any]:
    """Yield the constants, and a value from each gap between, below and above them."""
    name = str(column.type)
    samples: set[Any] = set(named)
    if name in _RANGES:
        half = 1 << (_RANGES[name] - 1)
        around = {v + step for v in samples for step in (-1, 1)} | {-half, half - 1}
        samples |= {v for v in around if -half <= v < half}
    elif name == "boolean":
        samples = {False, True}
    elif name == "string":
        samples |= {"", *(v + "\0" for v in samples)}
    elif name == "binary":
        samples |= {b"", *(v + b"\0" for v in samples)}
    elif isinstance(column.type, Decimal):
        samples |= _decimals(column.type, samples)
    else:
        # A float column is compared as double, but its values are only the coarser float values.
        samples |= _floats(samples, name == "float")
    yield from samples


def _decimals(kind: Decimal, named: set[Any]) -> set[Any]:
    with decimal.localcontext(decimal.Context(prec=80)):
        step = decimal.Decimal(1).scaleb(-kind.scale)
        most = decimal.Decimal(10) ** (kind.precision - kind.scale) - step
        around = {v + s for v in named for s in (-step, step)} | {-most, most}
        return {v.quantize(step) for v in around if -most <= v <= most}


def _floats(named: set[float], single: bool) -> set[float]:
    if not single:
        return {math.nextafter(v, to) for v in named for to in (-math.inf, math.inf)}
    import numpy as np

    near = {float(np.float32(v)) for v in named}
    sides = (np.float32(-np.inf), np.float32(np.inf))
    return near | {float(np.nextafter(np.float32(v), to)) for v in near for to in sides}
