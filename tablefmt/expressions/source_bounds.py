"""Which target rows a MERGE can match at all, from the values that its source really holds. Pure.

Prunes the files that are opened, and is part of what the conflict rules take to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.predicate import (
    FALSE,
    Comparison,
    In,
    IsNull,
    Predicate,
    all_of,
    any_of,
)
from tablefmt.model.schema import Field, Primitive, is_float

VALUES_MAX = 1000
"""Up to so many different values are listed; of more, the smallest and the largest are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceValues:
    """What one expression over the source comes to, as `predicate` holds values."""

    values: tuple[Any, ...] | None = None
    """All different values but NULL; None if they are not known, or too many to list."""
    lower: Any = None
    """No value is below; None: unknown. NaN is above every number."""
    upper: Any = None
    """No value is above; None: unknown."""
    has_null: bool = True
    """Whether some may be NULL."""


@dataclass(frozen=True, slots=True)
class Equated:
    """`field = expression over the source`, a part of ON."""

    field: Field
    values: SourceValues
    """Of the field's type."""
    null_safe: bool = False
    """The operator is `<=>`: NULL matches NULL."""


def predicate_of_source(equated: Sequence[Equated]) -> Predicate:
    """TRUE for every target row that some source row can match; TRUE for all if nothing is known.

    FALSE for all if the source has no value to match.
    """
    return all_of([part for each in equated for part in _parts(each)])


def values_of(column: pa.Array | pa.ChunkedArray, field: Field) -> SourceValues:
    """What a column of the field's own Arrow type holds."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    known = pc.unique(pc.drop_null(whole))
    has_null = whole.null_count > 0
    if isinstance(field.type, Primitive) and field.type.name in _STORAGE:
        known = known.view(_STORAGE[field.type.name])
    if len(known) <= VALUES_MAX:
        plain = known.to_pylist()
        if is_float(field.type):
            plain = _one_of_each(plain)
        return SourceValues(values=tuple(plain), has_null=has_null)
    if isinstance(field.type, Primitive) and field.type.name == "boolean":
        return SourceValues(has_null=has_null)
    ends = pc.min_max(known.filter(pc.invert(pc.is_nan(known))) if is_float(field.type) else known)
    lower, upper = ends["min"].as_py(), ends["max"].as_py()
    if is_float(field.type) and pc.any(pc.is_nan(known)).as_py():
        upper = float("nan")
    return SourceValues(lower=lower, upper=upper, has_null=has_null)


_STORAGE = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


def _one_of_each(numbers: list[float]) -> list[float]:
    """One zero and one NaN."""
    plain = dict.fromkeys(n + 0.0 for n in numbers if n == n)
    return [*plain, *([float("nan")] if any(n != n for n in numbers) else [])]


def _parts(each: Equated) -> list[Predicate]:
    field, known = each.field, each.values
    nulls: list[Predicate] = [IsNull(field)] if each.null_safe and known.has_null else []
    if known.values is not None:
        if not known.values:
            return [any_of(nulls)] if nulls else [FALSE]
        return [any_of([*nulls, In(field, known.values)])]
    ends: list[Predicate] = []
    if known.lower is not None:
        ends.append(Comparison(field, ">=", known.lower))
    if known.upper is not None:
        ends.append(Comparison(field, "<=", known.upper))
    if not ends:
        return []
    return [any_of([*nulls, all_of(ends)])] if nulls else ends
