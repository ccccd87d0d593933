"""Between an entry and its bytes. Pure, strict, canonical. Spec: ENT-1 .. ENT-8, ADD-1, KEY-2.

A reader trusts nothing: length before parsing, checksum before content, shape before meaning.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tablefmt.errors import CorruptEntryError, TablefmtError, UnsupportedFeatureError
from tablefmt.log.columns import (
    add_from_json,
    add_to_json,
    check_lineage,
    deletes_from_json,
    deletes_to_json,
    lineage_from_json,
    lineage_to_json,
    update_from_json,
)
from tablefmt.log.names import entry_key, is_transaction
from tablefmt.model.defaults import check_values
from tablefmt.model.entry import (
    FORMAT,
    Application,
    Basis,
    Constraint,
    Entry,
    Metadata,
    Operation,
    OperationClass,
    PartitionScope,
    PredicateScope,
    ProtocolFeatures,
    Scope,
    StoredEntry,
    Totals,
)
from tablefmt.model.schema import (
    Schema,
    is_comment,
    is_nested,
    schema_from_json,
    schema_to_json,
)
from tablefmt.model.times import MICROS_MAX, MICROS_MIN

ENTRY_BYTES_MAX = 64 << 20
"""ENT-2. Far above what a writer makes, who moves `add` aside at 1 MiB."""

_TAIL = re.compile(rb',"checksum":"([0-9a-f]{64})"\}')
_TAIL_LENGTH = len(b',"checksum":"') + 64 + len(b'"}')

NESTING_MAX = 128
"""ENT-2. Levels of objects and arrays, the outermost object included."""

_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1
_MAYBE_WIDE = re.compile(rb"[:\[,]-?[1-9][0-9]{18}")

_DIGEST = re.compile(r"[0-9a-f]{64}")

_ISOLATIONS = frozenset({"WriteSerializable", "Serializable"})
_GRANULARITIES = frozenset({"row", "file", "transaction"})

_KNOWN = frozenset(
    {
        "format", "table", "version", "timestamp", "time_version", "transaction", "previous",
        "operation", "basis", "totals", "protocol", "metadata", "add", "remove", "delete",
        "lineage", "update", "application", "user_metadata", "checksum",
    }
)  # fmt: skip


_OPTIONAL = (
    "protocol", "metadata", "add", "remove", "delete", "lineage", "update", "application",
    "user_metadata",
)  # fmt: skip


def digest(body: bytes) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(body).hexdigest()


def encode(entry: Entry) -> bytes:
    """The one form of the bytes of `entry`.

    Raises:
        UnsupportedFeatureError: ENT-2, the entry is larger than a reader accepts.
        TypeError: a value that JSON cannot hold (a caller checks user metadata before).
    """
    document = _to_json(entry)
    body = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)[:-1]
    whole = body + b',"checksum":"' + digest(body).encode() + b'"}'
    if len(whole) > ENTRY_BYTES_MAX:
        raise UnsupportedFeatureError(
            f"the entry would be {len(whole)} bytes long, more than {ENTRY_BYTES_MAX}; "
            "commit in smaller pieces",
            ["entry-size"],
        )
    return whole


def decode(body: bytes, version: int) -> StoredEntry:
    """Check and parse the bytes found under the name of `version`.

    Raises:
        CorruptEntryError: ENT-1 .. ENT-8, ADD-1, KEY-2; `key` says which entry.
        UnsupportedFeatureError: ENT-3, a newer format.
    """
    try:
        return StoredEntry(_parse(body, version), digest(body))
    except CorruptEntryError as error:
        if error.key:
            raise
        raise CorruptEntryError(error.detail, key=entry_key(version), rule=error.rule) from None


def _parse(body: bytes, version: int) -> Entry:
    if len(body) > ENTRY_BYTES_MAX:
        raise _bad("ENT-2", f"{len(body)} bytes are more than {ENTRY_BYTES_MAX}")
    tail = _TAIL.fullmatch(body[-_TAIL_LENGTH:]) if len(body) > _TAIL_LENGTH else None
    if tail is None:
        raise _bad("ENT-1", f"the entry is torn: its {len(body)} bytes do not end in a checksum")
    signed = body[:-_TAIL_LENGTH]
    if digest(signed).encode() != tail[1]:
        raise _bad("ENT-1", "the checksum does not match the bytes: something was changed")
    try:
        document = orjson.loads(signed + b"}")
    except orjson.JSONDecodeError as error:
        raise _bad("ENT-1", f"not JSON: {error}") from None
    if type(document) is not dict:
        raise _bad("ENT-1", "not a JSON object")
    newest = document.get("format")
    if type(newest) is int and newest > FORMAT:
        raise UnsupportedFeatureError(
            f"{entry_key(version)} has format {newest}; this version reads up to {FORMAT}. "
            "Upgrade tablefmt.",
            [f"format-{newest}"],
        )
    if type(newest) is not int or newest != FORMAT:
        raise _bad("ENT-3", f"`format` is {newest!r:.40}, not {FORMAT}")
    # The walk costs more than the parse, so entries that cannot break a limit are spared it.
    if signed.count(b"[") + signed.count(b"{") > NESTING_MAX or _MAYBE_WIDE.search(signed):
        check_limits(document)
    # Doubled keys, 1.0 for 1, integers beyond 64 bits: none of them survives a round trip.
    if orjson.dumps(document, option=orjson.OPT_SORT_KEYS) != signed + b"}":
        raise _bad("ENT-1", "not in canonical form (a repeated key, white space, or unsorted keys)")
    entry = _from_json(document)
    if entry.version != version:
        raise _bad("ENT-3", f"it says version {entry.version}: the object was renamed or copied")
    return entry


def check_limits(value: Any, level: int = 1) -> None:
    """Refuse JSON that nests too deep or holds an integer beyond 64 bits.

    Args:
        value: an object or an array.
        level: the level of `value` in its entry, 1 for the outermost object.

    Raises:
        CorruptEntryError: ENT-2.
    """
    if level > NESTING_MAX:
        raise _bad("ENT-2", f"it nests deeper than {NESTING_MAX} levels")
    items = value.values() if isinstance(value, dict) else value
    kinds = set(map(type, items))
    if int in kinds and any(
        type(v) is int and not _INTEGER_MIN <= v <= _INTEGER_MAX for v in items
    ):
        raise _bad("ENT-2", "it holds an integer beyond signed 64 bits")
    if dict in kinds or list in kinds:
        for inner in items:
            if isinstance(inner, dict | list):
                check_limits(inner, level + 1)


def _bad(rule: str, message: str) -> CorruptEntryError:
    return CorruptEntryError(message, rule=rule)


def _to_json(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = dict(entry.unknown)
    document.update(
        format=FORMAT,
        table=entry.table,
        version=entry.version,
        timestamp=entry.timestamp,
        time_version=entry.time_version,
        transaction=entry.transaction,
        previous=entry.previous,
        operation={
            "class": entry.operation.cls.value,
            "metrics": entry.operation.metrics,
            "name": entry.operation.name,
            "parameters": entry.operation.parameters,
        },
        basis={
            "blind": entry.basis.blind,
            "granularity": entry.basis.granularity,
            "isolation": entry.basis.isolation,
            "read_version": entry.basis.read_version,
            "scope": _scope_to_json(entry.basis.scope),
        },
        totals={
            "bytes": entry.totals.bytes,
            "files": entry.totals.files,
            "metadata_version": entry.totals.metadata_version,
            "next_id": entry.totals.next_id,
            "rows": entry.totals.rows,
        },
    )
    if entry.basis.predicate is not None:
        document["basis"]["predicate"] = entry.basis.predicate
    if entry.totals.deleted:
        document["totals"]["deleted"] = entry.totals.deleted
    if entry.protocol is not None:
        document["protocol"] = {
            "reader": list(entry.protocol.reader),
            "writer": list(entry.protocol.writer),
        }
    if entry.metadata is not None:
        document["metadata"] = _metadata_to_json(entry.metadata)
    if entry.add is not None:
        document["add"] = add_to_json(entry.add, entry.version)
    if entry.remove:
        document["remove"] = list(entry.remove)
    if entry.delete is not None:
        document["delete"] = deletes_to_json(entry.delete)
    if entry.lineage is not None:
        document["lineage"] = lineage_to_json(entry.lineage)
    if entry.update is not None:
        chosen = None if entry.update.set is None else list(entry.update.set)
        document["update"] = {"keys": list(entry.update.keys), "set": chosen}
    if entry.application is not None:
        document["application"] = {
            "digest": entry.application.digest,
            "id": entry.application.id,
            "version": entry.application.version,
        }
    if entry.user_metadata:
        document["user_metadata"] = entry.user_metadata
    return document


def _metadata_to_json(metadata: Metadata) -> dict[str, Any]:
    found: dict[str, Any] = {
        "partition_by": list(metadata.partition_by),
        "properties": dict(metadata.properties),
        "schema": schema_to_json(metadata.schema),
    }
    if metadata.constraints:
        found["constraints"] = {
            name: {"columns": list(each.columns), "condition": each.condition}
            for name, each in metadata.constraints.items()
        }
    if metadata.comment is not None:
        found["comment"] = metadata.comment
    return found


def _scope_to_json(scope: Scope) -> dict[str, Any] | None:
    if isinstance(scope, PartitionScope):
        return {"partitions": [list(values) for values in scope.values]}
    if isinstance(scope, PredicateScope):
        return {"predicate": scope.predicate}
    return None


def _from_json(document: dict[str, Any]) -> Entry:
    try:
        return _checked(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, TablefmtError):
            raise
        raise _bad("ENT-3", f"a field is missing or of the wrong type: {error!r}") from None


def _checked(document: dict[str, Any]) -> Entry:
    version = _integer(document, "version", low=0)
    previous = document["previous"]
    if (previous is None) != (version == 0):
        raise _bad("ENT-3", "`previous` must be null in version 0 and only there")
    if previous is not None and not _DIGEST.fullmatch(previous):
        raise _bad("ENT-3", "`previous` is not 64 hex digits")
    if not is_transaction(document["transaction"]) or not is_transaction(document["table"]):
        raise _bad("ENT-3", "`transaction` or `table` is not 32 hex digits")
    if version == 0 and not ("protocol" in document and "metadata" in document):
        raise _bad("ENT-3", "version 0 lacks `protocol` or `metadata`")
    empty = [name for name in _OPTIONAL if name in document and document[name] is None]
    if empty:
        raise _bad("ENT-3", f"`{empty[0]}` is null: a field that holds nothing is left out")
    protocol, metadata = document.get("protocol"), document.get("metadata")
    add, delete = document.get("add"), document.get("delete")
    lineage, update = document.get("lineage"), document.get("update")
    user_metadata = document.get("user_metadata", {})
    if type(user_metadata) is not dict:
        raise _bad("ENT-3", "`user_metadata` is not an object")
    entry = Entry(
        table=document["table"],
        version=version,
        timestamp=_time(document, "timestamp"),
        time_version=_time(document, "time_version"),
        transaction=document["transaction"],
        previous=previous,
        operation=_operation(document["operation"]),
        basis=_basis(document["basis"]),
        totals=_totals(document["totals"]),
        protocol=None if protocol is None else _protocol(protocol),
        metadata=None if metadata is None else _metadata(metadata),
        add=None if add is None else add_from_json(add, version),
        remove=_removed(document["remove"]) if "remove" in document else (),
        delete=None if delete is None else deletes_from_json(delete),
        lineage=None if lineage is None else lineage_from_json(lineage),
        update=None if update is None else update_from_json(update),
        application=_application(document.get("application")),
        user_metadata=user_metadata,
        unknown={k: v for k, v in document.items() if k not in _KNOWN},
    )
    check_lineage(entry)
    return entry


def _integer(mapping: Mapping[str, Any], name: str, low: int = _INTEGER_MIN) -> int:
    value = mapping[name]
    if type(value) is not int or not low <= value <= _INTEGER_MAX:
        raise _bad("ENT-2", f"`{name}` is not an integer from {low} to 2**63 - 1")
    return value


def _time(mapping: Mapping[str, Any], name: str) -> int:
    value = _integer(mapping, name)
    if not MICROS_MIN <= value <= MICROS_MAX:
        raise _bad("ENT-3", f"`{name}` is {value}, no time from 1970 to 9999")
    return value


def _operation(value: Mapping[str, Any]) -> Operation:
    if type(value["name"]) is not str or type(value["parameters"]) is not dict:
        raise _bad("ENT-4", "`operation` has a name or parameters of the wrong type")
    metrics = value["metrics"]
    if type(metrics) is not dict or any(type(m) is not int for m in metrics.values()):
        raise _bad("ENT-4", "a metric is not an integer")
    try:
        cls = OperationClass(value["class"])
    except ValueError:
        raise _bad("ENT-4", f"unknown operation class {value['class']!r}") from None
    return Operation(name=value["name"], cls=cls, parameters=value["parameters"], metrics=metrics)


def _basis(value: Mapping[str, Any]) -> Basis:
    read_version = value["read_version"]
    if read_version is not None:
        read_version = _integer(value, "read_version", low=0)
    if type(value["blind"]) is not bool:
        raise _bad("ENT-5", "`blind` is not a boolean")
    if value["isolation"] not in _ISOLATIONS or value["granularity"] not in _GRANULARITIES:
        raise _bad("ENT-5", "`isolation` or `granularity` has no known value")
    if type(value.get("predicate", "")) is not str:
        raise _bad("ENT-5", "`predicate` is not text")
    return Basis(
        read_version=read_version,
        isolation=value["isolation"],
        granularity=value["granularity"],
        blind=value["blind"],
        scope=_scope(value["scope"]),
        predicate=value.get("predicate"),
    )


def _scope(value: Any) -> Scope:
    if value is None:
        return None
    if type(value) is dict and "partitions" in value:
        found = value["partitions"]
        if type(found) is not list or not all(type(v) is list and _scalars(v) for v in found):
            raise _bad("ENT-5", "`scope` does not hold lists of partition values")
        return PartitionScope(tuple(map(tuple, found)))
    if type(value["predicate"]) is not str:
        raise _bad("ENT-5", "`scope` holds a predicate that is not text")
    return PredicateScope(value["predicate"])


def _scalars(values: Sequence[Any]) -> bool:
    return {dict, list}.isdisjoint(map(type, values))


def _totals(value: Mapping[str, Any]) -> Totals:
    if value.get("deleted", 1) == 0:
        raise _bad("ENT-6", "`deleted` is 0: a sum that holds nothing is left out")
    return Totals(
        files=_integer(value, "files", low=0),
        rows=_integer(value, "rows", low=0),
        bytes=_integer(value, "bytes", low=0),
        next_id=_integer(value, "next_id", low=1),
        metadata_version=_integer(value, "metadata_version", low=0),
        deleted=_integer(value, "deleted", low=1) if "deleted" in value else 0,
    )


def _protocol(value: Mapping[str, Any]) -> ProtocolFeatures:
    lists = (value["reader"], value["writer"])
    if any(type(x) is not list or any(type(n) is not str for n in x) for x in lists):
        raise _bad("ENT-7", "`protocol` does not hold lists of names")
    if any(sorted(set(names)) != names for names in lists):
        raise _bad("ENT-7", "`protocol` holds a list that is not sorted, or a name twice")
    return ProtocolFeatures(tuple(value["reader"]), tuple(value["writer"]))


def _metadata(value: Mapping[str, Any]) -> Metadata:
    schema = schema_from_json(value["schema"])
    check_values(schema)
    partition_by = value["partition_by"]
    flat = {f.id for f in schema.fields if not is_nested(f.type)}
    if type(partition_by) is not list or any(
        type(i) is not int or i not in flat for i in partition_by
    ):
        raise _bad("ENT-8", "`partition_by` names a field that is no flat column of the schema")
    if len(set(partition_by)) != len(partition_by):
        raise _bad("ENT-8", "`partition_by` names a column twice")
    properties = value["properties"]
    if type(properties) is not dict or any(type(v) is not str for v in properties.values()):
        raise _bad("ENT-8", "a property is not text")
    constraints = _constraints(value["constraints"], schema) if "constraints" in value else {}
    comment = value.get("comment")
    if "comment" in value and not is_comment(comment):
        raise _bad("ENT-11", "`comment` is no text, empty or too long")
    return Metadata(schema, tuple(partition_by), properties, constraints, comment)


def _constraints(value: Any, schema: Schema) -> dict[str, Constraint]:
    if type(value) is not dict or not value:
        raise _bad("ENT-10", "`constraints` is no object, or an empty one")
    if "" in value or len({name.casefold() for name in value}) != len(value):
        raise _bad("ENT-10", "constraints have names that cannot be told apart")
    known = {f.id for f in schema.fields}
    found = {}
    for name, each in value.items():
        ids, condition = each["columns"], each["condition"]
        if type(condition) is not str or type(ids) is not list:
            raise _bad("ENT-10", f"constraint {name!r:.100} has a field of the wrong type")
        if any(type(i) is not int or i not in known for i in ids) or sorted(set(ids)) != ids:
            raise _bad("ENT-10", f"constraint {name!r:.100} names columns that are not there")
        found[name] = Constraint(condition, tuple(ids))
    return found


def _application(value: Mapping[str, Any] | None) -> Application | None:
    if value is None:
        return None
    if type(value["id"]) is not str or type(value["digest"]) not in (str, type(None)):
        raise _bad("ENT-3", "`application` has an id or a digest that is not text")
    return Application(value["id"], _integer(value, "version"), value["digest"])


def _removed(value: Any) -> tuple[int, ...]:
    if type(value) is not list or not value or any(type(i) is not int for i in value):
        raise _bad("ENT-3", "`remove` is not a list of one integer or more")
    if any(b <= a for a, b in itertools.pairwise(value)):
        raise _bad("ENT-3", "`remove` is not ascending")
    return tuple(value)
