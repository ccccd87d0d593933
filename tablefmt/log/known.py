"""Known names of a version 1 entry, and a search for unknown ones. Pure.

Unknown names come from a newer version. They are reported by name before any check for damage.
Spec: VER-2, ENT-3, ENT-4, ENT-5, ENT-7, SCH-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tablefmt.model.entry import GRANULARITIES, ISOLATIONS, OperationClass
from tablefmt.model.features import READER_FEATURES, feature_of_field
from tablefmt.model.schema import DEPTH_MAX, is_type_name

IGNORABLE = "x_"
"""Prefix of names that a reader may ignore, in the objects of `_OPEN`."""

_SIDE = frozenset({"files", "path", "sha256", "size"})

NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "": frozenset(
            {
                "format", "table", "version", "timestamp", "time_version", "transaction",
                "previous", "operation", "basis", "totals", "protocol", "metadata", "add",
                "remove", "delete", "lineage", "update", "application", "derived_from",
                "cursors", "horizon", "ends", "user_metadata", "checksum",
            }
        ),
        "operation": frozenset({"class", "metrics", "name", "parameters"}),
        "basis": frozenset(
            {"read_version", "isolation", "granularity", "blind", "scope", "predicate"}
        ),
        "basis.scope": frozenset({"partitions", "predicate"}),
        "totals": frozenset(
            {"files", "rows", "bytes", "next_id", "metadata_version", "deleted", "oldest"}
        ),
        "protocol": frozenset({"reader", "writer"}),
        "metadata": frozenset({"schema", "partition_by", "properties", "constraints", "comment"}),
        "metadata.schema": frozenset({"fields", "last_id", "dropped"}),
        "add": frozenset(
            {
                "path", "size", "rows", "partition", "lower", "upper", "nulls", "nans", "footer",
                "updated", "keys", "written", "side",
            }
        ),
        "add.side": _SIDE,
        "delete": frozenset({"file", "rows", "deleted", "updated", "side"}),
        "delete.side": _SIDE,
        "lineage": frozenset({"output", "input", "start", "rows", "dropped"}),
        "update": frozenset({"keys", "set"}),
        "application": frozenset({"id", "version", "digest"}),
        "derived_from": frozenset({"source", "name", "from", "to", "digest", "location"}),
        "horizon": frozenset({"version", "log"}),
        "horizon.log": frozenset({"version", "previous", "checkpoints"}),
    }
)  # fmt: skip
"""Known names by the dotted name of the object. Any name is allowed in an object not listed
here.
"""

_OPEN = frozenset({"", "operation", "basis", "add", "delete", "lineage", "update", "application"})
"""Objects that describe only their own entry. Later entries do not depend on their content."""

_CURSOR = frozenset({"source", "name", "to", "digest"})
_CHECKPOINT = frozenset({"path", "sha256", "size", "version"})
_CONSTRAINT = frozenset({"columns", "condition"})
_FIELD = frozenset(
    {"id", "name", "nullable", "physical", "type", "default", "initial", "text", "comment"}
)
_TYPES = (
    frozenset({"struct"}),
    frozenset({"array", "element_id", "nullable"}),
    frozenset({"map", "key_id", "value_id", "nullable"}),
)
_LISTED: tuple[tuple[str, str, str, frozenset[str]], ...] = (
    ("operation", "class", "operationClass", frozenset(cls.value for cls in OperationClass)),
    ("basis", "isolation", "isolation", ISOLATIONS),
    ("basis", "granularity", "granularity", GRANULARITIES),
)
"""Fields with a fixed list of values: the object, the field, the feature name of an unknown
value.
"""

assert NAMES.keys() >= _OPEN


def unknown_names(document: Mapping[str, Any]) -> list[str]:
    """Return the unknown names of an entry, as names for `features`.

    Args:
        document: the whole entry, of any shape. Its shape is checked later.
    """
    beyond = list(_reader_features(document))
    for place, known in NAMES.items():
        value = _at(document, place)
        # Nearly all entries contain only known names.
        if value is not None and not known.issuperset(value):
            beyond.extend(
                feature_of_field(f"{place}.{name}" if place else name)
                for name in value.keys() - known
                if not (place in _OPEN and name.startswith(IGNORABLE))
            )
    for place, name, what, listed in _LISTED:
        value = (_at(document, place) or {}).get(name)
        if isinstance(value, str) and value not in listed:
            beyond.append(f"{what}:{value}")
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        beyond.extend(_of_metadata(metadata))
    kept = (_at(document, "horizon.log") or {}).get("checkpoints")
    beyond.extend(_of_listed("horizon.log.checkpoints", kept, _CHECKPOINT))
    beyond.extend(_of_listed("cursors", document.get("cursors"), _CURSOR))
    return beyond


def unknown_columns(names: list[str], place: str = "add") -> list[str]:
    """Return the unknown columns of an overflow metadata file; `lower.7` belongs to `lower`."""
    known = NAMES[place] - {"side"}
    groups = dict.fromkeys(name.partition(".")[0] for name in names)
    return [
        feature_of_field(f"{place}.{group}")
        for group in groups
        if group not in known and not group.startswith(IGNORABLE)
    ]


def _at(document: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    """Return the object of that dotted name; None if it is missing or not an object."""
    value: Any = document
    for step in place.split(".") if place else ():
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _reader_features(document: Mapping[str, Any]) -> Iterator[str]:
    named = (_at(document, "protocol") or {}).get("reader")
    for name in named if isinstance(named, list) else ():
        if isinstance(name, str) and name not in READER_FEATURES:
            yield name


def _of_listed(place: str, objects: Any, known: frozenset[str]) -> Iterator[str]:
    for each in objects if isinstance(objects, list) else ():
        if isinstance(each, dict):
            yield from (f"field:{place}.{name}" for name in each.keys() - known)


def _of_metadata(metadata: Mapping[str, Any]) -> Iterator[str]:
    constraints = metadata.get("constraints")
    for each in constraints.values() if isinstance(constraints, dict) else ():
        if isinstance(each, dict):
            yield from (f"field:metadata.constraints.{name}" for name in each.keys() - _CONSTRAINT)
    schema = metadata.get("schema")
    fields = schema.get("fields") if isinstance(schema, dict) else None
    yield from _of_fields(fields, 1)


def _of_fields(fields: Any, depth: int) -> Iterator[str]:
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield from (f"field:schema.{name}" for name in field.keys() - _FIELD)
            yield from _of_type(field.get("type"), depth)


def _of_type(kind: Any, depth: int) -> Iterator[str]:
    if isinstance(kind, str) and not is_type_name(kind):
        yield f"type:{kind}"
    if not isinstance(kind, dict) or depth > DEPTH_MAX:
        return
    given = kind.keys() - {"nullable"}
    known = next((names for names in _TYPES if not names.isdisjoint(given)), None)
    if known is None:
        yield from (f"type:{name}" for name in given)
        return
    yield from (f"field:schema.type.{name}" for name in kind.keys() - known)
    yield from _of_fields(kind.get("struct"), depth + 1)
    inner = kind.get("map")
    for one in [kind.get("array"), *(inner if isinstance(inner, list) else ())]:
        yield from _of_type(one, depth + 1)
