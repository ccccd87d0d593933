"""Entry to the JSON object of its bytes and back, with source cursors and retention horizon.

Pure, strict. Columns and metadata of an entry have their own modules. Spec: ENT-3 .. ENT-6, ENT-13,
ENT-15, ENT-16.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.errors import TablefmtError
from tablefmt.log.entry_columns import (
    add_from_json,
    add_to_json,
    check_lineage,
    deletes_from_json,
    deletes_to_json,
    lineage_from_json,
    lineage_to_json,
    update_from_json,
)
from tablefmt.log.metadata_json import (
    metadata_from_json,
    metadata_to_json,
    protocol_from_json,
    protocol_to_json,
)
from tablefmt.log.object_names import is_transaction, root_version
from tablefmt.log.strict_json import DIGEST, NAMES, bad, integer
from tablefmt.model.log_entry import (
    FORMAT,
    GRANULARITIES,
    ISOLATIONS,
    ApplicationTransaction,
    Basis,
    CursorBack,
    DerivedFrom,
    Entry,
    KeptCheckpoint,
    LogRetentionHorizon,
    Operation,
    OperationClass,
    PartitionScope,
    PredicateScope,
    RetentionHorizon,
    Scope,
    Totals,
)
from tablefmt.model.times import MICROS_MAX, MICROS_MIN

NAME_BYTES_MAX = 1024
"""Maximum length of a pipe's name in UTF-8."""

LOCATION_BYTES_MAX = 4096
"""Maximum length of a source's location in UTF-8."""


def derived_to_json(derived: DerivedFrom) -> dict[str, Any]:
    """Return the field `derived_from`."""
    document: dict[str, Any] = {
        "digest": derived.digest,
        "from": derived.start,
        "name": derived.name,
        "source": derived.source,
        "to": derived.to,
    }
    if derived.location is not None:
        document["location"] = derived.location
    return document


def derived_from_json(value: Mapping[str, Any]) -> DerivedFrom:
    """Return the batch range from the field `derived_from`.

    Raises:
        CorruptEntryError: ENT-15, ENT-2. KeyError, TypeError: a field is missing, or not an object.
    """
    source, name = key_from_json(value, "ENT-15")
    start = None if value["from"] is None else integer(value, "from", low=0)
    to = integer(value, "to", low=0)
    if start is not None and to <= start:
        raise bad("ENT-15", "`derived_from` covers no version: `to` is not above `from`")
    location = location_from_json(value, "ENT-15")
    return DerivedFrom(source, name, start, to, _digest(value["digest"], "ENT-15"), location)


def cursors_to_json(cursors: Sequence[CursorBack]) -> list[dict[str, Any]]:
    """Return the field `cursors`."""
    return [{"digest": c.digest, "name": c.name, "source": c.source, "to": c.to} for c in cursors]


def cursors_from_json(value: Any) -> tuple[CursorBack, ...]:
    """Return the cursors from the field `cursors`. Raises as `derived_from_json`, ENT-16."""
    if type(value) is not list or not value:
        raise bad("ENT-16", "`cursors` is not a list with at least one element")
    cursors = tuple(map(_back, value))
    keys = [cursor.key for cursor in cursors]
    if any(after <= before for before, after in itertools.pairwise(keys)):
        raise bad("ENT-16", "`cursors` is not ascending")
    return cursors


def check_cursors(entry: Entry) -> None:
    """Refuse cursors in entries that may not have them. Raises CorruptEntryError: ENT-15,
    ENT-16.
    """
    cls, scope = entry.operation.cls, entry.basis.scope
    if entry.cursors and not (cls is OperationClass.OVERWRITE and scope is None):
        raise bad("ENT-16", "only an OVERWRITE of the whole table may move cursors back")
    if entry.derived_from is None:
        return
    if entry.cursors or entry.ends or entry.horizon is not None:
        raise bad(
            "ENT-15",
            "an entry with `derived_from` may not have `cursors`, `ends` or `horizon`",
        )


