"""File pruning: the files that may hold a row that a predicate selects. Vectorized over files.
Pure.

A file is excluded only if its statistics prove that none of its rows makes the predicate TRUE.
Missing, null or implausible statistics are unknown and prove nothing. There is no Python object per
file. Spec: PRN-4 .. PRN-9 (spec/pruning.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.predicate import (
    COMPARE,
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    fields,
    normalise,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, is_float

Mask = npt.NDArray[np.bool_]


def may_match(predicate: Predicate, files: pa.Table, partition_ids: frozenset[int]) -> Mask:
    """Return a mask of the files that may hold a row for which the predicate is TRUE.

    Args:
        predicate: Over top-level columns.
        files: One row per file. Columns by field id, each may be absent and each value null, which
            means unknown: `partition.<id>` (the exact value of all rows; here null means NULL),
            `lower.<id>` and `upper.<id>` (inclusive, of the column's Arrow type, without NaN),
            `nulls.<id>`, `nans.<id>` and `rows` (int64).
        partition_ids: The columns whose `partition.<id>` applies.

    Returns:
        Shape (files.num_rows,). False only if no row can match. Spec: PRN-4 .. PRN-9.
    """
    whole, pruner = normalise(predicate), _Pruner(files, partition_ids)
    candidates = pruner.candidates(whole) if files.num_rows >= NARROWED_FROM else None
    at = None if candidates is None else np.flatnonzero(candidates)
    if candidates is None or at is None or len(at) * 4 > files.num_rows:
        return pruner.mask(whole)
    candidates[at] = _Pruner(files.take(pa.array(at)), partition_ids).mask(whole)
    return candidates


NARROWED_FROM = 1 << 12
"""Number of files from which bounds alone choose candidates first. The counts are then checked for
candidates only.
"""


def exclusions(
    predicate: Predicate, files: pa.Table, partition_ids: frozenset[int]
) -> list[tuple[Predicate, Mask]]:
    """Return the conditions that must all hold, each with a mask of the files that it excludes.

    `may_match` is False for exactly the files that one of them excludes. Args: as `may_match`.
    """
    pruner, whole = _Pruner(files, partition_ids), normalise(predicate)
    parts = whole.items if isinstance(whole, And) else (whole,)
    return [(part, ~pruner.mask(part)) for part in parts]


def decided_by_partitions(predicate: Predicate, partition_ids: frozenset[int]) -> bool:
    """Return True if the predicate uses only partition columns, so that files match as a whole."""
    return fields(predicate) <= partition_ids


def partition_match(predicate: Predicate, files: pa.Table, partition_ids: frozenset[int]) -> Mask:
    """Return a mask of the files for whose rows the predicate is TRUE; else it is TRUE for none.

    Args: as `may_match`; the predicate must be `decided_by_partitions` and every
        `partition.<id>` it needs must exist. Raises ValueError if not. Spec: PRN-8.
    """
    missing = [i for i in fields(predicate) if f"partition.{i}" not in files.column_names]
    if missing or not decided_by_partitions(predicate, partition_ids):
        raise ValueError(f"not decided by the partition values given: {missing or predicate}")
    return may_match(predicate, files, partition_ids)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts about one column in every file. A null, or None for a whole column, is unknown."""

    lower: Any
    upper: Any
    has_value: Mask
    """True if a row that is not null may exist."""
    has_null: Mask
    has_nan: Mask
    has_number: Mask
    """True if a row that is neither null nor NaN may exist."""
    only_nan: Mask
    """True if every row is certainly NaN."""


class _Span(NamedTuple):
    """Bounds of one column in every file."""

    lower: Any
    upper: Any
    ordered: Any
    """True if both are known, and in the right order."""


_Compare = Callable[[Any, pa.Scalar], Any]

_EXCLUDED_BY: dict[str, tuple[_Compare | None, _Compare | None]] = {
    "<": (pc.greater_equal, None),
    "<=": (pc.greater, None),
    ">": (None, pc.less_equal),
    ">=": (None, pc.less),
    "=": (pc.greater, pc.less),
    "<=>": (pc.greater, pc.less),
}
"""Comparisons of a lower bound, and of an upper bound, that exclude a value."""


class _Pruner:
    """Evaluator of normalised predicates over one table of files."""

    def __init__(self, files: pa.Table, partition_ids: frozenset[int]) -> None:
        self.files = files
        self.names = frozenset(files.column_names)
        self.partition_ids = partition_ids
        self.known: dict[int, _Facts] = {}
        self.spans: dict[int, _Span | None] = {}

    def mask(self, predicate: Predicate) -> Mask:
        """Return a mask of the files for which it may be TRUE; unknown counts as TRUE (PRN-5)."""
        if isinstance(predicate, And | Or):
            is_and = isinstance(predicate, And)
            result = self._all(is_and)
            for item in predicate.items:
                if is_and:
                    result &= self.mask(item)
                else:
                    result |= self.mask(item)
            return result
        if isinstance(predicate, Constant):
            return self._all(predicate.value is True)
        negated = isinstance(predicate, Not)
        leaf = predicate.item if isinstance(predicate, Not) else predicate
        field = leaf.field  # type: ignore[union-attr]  # normalise leaves Not above leaves alone
        name = f"partition.{field.id}"
        if field.id in self.partition_ids and name in self.names:
            return _exact(leaf, negated, self.files.column(name))
        facts = self.known.get(field.id)
        if facts is None:
            facts = self.known[field.id] = self._facts(field)
        return _may(leaf, negated, facts, self._all(True))

    def candidates(self, predicate: Predicate) -> Mask | None:
        """Return a new mask that is TRUE wherever `mask` is; None if bounds exclude nothing.

        It is computed from bounds and partition values, without counts.
        """
        if isinstance(predicate, And | Or):
            each = [self.candidates(item) for item in predicate.items]
            known = [mask for mask in each if mask is not None]
            if isinstance(predicate, And):
                return np.logical_and.reduce(known) if known else None
            return np.logical_or.reduce(known) if known and len(known) == len(each) else None
        leaf = predicate.item if isinstance(predicate, Not) else predicate
        if isinstance(leaf, Constant):
            return None
        field = leaf.field  # type: ignore[union-attr]  # normalise leaves Not above leaves alone
        if field.id in self.partition_ids and f"partition.{field.id}" in self.names:
            return self.mask(predicate)
        if isinstance(predicate, Comparison):
            return self._within(field, predicate.op, [predicate.value])
        return self._within(field, "=", predicate.values) if isinstance(predicate, In) else None

    def _within(self, field: Field, op: str, values: Sequence[Any]) -> Mask | None:
        """Return a mask without the files whose bounds exclude a comparison with all values."""
        if field.id not in self.spans:
            self.spans[field.id] = self._span(field)
        span, known = self.spans[field.id], [value for value in values if value is not None]
        if span is None or op not in _EXCLUDED_BY or not known:
            return None
        kind = arrow_type(field.type)
        least, most = pa.scalar(min(known), kind), pa.scalar(max(known), kind)
        above, below = _EXCLUDED_BY[op]
        sides = [above(span.lower, most)] if above else []
        sides += [below(span.upper, least)] if below else []
        excluded = sides[0] if len(sides) == 1 else pc.or_(*sides)
        return ~_truth(pc.and_(excluded, span.ordered))

    def _span(self, field: Field) -> _Span | None:
        """Return the bounds of a column. The bounds of floats leave out NaN, so they are none."""
        lower, upper = (self._bound(f"{side}.{field.id}", field) for side in ("lower", "upper"))
        if lower is None or upper is None or is_float(field.type):
            return None
        return _Span(lower, upper, pc.less_equal(lower, upper))

    def _all(self, value: bool) -> Mask:
        return np.full(self.files.num_rows, value, dtype=np.bool_)

    def _counts(self, name: str) -> npt.NDArray[np.int64]:
        """Return the counts called `name`, -1 where they are unknown or impossible."""
        if name not in self.names:
            return np.full(self.files.num_rows, -1, dtype=np.int64)
        column = self.files.column(name).cast(pa.int64())
        if column.null_count:
            column = pc.fill_null(column, -1)
        counts: npt.NDArray[np.int64] = np.maximum(column.to_numpy(), -1)
        return counts

    def _bound(self, name: str, field: Field) -> Any:
        if name not in self.names:
            return None
        column = self.files.column(name)
        if column.type != arrow_type(field.type):
            return None
        if is_float(field.type):
            return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        return column

    def _facts(self, field: Field) -> _Facts:
        """Return what the log proves about the values of a column in each file (PRN-2)."""
        rows = self._counts("rows")
        nulls, nans = self._counts(f"nulls.{field.id}"), self._counts(f"nans.{field.id}")
        lower, upper = (self._bound(f"{side}.{field.id}", field) for side in ("lower", "upper"))
        bounded = self._all(False)
        if lower is not None and upper is not None:
            # Bounds in the wrong order prove nothing. Spec: PRN-6.
            crossed = pc.greater(lower, upper)
            if pc.any(crossed).as_py():
                crossed, nothing = pc.fill_null(crossed, False), pa.scalar(None, lower.type)
                lower, upper = (pc.if_else(crossed, nothing, side) for side in (lower, upper))
        for side in (lower, upper):
            if side is not None:
                bounded |= _truth(pc.is_valid(side)) if side.null_count else True
        sure = rows >= 0
        if not is_float(field.type):
            # Counts exceed the number of rows, or leave no row for the bounds.
            lies = sure & ((nulls > rows) | (bounded & (nulls == rows)))
            has_value, nowhere = ~(sure & (nulls == rows) & ~lies), self._all(False)
            has_null = (nulls != 0) | lies
            return _Facts(lower, upper, has_value, has_null, nowhere, has_value, sure & (rows == 0))
        counted = np.maximum(nulls, 0) + np.maximum(nans, 0)
        # Counts exceed the number of rows, or leave no row for the bounds.
        lies = (rows >= 0) & ((nulls > rows) | (nans > rows) | (counted > rows))
        lies |= bounded & (rows >= 0) & (counted == rows)
        nulls, nans = np.where(lies, -1, nulls), np.where(lies, -1, nans)
        has_value = ~(sure & (nulls == rows))
        return _Facts(
            lower,
            upper,
            has_value=has_value,
            has_null=nulls != 0,
            has_nan=has_value & (nans != 0),
            # Neither count is above `rows`, so the sum with an unknown one (-1) is below it.
            has_number=~(sure & (nulls + nans == rows)) & has_value,
            only_nan=sure & (nans == rows),
        )


def _truth(result: Any, unknown: bool = False) -> Mask:
    """Return an Arrow boolean column as a mask."""
    filled = pc.fill_null(result, unknown) if result.null_count else result
    if isinstance(filled, pa.ChunkedArray):
        return np.array(filled.to_numpy(), dtype=np.bool_)
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _scalar(value: Any, field: Field) -> pa.Scalar:
    # A float column is compared as double, so a value between two floats is not rounded.
    return pa.scalar(value, pa.float64() if is_float(field.type) else arrow_type(field.type))


def _wide(column: Any, field: Field) -> Any:
    return column.cast(pa.float64()) if str(field.type) == "float" else column


def _may(leaf: Predicate, negated: bool, facts: _Facts, everything: Mask) -> Mask:
    if isinstance(leaf, IsNull):
        return np.array(facts.has_value if negated else facts.has_null)
    if isinstance(leaf, IsNaN):
        return ~facts.only_nan if negated else facts.has_nan
    if isinstance(leaf, Comparison):
        return _may_compare(leaf.field, leaf.op, leaf.value, facts, everything)
    if isinstance(leaf, In):
        if not negated:
            return _may_be_in(leaf.field, leaf.values, facts, everything)
        if None in leaf.values:
            return ~everything
        result: Mask = everything.copy()
        for value in leaf.values:
            result &= _may_compare(leaf.field, "!=", value, facts, everything)
        return result
    assert isinstance(leaf, Like)
    return _may_be_like(leaf, negated, facts, everything)


def _beyond(side: Any, op: str, value: pa.Scalar, field: Field, everything: Mask) -> Mask:
    """Return a mask of the files whose bound `side` compares so, or is unknown."""
    if side is None:
        return everything
    return _truth(COMPARE[op](_wide(side, field), value), unknown=True)


def _may_compare(field: Field, op: str, value: Any, facts: _Facts, everything: Mask) -> Mask:
    if value != value:  # NaN is above all numbers and equal to itself. Spec: PRN-7.
        by_operator = {
            "=": facts.has_nan,
            "<=>": facts.has_nan,
            ">=": facts.has_nan,
            ">": ~everything,
        }
        by_operator |= {"<": facts.has_number, "!=": facts.has_number, "<=": facts.has_value}
        return np.array(by_operator[op])
    scalar = _scalar(value, field)

    def beyond(side: Any, how: str) -> Mask:
        return _beyond(side, how, scalar, field, everything)

    if op in ("=", "<=>"):
        return beyond(facts.lower, "<=") & beyond(facts.upper, ">=") & facts.has_number
    if op in ("<", "<="):
        return beyond(facts.lower, op) & facts.has_number
    if op in (">", ">="):
        return (beyond(facts.upper, op) & facts.has_number) | facts.has_nan
    if facts.lower is None or facts.upper is None:
        other = everything
    else:
        other = beyond(facts.lower, "!=") | beyond(facts.upper, "!=")
    return (other & facts.has_number) | facts.has_nan


def _may_be_in(field: Field, values: Sequence[Any], facts: _Facts, everything: Mask) -> Mask:
    numbers = sorted({v for v in values if v is not None and v == v})
    result = ~everything
    if any(v != v for v in values if v is not None):
        result |= facts.has_nan
    if not numbers:
        return result
    if len(numbers) <= _FEW:
        for value in numbers:
            result |= _may_compare(field, "=", value, facts, everything)
        return result
    if facts.lower is None or facts.upper is None:
        span = pa.array([numbers[0], numbers[-1]], _scalar(numbers[0], field).type)
        return result | (
            _beyond(facts.lower, "<=", span[1], field, everything)
            & _beyond(facts.upper, ">=", span[0], field, everything)
            & facts.has_number
        )
    # The first value that is not below a file's lower bound must not be above its upper bound.
    ordered = pa.array(numbers, _scalar(numbers[0], field).type)
    lower, upper = (_wide(_flat(side), field) for side in (facts.lower, facts.upper))
    places = _places(ordered, lower)
    candidates = ordered.take(pa.array(np.minimum(places, len(numbers) - 1)))
    unknown = _truth(pc.or_(pc.is_null(lower), pc.is_null(upper)))
    within = (places < len(numbers)) & _truth(pc.less_equal(candidates, upper))
    within |= unknown & _truth(pc.less_equal(lower, ordered[-1]), unknown=True)
    within &= ~unknown | _truth(pc.greater_equal(upper, ordered[0]), unknown=True)
    return result | (within & facts.has_number)


def _places(ordered: pa.Array, column: pa.Array) -> npt.NDArray[np.int64]:
    """Return, for each value of `column`, the number of `ordered` values below it; for nulls,
    all.
    """
    # The sort is stable, so a value equal to one of the column's values comes after it.
    both = pc.sort_indices(pa.concat_arrays([column, ordered])).to_numpy().astype(np.int64)
    is_option = both >= len(column)
    below = np.cumsum(is_option)
    places = np.empty(len(column), dtype=np.int64)
    places[both[~is_option]] = below[~is_option]
    return places


_FEW = 16
"""Number of values up to which single comparisons are faster than sorting."""


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def like_prefix(pattern: str) -> tuple[str, str]:
    """Return the text that every match starts with, and the rest of the pattern."""
    prefix: list[str] = []
    i = 0
    while i < len(pattern) and pattern[i] not in "%_":
        i += pattern[i] == "\\"
        prefix.append(pattern[i])
        i += 1
    return "".join(prefix), pattern[i:]


def _may_be_like(leaf: Like, negated: bool, facts: _Facts, everything: Mask) -> Mask:
    prefix, rest = like_prefix(leaf.pattern)
    if not rest:
        return _may_compare(leaf.field, "!=" if negated else "=", prefix, facts, everything)
    if negated:
        if rest.strip("%") or facts.lower is None or facts.upper is None:
            return facts.has_value
        # Both bounds start with the prefix, so every value between does.
        both = _starts(facts.lower, prefix) & _starts(facts.upper, prefix)
        return ~both & facts.has_value
    scalar = pa.scalar(prefix, pa.string())
    result = facts.has_value & _beyond(facts.upper, ">=", scalar, leaf.field, everything)
    if facts.lower is not None:
        low = _truth(pc.less_equal(facts.lower, scalar), unknown=True)
        result &= low | _starts(facts.lower, prefix)
    return result


def _starts(column: Any, prefix: str) -> Mask:
    return _truth(pc.starts_with(column, pattern=prefix))


def _exact(leaf: Predicate, negated: bool, column: Any) -> Mask:
    """Return a mask of the files whose partition value makes the leaf TRUE. Spec: PRN-8."""
    if isinstance(leaf, IsNull):
        return _truth(pc.is_valid(column) if negated else pc.is_null(column))
    valid = _truth(pc.is_valid(column))
    nan = _truth(pc.is_nan(column)) if pa.types.is_floating(column.type) else ~(valid | True)
    if isinstance(leaf, IsNaN):
        return ~nan if negated else nan
    if isinstance(leaf, Comparison):
        return _exact_compare(leaf.field, leaf.op, leaf.value, column, valid, nan)
    if isinstance(leaf, In):
        if negated and None in leaf.values:
            return np.zeros_like(valid)
        known = [v for v in leaf.values if v is not None]
        matches = nan if any(v != v for v in known) else np.zeros_like(valid)
        numbers = [v for v in known if v == v]
        numbers += [-v for v in numbers if type(v) is float and v == 0]
        if numbers:
            options = pa.array(numbers, _scalar(numbers[0], leaf.field).type)
            matches = matches | _truth(pc.is_in(_wide(column, leaf.field), value_set=options))
        return valid & ~matches if negated else matches
    assert isinstance(leaf, Like)
    matches = _truth(pc.match_like(column, leaf.pattern))
    return valid & ~matches if negated else matches


def _exact_compare(field: Field, op: str, value: Any, column: Any, valid: Mask, nan: Mask) -> Mask:
    if value != value:
        by_operator = {"=": nan, "<=>": nan, ">=": nan, ">": np.zeros_like(nan)}
        by_operator |= {"<": valid & ~nan, "!=": valid & ~nan, "<=": valid}
        return by_operator[op]
    result = _truth(COMPARE[op](_wide(column, field), _scalar(value, field)))
    return result | nan if op in (">", ">=") else result
