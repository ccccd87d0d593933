"""A pyarrow expression as predicates, by way of the Substrait bytes that Arrow makes of it. Pure.

Arrow binds the expression to the schema first, so names, columns and the types of literals are
what Arrow itself would compare. Only what is known here is taken; everything else is left out, and
no input makes it fail. Spec: PRN-15 (spec/pruning.md).
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.predicate import (
    FALSE,
    TRUE,
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
)
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.schema import Decimal, Field, Schema, all_fields, is_float, is_nested

BYTES_MAX = 4 << 20
"""A longer message is not read: no condition a person writes comes near."""

DEPTH_MAX = 64
"""Nesting beyond this is not read. Chains of one AND or OR count once."""

WEIGHT_MAX = 1 << 13
"""An expression that weighs more is not read: a chain of 12 comparisons weighs 8,189.

The bytes that Arrow makes double with every level of nesting (apache/arrow#48761), about 94 of them
for each unit, so that without this limit a chain of 40 never ends.
"""

FIELDS_MAX = 1 << 20
"""Protobuf fields in one message; the schema and long value lists are the largest."""

_COMPARISON = "functions_comparison.yaml"
_BOOLEAN = "functions_boolean.yaml"

_OPERATORS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

_PAGES = {
    **dict.fromkeys((*_OPERATORS, "is_null", "is_not_null", "is_nan"), _COMPARISON),
    **dict.fromkeys(("and", "or", "not"), _BOOLEAN),
}
"""The functions that are understood, and the Substrait page that defines each."""

_WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZE = {_FIXED64: 8, _FIXED32: 4}

_LITERALS: dict[int, tuple[str, int]] = {
    1: ("boolean", _VARINT),
    2: ("byte", _VARINT),
    3: ("short", _VARINT),
    5: ("integer", _VARINT),
    7: ("long", _VARINT),
    10: ("float", _FIXED32),
    11: ("double", _FIXED64),
    12: ("string", _BYTES),
    13: ("binary", _BYTES),
    14: ("timestamp_ntz", _VARINT),
    16: ("date", _VARINT),
    24: ("decimal", _BYTES),
    27: ("timestamp", _VARINT),
    29: ("null", _BYTES),
}
"""Number in Expression.Literal: our type, and how it is on the wire."""

_LITERAL_NULLABLE = 50


class _NotConvertedError(Exception):
    """The message holds something that is not understood. Never leaves this module."""


_Message = dict[int, list[tuple[int, Any]]]
"""By field number: wire type and value, an int for a varint and a memoryview for all else."""


@dataclass(frozen=True, slots=True)
class _Literal:
    """A value of the type called `kind`; for "null", the value is None."""

    kind: str
    value: Any


def predicates_of(expression: pc.Expression, schema: Schema) -> tuple[list[Predicate], bool]:
    """The AND-ed parts of a pyarrow expression that are understood, and whether that is all of it.

    Args:
        expression: a condition over the columns of `schema`, by name.
        schema: the columns; Arrow sees them as `to_arrow(schema)`.

    Returns:
        Each predicate is TRUE for every row for which Arrow's part is true. With the flag, their
        conjunction is TRUE for exactly the rows that Arrow's filter keeps. Never raises for what
        the expression holds: what is not understood is left out. Spec: PRN-15.
    """
    try:
        names = (field.name for field in all_fields(schema))
        if any("\n" in name for name in names) or _weight(expression) > WEIGHT_MAX:
            return [], False
        message = bytes(expression.to_substrait(to_arrow(schema)))
    except (pa.ArrowException, ImportError, UnicodeError):
        # What Substrait cannot express, columns that are not there, an Arrow built without it.
        return [], False
    return predicates_from_bytes(message, schema)


def predicates_from_bytes(message: bytes, schema: Schema) -> tuple[list[Predicate], bool]:
    """As `predicates_of`, of a Substrait ExtendedExpression with one condition; any bytes do."""
    try:
        if len(message) > BYTES_MAX:
            raise _NotConvertedError("too long")
        outer = _read(memoryview(message))
        functions = _functions(outer)
        referred = _read(_one(outer, 3, _BYTES))
        root = _read(_one(referred, 1, _BYTES))
        reader = _Reader(schema, functions)
        parts = reader.chain(root, "and")
    except _NotConvertedError:
        return [], False
    found: list[Predicate] = []
    complete = True
    for part in parts:
        try:
            found.append(reader.truth(part, True, 1))
        except _NotConvertedError:
            complete = False
    return found, complete and reader.exact


def _weight(expression: pc.Expression) -> int:
    """How much Substrait Arrow makes of it: a call is 1 and twice its arguments. Linear.

    The tree is in the metadata of the form that Arrow pickles, a line for each start and end of a
    call; no other text of a user's is in there than names of columns, each on one line.
    """
    pickled = expression.__reduce__()[1][0]
    text = pa.ipc.open_file(pickled).schema.to_string(truncate_metadata=False)
    _, header, lines = text.rpartition("-- schema metadata --\n")
    if not header:
        raise pa.ArrowInvalid("no tree")
    weights = [0]
    for line in lines.split("\n"):
        if line.startswith("call: '"):
            weights.append(0)
        elif line.startswith("end: '"):
            weight = 1 + 2 * weights.pop()
            if weight > WEIGHT_MAX or not weights:
                return WEIGHT_MAX + 1
            weights[-1] += weight
    return weights[0] if len(weights) == 1 else WEIGHT_MAX + 1


def _read(message: memoryview) -> _Message:
    """The fields of one protobuf message, not looking into those that hold messages."""
    fields: _Message = {}
    at = count = 0
    while at < len(message):
        count += 1
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(message, at)
        else:
            if wire == _BYTES:
                size, at = _varint(message, at)
            else:
                size = _FIXED_SIZE.get(wire, -1)
            if size < 0 or size > len(message) - at:
                raise _NotConvertedError("cut short, or a group")
            value, at = message[at : at + size], at + size
        if number == 0 or count > FIELDS_MAX:
            raise _NotConvertedError("no field number, or too many fields")
        fields.setdefault(number, []).append((wire, value))
    return fields


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                break
            return value, at
    raise _NotConvertedError("not a number")


def _only(message: _Message, *numbers: int) -> None:
    if not message.keys() <= set(numbers):
        raise _NotConvertedError("fields that are not known")


def _one(message: _Message, number: int, wire: int) -> Any:
    """The value of a field that has to be there once."""
    values = message.get(number, [])
    if len(values) != 1 or values[0][0] != wire:
        raise _NotConvertedError("a field is missing, doubled or of another type")
    return values[0][1]


def _number(message: _Message, number: int) -> int:
    """An integer field; 0 is what protobuf leaves out."""
    value: int = _one(message, number, _VARINT) if number in message else 0
    return value


def _all(message: _Message, number: int) -> list[_Message]:
    """A repeated field of messages."""
    values = message.get(number, [])
    if any(wire != _BYTES for wire, _ in values):
        raise _NotConvertedError("a field is of another type")
    return [_read(value) for _, value in values]


def _text(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise _NotConvertedError("not UTF-8") from None


def _functions(outer: _Message) -> dict[int, str]:
    """The understood functions that the message declares, by anchor."""
    pages = {_number(page, 1): _text(_one(page, 2, _BYTES)) for page in _all(outer, 1)}
    names: dict[int, str] = {}
    for declaration in _all(outer, 2):
        if 3 not in declaration:
            continue
        function = _read(_one(declaration, 3, _BYTES))
        anchor = _number(function, 2)
        name = _text(_one(function, 3, _BYTES))
        page = pages.get(_number(function, 1), "").rpartition("/")[2]
        if anchor in names:
            raise _NotConvertedError("two functions have one anchor")
        names[anchor] = name if _PAGES.get(name) == page else ""
    return names


class _Reader:
    """Turns Substrait expressions into predicates over the columns of a schema."""

    def __init__(self, schema: Schema, functions: dict[int, str]) -> None:
        self.schema = schema
        self.functions = functions
        self.exact = True
        """False once a predicate is TRUE for more rows than Arrow's condition."""

    def truth(self, node: _Message, wanted: bool, depth: int) -> Predicate:
        """TRUE for the rows for which `node` is `wanted`; for others FALSE or NULL.

        Raises _NotConvertedError.
        """
        if depth > DEPTH_MAX:
            raise _NotConvertedError("nested too deep")
        if 1 in node:
            return self._constant(node, wanted)
        if 2 in node:
            field = self._field(node)
            if str(field.type) != "boolean":
                raise _NotConvertedError("a column that is no condition")
            return Comparison(field, "=", wanted)
        if 8 in node:
            return self._membership(node, wanted)
        name, arguments = self._call(node)
        if name == "not" and len(arguments) == 1:
            return self.truth(arguments[0], not wanted, depth + 1)
        if name in ("and", "or"):
            items = [self.truth(item, wanted, depth + 1) for item in self.chain(node, name)]
            return all_of(items) if (name == "and") == wanted else any_of(items)
        if name in _OPERATORS and len(arguments) == 2:
            return self._comparison(_OPERATORS[name], arguments, wanted)
        if name in ("is_null", "is_not_null") and len(arguments) == 1:
            null = IsNull(self._field(arguments[0]))
            return null if (name == "is_null") == wanted else Not(null)
        if name == "is_nan" and len(arguments) == 1:
            field = self._field(arguments[0])
            if not is_float(field.type):
                raise _NotConvertedError("is_nan of a column that has no NaN")
            if wanted:
                return IsNaN(field)
            return And((Not(IsNaN(field)), Not(IsNull(field))))
        raise _NotConvertedError("a function that is not known")

    def chain(self, node: _Message, name: str) -> list[_Message]:
        """The operands of `name`, through all of its calls that are nested directly."""
        operands: list[_Message] = []
        waiting = [node]
        while waiting:
            item = waiting.pop()
            if self._is_call_of(item, name):
                waiting.extend(reversed(self._call(item)[1]))
            else:
                operands.append(item)
        if not operands:
            raise _NotConvertedError("a call without arguments")
        return operands

    def _is_call_of(self, node: _Message, name: str) -> bool:
        try:
            return self._call(node)[0] == name
        except _NotConvertedError:
            return False

    def _call(self, node: _Message) -> tuple[str, list[_Message]]:
        """The name and arguments of a call without options."""
        _only(node, 3)
        call = _read(_one(node, 3, _BYTES))
        _only(call, 1, 3, 4)
        arguments = []
        for argument in _all(call, 4):
            _only(argument, 3)
            arguments.append(_read(_one(argument, 3, _BYTES)))
        return self.functions.get(_number(call, 1), ""), arguments

    def _field(self, node: _Message) -> Field:
        """A top-level column that is not nested."""
        _only(node, 2)
        reference = _read(_one(node, 2, _BYTES))
        _only(reference, 1, 4)
        if _one(reference, 4, _BYTES):
            raise _NotConvertedError("a root reference with content")
        segment = _read(_one(reference, 1, _BYTES))
        _only(segment, 2)
        member = _read(_one(segment, 2, _BYTES))
        _only(member, 1)
        position = _number(member, 1)
        if position >= len(self.schema.fields):
            raise _NotConvertedError("a column that is not there")
        field = self.schema.fields[position]
        if is_nested(field.type):
            raise _NotConvertedError("a nested column")
        return field

    def _constant(self, node: _Message, wanted: bool) -> Predicate:
        literal = _literal(node)
        if literal.kind not in ("boolean", "null"):
            raise _NotConvertedError("a value that is no condition")
        return Constant(literal.value is wanted)

    def _comparison(self, op: str, arguments: Sequence[_Message], wanted: bool) -> Predicate:
        left, right = arguments
        if 1 in left:
            left, right, op = right, left, _MIRRORED[op]
        field, literal = self._field(left), _literal(right)
        if literal.kind == "null":
            return FALSE
        value = _value(literal, field)
        if is_float(field.type):
            return _float_comparison(field, op, value, wanted)
        return Comparison(field, op if wanted else _OPPOSITE[op], value)

    def _membership(self, node: _Message, wanted: bool) -> Predicate:
        """Arrow's is_in is never NULL: without a null among the options, it is false for a null."""
        _only(node, 8)
        membership = _read(_one(node, 8, _BYTES))
        _only(membership, 1, 2)
        field = self._field(_read(_one(membership, 1, _BYTES)))
        options = [_literal(option) for option in _all(membership, 2)]
        values = tuple(_option(o, field) for o in options if o.kind != "null")
        if is_float(field.type) and any(v != v or v == 0 for v in values):
            # Arrow takes two zeros, and two NaN of other bits, for different values here.
            if not wanted:
                raise _NotConvertedError("a negated set with zero or NaN")
            self.exact = False
        has_null = len(values) < len(options)
        if has_null:
            # Whether a null matches is an option that Substrait does not carry.
            self.exact = False
        if wanted:
            found = In(field, values) if values else FALSE
            return any_of((IsNull(field), found)) if has_null else found
        return Or((IsNull(field), Not(In(field, values)))) if values else TRUE


def _float_comparison(field: Field, op: str, value: float, wanted: bool) -> Predicate:
    """Arrow's comparison, which is false for NaN except for `!=`, in our order with NaN on top."""
    if value != value:
        return Not(IsNull(field)) if (op == "!=") == wanted else FALSE
    plain = Comparison(field, op if wanted else _OPPOSITE[op], value)
    if op not in (">", ">="):
        return plain
    return And((plain, Not(IsNaN(field)))) if wanted else Or((plain, IsNaN(field)))


def _literal(node: _Message) -> _Literal:
    """Raises _NotConvertedError for types, variations and parts that are not known."""
    _only(node, 1)
    literal = _read(_one(node, 1, _BYTES))
    _only(literal, _LITERAL_NULLABLE, *_LITERALS)
    numbers = literal.keys() - {_LITERAL_NULLABLE}
    if len(numbers) != 1:
        raise _NotConvertedError("not one value")
    number = numbers.pop()
    kind, wire = _LITERALS[number]
    return _Literal(kind, _DECODERS[kind](_one(literal, number, wire)))


def _signed(bits: int) -> Callable[[int], int]:
    """Decodes a varint that holds a number of so many bits, in two's complement of 64."""

    def decode(value: int) -> int:
        signed = value - (1 << 64) if value >> 63 else value
        if not -(1 << bits - 1) <= signed < 1 << bits - 1:
            raise _NotConvertedError("beyond its type")
        return signed

    return decode


def _boolean(value: int) -> bool:
    if value > 1:
        raise _NotConvertedError("neither true nor false")
    return value == 1


def _decimal(value: memoryview) -> decimal.Decimal:
    message = _read(value)
    _only(message, 1, 2, 3)
    unscaled = _one(message, 1, _BYTES)
    precision, scale = _number(message, 2), _number(message, 3)
    if len(unscaled) != 16 or not 0 < precision <= 38 or scale > precision:
        raise _NotConvertedError("not a decimal")
    whole = int.from_bytes(unscaled, "little", signed=True)
    digits = tuple(map(int, str(abs(whole))))
    if len(digits) > precision:
        raise _NotConvertedError("beyond its precision")
    return decimal.Decimal((int(whole < 0), digits, -scale))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    **{kind: _signed(bits) for kind, bits in _WHOLE.items()},
    "float": lambda value: struct.unpack("<f", value)[0],
    "double": lambda value: struct.unpack("<d", value)[0],
    "string": _text,
    "binary": bytes,
    "timestamp_ntz": _signed(64),
    "date": _signed(32),
    "decimal": _decimal,
    "timestamp": _signed(64),
    "null": lambda value: None,
}


def _value(literal: _Literal, field: Field) -> Any:
    """The value, as one of the column's own type."""
    if isinstance(field.type, Decimal) and literal.kind == "decimal":
        return _fitted(literal.value, field.type)
    if literal.kind != str(field.type):
        raise _NotConvertedError("another type than the column's")
    return literal.value


def _option(literal: _Literal, field: Field) -> Any:
    """As `_value`; whole numbers may be of another width, since Arrow widens and narrows sets."""
    bits = _WHOLE.get(str(field.type))
    if bits and literal.kind in _WHOLE:
        return _signed(bits)(literal.value % (1 << 64))
    return _value(literal, field)


def _fitted(value: decimal.Decimal, kind: Decimal) -> decimal.Decimal:
    """The same number with the column's scale, if it has one."""
    context = decimal.Context(kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        return value.quantize(decimal.Decimal((0, (1,), -kind.scale)), context=context)
    except (decimal.Inexact, decimal.InvalidOperation):
        raise _NotConvertedError("beyond the column's precision") from None
