"""Nasty columns, rows and predicates, and an independent evaluator of predicates.

For property tests: no code here depends on the code under test. Needs hypothesis.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tablefmt.expressions.predicate import (
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
)
from tablefmt.model.schema import Decimal, Field, Primitive, Schema, Type

Row = Mapping[int, Any]
"""A value by field id; None is NULL. Values are as in `tablefmt.expressions.predicate`."""

KINDS: tuple[Type, ...] = (
    *map(Primitive, ("boolean", "byte", "short", "integer", "long", "float", "double")),
    *map(Primitive, ("string", "binary", "date", "timestamp", "timestamp_ntz")),
    Decimal(5, 2),
    Decimal(18, 4),
    Decimal(38, 18),
)

_TAILS = (
    "",
    "\U0010ffff",
    "\ud7ff",
    "\ue000",
    "é",
    "e\u0301",
    "%",
    "_",
    "\\",
    "'",
    "`",
    "\0",
    "\n",
)
_TEXTS = [p + "x" * n + t for p in ("", "a", "ab") for n in (0, 29, 31, 32) for t in _TAILS]
_TEXTS += ["\U0010ffff" * 33, "x' OR 1=1 --", "O'Brien", "\\'", "{}", "😀", "--", "/*", ";"]
_BYTES = [
    b"",
    b"\0",
    b"\xff",
    b"\xff" * 33,
    b"\xff" * 32 + b"\0",
    b"a" * 40,
    b"a" * 31 + b"\xff\xff",
]
_FLOATS = [math.nan, 0.0, -0.0, math.inf, -math.inf, 1.5, -1.5, 1e30, 2.0**-149, 3.0]


def _integers(bits: int) -> st.SearchStrategy[int]:
    end = 1 << (bits - 1)
    edges = [-end, -end + 1, -1, 0, 1, 2, 3, end - 1]
    return st.sampled_from(edges) | st.integers(-end, end - 1)


def _decimals(kind: Decimal) -> st.SearchStrategy[decimal.Decimal]:
    end = 10**kind.precision - 1
    unscaled = st.sampled_from([0, 1, -1, end, -end, 10**kind.scale]) | st.integers(-end, end)
    context = decimal.Context(prec=80)
    return unscaled.map(lambda n: decimal.Decimal(n).scaleb(-kind.scale, context))


def values(kind: Type) -> st.SearchStrategy[Any]:
    """Return values of a flat type, never None. The same values are likely to repeat."""
    if isinstance(kind, Decimal):
        return _decimals(kind)
    name = str(kind)
    bits = {"byte": 8, "short": 16, "integer": 32, "date": 32, "long": 64}.get(name)
    if name == "date":
        return st.sampled_from([-719_162, -1, 0, 1, 10_957, 2_932_896, 2_932_897]) | _integers(32)
    if bits:
        return _integers(bits)
    if name == "boolean":
        return st.booleans()
    if name in ("float", "double"):
        if name == "double":
            return st.sampled_from(_FLOATS) | st.floats()
        return st.sampled_from(_FLOATS).map(_single) | st.floats(width=32)
    if name == "string":
        return st.sampled_from(_TEXTS) | st.text(max_size=40)
    if name == "binary":
        return st.sampled_from(_BYTES) | st.binary(max_size=40)
    return st.sampled_from([-62_135_596_800_000_000, -1, 0, 1, 253_402_300_799_999_999]) | (
        _integers(64)
    )


_NAMES = st.sampled_from(["a", "b c", "d`e", "f.g", "select", "Ünï😀", "x'y", "AND", "null", "t"])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw one to four flat columns with nasty names."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    fields = [Field(i, n, n, draw(st.sampled_from(KINDS))) for i, n in enumerate(names, 1)]
    return Schema(tuple(fields), len(fields))


def _single(value: float) -> float:
    """Return the nearest value that a float column can hold."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def like_patterns() -> st.SearchStrategy[str]:
    """Return valid LIKE patterns."""
    pieces = [
        "%",
        "_",
        "\\%",
        "\\_",
        "\\\\",
        "a",
        "ab",
        "x",
        "x" * 29,
        "'",
        "\U0010ffff",
        "\n",
        "é",
    ]
    return st.lists(st.sampled_from(pieces), max_size=5).map("".join)


