"""Expressions as calls of Arrow's functions, where their values equal the engine's. Pure.

This is a short cut for simple expressions. A call exists only if its values always equal the
engine's. An error of a call decides nothing, because Arrow also evaluates branches that are not
taken. The caller then uses the engine (`data.sql_evaluation`). Spec: SQL-1.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.ansi_comparisons import INTEGERS
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Decimal, Primitive, Type, is_float

Plain = bool | int | float | str | decimal.Decimal | None


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """Column without any change."""

    handle: str


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """Constant value of every row."""

    value: Plain
    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Call of an Arrow function with its operands."""

    function: str
    operands: tuple[Value, ...]
    options: pc.FunctionOptions | None = None


Value = Union[ColumnValue, ConstantValue, Call]  # noqa: UP007 - names what is defined above


def call(
    function: str, *operands: Value | None, options: pc.FunctionOptions | None = None
) -> Call | None:
    """Return a call; None if an operand has no Arrow form."""
    known = tuple(operand for operand in operands if operand is not None)
    return Call(function, known, options) if len(known) == len(operands) else None


_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}


def arithmetic(one: Value | None, sign: str, two: Value | None, kind: Type) -> Value | None:
    """Return a sum, difference or product of operands of one type, which is also the result's
    type.
    """
    if is_float(kind):
        return call(_ARITHMETIC[sign], one, two)
    return call(f"{_ARITHMETIC[sign]}_checked", one, two) if _is_whole(kind) else None


def exact(one: Value | None, sign: str, two: Value | None, kind: Decimal) -> Value | None:
    """Return a decimal sum, difference or product. A sum may need one more digit, a product all
    digits.
    """
    return _checked_cast(call(f"{_ARITHMETIC[sign]}_checked", one, two), kind)


def quotient(one: Value | None, two: Value | None) -> Value | None:
    """Return a quotient of doubles, or of whole numbers of one type, which rounds towards zero."""
    return call("divide_checked", one, two)


def remainder(one: Value | None, two: Value | None, kind: Type) -> Value | None:
    """Return the remainder of whole numbers of one type, with the sign of the first."""
    if not _is_whole(kind):
        return None
    return call("subtract_checked", one, call("multiply_checked", quotient(one, two), two))


def negative(value: Value | None, kind: Type | None) -> Value | None:
    """Return the negative of a number."""
    if kind is None or not (_is_whole(kind) or is_float(kind)):
        return None
    return call("negate" if is_float(kind) else "negate_checked", value)


def absolute(value: Value | None, kind: Type | None) -> Value | None:
    """Return the absolute value of a number."""
    if kind is None or not (_is_whole(kind) or is_float(kind)):
        return None
    return call("abs" if is_float(kind) else "abs_checked", value)


_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_COMPARABLE = frozenset({"boolean", "string", "date", "timestamp", "timestamp_ntz"})


def compared(one: Value | None, op: str, two: Value | None, kind: Type) -> Value | None:
    """Return a comparison of operands of one type. Floats are excluded, since NaN is the largest in
    SQL.
    """
    if op not in _COMPARISONS or not _is_comparable(kind):
        return None
    return call(_COMPARISONS[op], one, two)


def among(value: Value | None, items: Sequence[Value | None], kind: Type) -> Value | None:
    """Return True where the value equals one of several constants that are not NULL."""
    if value is None or not _is_comparable(kind):
        return None
    listed = [item.value for item in items if isinstance(item, ConstantValue)]
    if len(listed) < len(items) or None in listed:
        return None
    options = pc.SetLookupOptions(pa.array(listed, arrow_type(kind)), skip_nulls=True)
    nothing = ConstantValue(None, Primitive("boolean"))
    return call("if_else", call("is_valid", value), call("is_in", value, options=options), nothing)


def all_true(parts: Sequence[Value | None]) -> Value | None:
    """Return the AND of truth values."""
    return _folded("and_kleene", parts)


def any_true(parts: Sequence[Value | None]) -> Value | None:
    """Return the OR of truth values."""
    return _folded("or_kleene", parts)


def _folded(function: str, parts: Sequence[Value | None]) -> Value | None:
    level = list(parts)
    while len(level) > 1:
        # Combine in pairs, so that a long list does not make a deep tree.
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [*(call(function, one, two) for one, two in pairs), *odd]
    return level[0]


def chosen(
    tests: Sequence[Value | None], values: Sequence[Value | None], otherwise: Value | None
) -> Value | None:
    """Return the value of the first test that is TRUE. A NULL test counts as FALSE."""
    whole = otherwise
    for test, value in reversed(list(zip(tests, values, strict=True))):
        true = call("coalesce", test, ConstantValue(False, Primitive("boolean")))
        whole = call("if_else", true, value, whole)
    return whole


def cast_value(value: Value | None, source: Type, target: Type) -> Value | None:
    """Return `CAST(value AS target)`, for types where Arrow's result equals the engine's."""
    if value is None or source == target:
        return value
    whole = _is_whole(source)
    if isinstance(value, ConstantValue) and whole and value.value is not None:
        return _constant_cast(value, target)
    if whole and (_is_whole(target) or isinstance(target, Decimal)):
        return _checked_cast(value, target)
    if isinstance(source, Decimal) and isinstance(target, Decimal):
        return _checked_cast(value, target)
    if (whole or is_float(source)) and is_float(target):
        # Rounds to the nearest float; numbers beyond the largest float become infinity.
        return call("cast", value, options=pc.CastOptions.unsafe(arrow_type(target)))
    texts = whole or source == Primitive("boolean")
    return _checked_cast(value, target) if texts and target == Primitive("string") else None


def _constant_cast(value: ConstantValue, target: Type) -> Value | None:
    """Return a literal whole number in another type."""
    number = value.value
    assert isinstance(number, int)
    if _is_whole(target):
        end = INTEGERS[str(target)]
        return ConstantValue(number, target) if -end <= number < end else None
    if target == Primitive("double"):
        return ConstantValue(float(number), target)
    if isinstance(target, Decimal) and len(str(abs(number))) <= target.precision - target.scale:
        return ConstantValue(decimal.Decimal(number), target)
    return None


def _checked_cast(value: Value | None, target: Type) -> Value | None:
    return call("cast", value, options=pc.CastOptions.safe(arrow_type(target)))


def null_of(kind: Type) -> Value | None:
    """Return NULL of a type."""
    return ConstantValue(None, kind) if _is_comparable(kind) or is_float(kind) else None


def _is_whole(kind: Type) -> bool:
    return str(kind) in INTEGERS


def _is_comparable(kind: Type) -> bool:
    return _is_whole(kind) or isinstance(kind, Decimal) or str(kind) in _COMPARABLE
