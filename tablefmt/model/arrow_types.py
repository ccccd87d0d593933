"""Conversion between table types and Arrow types. Pure.

Written columns always have the Arrow type of `arrow_type`. Data of a related type is cast. A cast
that would lose information is refused. Spec: SCH-5.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Schema, Struct, Type
from tablefmt.model.schema_rules import number_fields

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    # Spark represents a variant in Arrow as a struct and marks it in the second field's metadata.
    "variant": pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
        ]
    ),
}

COMMENT = b"comment"
"""Metadata key of a column's comment in an Arrow field. Spec: ENT-11."""

FIELD_ID = b"PARQUET:field_id"
"""Metadata key of a Parquet field id in an Arrow field. Spec: DAT-1."""

_NAMES = {kind: name for name, kind in _ARROW.items() if name != "variant"}

_INSTEAD = {
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "decimal128(20, 0)",
    "halffloat": "float32",
    "time32[s]": "int32 (seconds of the day)",
    "time32[ms]": "int32 (milliseconds of the day)",
    "time64[us]": "int64 (microseconds of the day)",
    "time64[ns]": "int64 (nanoseconds of the day)",
    "duration[s]": "int64 (seconds)",
    "duration[ms]": "int64 (milliseconds)",
    "duration[us]": "int64 (microseconds)",
    "duration[ns]": "int64 (nanoseconds)",
    "month_day_nano_interval": "a struct of three int64",
    "null": "the type the column will have",
}


def arrow_type(kind: Type, *, field_ids: bool = False) -> pa.DataType:
    """Return the Arrow type of a column.

    With `field_ids`, nested fields, elements, keys and values carry Parquet field ids (DAT-1).
    """
    if isinstance(kind, Primitive):
        return _ARROW[kind.name]
    if isinstance(kind, Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, Array):
        element = arrow_type(kind.element, field_ids=field_ids)
        metadata = _with_id(kind.element_id, field_ids)
        return pa.list_(pa.field("element", element, kind.nullable, metadata))
    if isinstance(kind, Map):
        key, value = (arrow_type(inner, field_ids=field_ids) for inner in (kind.key, kind.value))
        return pa.map_(
            pa.field("key", key, False, _with_id(kind.key_id, field_ids)),
            pa.field("value", value, kind.nullable, _with_id(kind.value_id, field_ids)),
        )
    return pa.struct(
        [_field(f, field_ids, f.physical if field_ids else f.name) for f in kind.fields]
    )


def _with_id(identity: int, field_ids: bool) -> dict[bytes, bytes] | None:
    return {FIELD_ID: b"%d" % identity} if field_ids else None


def _field(field: Field, field_ids: bool, name: str) -> pa.Field:
    metadata = _with_id(field.id, field_ids)
    if field.comment is not None and not field_ids:
        metadata = {COMMENT: field.comment.encode("utf-8")}
    kind = arrow_type(field.type, field_ids=field_ids)
    return pa.field(name, kind, field.nullable, metadata)


def to_arrow(schema: Schema) -> pa.Schema:
    """Return the schema that readers see: logical names, and comments under `COMMENT` (ENT-11)."""
    return pa.schema(list(map(arrow_field, schema.fields)))


def arrow_field(field: Field) -> pa.Field:
    """Return one field as `to_arrow` does."""
    return _field(field, False, field.name)


@lru_cache(maxsize=64)
def file_schema(schema: Schema) -> pa.Schema:
    """Return the schema of data files: physical names and Parquet field ids."""
    return pa.schema([_field(f, True, f.physical) for f in schema.fields])


def from_arrow(schema: pa.Schema) -> Schema:
    """Return a new table's schema from an Arrow schema, with new field ids.

    Raises:
        SchemaMismatchError: SCH-2 names; SCH-5 a type that Spark does not have. The error names
            the columns and the type to use instead.
    """
    return number_fields([from_arrow_field(f) for f in schema])


def from_arrow_field(field: pa.Field, path: str = "") -> Field:
    """Return one field without an id yet (0). Raises as `from_arrow`."""
    where = f"{path}.{field.name}" if path else field.name
    comment = (field.metadata or {}).get(COMMENT, b"").decode("utf-8", "replace") or None
    kind = _from_arrow(field.type, where)
    return Field(0, field.name, field.name, kind, field.nullable, comment=comment)


def _from_arrow(kind: pa.DataType, where: str) -> Type:
    """Return our type for one of Arrow. `where` is the place in the column, for the error."""
    types = pa.types
    name = _NAMES.get(kind)
    if name is not None:
        return Primitive(name)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _from_arrow(kind.value_type, where)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return Primitive("string")
    if (
        types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return Primitive("binary")
    if types.is_date64(kind):
        return Primitive("date")
    if types.is_timestamp(kind):
        return Primitive("timestamp" if kind.tz is not None else "timestamp_ntz")
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return Decimal(kind.precision, kind.scale)
    if types.is_map(kind):
        item = kind.item_field
        return Map(
            _from_arrow(kind.key_type, where + ".key"),
            _from_arrow(item.type, where + ".value"),
            item.nullable,
        )
    if is_list(kind):
        element = kind.value_field
        return Array(_from_arrow(element.type, where + ".element"), element.nullable)
    if _says_variant(kind):
        return Primitive("variant")
    if types.is_struct(kind):
        return Struct(tuple(from_arrow_field(kind.field(i), where) for i in range(kind.num_fields)))
    hint = _INSTEAD.get(str(kind))
    if isinstance(kind, pa.BaseExtensionType):
        hint = f"its storage type {kind.storage_type}"
    elif types.is_decimal(kind):
        hint = "a decimal of at most 38 digits, with a scale from 0 to its precision"
    elif types.is_union(kind):
        hint = "a struct with a field for each kind"
    advice = f"; use {hint}" if hint else "; cast it to a type that Spark has"
    raise SchemaMismatchError(
        f"column {where!r} has type {kind}, which Spark lacks{advice}", [where]
    )


def _says_variant(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return False
    fields = {kind.field(i).name: kind.field(i) for i in range(kind.num_fields)}
    metadata = fields["metadata"].metadata if set(fields) == {"value", "metadata"} else None
    return (metadata or {}).get(b"variant") == b"true"


def is_list(kind: pa.DataType) -> bool:
    """Return True if the type is a list of any kind. A map is not a list."""
    types = pa.types
    checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    views = (types.is_list_view, types.is_large_list_view)
    return any(check(kind) for check in checks + views)
