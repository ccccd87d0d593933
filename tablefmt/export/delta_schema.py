"""Schema, features and table metadata in the form of Delta. Pure.

The protocol asks for as little as the copy needs: reader version 1 until a feature is needed, then
version 3 with named features. Never version 2: some readers accept it and read renamed columns as
NULL. Spec: XPT-6, XPT-7.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import (
    Array,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    all_fields,
    id_types,
    walk,
)
from tablefmt.model.type_widening import is_widening

MAPPING, VECTORS, NTZ, WIDENING, VARIANT = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "variantType",
)
"""Features of readers that a copy may need."""

TIMESTAMPS = "inCommitTimestamp"
KEEP_OUT = "tablefmtManaged"
"""Writer feature that no Delta writer knows, so every Delta writer must refuse. Readers ignore
it.
"""

Changes = Mapping[str, Sequence[Sequence[str]]]
"""Pairs of type names, from and to, in order, by the id of the field, element, key or value."""

_ODD = frozenset(" ,;{}()\n\t=")
"""Characters that a name cannot have without column mapping."""

_EXACT = frozenset({"byte", "short", "integer", "long", "date", "boolean"})
"""Types whose partition values have one exact text. Others are columns like any other."""

_IMPORTED = _EXACT | {"string"}
"""The same, where imported files may lack their partition columns."""


def stated_partitions(metadata: Metadata) -> list[Field]:
    """Return the partition columns that the copy states.

    Delta reads "" as NULL, and floats, binary and times have no exact text. The data files hold
    partition columns too, so a column that is not stated loses no row. Imported files may lack
    them, so a table with imports states strings too. Delta has no hidden partition fields.
    Spec: XPT-7.
    """
    columns = (field for field in metadata.partition_fields if field.transform is None)
    exact = _IMPORTED if metadata.imports else _EXACT
    return [column for column in columns if str(column.type) in exact]


def partitioning_problem(metadata: Metadata) -> str:
    """Return why a copy with one partitioning cannot show a version; "" if it can.

    Partitionings whose stated columns are the same are one for Delta. Spec: XPT-7.
    """
    stated = [
        [column.name for column in stated_partitions(metadata.partitioned_as(number))]
        for number in metadata.numbered
    ]
    if len({frozenset(names) for names in stated}) < 2:
        return ""
    listed = ", ".join(repr(name) for name in sorted({n for names in stated for n in names}))
    return (
        f"a Delta table has one partitioning, and some files are not partitioned by {listed}. "
        "Rewrite the older files with Table.repartition()"
    )


def names_alike(schema: Schema) -> tuple[str, str] | None:
    """Return two names of siblings that Delta takes for one, because they differ only in case.

    This table compares names by the case rules of one Unicode version (SCH-2).
    """
    levels = [schema.fields]
    for column in schema.fields:
        levels += [kind.fields for kind in walk(column.type) if isinstance(kind, Struct)]
    for fields in levels:
        known: dict[str, str] = {}
        for one in fields:
            if one.name.lower() in known:
                return known[one.name.lower()], one.name
            known[one.name.lower()] = one.name
    return None


def features_of(schema: Schema) -> set[str]:
    """Return the features that readers need for a schema."""
    named = {str(kind) for kind in id_types(schema).values() if isinstance(kind, Primitive)}
    features = set()
    if any(f.name != f.physical or _ODD & set(f.name) for f in all_fields(schema)):
        features.add(MAPPING)
    if "timestamp_ntz" in named:
        features.add(NTZ)
    if "variant" in named:
        features.add(VARIANT)
    return features


def type_changes(known: Changes, before: Mapping[int, Type], after: Mapping[int, Type]) -> Changes:
    """Return the type changes of all columns, after one more schema.

    A restore may bring an older type back. The changes after that type are then no longer true.

    Args:
        known: the changes up to the schema before.
        before: types before, by the id of the field, element, key or value.
        after: types after.
    """
    changes = {key: list(pairs) for key, pairs in known.items()}
    for place, kind in after.items():
        old = before.get(place)
        if old is None or old == kind or isinstance(kind, Struct | Array | Map):
            continue
        pairs, key = changes.get(str(place), []), str(place)
        earlier = next((at for at, pair in enumerate(pairs) if pair[0] == str(kind)), None)
        if earlier is not None:
            changes[key] = pairs[:earlier]
        elif is_widening(old, kind):
            changes[key] = [*pairs, [str(old), str(kind)]]
        else:
            changes[key] = []
    return {key: pairs for key, pairs in changes.items() if pairs}


def protocol_action(features: Iterable[str]) -> dict[str, Any]:
    """Return the `protocol` action."""
    reader = sorted(features)
    writer = sorted([*reader, TIMESTAMPS, KEEP_OUT])
    if not reader:
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writer}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": reader,
        "writerFeatures": writer,
    }


def metadata_action(
    table: str, created: int, metadata: Metadata, features: Iterable[str], changes: Changes
) -> dict[str, Any]:
    """Return the `metaData` action.

    Args:
        table: id of the table.
        created: commit timestamp of version 0, µs UTC.
        metadata: in force.
        features: that the copy uses.
        changes: type changes up to this metadata.
    """
    known = set(features)
    mapped = MAPPING in known
    fields = [_field(f, mapped, changes) for f in metadata.schema.fields]
    configuration = {"delta.enableInCommitTimestamps": "true", "tablefmt.table": table}
    if mapped:
        configuration["delta.columnMapping.mode"] = "name"
        configuration["delta.columnMapping.maxColumnId"] = str(metadata.schema.last_id)
    if VECTORS in known:
        configuration["delta.enableDeletionVectors"] = "true"
    if WIDENING in known:
        configuration["delta.enableTypeWidening"] = "true"
    action: dict[str, Any] = {
        "id": str(uuid.UUID(table)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
        "partitionColumns": [f.name for f in stated_partitions(metadata)],
        "createdTime": created // 1000,
        "configuration": configuration,
    }
    if metadata.comment is not None:
        action["description"] = metadata.comment
    return action


def _field(field: Field, mapped: bool, changes: Changes) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if mapped:
        metadata["delta.columnMapping.id"] = field.id
        metadata["delta.columnMapping.physicalName"] = field.physical
    if field.comment is not None:
        metadata["comment"] = field.comment
    widened = list(_changes_in(field.type, field.id, "", changes))
    if widened:
        metadata["delta.typeChanges"] = widened
    return {
        "name": field.name,
        "type": _type(field.type, mapped, changes),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def _changes_in(kind: Type, place: int, path: str, changes: Changes) -> Iterable[dict[str, str]]:
    """Yield the type changes that belong to a field: its own, and those of its elements."""
    where = {"fieldPath": path} if path else {}
    for old, new in changes.get(str(place), ()):
        yield {"fromType": old, "toType": new, **where}
    dot = f"{path}." if path else ""
    if isinstance(kind, Array):
        yield from _changes_in(kind.element, kind.element_id, f"{dot}element", changes)
    elif isinstance(kind, Map):
        yield from _changes_in(kind.key, kind.key_id, f"{dot}key", changes)
        yield from _changes_in(kind.value, kind.value_id, f"{dot}value", changes)


def _type(kind: Type, mapped: bool, changes: Changes) -> Any:
    if isinstance(kind, Struct):
        return {"type": "struct", "fields": [_field(f, mapped, changes) for f in kind.fields]}
    if isinstance(kind, Array):
        element = _type(kind.element, mapped, changes)
        return {"type": "array", "elementType": element, "containsNull": kind.nullable}
    if isinstance(kind, Map):
        return {
            "type": "map",
            "keyType": _type(kind.key, mapped, changes),
            "valueType": _type(kind.value, mapped, changes),
            "valueContainsNull": kind.nullable,
        }
    return str(kind)
