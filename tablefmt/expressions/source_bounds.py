"""Target rows that a MERGE can match, from the values in its source. Pure.

The predicate prunes the files to open, and is part of the read set for the conflict rules.
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
"""Maximum number of distinct values to list. Beyond it, only minimum and maximum are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceValues:
    """Values of one expression over the source, in the form of `predicate`."""

    values: tuple[Any, ...] | None = None
    """All distinct values except NULL; None if they are unknown, or too many to list."""
    lower: Any = None
    """Lower bound of the values; None: unknown. NaN is above every number."""
    upper: Any = None
    """Upper bound of the values; None: unknown."""
    has_null: bool = True
    """True if some values may be NULL."""


@dataclass(frozen=True, slots=True)
class Equated:
    """`field = expression over the source`, a part of ON."""

    field: Field
    values: SourceValues
    """Values of the field's type."""
    null_safe: bool = False
    """True if the operator is `<=>`: NULL matches NULL."""


def predicate_of_source(equated: Sequence[Equated]) -> Predicate:
    """Return a predicate that is TRUE for every target row that some source row can match.

    It is TRUE for all rows if nothing is known, and FALSE for all if the source has no value to
    match.
    """
    return all_of([part for each in equated for part in _parts(each)])


def values_of(column: pa.Array | pa.ChunkedArray, field: Field) -> SourceValues:
    """Return the values of a column of the field's own Arrow type."""
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
    """Return the numbers with only one zero and one NaN."""
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
