"""Avro schemas of manifests and manifest lists, of the Iceberg specification. Pure.

Fields have the names and ids of the specification, in its order. Spec: XPT-22.
"""

from __future__ import annotations

import re
from typing import Any

from tablefmt.export.iceberg_schema import type_name
from tablefmt.export.iceberg_values import decimal_bytes
from tablefmt.model.schema import Decimal, Type

Json = dict[str, Any]


def _field(name: str, number: int, kind: Any, *, optional: bool = False) -> Json:
    made: Json = {"name": name, "type": ["null", kind] if optional else kind, "field-id": number}
    return made | ({"default": None} if optional else {})


def _map(key: int, value: int, kind: str) -> Json:
    fields = [_field("key", key, "int"), _field("value", value, kind)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def _list(element: int, kind: str) -> Json:
    return {"type": "array", "items": kind, "element-id": element}


def _data_file(partition: Json, form: int) -> Json:
    fields = [
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, partition),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _field("column_sizes", 108, _map(117, 118, "long"), optional=True),
        _field("value_counts", 109, _map(119, 120, "long"), optional=True),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("nan_value_counts", 137, _map(138, 139, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
        _field("key_metadata", 131, "bytes", optional=True),
        _field("split_offsets", 132, _list(133, "long"), optional=True),
        _field("equality_ids", 135, _list(136, "int"), optional=True),
        _field("sort_order_id", 140, "int", optional=True),
    ]
    if form >= 3:
        fields.append(_field("first_row_id", 142, "long", optional=True))
    fields.append(_field("referenced_data_file", 143, "string", optional=True))
    if form >= 3:
        fields.append(_field("content_offset", 144, "long", optional=True))
        fields.append(_field("content_size_in_bytes", 145, "long", optional=True))
    return {"type": "record", "name": "r2", "fields": fields}


def entry_schema(partition: list[tuple[Json, Type]], form: int) -> Json:
    """Return the schema of a manifest's entries.

    Args:
        partition: the fields of the partition spec, each with the type of its column.
        form: format version of the table.
    """
    parts = [
        _field(_avro_name(f["name"]), f["field-id"], partition_type(kind, at), optional=True)
        for at, (f, kind) in enumerate(partition)
    ]
    record = {"type": "record", "name": "r102", "fields": parts}
    fields = [
        _field("status", 0, "int"),
        _field("snapshot_id", 1, "long", optional=True),
        _field("sequence_number", 3, "long", optional=True),
        _field("file_sequence_number", 4, "long", optional=True),
        _field("data_file", 2, _data_file(record, form)),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def partition_type(kind: Type, at: int) -> Any:
    """Return the Avro type of a partition field at a place in its spec."""
    if isinstance(kind, Decimal):
        return {
            "type": "fixed",
            "size": decimal_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
            "name": f"decimal_{at}",
        }
    name = type_name(kind)
    if name == "date":
        return {"type": "int", "logicalType": "date"}
    if name.startswith("timestamp"):
        zoned = name == "timestamptz"
        return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": zoned}
    return {"binary": "bytes"}.get(name, name)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _avro_name(name: str) -> str:
    """Return a name that Avro allows, as Iceberg's own writers change it."""
    if _PLAIN.fullmatch(name):
        return name
    return "".join(_avro_char(char, at == 0) for at, char in enumerate(name))


def _avro_char(char: str, first: bool) -> str:
    if char == "_" or (char.isascii() and (char.isalpha() or (char.isdigit() and not first))):
        return char
    return "_" + char if char.isascii() and char.isdigit() else f"_x{ord(char):X}"


def list_schema(form: int) -> Json:
    """Return the schema of a manifest list's entries."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field("contains_null", 509, "boolean"),
            _field("contains_nan", 518, "boolean", optional=True),
            _field("lower_bound", 510, "bytes", optional=True),
            _field("upper_bound", 511, "bytes", optional=True),
        ],
    }
    partitions = {"type": "array", "items": summary, "element-id": 508}
    fields = [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
        _field("content", 517, "int"),
        _field("sequence_number", 515, "long"),
        _field("min_sequence_number", 516, "long"),
        _field("added_snapshot_id", 503, "long"),
        _field("added_files_count", 504, "int"),
        _field("existing_files_count", 505, "int"),
        _field("deleted_files_count", 506, "int"),
        _field("added_rows_count", 512, "long"),
        _field("existing_rows_count", 513, "long"),
        _field("deleted_rows_count", 514, "long"),
        _field("partitions", 507, partitions, optional=True),
        _field("key_metadata", 519, "bytes", optional=True),
    ]
    if form >= 3:
        fields.append(_field("first_row_id", 520, "long", optional=True))
    return {"type": "record", "name": "manifest_file", "fields": fields}
