"""DuckDB's syntax of names, texts, types and constants. Pure.

Every name and value from a log or a user enters a query through these functions only.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.expressions.duckdb_types import WITHOUT_ZONES
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Struct, Type, is_variant

_NAMES = {
    **WITHOUT_ZONES,
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "variant": 'STRUCT("value" BLOB, "metadata" BLOB)',
}


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Quote a string."""
    if "\0" in value:
        return f"decode(from_hex('{value.encode().hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def type_text(kind: Type) -> str:
    """Return the SQL of a type, with struct fields by their physical names, as files have them."""
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return f"{type_text(kind.element)}[]"
    if isinstance(kind, Map):
        return f"MAP({type_text(kind.key)}, {type_text(kind.value)})"
    if isinstance(kind, Struct):
        return "STRUCT(" + ", ".join(map(_member, kind.fields)) + ")"
    return _NAMES[kind.name]


def _member(field: Field) -> str:
    return f"{quoted(field.physical)} {type_text(field.type)}"


def constant(value: pa.Scalar, kind: Type) -> str:
    """Return the SQL of a value of a flat type, or NULL."""
    target = type_text(kind)
    if not value.is_valid:
        return f"CAST(NULL AS {target})"
    if kind == Primitive("binary"):
        return "from_hex(" + text(value.as_py().hex()) + ")"
    # Beyond Python's calendar, only Arrow's days and microseconds are available.
    if kind == Primitive("date"):
        return f"CAST(DATE '1970-01-01' + {value.cast(pa.int32()).as_py()} AS DATE)"
    if kind == Primitive("timestamp"):
        return f"make_timestamptz({_micros(value)})"
    if kind == Primitive("timestamp_ntz"):
        return f"make_timestamp({_micros(value)})"
    plain: Any = value.as_py()
    shown = f"{plain:f}" if isinstance(kind, Decimal) else str(plain)
    return f"CAST({text(shown)} AS {target})"


def _micros(value: pa.Scalar) -> int:
    micros: int = value.cast(pa.int64()).as_py()
    return micros


def renamed(expression: str, kind: Type, depth: int = 0) -> str:
    """Return an expression that renames struct fields from physical to logical names."""
    if not _has_other_names(kind):
        return expression
    if isinstance(kind, Struct):
        members = ", ".join(
            f"{text(f.name)}: " + renamed(_part(expression, f.physical), f.type, depth)
            for f in kind.fields
        )
        return f"CASE WHEN {expression} IS NULL THEN NULL ELSE {{{members}}} END"
    one = f"x{depth}"
    if isinstance(kind, Array):
        element = renamed(one, kind.element, depth + 1)
        return f"list_transform({expression}, lambda {one}: {element})"
    assert isinstance(kind, Map)
    key = renamed(_part(one, "key"), kind.key, depth + 1)
    item = renamed(_part(one, "value"), kind.value, depth + 1)
    entries = f"list_transform(map_entries({expression}), lambda {one}: "
    return f"map_from_entries({entries}{{'key': {key}, 'value': {item}}}))"


def _part(expression: str, name: str) -> str:
    return f"struct_extract({expression}, {text(name)})"


def _has_other_names(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return any(f.name != f.physical or _has_other_names(f.type) for f in kind.fields)
    if isinstance(kind, Array):
        return _has_other_names(kind.element)
    return isinstance(kind, Map) and (_has_other_names(kind.key) or _has_other_names(kind.value))


_WIDENED = {
    "short": ("int8",),
    "integer": ("int8", "int16"),
    "long": ("int8", "int16", "int32"),
    "double": ("int8", "int16", "int32", "float"),
    "timestamp_ntz": ("date32[day]", "timestamp[ms]"),
    "timestamp": ("timestamp[ms, tz=UTC]",),
}
"""Arrow's names of file types that DuckDB casts exactly (SCH-9, DAT-7)."""


def is_read_exactly(stored: pa.DataType, kind: Type) -> bool:
    """Return whether DuckDB reads a file's column exactly as `arrow_type(kind)`."""
    types = pa.types
    if isinstance(kind, Struct):
        return bool(types.is_struct(stored)) and _members_are(stored, kind)
    if isinstance(kind, Array):
        return bool(types.is_list(stored)) and is_read_exactly(stored.value_type, kind.element)
    if isinstance(kind, Map):
        return (
            bool(types.is_map(stored))
            and is_read_exactly(stored.key_type, kind.key)
            and is_read_exactly(stored.item_type, kind.value)
        )
    if isinstance(kind, Decimal):
        return bool(types.is_signed_integer(stored) or types.is_decimal(stored))
    if is_variant(kind):
        return str(stored) == str(arrow_type(kind))
    return stored == arrow_type(kind) or str(stored) in _WIDENED.get(kind.name, ())


def _members_are(stored: pa.StructType, kind: Struct) -> bool:
    """Return whether all members are read exactly. DuckDB ignores case, so names must differ by
    more.
    """
    members = {stored.field(at).name: stored.field(at).type for at in range(stored.num_fields)}
    folded = {name.lower(): name for name in members}
    return len(folded) == stored.num_fields and all(
        folded.get(f.physical.lower()) in (None, f.physical)
        and (f.physical not in members or is_read_exactly(members[f.physical], f.type))
        for f in kind.fields
    )
