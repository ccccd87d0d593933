"""Protocol, metadata and schema to JSON and back: the state that an entry replaces as a whole.

Pure, strict. Spec: ENT-7, ENT-8, ENT-10, ENT-11, SCH-1 .. SCH-4, SCH-7, SCH-10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.log.strict_json import bad, is_field_id
from tablefmt.model.defaults import check_values
from tablefmt.model.log_entry import Constraint, Import, Metadata, ProtocolFeatures
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_transforms import transform_from, transform_of
from tablefmt.model.schema import (
    DEPTH_MAX,
    ID_MAX,
    Array,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    all_ids,
    is_float,
    is_length,
    is_nested,
    is_variant,
    primitive,
    walk,
)
from tablefmt.model.schema_rules import check_hidden_names, check_names, is_comment

ADDRESS_BYTES_MAX = 4096
"""Maximum length of the address of an import in UTF-8."""


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """Return the JSON form in an entry. Spec: SCH-1."""
    document = {"fields": [_field_to_json(f) for f in schema.fields], "last_id": schema.last_id}
    if schema.hidden:
        document["hidden"] = [_hidden_to_json(field, schema) for field in schema.hidden]
    return document | ({"dropped": list(schema.dropped)} if schema.dropped else {})


def _hidden_to_json(field: Field, schema: Schema) -> dict[str, Any]:
    made = transform_of(field, schema)
    names = {"name": field.name, "transform": made.iceberg}
    return {"id": field.id, "source": made.column.id, **names}


def _field_to_json(field: Field) -> dict[str, Any]:
    values = {name: getattr(field, name) for name in ("default", "initial", "text", "comment")}
    return {
        "id": field.id,
        "name": field.name,
        "nullable": field.nullable,
        "physical": field.physical,
        "type": type_to_json(field.type),
    } | {name: value for name, value in values.items() if value is not None}


def type_to_json(kind: Type) -> Any:
    """Return `"long"`, `{"array": …}`, `{"map": [k, v]}` or `{"struct": [field, …]}`. Spec:
    SCH-1.
    """
    if isinstance(kind, Struct):
        return {"struct": [_field_to_json(f) for f in kind.fields]}
    if isinstance(kind, Array):
        return {
            "array": type_to_json(kind.element),
            "element_id": kind.element_id,
            "nullable": kind.nullable,
        }
    if isinstance(kind, Map):
        return {
            "key_id": kind.key_id,
            "map": [type_to_json(kind.key), type_to_json(kind.value)],
            "nullable": kind.nullable,
            "value_id": kind.value_id,
        }
    return str(kind)


def schema_from_json(value: Any) -> Schema:
    """Return the schema of `schema_to_json`'s JSON. Strict.

    Raises:
        CorruptEntryError: SCH-1 .. SCH-4, anything that is not a schema.
    """
    try:
        fields = tuple(_field_from_json(f, 1) for f in value["fields"])
        last_id = value["last_id"]
        if type(last_id) is not int:
            raise TypeError("last_id is not an integer")
        dropped = _dropped_from_json(value)
        _check_siblings(fields)
    except (KeyError, TypeError, ValueError, AttributeError, SchemaMismatchError) as error:
        raise CorruptEntryError(f"not a schema: {error}", rule="SCH-1") from None
    schema = Schema(fields, last_id, dropped)
    if "hidden" in value:
        schema = replace(schema, hidden=_hidden_from_json(value["hidden"], schema))
    ids = list(all_ids(schema))
    if len(set(ids)) != len(ids) or any(not 0 < i <= last_id for i in ids):
        raise CorruptEntryError("field ids are duplicated or above last_id", rule="SCH-4")
    if last_id > ID_MAX:
        raise CorruptEntryError(f"last_id is above {ID_MAX}", rule="SCH-4")
    return schema


def _hidden_from_json(value: Any, schema: Schema) -> tuple[Field, ...]:
    columns = {field.id: field for field in schema.fields}
    found = []
    for each in value if type(value) is list else ():
        number, source, name, text = (each[key] for key in ("id", "source", "name", "transform"))
        if type(number) is not int or type(source) is not int or source not in columns:
            raise bad("HID-1", "a hidden partition field has no id, or no column as its source")
        if type(name) is not str or type(text) is not str:
            raise bad("HID-1", "a hidden partition field has no name, or no transform")
        try:
            found.append(transform_from(text, columns[source]).field(number, name))
        except ValueError as error:
            raise bad(
                "HID-1", f"a hidden partition field has an invalid transform: {error}"
            ) from None
    ids = [field.id for field in found]
    if not found or sorted(set(ids)) != ids:
        raise bad("HID-1", "`hidden` is not a list of fields in the order of their ids")
    try:
        check_hidden_names(replace(schema, hidden=tuple(found)))
    except SchemaMismatchError as error:
        raise bad("HID-2", f"a hidden partition field has a wrong name: {error}") from None
    if len({field.transform for field in found}) != len(found):
        raise bad("HID-1", "two hidden partition fields are the same transform of one column")
    return tuple(found)


def _check_siblings(fields: Sequence[Field]) -> None:
    """Refuse siblings that share a name, or a physical name."""
    check_names(fields)
    if len({folded(field.physical) for field in fields}) != len(fields):
        names = sorted(field.physical for field in fields)
        message = f"siblings share a physical name: {names!r:.200}"
        raise CorruptEntryError(message, rule="SCH-8")


def _dropped_from_json(value: Mapping[str, Any]) -> tuple[str, ...]:
    names = value.get("dropped")
    if names is None and "dropped" not in value:
        return ()
    if type(names) is not list or not names or any(type(n) is not str for n in names):
        raise TypeError("dropped is not a list of names")
    if sorted(set(names)) != names:
        raise TypeError("dropped is not sorted, or contains a name twice")
    return tuple(names)


def _field_from_json(value: Mapping[str, Any], depth: int) -> Field:
    identity, name, physical = value["id"], value["name"], value["physical"]
    nullable = value["nullable"]
    if type(identity) is not int or type(name) is not str or type(physical) is not str:
        raise TypeError("a field's id, name or physical name has the wrong type")
    if type(nullable) is not bool:
        raise TypeError("a field's nullable is not a boolean")
    kind = _type_from_json(value["type"], depth)
    values = [value.get(key) for key in ("default", "initial")]
    for key, given in zip(("default", "initial"), values, strict=True):
        if key in value and type(given) not in (bool, int, float, str):
            raise TypeError(f"a field's {key} is not a boolean, number or text")
        if key in value and depth > 1:
            raise TypeError(f"a field inside a column has a {key}")
    text = value.get("text")
    if "text" in value and (depth > 1 or kind != Primitive("string") or not is_length(text)):
        raise TypeError("a field's text is not a length, or the field is not a string column")
    if is_float(kind):
        values = [float(given) if type(given) is int else given for given in values]
    comment = value.get("comment")
    if "comment" in value and not is_comment(comment):
        raise CorruptEntryError(f"field {name!r:.100} has an invalid comment", rule="ENT-11")
    default, initial = values
    return Field(identity, name, physical, kind, nullable, default, initial, text, comment)


def _type_from_json(value: Any, depth: int) -> Type:
    if depth > DEPTH_MAX:
        raise TypeError(f"types nest deeper than {DEPTH_MAX} levels")
    if isinstance(value, str):
        return primitive(value)
    if "struct" in value:
        fields = tuple(_field_from_json(f, depth + 1) for f in value["struct"])
        _check_siblings(fields)
        return Struct(fields)
    if type(value["nullable"]) is not bool:
        raise TypeError("nullable is not a boolean")
    if "array" in value:
        element = _type_from_json(value["array"], depth + 1)
        return Array(element, value["nullable"], _id_from_json(value, "element_id"))
    key, item = (_type_from_json(inner, depth + 1) for inner in value["map"])
    if any(map(is_variant, walk(key))):
        raise CorruptEntryError("the key of a map is a variant or contains one", rule="SCH-6")
    ids = (_id_from_json(value, name) for name in ("key_id", "value_id"))
    return Map(key, item, value["nullable"], *ids)


def _id_from_json(value: Mapping[str, Any], name: str) -> int:
    if type(value[name]) is not int:
        raise TypeError(f"{name} is not an integer")
    return int(value[name])


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
    if metadata.partitionings:
        document["partitionings"] = {
            str(number): list(ids) for number, ids in metadata.partitionings.items()
        }
    if metadata.imports:
        document["imports"] = {
            str(number): _import_to_json(each) for number, each in metadata.imports.items()
        }
    return document


def _import_to_json(each: Import) -> dict[str, Any]:
    document: dict[str, Any] = {
        "from": {"format": each.format, "uri": each.uri, "version": each.version},
        "names": {str(field_id): name for field_id, name in each.names.items()},
        "root": each.root,
    }
    if each.adopt:
        document["adopt"] = True
    if each.lookup is not None:
        document["lookup"] = each.lookup
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
    flat = {f.id for f in schema.with_hidden if not is_nested(f.type)}
    if type(partition_by) is not list or any(
        type(i) is not int or i not in flat for i in partition_by
    ):
        raise bad("ENT-8", "`partition_by` names a field that is not a flat column of the schema")
    if len(set(partition_by)) != len(partition_by):
        raise bad("ENT-8", "`partition_by` names a column twice")
    partitionings = {}
    if "partitionings" in value:
        partitionings = _partitionings(value["partitionings"], flat)
        if tuple(partition_by) not in partitionings.values():
            raise bad("EVO-1", "`partition_by` is none of its `partitionings`")
    if not {f.id for f in schema.hidden} <= {*partition_by}.union(*partitionings.values()):
        raise bad("HID-1", "a hidden partition field is not in `partition_by`")
    properties = value["properties"]
    if type(properties) is not dict or any(type(v) is not str for v in properties.values()):
        raise bad("ENT-8", "a property is not text")
    constraints = _constraints(value["constraints"], schema) if "constraints" in value else {}
    comment = value.get("comment")
    if "comment" in value and not is_comment(comment):
        raise bad("ENT-11", "`comment` is not text, or empty, or too long")
    imports = _imports(value["imports"]) if "imports" in value else {}
    return Metadata(
        schema, tuple(partition_by), properties, constraints, comment, imports, partitionings
    )


def _partitionings(value: Any, flat: Collection[int]) -> dict[int, tuple[int, ...]]:
    if type(value) is not dict or not value:
        raise bad("EVO-1", "`partitionings` is not an object with at least one number")
    if not all(number == "0" or is_field_id(number) for number in value):
        raise bad("EVO-1", "`partitionings` has a key that is not a number")
    found: dict[int, tuple[int, ...]] = {}
    for number, ids in value.items():
        if type(ids) is not list or any(type(i) is not int or i not in flat for i in ids):
            raise bad("EVO-1", "a partitioning names a field that is not a flat column")
        if len(set(ids)) != len(ids) or frozenset(ids) in map(frozenset, found.values()):
            raise bad("EVO-1", "a partitioning names a column twice, or is there twice")
        found[int(number)] = tuple(ids)
    return found


def _imports(value: Any) -> dict[int, Import]:
    if type(value) is not dict or not value or not all(map(is_field_id, value)):
        raise bad("IMP-2", "`imports` is not an object with at least one number")
    return {int(number): _import_from_json(each) for number, each in value.items()}


def _import_from_json(value: Mapping[str, Any]) -> Import:
    names, source = value["names"], value["from"]
    if type(names) is not dict or not all(map(is_field_id, names)):
        raise bad("IMP-2", "`names` of an import is not an object keyed by field ids")
    if any(name is not None and type(name) is not str for name in names.values()):
        raise bad("IMP-2", "`names` of an import holds something that is not text or null")
    texts = (value["root"], source["format"], source["uri"])
    if any(type(text) is not str or len(text.encode()) > ADDRESS_BYTES_MAX for text in texts):
        raise bad("IMP-2", "an import has an invalid root, format or address")
    version = source["version"]
    if version is not None and (type(version) is not int or version < 0):
        raise bad("IMP-2", "an import has an invalid version of its source")
    adopt = value.get("adopt", False)
    if type(adopt) is not bool or adopt != ("adopt" in value) or (adopt and value["root"]):
        raise bad("IMP-2", "`adopt` of an import is not true, or the files are elsewhere")
    lookup = value.get("lookup")
    if "lookup" in value and lookup not in ("ids", "names"):
        raise bad("IMP-2", "`lookup` of an import is neither `ids` nor `names`")
    by_field = {int(field_id): name for field_id, name in names.items()}
    return Import(value["root"], by_field, source["format"], source["uri"], version, adopt, lookup)


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
