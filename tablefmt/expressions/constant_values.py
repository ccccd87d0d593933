"""Constants in a parsed condition, with their casts evaluated as in Spark's ANSI mode. Pure.

Spec: PRN-3 (spec/pruning.md).
"""

from __future__ import annotations

import decimal
import re
import struct
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import literals
from tablefmt.expressions.ansi_comparisons import INTEGERS, Literal, cast_text
from tablefmt.expressions.literals import DAY, EXACT
from tablefmt.model.schema import Decimal, Field, Primitive, Type, kind_name

_TYPES: Mapping[object, str] = {
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.TINYINT: "byte",
    exp.DataType.Type.SMALLINT: "short",
    exp.DataType.Type.INT: "integer",
    exp.DataType.Type.BIGINT: "long",
    exp.DataType.Type.FLOAT: "float",
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.TEXT: "string",
    exp.DataType.Type.BINARY: "binary",
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp_ntz",
}

_UNSIGNED = re.compile(r"[\d.][\d.eE+-]*", re.ASCII)

LITERAL_PRECISION_MAX = 38
"""Maximum digits of a decimal literal, as in Spark."""


def cast_target(node: exp.DataType) -> Type | None:
    """Return the column type that a cast names, or None if columns cannot be cast to it here."""
    if node.this == exp.DataType.Type.DECIMAL:
        numbers = [int(p.this.this) for p in node.expressions]
        precision, scale = [*numbers, *(10, 0)[len(numbers) :]]
        return Decimal(precision, scale) if 0 <= scale <= precision <= 38 else None
    name = _TYPES.get(node.this)
    return None if name is None or node.expressions else Primitive(name)


