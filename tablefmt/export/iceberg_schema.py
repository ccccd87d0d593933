"""Schemas and partition specs in Iceberg's JSON, and what Iceberg cannot say.
Pure.

Field ids are those of the table, elements of lists and keys and values of maps included. So a
renamed or dropped column needs nothing else. Spec: XPT-20, XPT-23.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tablefmt.model.log_entry import Metadata
from tablefmt.model.partition_transforms import transform_of
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    all_fields,
    id_types,
    is_nested,
    is_variant,
    kind_name,
    walk,
)

Json = dict[str, Any]

Types = Mapping[int, Type]
"""Types by the id of the field, element, key or value."""

_NAMES = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "variant": "variant",
}

_PROMOTIONS = {("int", "long"), ("float", "double")}
"""Widenings that every reader does, with more digits of a decimal. Spec: XPT-23."""

PARTITION_IDS = 1000
"""First id of a partition field, as Iceberg's own writers count."""

HIDDEN_NAMES = ("__tablefmt_file", "__tablefmt_row", "__tablefmt_source", "__tablefmt_action")
"""Columns that no schema names, in files of UPDATE and MERGE. Spec: DAT-11."""

HIDDEN_IDS = 2_147_483_001


def type_name(kind: Type) -> str:
    """Return Iceberg's name of a type that is not nested."""
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision}, {kind.scale})"
    assert isinstance(kind, Primitive), kind
    return _NAMES[kind.name]


def schema_json(schema: Schema, number: int, *, initials: bool) -> Json:
    """Return a schema in Iceberg's JSON.

    Every column is optional: constraints are for writers, and other programs do not write.

    Args:
        schema: of the table.
        number: id of the schema in the metadata file.
        initials: say the value that columns have in files that lack them (format 3).
    """
    fields = [_field_json(field, initials) for field in schema.fields]
    return {"type": "struct", "schema-id": number, "fields": fields}


def _field_json(field: Field, initials: bool) -> Json:
    made: Json = {
        "id": field.id,
        "name": field.name,
        "required": False,
        "type": _type_json(field.type, initials),
    }
    if initials and field.initial is not None:
        made["initial-default"] = _default_json(field.initial, field.type)
    if field.comment is not None:
        made["doc"] = field.comment
    return made


def _type_json(kind: Type, initials: bool) -> Any:
    if isinstance(kind, Struct):
        return {"type": "struct", "fields": [_field_json(f, initials) for f in kind.fields]}
    if isinstance(kind, Array):
        return {
            "type": "list",
            "element-id": kind.element_id,
            "element": _type_json(kind.element, initials),
            "element-required": False,
        }
    if isinstance(kind, Map):
        return {
            "type": "map",
            "key-id": kind.key_id,
            "key": _type_json(kind.key, initials),
            "value-id": kind.value_id,
            "value": _type_json(kind.value, initials),
            "value-required": False,
        }
    return type_name(kind)


def _default_json(value: Any, kind: Type) -> Any:
    """Return a value of the log (VAL-1) in Iceberg's JSON form of one value."""
    name = kind_name(kind)
    if name == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    if name.startswith("timestamp"):
        when = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
        return when.isoformat(timespec="microseconds") + ("" if name.endswith("ntz") else "+00:00")
    return value


def partition_fields(metadata: Metadata, known: Sequence[Json]) -> list[Json]:
    """Return the fields of a partition spec: columns as they are, and transforms of columns.

    A column's field has the name of the column, which no other column can have. A column and a
    transform of it keep their field ids in every spec.

    Args:
        metadata: of the table.
        known: partition specs of the version before.
    """
    ids = {spec_key(f): f["field-id"] for spec in known for f in spec["fields"]}
    made: list[Json] = []
    for field in metadata.partition_fields:
        key = source, transform = partition_key(field, metadata)
        ids.setdefault(key, max([PARTITION_IDS - 1, *ids.values()]) + 1)
        made.append(
            {
                "source-id": source,
                "field-id": ids[key],
                "name": field.name,
                "transform": transform,
            }
        )
    return made


