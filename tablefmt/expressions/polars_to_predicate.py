"""Conversion of polars conditions to predicates, where supported. Pure: it reads polars' JSON.

Polars orders floats as we do: NaN equals itself and is above everything (PRN-2). Its JSON writes
null for NaN and the infinities, so a null float is not supported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal as DecimalValue
from typing import Any

import pyarrow as pa

from tablefmt.expressions.literals import exact_pattern
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    all_of,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Decimal, Field, Schema, is_float

_OPERATORS = {
    "Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=", "EqValidity": "<=>",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}

_LITERALS = {
    "boolean": "Boolean",
    "byte": "Int8",
    "short": "Int16",
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "string": "String",
    "binary": "Binary",
    "date": "Date",
}
"""Polars' literal types for exactly a column's type. For any other type, polars casts the
column.
"""

_ZONES = {"timestamp": {"inner": "UTC"}, "timestamp_ntz": None}

_Node = Any
"""Any JSON value. The reader checks it."""


class _UnknownError(Exception):
    """Signal for an unsupported part."""


_UNREAD = (_UnknownError, ValueError, TypeError, LookupError, AttributeError)
"""Errors that an unexpected shape of a node causes."""


def implied_by(text: str, schema: Schema) -> Predicate | None:
    """Return a predicate that is TRUE for every row that a condition selects; None if none is
    known.

    Args:
        text: the condition, by `Expr.meta.serialize(format="json")`.
        schema: columns by the names that the condition has.
    """
    try:
        tree = json.loads(text)
        return _read(tree, schema, True)
    except (*_UNREAD, RecursionError):
        return None


def is_passing_hint(text: str) -> bool:
    """Return True for a hint that polars passes to a source while it runs. It cannot be
    evaluated.
    """
    return '"dynamic_pred' in text


def is_conjunction(text: str) -> bool:
    """Return True for two parts joined by AND that polars can split again."""
    tree = json.loads(text)
    return isinstance(tree, dict) and tree.get("BinaryExpr", {}).get("op") == "And"


def _read(node: _Node, schema: Schema, wider: bool) -> Predicate:
    """Return the condition of a node; with `wider`, it may be TRUE for more rows."""
    [(kind, inner)] = node.items()
    if kind == "Column":
        field = _field(inner, schema)
        if str(field.type) != "boolean":
            raise _UnknownError
        return Comparison(field, "=", True)
    if kind == "BinaryExpr":
        return _binary(inner["op"], inner["left"], inner["right"], schema, wider)
    if kind == "Function":
        return _function(inner["function"], inner["input"], schema, wider)
    raise _UnknownError


def _binary(op: str, left: _Node, right: _Node, schema: Schema, wider: bool) -> Predicate:
    if op in ("And", "LogicalAnd"):
        return _both(left, right, schema, wider)
    if op in ("Or", "LogicalOr"):
        return Or((_read(left, schema, wider), _read(right, schema, wider)))
    operator = _OPERATORS[op]
    if "Column" in right:
        left, right, operator = right, left, _TURNED.get(operator, operator)
    field = _field(left["Column"], schema)
    return Comparison(field, operator, _value(right, field))


def _both(left: _Node, right: _Node, schema: Schema, wider: bool) -> Predicate:
    parts = []
    for part in (left, right):
        try:
            parts.append(_read(part, schema, wider))
        except _UNREAD:
            if not wider:
                raise
    if not parts:
        raise _UnknownError
    return all_of(parts)


def _function(function: _Node, inputs: list[_Node], schema: Schema, wider: bool) -> Predicate:
    if function == {"StringExpr": "StartsWith"}:
        field = _field(inputs[0]["Column"], schema)
        return Like(field, exact_pattern(_value(inputs[1], field)) + "%")
    name = function["Boolean"]
    if name == "Not":
        return Not(_read(inputs[0], schema, False))
    field = _field(inputs[0]["Column"], schema)
    if name in ("IsNull", "IsNotNull"):
        return IsNull(field) if name == "IsNull" else Not(IsNull(field))
    if name in ("IsNan", "IsNotNan"):
        # For NULL, polars returns NULL, but IsNaN is FALSE. So it must not be below another NOT.
        if not wider or not is_float(field.type):
            raise _UnknownError
        return IsNaN(field) if name == "IsNan" else Not(IsNaN(field))
    if "IsBetween" in name:
        lower, upper = _BETWEEN[name["IsBetween"]["closed"]]
        low, high = (_value(each, field) for each in inputs[1:])
        return And((Comparison(field, lower, low), Comparison(field, upper, high)))
    if "IsIn" in name:
        return _membership(field, inputs[1]["Literal"]["Scalar"]["List"], wider)
    raise _UnknownError


def _membership(field: Field, message: list[int], wider: bool) -> Predicate:
    """Return membership in a list that polars writes as an Arrow stream of one column."""
    values = pa.ipc.open_stream(pa.py_buffer(bytes(message))).read_all().column(0)
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if values.type != arrow_type(field.type) or is_float(field.type) or not len(values):
        raise _UnknownError
    if values.null_count and not wider:
        raise _UnknownError
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    known = In(field, tuple(values.drop_null().to_pylist()))
    if not known.values:
        return IsNull(field)
    return Or((known, IsNull(field))) if values.null_count else known


def _field(name: _Node, schema: Schema) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
    raise _UnknownError


def _value(node: _Node, field: Field) -> Any:
    """Return a literal of the column's own type, in the form of predicates."""
    scalar: Mapping[str, Any] = node["Literal"]["Scalar"]
    [(kind, value)] = scalar.items()
    if isinstance(field.type, Decimal):
        return _decimal(value, field.type) if kind == "Decimal" else _refuse()
    name = str(field.type)
    if name in _ZONES:
        micros, unit, zone = value if kind == "Datetime" else _refuse()
        return micros if unit == "Microseconds" and zone == _ZONES[name] else _refuse()
    if kind != _LITERALS.get(name) or value is None:
        raise _UnknownError
    if name == "binary":
        return bytes(value)
    if is_float(field.type):
        return float(pa.scalar(value, arrow_type(field.type)).as_py())
    return value


def _decimal(value: Any, kind: Decimal) -> DecimalValue:
    unscaled, _, scale = value
    exact = DecimalValue(unscaled).scaleb(-scale)
    pa.scalar(exact, pa.decimal128(kind.precision, kind.scale))
    return exact


def _refuse() -> Any:
    raise _UnknownError
