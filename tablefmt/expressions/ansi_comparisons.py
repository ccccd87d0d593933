"""Comparisons of a column with a literal, with the meaning of Spark's ANSI mode.

Spark widens both sides to one type. Here the column stays unchanged, and the literal is converted
or the comparison rewritten. Every rewrite selects exactly the rows that Spark selects. It is NULL
for exactly the same rows. Pure. Spec: PRN-3 (spec/pruning.md).
"""

from __future__ import annotations

import decimal
import fractions
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import literals
from tablefmt.expressions.literals import DAY, EXACT
from tablefmt.expressions.predicate import (
    FALSE,
    NULL,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    any_of,
)
from tablefmt.model.schema import Decimal, Field, Type, is_nested, kind_name

INTEGERS = {"byte": 1 << 7, "short": 1 << 15, "integer": 1 << 31, "long": 1 << 63}
"""First value above each integer type's range. The lowest value is its negative."""

_NUMBERS = ("integral", "decimal", "double")


@dataclass(frozen=True, slots=True)
class Literal:
    """Constant of the text. `kind` is `integral`, `decimal`, `null`, or one of Spark's names."""

    kind: str
    value: Any
    """Value as in `predicate`; None for `null`."""


def compare(
    field: Field, op: str, literal: Literal, time_zone: str, *, as_double: bool = False
) -> Predicate:
    """Return `field op literal`; with `as_double`, `CAST(field AS DOUBLE) op literal`.

    Raises:
        InvalidPredicateError: Spark has no such comparison, or the text is not a value of the type.
        UnsupportedFeatureError: it needs a cast of the column that cannot be inverted.
    """
    if is_nested(field.type):
        raise UnsupportedFeatureError(
            f"column {field.name!r} is nested; conditions support only top-level columns",
            ["sql:nested-field"],
        )
    if literal.kind == "null":
        return IsNull(field) if op == "<=>" else NULL
    literal = _from_text(field, literal, time_zone, as_double)
    kind = kind_name(field.type)
    if literal.kind in _NUMBERS:
        return _compare_number(field, kind, op, literal, as_double)
    if as_double:
        raise _clash(field, literal)
    if literal.kind == kind:
        return Comparison(field, op, literal.value)
    if kind == "string":
        raise UnsupportedFeatureError(
            f"comparing text column {field.name!r} with a {literal.kind} would cast every row; "
            "write the literal as text",
            ["sql:cast"],
        )
    return _compare_time(field, kind, op, literal, time_zone)


def contained(
    field: Field, values: Sequence[Literal], time_zone: str, *, as_double: bool = False
) -> Predicate:
    """Return `field IN (values)`. Raises as `compare`."""
    known = [v for v in values if v.kind != "null"]
    as_double = as_double or any(v.kind == "double" for v in known)
    kinds = {"number" if v.kind in _NUMBERS else v.kind for v in known}
    if len(kinds) > 1 and not kinds <= {"string", kind_name(field.type), "number"}:
        raise UnsupportedFeatureError(
            f"IN over {field.name!r} mixes {', '.join(sorted(kinds))}; use one type", ["sql:in"]
        )
    exact: list[Any] = []
    rest: list[Predicate] = []
    for literal in values:
        if literal.kind == "null":
            exact.append(None)
            continue
        forced = as_double and literal.kind in (*_NUMBERS, "string")
        part = compare(field, "=", literal, time_zone, as_double=forced)
        if isinstance(part, Comparison):
            exact.append(part.value)
        elif part != never(field):
            rest.append(part)
    if exact:
        rest.insert(0, In(field, tuple(exact)))
    return any_of(rest) if rest else never(field)


def never(field: Field) -> Predicate:
    """Return FALSE, and NULL where the column is null."""
    return And((IsNull(field), NULL))


def always(field: Field) -> Predicate:
    """Return TRUE, and NULL where the column is null."""
    return Or((Not(IsNull(field)), NULL))


def _from_text(field: Field, literal: Literal, time_zone: str, as_double: bool) -> Literal:
    """Return text cast for a column of another type, as Spark does: to BIGINT or DOUBLE for
    numbers.
    """
    kind = kind_name(field.type)
    if literal.kind != "string" or (kind == "string" and not as_double):
        return literal
    try:
        if as_double or kind in ("float", "double", "decimal"):
            return Literal("double", literals.text_to_float(literal.value))
        if kind in INTEGERS:
            return Literal("integral", literals.text_to_int(literal.value))
        return cast_text(literal.value, kind, time_zone)
    except ValueError as error:
        raise InvalidPredicateError(
            f"{literal.value[:80]!r} cannot be compared with column {field.name!r} "
            f"({field.type}): {error}"
        ) from None


def cast_text(text: str, kind: str, time_zone: str) -> Literal:
    """Return text as a boolean, binary, date, timestamp or timestamp_ntz. Raises ValueError if
    invalid.
    """
    if kind == "boolean":
        return Literal(kind, literals.text_to_bool(text))
    if kind == "binary":
        return Literal(kind, text.encode("utf-8"))
    if kind == "date":
        return Literal(kind, literals.text_to_date(text))
    with_zone = kind == "timestamp"
    return Literal(kind, literals.text_to_timestamp(text, time_zone, with_zone=with_zone))


def _clash(field: Field, literal: Literal) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"column {field.name!r} is {field.type} and cannot be compared with a {literal.kind}; "
        "write a literal of the column's type"
    )