def key_from_json(value: Mapping[str, Any], rule: str) -> tuple[str, str]:
    """Return `source` and `name`. Raises CorruptEntryError."""
    source, name = value["source"], value["name"]
    if type(source) is not str or not is_transaction(source):
        raise bad(rule, "the source of a cursor is not 32 hex digits")
    if type(name) is not str or len(name.encode()) > NAME_BYTES_MAX:
        raise bad(rule, f"the name of a cursor is not text of at most {NAME_BYTES_MAX} bytes")
    return source, name


def location_from_json(value: Mapping[str, Any], rule: str) -> str | None:
    """Return `location`, or None if it is missing. Raises CorruptEntryError."""
    if "location" not in value:
        return None
    location = value["location"]
    if type(location) is not str or not 0 < len(location.encode()) <= LOCATION_BYTES_MAX:
        raise bad(rule, f"the location of a source is not text of 1 to {LOCATION_BYTES_MAX} bytes")
    return str(location)


def state_from_json(value: Mapping[str, Any], rule: str) -> tuple[int | None, str | None]:
    """Return `to` and `digest`: both, or neither. Raises CorruptEntryError."""
    if value["to"] is None and value["digest"] is None:
        return None, None
    return integer(value, "to", low=0), _digest(value["digest"], rule)


def _back(value: Mapping[str, Any]) -> CursorBack:
    return CursorBack(*key_from_json(value, "ENT-16"), *state_from_json(value, "ENT-16"))


def _digest(value: Any, rule: str) -> str:
    if type(value) is not str or not DIGEST.fullmatch(value):
        raise bad(rule, "the digest of a cursor is not 64 hex digits")
    return str(value)


CHECKPOINTS_MIN = 2
"""Minimum number of checkpoints that an entry must name to expire entries. One may be lost."""


def horizon_to_json(horizon: RetentionHorizon) -> dict[str, Any]:
    """Return the JSON form in an entry."""
    document: dict[str, Any] = {"version": horizon.version}
    if horizon.log is not None:
        document["log"] = {
            "checkpoints": [
                {"path": c.path, "sha256": c.sha256, "size": c.size, "version": c.version}
                for c in horizon.log.checkpoints
            ],
            "previous": horizon.log.previous,
            "version": horizon.log.version,
        }
    return document


def horizon_from_json(value: Mapping[str, Any]) -> RetentionHorizon:
    """Return the retention horizon from its JSON form.

    Raises:
        CorruptEntryError: ENT-13, ENT-2. KeyError, TypeError: a field is missing, or not an object.
    """
    version = integer(value, "version", low=1)
    if "log" not in value:
        return RetentionHorizon(version)
    log = value["log"]
    start = integer(log, "version", low=1)
    checkpoints = log["checkpoints"]
    if start > version or type(checkpoints) is not list or len(checkpoints) < CHECKPOINTS_MIN:
        raise bad("ENT-13", "its retention horizon expires kept entries or has too few checkpoints")
    if type(log["previous"]) is not str or not DIGEST.fullmatch(log["previous"]):
        raise bad("ENT-13", "`previous` of its retention horizon is not 64 hex digits")
    return RetentionHorizon(
        version, LogRetentionHorizon(start, log["previous"], tuple(map(_kept, checkpoints)))
    )


def _kept(value: Mapping[str, Any]) -> KeptCheckpoint:
    path, sha256 = value["path"], value["sha256"]
    kept = KeptCheckpoint(path, sha256, integer(value, "size", low=1), integer(value, "version"))
    sound = type(sha256) is str and DIGEST.fullmatch(sha256)
    if not sound or type(path) is not str or root_version(path) != kept.version:
        raise bad("ENT-13", "its retention horizon names an invalid checkpoint")
    return kept