def spec_key(field: Json) -> tuple[int, str]:
    """Return what a field of a partition spec means: a column's id, and a transform."""
    return field["source-id"], field["transform"]


def partition_key(field: Field, metadata: Metadata) -> tuple[int, str]:
    """Return the `spec_key` of a field of a table's partitioning."""
    if field.transform is None:
        return field.id, "identity"
    made = transform_of(field, metadata.schema)
    return made.column.id, made.iceberg


def renamed_specs(specs: Iterable[Json], schema: Schema) -> list[Json]:
    """Return partition specs with the present names of their fields. Dropped ones keep theirs."""
    names = {(field.id, "identity"): field.name for field in schema.fields}
    for hidden in schema.hidden:
        made = transform_of(hidden, schema)
        names[made.column.id, made.iceberg] = hidden.name

    def renamed(field: Json) -> Json:
        return field | {"name": names.get(spec_key(field), field["name"])}

    return [spec | {"fields": [renamed(f) for f in spec["fields"]]} for spec in specs]


def table_uuid(table: str) -> str:
    """Return a table's id in the form of a UUID."""
    return str(uuid.UUID(table))


def initial_columns(schema: Schema, written: Iterable[Types]) -> list[str]:
    """Return columns with an initial value that some live files lack.

    Args:
        schema: the table's.
        written: columns of the live files, for each schema that they were written under.
    """
    filled = [field for field in all_fields(schema) if field.initial is not None]
    if not filled:
        return []
    known = list(written)
    return [f.name for f in filled if any(f.id not in ids for ids in known)]


def variant_columns(schema: Schema) -> list[str]:
    """Return columns that hold a variant at any depth."""
    return [f.name for f in schema.fields if any(is_variant(kind) for kind in walk(f.type))]


def list_columns(schema: Schema) -> list[str]:
    """Return columns that hold a list or a map at any depth."""
    return [f.name for f in schema.fields if any(isinstance(k, Array | Map) for k in walk(f.type))]


def refused_promotions(
    schema: Schema, written: Iterable[Types]
) -> Iterator[tuple[str, Type, Type]]:
    """Yield fields of live files whose type Iceberg's readers cannot widen, with both types.

    Args:
        schema: the table's.
        written: columns of the live files, for each schema that they were written under.
    """
    types, names = id_types(schema), {field.id: field.name for field in all_fields(schema)}
    seen = set()
    for each in written:
        for field_id, old in each.items():
            new = types.get(field_id)
            if new is None or (field_id, old) in seen or is_promotion(old, new):
                continue
            seen.add((field_id, old))
            yield names.get(field_id, f"id {field_id}"), old, new


def is_promotion(old: Type, new: Type) -> bool:
    """Return True if Iceberg's readers read a column of one type as the other. Spec: XPT-23."""
    if is_nested(old) or is_nested(new):
        return type(old) is type(new)
    one, other = type_name(old), type_name(new)
    if one == other or (one, other) in _PROMOTIONS:
        return True
    return (
        isinstance(old, Decimal)
        and isinstance(new, Decimal)
        and old.scale == new.scale
        and old.precision <= new.precision
    )


def ambiguous_names(schema: Schema) -> list[str]:
    """Return names that Iceberg cannot tell apart: it joins nested names with dots."""
    counts = Counter(_full_names("", schema.fields))
    return sorted(name for name, count in counts.items() if count > 1)


def _full_names(prefix: str, fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        yield prefix + field.name
        yield from _names_inside(prefix + field.name + ".", field.type)


def _names_inside(prefix: str, kind: Type) -> Iterator[str]:
    if isinstance(kind, Struct):
        yield from _full_names(prefix, kind.fields)
    elif isinstance(kind, Array):
        yield prefix + "element"
        yield from _names_inside(prefix + "element.", kind.element)
    elif isinstance(kind, Map):
        for part, inner in (("key", kind.key), ("value", kind.value)):
            yield prefix + part
            yield from _names_inside(prefix + part + ".", inner)


def columns_of(schema: Schema) -> Mapping[int, Field]:
    """Return the columns that can have bounds, by id."""
    return {field.id: field for field in schema.fields if not is_nested(field.type)}
