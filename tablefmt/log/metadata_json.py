"""Protocol and metadata to JSON and back: the state that an entry replaces as a whole. Pure.

Spec: ENT-7, ENT-8, ENT-10, ENT-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.log.checks import bad
from tablefmt.model.case_folding import folded
from tablefmt.model.defaults import check_values
from tablefmt.model.entry import Constraint, Metadata, ProtocolFeatures
from tablefmt.model.numbering import is_comment
from tablefmt.model.schema import Schema, is_nested
from tablefmt.model.schema_json import schema_from_json, schema_to_json


def protocol_to_json(protocol: ProtocolFeatures) -> dict[str, list[str]]:
    """Return the field `protocol`."""
    return {"reader": list(protocol.reader), "writer": list(protocol.writer)}


def protocol_from_json(value: Mapping[str, Any]) -> ProtocolFeatures:
    """Return the features from the field `protocol`.

    Raises:
        CorruptEntryError: ENT-7. KeyError, TypeError: another shape.
    """
    lists = (value["reader"], value["writer"])
    if any(type(x) is not list or any(type(n) is not str for n in x) for x in lists):
        raise bad("ENT-7", "`protocol` does not hold lists of names")
    if any(sorted(set(names)) != names for names in lists):
        raise bad("ENT-7", "`protocol` holds a list that is not sorted, or has a name twice")
    return ProtocolFeatures(tuple(value["reader"]), tuple(value["writer"]))


def metadata_to_json(metadata: Metadata) -> dict[str, Any]:
    """Return the field `metadata`."""
    document: dict[str, Any] = {
        "partition_by": list(metadata.partition_by),
        "properties": dict(metadata.properties),
        "schema": schema_to_json(metadata.schema),
    }
    if metadata.constraints:
        document["constraints"] = {
            name: {"columns": list(each.columns), "condition": each.condition}
            for name, each in metadata.constraints.items()
        }
    if metadata.comment is not None:
        document["comment"] = metadata.comment
    return document


def metadata_from_json(value: Mapping[str, Any]) -> Metadata:
    """Return the metadata from the field `metadata`.

    Raises:
        CorruptEntryError: ENT-8, ENT-10, ENT-11, SCH-1 .. SCH-10. KeyError, TypeError,
            AttributeError: another shape.
    """
    schema = schema_from_json(value["schema"])
    check_values(schema)
    partition_by = value["partition_by"]
    flat = {f.id for f in schema.fields if not is_nested(f.type)}
    if type(partition_by) is not list or any(
        type(i) is not int or i not in flat for i in partition_by
    ):
        raise bad("ENT-8", "`partition_by` names a field that is not a flat column of the schema")
    if len(set(partition_by)) != len(partition_by):
        raise bad("ENT-8", "`partition_by` names a column twice")
    properties = value["properties"]
    if type(properties) is not dict or any(type(v) is not str for v in properties.values()):
        raise bad("ENT-8", "a property is not text")
    constraints = _constraints(value["constraints"], schema) if "constraints" in value else {}
    comment = value.get("comment")
    if "comment" in value and not is_comment(comment):
        raise bad("ENT-11", "`comment` is not text, or empty, or too long")
    return Metadata(schema, tuple(partition_by), properties, constraints, comment)


def _constraints(value: Any, schema: Schema) -> dict[str, Constraint]:
    if type(value) is not dict or not value:
        raise bad("ENT-10", "`constraints` is not an object with at least one member")
    if "" in value or len({folded(name) for name in value}) != len(value):
        raise bad("ENT-10", "constraints have names that differ only in case, or an empty name")
    known = {f.id for f in schema.fields}
    constraints = {}
    for name, each in value.items():
        ids, condition = each["columns"], each["condition"]
        if type(condition) is not str or type(ids) is not list:
            raise bad("ENT-10", f"constraint {name!r:.100} has a field of the wrong type")
        if any(type(i) is not int or i not in known for i in ids) or sorted(set(ids)) != ids:
            raise bad("ENT-10", f"constraint {name!r:.100} names columns that do not exist")
        constraints[name] = Constraint(condition, tuple(ids))
    return constraints