_OPTIONAL = (
    "protocol", "metadata", "add", "remove", "delete", "lineage", "update", "application",
    "derived_from", "cursors", "horizon", "ends", "user_metadata",
)  # fmt: skip


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return the entry as JSON, without its checksum.

    Raises:
        CorruptEntryError: ADD-1, ADD-7 .. ADD-9, KEY-2: content that every reader would refuse.
    """
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
            "scope": scope_to_json(entry.basis.scope),
        },
        totals=totals_to_json(entry.totals),
    )
    if entry.basis.predicate is not None:
        document["basis"]["predicate"] = entry.basis.predicate
    if entry.protocol is not None:
        document["protocol"] = protocol_to_json(entry.protocol)
    if entry.metadata is not None:
        document["metadata"] = metadata_to_json(entry.metadata)
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
    if entry.derived_from is not None:
        document["derived_from"] = derived_to_json(entry.derived_from)
    if entry.cursors:
        document["cursors"] = cursors_to_json(entry.cursors)
    if entry.horizon is not None:
        document["horizon"] = horizon_to_json(entry.horizon)
    if entry.ends:
        document["ends"] = True
    if entry.user_metadata:
        document["user_metadata"] = entry.user_metadata
    return document


def totals_to_json(totals: Totals) -> dict[str, int]:
    """Return the field `totals`."""
    document = {
        "bytes": totals.bytes,
        "files": totals.files,
        "metadata_version": totals.metadata_version,
        "next_id": totals.next_id,
        "rows": totals.rows,
    }
    if totals.deleted:
        document["deleted"] = totals.deleted
    if totals.oldest:
        document["oldest"] = totals.oldest
    return document


def scope_to_json(scope: Scope) -> dict[str, Any] | None:
    """Return what an entry says of the rows that a statement replaced. None: of no rows."""
    if isinstance(scope, PartitionScope):
        return {"partitions": [list(values) for values in scope.values]}
    if isinstance(scope, PredicateScope):
        return {"predicate": scope.predicate}
    return None


def entry_from_json(document: dict[str, Any]) -> Entry:
    """Return the entry from a JSON object with known names (`log.strict_json`).

    Raises:
        CorruptEntryError: ENT-3 .. ENT-16, ADD-1, KEY-2.
    """
    try:
        return _checked(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, TablefmtError):
            raise
        raise bad("ENT-3", f"a field is missing or of the wrong type: {error!r}") from None


def _checked(document: dict[str, Any]) -> Entry:
    """Return the entry of a document, after a check of each known field (ENT-3)."""
    version = integer(document, "version", low=0)
    previous = document["previous"]
    if (previous is None) != (version == 0):
        raise bad("ENT-3", "`previous` must be null in version 0 and only there")
    if previous is not None and not DIGEST.fullmatch(previous):
        raise bad("ENT-3", "`previous` is not 64 hex digits")
    if not is_transaction(document["transaction"]) or not is_transaction(document["table"]):
        raise bad("ENT-3", "`transaction` or `table` is not 32 hex digits")
    if version == 0 and not ("protocol" in document and "metadata" in document):
        raise bad("ENT-3", "version 0 lacks `protocol` or `metadata`")
    empty = [name for name in _OPTIONAL if name in document and document[name] is None]
    if empty:
        raise bad("ENT-3", f"`{empty[0]}` is null: an empty field must be left out")
    protocol, metadata = document.get("protocol"), document.get("metadata")
    add, delete = document.get("add"), document.get("delete")
    lineage, update = document.get("lineage"), document.get("update")
    if document.get("ends", True) is not True:
        raise bad("ENT-14", "`ends` is not true: an empty field must be left out")
    user_metadata = document.get("user_metadata", {})
    if type(user_metadata) is not dict:
        raise bad("ENT-3", "`user_metadata` is not an object")
    entry = Entry(
        table=document["table"],
        version=version,
        timestamp=time_of(document, "timestamp"),
        time_version=time_of(document, "time_version"),
        transaction=document["transaction"],
        previous=previous,
        operation=_operation(document["operation"]),
        basis=_basis(document["basis"]),
        totals=totals_from_json(document["totals"]),
        protocol=None if protocol is None else protocol_from_json(protocol),
        metadata=None if metadata is None else metadata_from_json(metadata),
        add=None if add is None else add_from_json(add, version),
        remove=_removed(document["remove"]) if "remove" in document else (),
        delete=None if delete is None else deletes_from_json(delete),
        lineage=None if lineage is None else lineage_from_json(lineage),
        update=None if update is None else update_from_json(update),
        application=_application(document.get("application")),
        derived_from=(
            derived_from_json(document["derived_from"]) if "derived_from" in document else None
        ),
        cursors=cursors_from_json(document["cursors"]) if "cursors" in document else (),
        horizon=horizon_from_json(document["horizon"]) if "horizon" in document else None,
        ends="ends" in document,
        user_metadata=user_metadata,
        unknown={k: v for k, v in document.items() if k not in NAMES[""]},
    )
    check_lineage(entry)
    check_cursors(entry)
    return entry


def time_of(mapping: Mapping[str, Any], name: str) -> int:
    """Return the time under `name`, µs since 1970 UTC. Raises CorruptEntryError: ENT-2, ENT-3."""
    value = integer(mapping, name)
    if not MICROS_MIN <= value <= MICROS_MAX:
        raise bad("ENT-3", f"`{name}` is {value}, not a time from 1970 to 9999")
    return value


def _operation(value: Mapping[str, Any]) -> Operation:
    if type(value["name"]) is not str or type(value["parameters"]) is not dict:
        raise bad("ENT-4", "`operation` has a name or parameters of the wrong type")
    metrics = value["metrics"]
    if type(metrics) is not dict or any(type(m) is not int for m in metrics.values()):
        raise bad("ENT-4", "a metric is not an integer")
    if type(value["class"]) is not str:
        raise bad("ENT-4", "the class of the operation is not text")
    return Operation(
        name=value["name"],
        cls=OperationClass(value["class"]),
        parameters=value["parameters"],
        metrics=metrics,
    )


def _basis(value: Mapping[str, Any]) -> Basis:
    read_version = value["read_version"]
    if read_version is not None:
        read_version = integer(value, "read_version", low=0)
    if type(value["blind"]) is not bool:
        raise bad("ENT-5", "`blind` is not a boolean")
    if value["isolation"] not in ISOLATIONS or value["granularity"] not in GRANULARITIES:
        raise bad("ENT-5", "`isolation` or `granularity` has an unknown value")
    if type(value.get("predicate", "")) is not str:
        raise bad("ENT-5", "`predicate` is not text")
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
    if type(value) is dict and len(value) != 1:
        raise bad("ENT-5", "`scope` does not hold exactly one of partitions and a predicate")
    if type(value) is dict and "partitions" in value:
        rows = value["partitions"]
        if type(rows) is not list or not all(type(v) is list and _scalars(v) for v in rows):
            raise bad("ENT-5", "`scope` does not hold lists of partition values")
        return PartitionScope(tuple(map(tuple, rows)))
    if type(value["predicate"]) is not str:
        raise bad("ENT-5", "`scope` holds a predicate that is not text")
    return PredicateScope(value["predicate"])


def _scalars(values: Sequence[Any]) -> bool:
    return {dict, list}.isdisjoint(map(type, values))


def totals_from_json(value: Mapping[str, Any]) -> Totals:
    """Return the table statistics. Raises CorruptEntryError: ENT-6. KeyError, TypeError: another
    shape.
    """
    if value.get("deleted", 1) == 0:
        raise bad("ENT-6", "`deleted` is 0: an empty sum must be left out")
    return Totals(
        files=integer(value, "files", low=0),
        rows=integer(value, "rows", low=0),
        bytes=integer(value, "bytes", low=0),
        next_id=integer(value, "next_id", low=1),
        metadata_version=integer(value, "metadata_version", low=0),
        deleted=integer(value, "deleted", low=1) if "deleted" in value else 0,
        oldest=integer(value, "oldest", low=1) if "oldest" in value else 0,
    )


def _application(value: Mapping[str, Any] | None) -> ApplicationTransaction | None:
    if value is None:
        return None
    if type(value["id"]) is not str or type(value["digest"]) not in (str, type(None)):
        raise bad("ENT-3", "`application` has an id or a digest that is not text")
    return ApplicationTransaction(value["id"], integer(value, "version"), value["digest"])


def _removed(value: Any) -> tuple[int, ...]:
    if type(value) is not list or not value or any(type(i) is not int for i in value):
        raise bad("ENT-3", "`remove` is not a list of at least one integer")
    if any(b <= a for a, b in itertools.pairwise(value)):
        raise bad("ENT-3", "`remove` is not ascending")
    return tuple(value)