def _compare_number(
    field: Field, kind: str, op: str, literal: Literal, as_double: bool
) -> Predicate:
    if kind in ("float", "double"):
        return Comparison(field, op, float(literal.value))
    if kind == "string":
        raise UnsupportedFeatureError(
            f"comparing text column {field.name!r} with a number would cast every row; "
            "write the literal as text",
            ["sql:cast"],
        )
    if kind not in INTEGERS and kind != "decimal":
        raise _clash(field, literal)
    steps = _steps(field.type)
    if as_double or literal.kind == "double":
        bounds = _around_double(steps, float(literal.value))
    else:
        scaled = fractions.Fraction(literal.value) * 10**steps.scale
        bounds = (math.ceil(scaled), math.floor(scaled) + 1)
    return _on_steps(field, op, bounds, steps)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Values of an exact type in order: the integers low .. high, times 10 ** -scale."""

    low: int
    high: int
    scale: int = 0

    def value(self, step: int, kind: Type) -> Any:
        """Return the value of a step, as a column of this type stores it."""
        if isinstance(kind, Decimal):
            return decimal.Decimal(step).scaleb(-self.scale, EXACT)
        return step


def _steps(kind: Type) -> _Steps:
    if isinstance(kind, Decimal):
        end = 10**kind.precision - 1
        return _Steps(-end, end, kind.scale)
    end = INTEGERS[str(kind)]
    return _Steps(-end, end - 1)


def _around_double(steps: _Steps, value: float) -> tuple[int, int]:
    """Return the first step whose double is >= value, and the first whose double is > value."""
    unit = 10**steps.scale
    if value != value:
        return steps.high + 1, steps.high + 1
    at_least = _first(steps.low, steps.high, lambda step: step / unit >= value)
    return at_least, _first(at_least, steps.high, lambda step: step / unit > value)


def _first(low: int, high: int, test: Callable[[int], bool]) -> int:
    """Return the first of low .. high for which the monotone `test` holds; high + 1 if there is
    none.
    """
    high += 1
    while low < high:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _on_steps(field: Field, op: str, bounds: tuple[int, int], steps: _Steps) -> Predicate:
    """Return `field op x`. Steps below bounds[0] are < x, and steps from bounds[1] on are > x."""
    start, end = bounds
    if op in ("=", "!=", "<=>"):
        return _equal_on_steps(field, op, bounds, steps)
    if start + 1 == end and steps.low <= start <= steps.high:
        return Comparison(field, op, steps.value(start, field.type))
    edge = start if op in ("<", ">=") else end
    below = op in ("<", "<=")
    if edge <= steps.low:
        return never(field) if below else always(field)
    if edge > steps.high:
        return always(field) if below else never(field)
    return Comparison(field, "<" if below else ">=", steps.value(edge, field.type))


def _equal_on_steps(field: Field, op: str, bounds: tuple[int, int], steps: _Steps) -> Predicate:
    start, end = max(bounds[0], steps.low), min(bounds[1], steps.high + 1)
    if start + 1 == end:
        return Comparison(field, op, steps.value(start, field.type))
    if start >= end:
        if op == "<=>":
            return FALSE
        return never(field) if op == "=" else always(field)
    low = Comparison(field, ">=", steps.value(start, field.type))
    high = Comparison(field, "<=", steps.value(end - 1, field.type))
    if op == "<=>":
        return And((Not(IsNull(field)), low, high))
    return And((low, high)) if op == "=" else Not(And((low, high)))


def _compare_time(field: Field, kind: str, op: str, literal: Literal, time_zone: str) -> Predicate:
    """Return the comparison of a date, timestamp or timestamp_ntz column with another of the
    three.
    """
    if {kind, literal.kind} - {"date", "timestamp", "timestamp_ntz"}:
        raise _clash(field, literal)

    def instant(wall: int) -> int:
        return literals.wall_to_instant(wall, time_zone)

    try:
        if kind == "timestamp":
            wall = literal.value * DAY if literal.kind == "date" else literal.value
            return Comparison(field, op, instant(wall))
        if kind == "timestamp_ntz" and literal.kind == "date":
            return Comparison(field, op, literals.in_range(literal.value * DAY))
        if kind == "timestamp_ntz":
            fixed = literals.is_fixed(time_zone)
            if fixed is None:
                raise UnsupportedFeatureError(
                    f"timestamp_ntz column {field.name!r} cannot be compared with a timestamp in "
                    f"zone {time_zone}, because the offset of that zone can change; write "
                    "TIMESTAMP_NTZ '…'",
                    ["sql:cast"],
                )
            return Comparison(field, op, literals.in_range(literal.value + fixed[0] * 1_000_000))
        start = instant if literal.kind == "timestamp" else lambda wall: wall
        guess = literal.value // DAY
        steps = _Steps(guess - 3, guess + 3)
        at_least = _first(steps.low, steps.high, lambda day: start(day * DAY) >= literal.value)
        above = _first(at_least, steps.high, lambda day: start(day * DAY) > literal.value)
        return _on_steps(field, op, (at_least, above), steps)
    except ValueError as error:
        raise InvalidPredicateError(
            f"column {field.name!r} ({field.type}) cannot be compared with this {literal.kind}: "
            f"{error}"
        ) from None


def constant(op: str, left: Literal, right: Literal) -> Constant | None:
    """Return `left op right` of two literals of one kind, or None if their kinds differ."""
    if "null" in (left.kind, right.kind):
        return Constant(left.kind == right.kind) if op == "<=>" else NULL
    if left.kind != right.kind:
        return None
    a, b = (_order(v) for v in (left.value, right.value))
    result = {
        "=": a == b,
        "<=>": a == b,
        "!=": a != b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
    }
    return Constant(result[op])


def _order(value: Any) -> Any:
    """Return a sort key that puts NaN above all numbers."""
    return (value != value, 0.0 if value != value else value) if type(value) is float else value