@st.composite
def leaves(draw: st.DrawFn, schema: Schema, known: Mapping[int, Sequence[Any]]) -> Predicate:
    """Draw one comparison, membership or check; `known` are values worth testing, by field id."""
    field = draw(st.sampled_from(schema.fields))
    name = str(field.type)
    value = values(field.type)
    if known.get(field.id):
        value |= st.sampled_from(known[field.id])
    kinds = ["compare", "compare", "in", "null", "constant"]
    kinds += ["like"] * (name == "string") + ["nan"] * (name in ("float", "double"))
    kind = draw(st.sampled_from(kinds))
    if kind == "compare":
        op = draw(st.sampled_from(("=", "!=", "<", "<=", ">", ">=", "<=>")))
        return Comparison(field, op, draw(value))
    if kind == "in":
        size = draw(st.sampled_from((3, 3, 3, 24)))
        return In(field, tuple(draw(st.lists(value | st.none(), min_size=1, max_size=size))))
    if kind == "null":
        return IsNull(field)
    if kind == "like":
        return Like(field, draw(like_patterns()))
    if kind == "nan":
        return IsNaN(field)
    return Constant(draw(st.sampled_from((True, False, None))))


def predicates(
    schema: Schema, known: Mapping[int, Sequence[Any]] | None = None
) -> st.SearchStrategy[Predicate]:
    """Return trees of conditions over `schema`."""

    def grow(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        items = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return items.map(And) | items.map(Or) | inner.map(Not)

    return st.recursive(leaves(schema, known or {}), grow, max_leaves=6)


def evaluate(predicate: Predicate, row: Row) -> bool | None:
    """Return the value of the predicate for one row in Spark: True, False, or None for NULL."""
    if isinstance(predicate, Constant):
        return predicate.value
    if isinstance(predicate, Not):
        inner = evaluate(predicate.item, row)
        return None if inner is None else not inner
    if isinstance(predicate, And | Or):
        decisive = isinstance(predicate, Or)
        answers = [evaluate(item, row) for item in predicate.items]
        return decisive if decisive in answers else None if None in answers else not decisive
    value = row[predicate.field.id]
    if isinstance(predicate, IsNull):
        return value is None
    if isinstance(predicate, IsNaN):
        return value is not None and math.isnan(value)
    if isinstance(predicate, Comparison) and predicate.op == "<=>":
        return value is not None and order(value) == order(predicate.value)
    if value is None:
        return None
    if isinstance(predicate, Comparison):
        return _compared(predicate.op, order(value), order(predicate.value))
    if isinstance(predicate, In):
        if any(v is not None and order(v) == order(value) for v in predicate.values):
            return True
        return None if None in predicate.values else False
    return like(value, predicate.pattern)


def _compared(op: str, left: Any, right: Any) -> bool:
    if op in ("=", "!="):
        return bool(left == right) == (op == "=")
    if op in ("<", ">="):
        return bool(left < right) == (op == "<")
    return bool(left > right) == (op == ">")


def order(value: Any) -> Any:
    """Return a key that compares as in Spark: NaN above all and equal to itself, -0.0 as 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode("utf-8") if isinstance(value, str) else value


def like(text: str, pattern: str) -> bool:
    """Return Spark's LIKE, evaluated one code point at a time."""
    states = {0}
    for character in [*text, None]:
        frontier = list(states)
        while frontier:  # a % may match the empty text
            at = frontier.pop()
            if pattern[at : at + 1] == "%" and at + 1 not in states:
                states.add(at + 1)
                frontier.append(at + 1)
        if character is None:
            return len(pattern) in states
        following = set()
        for at in states:
            sign = pattern[at : at + 1]
            if sign == "%":
                following.add(at)
            elif sign == "_" or (sign != "\\" and sign == character):
                following.add(at + 1)
            elif sign == "\\" and pattern[at + 1] == character:
                following.add(at + 2)
        states = following
    raise AssertionError("the loop ends at None")


def to_array(column: Sequence[Any], kind: Type) -> pa.Array:
    """Return values as the Arrow column of that type."""
    if isinstance(kind, Decimal):
        return pa.array(column, pa.decimal128(kind.precision, kind.scale))
    storage = {
        "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(),
        "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
        "binary": pa.binary(), "date": pa.int32(), "timestamp": pa.int64(),
        "timestamp_ntz": pa.int64(),
    }  # fmt: skip
    final = {
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    array = pa.array(column, storage[str(kind)])
    return array.view(final[str(kind)]) if str(kind) in final else array
