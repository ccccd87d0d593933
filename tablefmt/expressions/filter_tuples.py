"""Filter tuples in the form of `pyarrow.parquet`, converted to a predicate. Pure.

`[("id", ">", 1), ("name", "in", ["a", "b"])]` is an AND; a list of such lists is an OR of them. The
values are Python values, checked against the type of the column. The meaning is Arrow's:

- Comparisons with None, and of a null, are never TRUE.
- Comparisons with NaN are never TRUE, except `!=`.
- `in` and `not in` are never NULL. None in the collection matches nulls; `not in` without None
  selects them.
- 0.0 and -0.0 are equal everywhere.

Spec: PRN-1.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, Union

import numpy as np
import pyarrow as pa

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import ansi_comparisons
from tablefmt.expressions.ansi_comparisons import INTEGERS, Literal
from tablefmt.expressions.predicate import (
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
)
from tablefmt.expressions.sql_parser import no_column
from tablefmt.model.schema import Field, Schema, is_float, is_nested, kind_name

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)

_DIGITS = range(-400, 400)
"""Range of powers of ten for a number, as in text."""


def literal_of(value: Any, field: Field) -> Literal:
    """Return a constant that the column can be compared with.

    Args:
        value: None, which is NULL; bool, int, float, Decimal, str, bytes, date or datetime, where a
            naive one is UTC for a timestamp column; numpy's and pyarrow's scalars of these, and
            pandas' times.
        field: a column that is not nested.

    Raises:
        InvalidPredicateError: a value of another kind than the column's.
    """
    plain = _plain(value)
    if plain is None:
        return Literal("null", None)
    reader = _READERS.get(kind_name(field.type))
    literal = None if reader is None else reader(plain)
    if literal is None:
        advice = ""
        if isinstance(plain, str):
            advice = "; text is compared only with text, so pass a number, a date or a datetime"
        raise InvalidPredicateError(
            f"column {field.name!r} is {field.type} and cannot be compared with the "
            f"{type(value).__name__} {value!r:.80}{advice}"
        )
    return literal


def _plain(value: Any) -> Any:
    """Return the value as a plain Python value."""
    if isinstance(value, pa.Scalar):
        try:
            value = value.as_py()
        except OverflowError:
            raise InvalidPredicateError(
                f"a {value.type} is beyond Python's years 1 to 9999; write the condition as text, "
                "for example: day > DATE '+10000-01-01'"
            ) from None
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        fine = value.astype("datetime64[us]")
        return fine.item() if fine == value else value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.date) and value != value:
        return None  # pandas' NaT
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _truth(value: Any) -> Literal | None:
    return Literal("boolean", value) if isinstance(value, bool) else None


def _number(value: Any) -> Literal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Literal("integral", int(value))
    if isinstance(value, float):
        return Literal("double", float(value))
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() in _DIGITS:
        return Literal("decimal", value)
    return None


def _double(value: Any) -> Literal | None:
    literal = _number(value)
    try:
        return None if literal is None else Literal("double", float(literal.value))
    except OverflowError:
        return None


def _text(value: Any) -> Literal | None:
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
        if isinstance(text, str):
            # No text of a table contains an unpaired surrogate.
            text.encode("utf-8")
            return Literal("string", str(text))
    except UnicodeError:
        pass
    return None


def _binary(value: Any) -> Literal | None:
    if isinstance(value, str):
        text = _text(value)
        return None if text is None else Literal("binary", text.value.encode("utf-8"))
    return Literal("binary", value) if isinstance(value, bytes) else None


def _time(value: Any) -> Literal | None:
    if isinstance(value, datetime.datetime):
        if getattr(value, "nanosecond", 0):
            return None
        if value.utcoffset() is None:
            wall = value.replace(tzinfo=None) - _EPOCH
            return Literal("timestamp_ntz", wall // _MICROSECOND)
        return Literal("timestamp", (value - _EPOCH_UTC) // _MICROSECOND)
    if isinstance(value, datetime.date):
        return Literal("date", (value - _EPOCH.date()).days)
    return None


_READERS: dict[str, Callable[[Any], Literal | None]] = {
    "boolean": _truth,
    **dict.fromkeys((*INTEGERS, "decimal"), _number),
    **dict.fromkeys(("float", "double"), _double),
    "string": _text,
    "binary": _binary,
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), _time),
}
"""Converters by kind of column. They return None for a value that cannot be compared with it."""


FilterTuple = tuple[str, str, Any]
"""Column, operator, value."""

Filters = Union[Sequence[FilterTuple], Sequence[Sequence[FilterTuple]]]  # noqa: UP007 - run time

_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MEMBERSHIPS = ("in", "not in")
OPERATORS = (*_COMPARISONS, *_MEMBERSHIPS)


def is_filters(where: Any) -> TypeGuard[Filters]:
    """Return True for a condition of this form, valid or not."""
    return isinstance(where, list | tuple)


def filters_to_predicate(filters: Filters, schema: Schema) -> Predicate:
    """Return the condition over the columns of `schema`: TRUE for the rows that Arrow keeps.

    Args:
        filters: tuples (column, operator, value), which are AND-ed; or lists of them, which are
            OR-ed. Names match as a whole, ignoring case.
        schema: columns and their types.

    Raises:
        InvalidPredicateError: another form; an unknown column or operator; a value that the column
            cannot be compared with.
        UnsupportedFeatureError: a column that is nested.
    """
    groups = [filters] if _is_conjunction(filters) else filters
    return any_of([all_of([_one(item, schema) for item in _group(each)]) for each in groups])


def _is_conjunction(filters: Sequence[Any]) -> bool:
    """Return True for tuples, and False for lists of tuples."""
    if not filters:
        raise _malformed("an empty list; give None for all rows")
    first = filters[0]
    if isinstance(first, str):
        raise _malformed(f"{filters!r:.100}; put the tuple into a list")
    return isinstance(first, Sequence) and len(first) > 0 and isinstance(first[0], str)


def _group(group: Any) -> Sequence[Any]:
    if not isinstance(group, list | tuple) or not group:
        raise _malformed(f"{group!r:.100} instead of a list of tuples")
    return group


def _one(item: Any, schema: Schema) -> Predicate:
    if not isinstance(item, list | tuple) or len(item) != 3:
        raise _malformed(f"{item!r:.100} instead of (column, operator, value)")
    name, op, value = item
    if not isinstance(name, str):
        raise _malformed(f"{name!r:.100} instead of a column's name")
    field = schema.find(name)
    if field is None:
        raise no_column([name], schema.names)
    if is_nested(field.type):
        raise UnsupportedFeatureError(
            f"column {field.name!r} is nested; filters support only flat top-level columns",
            ["filters:nested-field"],
        )
    if not isinstance(op, str) or op not in OPERATORS:
        raise _malformed(f"the operator {op!r:.100}; expected one of {', '.join(OPERATORS)}")
    if op in _MEMBERSHIPS:
        return _membership(field, op == "in", _members(field, value))
    return _comparison(field, _COMPARISONS[op], value)


def _malformed(what: str) -> InvalidPredicateError:
    return InvalidPredicateError(
        f'filters have {what}. Expected [("id", ">", 1), ("name", "in", ["a", "b"])], or a '
        "list of such lists for OR"
    )


def _comparison(field: Field, op: str, value: Any) -> Predicate:
    literal = literal_of(value, field)
    if literal.kind == "null":
        return NULL
    if literal.value != literal.value:
        return Not(IsNull(field)) if op == "!=" else FALSE
    plain = ansi_comparisons.compare(field, op, literal, "UTC")
    if is_float(field.type) and op in (">", ">="):
        # In our order, NaN is above every number.
        return And((plain, Not(IsNaN(field))))
    return plain


def _members(field: Field, values: Any) -> list[Any]:
    """Return the values of a collection. An iterator is refused, because it can be read only
    once.
    """
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        iterator = iter(values)
        if iterator is not values:
            return list(iterator)
    raise InvalidPredicateError(
        f"expected a list, a set or a tuple for in and not in with column {field.name!r}, got the "
        f"{type(values).__name__} {values!r:.80}"
    )


def _membership(field: Field, inside: bool, values: Sequence[Any]) -> Predicate:
    literals = [literal_of(value, field) for value in values]
    known = [literal for literal in literals if literal.kind != "null"]
    parts = [_equal(field, literal) for literal in known]
    exact = tuple(dict.fromkeys(p.value for p in parts if isinstance(p, Comparison)))
    listed = [p for p in parts if not isinstance(p, Comparison) and p != FALSE]
    if exact:
        listed.insert(0, In(field, exact))
    has_null = len(known) < len(literals)
    if inside:
        return any_of([IsNull(field), *listed] if has_null else listed)
    outside = all_of([Not(part) for part in listed])
    if has_null:
        return all_of([Not(IsNull(field)), *([] if outside == TRUE else [outside])])
    return TRUE if outside == TRUE else Or((IsNull(field), outside))


def _equal(field: Field, literal: ansi_comparisons.Literal) -> Predicate:
    """Return equality as in a set: Arrow finds NaN in a set that holds NaN, unlike with `=`."""
    if literal.value != literal.value:
        return Comparison(field, "=", literal.value) if is_float(field.type) else FALSE
    part = ansi_comparisons.compare(field, "=", literal, "UTC")
    return FALSE if part == ansi_comparisons.never(field) else part