def constant_value(
    node: exp.Expression, time_zone: str, *, negative: bool = False
) -> Literal | None:
    """Return the constant that `node` is, negated on request; None if it is not a constant by
    itself.

    Raises:
        InvalidPredicateError: a literal, or a cast of one, that Spark refuses.
        UnsupportedFeatureError: a cast of a literal that this package does not support.
    """
    if isinstance(node, exp.Paren):
        return constant_value(node.this, time_zone, negative=negative)
    if isinstance(node, exp.Neg):
        return constant_value(node.this, time_zone, negative=not negative)
    if isinstance(node, exp.Cast):
        return _cast_constant(node, time_zone, negative)
    if isinstance(node, exp.Literal) and not node.is_string:
        return _number(("-" if negative else "") + node.this)
    if negative:
        return None
    if isinstance(node, exp.Null):
        return Literal("null", None)
    if isinstance(node, exp.Boolean):
        return Literal("boolean", bool(node.this))
    if isinstance(node, exp.Literal | exp.RawString):
        return Literal("string", node.this)
    if isinstance(node, exp.HexString):
        digits = node.this
        try:
            return Literal("binary", bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            raise InvalidPredicateError(f"X'{digits[:80]}' is not hexadecimal") from None
    return None


def _number(text: str) -> Literal:
    try:
        value = literals.text_to_decimal(text)
    except ValueError as error:
        raise InvalidPredicateError(f"{text[:80]}: {error}") from None
    if "e" in text.lower():
        return _double(float(value), text)
    if "." not in text:
        if len(value.as_tuple().digits) > LITERAL_PRECISION_MAX:
            raise InvalidPredicateError(f"{text[:80]} has more than 38 digits")
        return Literal("integral", int(value))
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    assert isinstance(exponent, int)
    if max(len(digits), -exponent) > LITERAL_PRECISION_MAX:
        raise InvalidPredicateError(f"{text[:80]} has more than 38 digits")
    return Literal("decimal", value)


def _double(value: float, text: str) -> Literal:
    if value in (float("inf"), float("-inf")):
        raise InvalidPredicateError(f"{text[:80]} is too large for a DOUBLE")
    return Literal("double", value)


def _cast_constant(node: exp.Cast, time_zone: str, negative: bool) -> Literal | None:
    inner_node = node.this
    # The sign belongs to the number: -128Y is a TINYINT, but 128Y is not.
    signed = (
        negative and isinstance(inner_node, exp.Literal) and _UNSIGNED.fullmatch(inner_node.this)
    )
    if signed and inner_node.is_string:
        inner: Literal | None = Literal("string", "-" + inner_node.this)
    else:
        inner = constant_value(inner_node, time_zone, negative=bool(signed))
    if inner is None:
        return None
    if node.args.get("safe"):
        raise UnsupportedFeatureError("TRY_CAST", ["sql:try_cast"])
    target = cast_target(node.to)
    if target is None:
        raise UnsupportedFeatureError(f"{node.sql('spark')[:200]} (cast)", ["sql:cast"])
    try:
        result = _cast(inner, target, time_zone)
    except (ValueError, OverflowError, decimal.InvalidOperation) as error:
        raise InvalidPredicateError(f"{node.sql('spark')[:200]}: {error}") from None
    if negative and not signed and result.kind != "null":
        if result.kind not in ("integral", "decimal", "double"):
            return None
        opposite = EXACT.minus(result.value) if result.kind == "decimal" else -result.value
        return Literal(result.kind, opposite)
    return result


def _cast(value: Literal, target: Type, time_zone: str) -> Literal:
    """Return the cast value. Raises ValueError where Spark fails, UnsupportedFeatureError if
    unsupported.
    """
    kind = kind_name(target)
    if value.kind in ("null", kind):
        return value if kind != "decimal" else _to_decimal(value, target)
    number = value.kind in ("integral", "decimal", "double")
    if kind in INTEGERS and (number or value.kind == "string"):
        whole = literals.text_to_int(value.value) if value.kind == "string" else int(value.value)
        if not -INTEGERS[kind] <= whole < INTEGERS[kind]:
            raise ValueError("out of range")
        return Literal("integral", whole)
    if kind in ("float", "double") and (number or value.kind == "string"):
        text = value.kind == "string"
        real = literals.text_to_float(value.value) if text else float(value.value)
        return Literal("double", _single(real) if kind == "float" else real)
    if kind == "decimal" and (number or value.kind == "string"):
        return _to_decimal(value, target)
    if value.kind == "string" and kind != "string":
        return cast_text(value.value, kind, time_zone)
    if value.kind == "date" and kind in ("timestamp", "timestamp_ntz"):
        wall = value.value * DAY
        return Literal(
            kind, literals.wall_to_instant(wall, time_zone) if kind == "timestamp" else wall
        )
    raise UnsupportedFeatureError(f"a cast from {value.kind} to {kind}", ["sql:cast"])


def _single(value: float) -> float:
    """Return the nearest FLOAT, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _to_decimal(value: Literal, target: Type) -> Literal:
    if value.kind == "null":
        return value
    assert isinstance(target, Decimal)
    source: Any = value.value
    if value.kind == "string":
        source = literals.text_to_decimal(source)
    exact = decimal.Decimal(repr(source) if isinstance(source, float) else source)
    if not exact.is_finite():
        raise ValueError("not finite")
    step = decimal.Decimal(1).scaleb(-target.scale)
    rounded = exact.quantize(step, decimal.ROUND_HALF_UP, EXACT)
    if rounded.copy_abs() >= 10 ** (target.precision - target.scale):
        raise ValueError(f"does not fit {target}")
    return Literal("decimal", rounded)


def exact_column_cast(field: Field, as_double: bool, node: exp.Cast) -> tuple[Field, bool]:
    """Return the column under a cast that keeps every value distinct, or under CAST(… AS DOUBLE).

    Raises:
        UnsupportedFeatureError: any other cast.
    """
    target = cast_target(node.to)
    source = field.type
    if target is not None:
        name = kind_name(target)
        if as_double and name == "double":
            return field, True
        if not as_double and (target == source or _widens(source, target)):
            return field, False
        if name == "double" and kind_name(source) in (*INTEGERS, "decimal"):
            return field, True
    raise UnsupportedFeatureError(f"{node.sql('spark')[:200]} (cast of a column)", ["sql:cast"])


def _widens(source: Type, target: Type) -> bool:
    """Return True if every value of `source` is also a value of `target`."""
    if isinstance(source, Decimal):
        return (
            isinstance(target, Decimal)
            and target.scale >= source.scale
            and target.precision - target.scale >= source.precision - source.scale
        )
    name = str(source)
    if name == "float":
        return str(target) == "double"
    if name not in INTEGERS:
        return False
    if isinstance(target, Decimal):
        return bool(INTEGERS[name] <= 10 ** (target.precision - target.scale) - 1)
    return INTEGERS[name] <= INTEGERS.get(str(target), 0)
