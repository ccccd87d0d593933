"""Delta tables: columns, files, partition values and deletion vectors. Spec: IMP-5, IMP-7."""

from __future__ import annotations

import base64
import re
import struct
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import orjson
from pyroaring import BitMap64

from tablefmt.errors import (
    CorruptDataError,
    CorruptEntryError,
    CorruptTableError,
    SchemaMismatchError,
    TablefmtError,
)
from tablefmt.expressions.ddl import identity_of
from tablefmt.imports.delta_log import (
    LOG,
    SHAPE_ERRORS,
    DeltaState,
    newest_version,
    read_delta,
    vector_of,
)
from tablefmt.imports.partition_values import encoded
from tablefmt.imports.source import Source, refused
from tablefmt.log.object_names import imported_path_problem
from tablefmt.model.positions import VECTOR_FRAME_BYTES, bare_positions, framed_positions
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type, primitive
from tablefmt.model.schema_rules import check_new_names, number_fields
from tablefmt.store.object_store import KeyNotFoundError, Store

_Json = Mapping[str, Any]

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]*:/")
"""Beginning of a path that is an address. Names of folders may have colons."""

VECTOR_BYTES_MAX = 1 << 30
"""Most bytes of a deletion vector."""

LENGTH_MAX = 1 << 62
"""Most bytes of a data file."""


def delta_source(store: Store) -> Source:
    """Return the files of the newest version of a Delta table.

    Raises: as `read_delta`; UnsupportedFeatureError, SchemaMismatchError: IMP-7.
    """
    state = read_delta(store)
    try:
        return _source(store, state)
    except SHAPE_ERRORS as error:
        if isinstance(error, TablefmtError):
            raise
        message = f"the Delta log is damaged: a field has an unexpected structure: {error!r:.200}"
        raise CorruptTableError(message, key=LOG, rule="IMP-5") from None


def _source(store: Store, state: DeltaState) -> Source:
    """Return the files, columns and deleted rows of a state. Raises as `delta_source`."""
    configuration = state.metadata.get("configuration") or {}
    mode = configuration.get("delta.columnMapping.mode", "none")
    if mode not in ("none", "name", "id"):
        raise refused(f"its column mapping has the unknown mode {mode!r:.100}", "import:delta")
    last = int(configuration.get("delta.columnMapping.maxColumnId", 0))
    columns = orjson.loads(state.metadata["schemaString"])["fields"]
    schema = _schema(columns, mode != "none", last)
    names = state.metadata.get("partitionColumns") or []
    known = {f.name: f for f in schema.fields}
    if not isinstance(names, list) or len(names) != len(frozenset(names)):
        raise ValueError(f"partition columns {names!r:.100}")
    by = [known[name] for name in names]
    for column in by:
        if str(column.type) == "binary":
            raise refused(f"the partition column {column.name!r} is binary", "import:partitions")
    paths, sizes, deleted = [], [], {}
    texts: list[list[str | None]] = [[] for _ in by]
    for at, add in enumerate(state.files.values()):
        path = unquote(add["path"])
        problem = imported_path_problem(path)
        if problem is not None or _ADDRESS.match(add["path"]):
            raise refused(
                f"the file {path!r:.300} is not inside the table's folder, or has a reserved name "
                f"({problem or 'an address'}, rule IMP-1)",
                "import:path",
            )
        paths.append(path)
        sizes.append(_length(add["size"]))
        for column, held in zip(by, texts, strict=True):
            held.append(_partition_value(add, column))
        vector = vector_of(add)
        if vector is not None:
            deleted[at] = read_vector(store, vector, path)

    def changed() -> str | None:
        now = newest_version(store)
        return None if now == state.version else f"it is at version {now} now, not {state.version}"

    return Source(
        format="delta",
        version=state.version,
        paths=paths,
        sizes=sizes,
        schema=schema,
        partition_by=[column.id for column in by],
        values={
            column.id: encoded(held, column.type, column.name)
            for column, held in zip(by, texts, strict=True)
        },
        deleted=deleted,
        by_ids=mode == "id",
        last_values=_last_values(columns),
        changed=changed,
    )


def _partition_value(add: _Json, column: Field) -> str | None:
    values = add.get("partitionValues")
    # Delta's readers take a value that is not there for NULL, too.
    value = None if values is None else values.get(column.physical, values.get(column.name))
    if value is not None and not isinstance(value, str):
        raise TypeError(f"the partition value {value!r:.100}")
    # In Delta, an empty text is NULL.
    return value or None


def _schema(columns: list[_Json], mapped: bool, last: int) -> Schema:
    if not mapped:
        return check_new_names(number_fields([_field(column, None) for column in columns]))
    ids = _Ids(last)
    fields = tuple(_field(column, ids) for column in columns)
    try:
        return check_new_names(Schema(fields, ids.last))
    except SchemaMismatchError as error:
        raise refused(str(error).rstrip("."), "import:schema") from None


def _length(value: Any) -> int:
    size = int(value)
    if not 0 < size <= LENGTH_MAX:
        raise ValueError(f"a length of {size} bytes")
    return size


class _Ids:
    """Ids of elements, keys and values, which Delta's column mapping does not give."""

    def __init__(self, last: int) -> None:
        self.last = last

    def field(self, identity: int) -> int:
        """Record the id of a field."""
        self.last = max(self.last, identity)
        return identity

    def next(self) -> int:
        """Return a new id."""
        self.last += 1
        return self.last


def _field(column: _Json, ids: _Ids | None) -> Field:
    known = column.get("metadata") or {}
    name, physical, identity = column["name"], column["name"], 0
    if ids is not None:
        physical = known["delta.columnMapping.physicalName"]
        identity = ids.field(int(known["delta.columnMapping.id"]))
    comment = known.get("comment") or None
    nullable = bool(column["nullable"])
    kind = _type(column["type"], ids)
    field = Field(identity, name, physical, kind, nullable, comment=comment)
    return replace(field, identity=identity_of(known))


def _last_values(columns: list[_Json]) -> dict[str, int]:
    """Return the high-water marks of identity columns."""
    key = "delta.identity.highWaterMark"
    marks = {column["name"]: (column.get("metadata") or {}).get(key) for column in columns}
    return {name: int(mark) for name, mark in marks.items() if mark is not None}


def _type(kind: Any, ids: _Ids | None) -> Type:
    if isinstance(kind, str):
        try:
            return primitive(kind)
        except (ValueError, TypeError, KeyError, SchemaMismatchError):
            raise refused(f"it has a column of the type {kind!r:.100}", "import:type") from None
    if kind["type"] == "struct":
        return Struct(tuple(_field(column, ids) for column in kind["fields"]))
    if kind["type"] == "array":
        element = _type(kind["elementType"], ids)
        return Array(element, bool(kind["containsNull"]), 0 if ids is None else ids.next())
    if kind["type"] == "map":
        key, value = _type(kind["keyType"], ids), _type(kind["valueType"], ids)
        both = (0, 0) if ids is None else (ids.next(), ids.next())
        return Map(key, value, bool(kind["valueContainsNull"]), *both)
    raise refused(f"it has a column of the type {kind['type']!r:.100}", "import:type")


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


def _z85(text: str) -> bytes:
    return base64.b85decode(text.translate(_TO_B85))


def read_vector(store: Store, vector: _Json, path: str) -> BitMap64:
    """Return the positions in a deletion vector of Delta, inline or in a file of the table.

    Args:
        store: of the Delta table.
        vector: its description.
        path: the data file, for messages.

    Raises:
        UnsupportedFeatureError: it is in a file outside the table.
        CorruptDataError: it is missing or damaged.
    """
    where, size = vector["storageType"], int(vector["sizeInBytes"])
    if not 0 < size <= VECTOR_BYTES_MAX:
        raise CorruptDataError("its deletion vector has no valid size", key=path, rule="IMP-5")
    try:
        if where == "i":
            body = _z85(vector["pathOrInlineDv"])[:size]
        elif where == "u":
            body = _from_file(store, vector["pathOrInlineDv"], int(vector.get("offset") or 0), size)
        else:
            raise refused(
                f"the deletion vector of {path!r:.200} is outside the table's folder", "import:path"
            )
        if len(body) != size:
            raise ValueError("its length is not the stored one")
        positions = bare_positions(body)
    except (ValueError, struct.error, KeyNotFoundError, CorruptEntryError) as error:
        raise CorruptDataError(
            f"its deletion vector cannot be read: {error!s:.200}", key=path, rule="IMP-5"
        ) from None
    if len(positions) != int(vector["cardinality"]):
        raise CorruptDataError(
            "its deletion vector has a different number of rows than the log says",
            key=path,
            rule="IMP-5",
        )
    return positions


def _from_file(store: Store, text: str, offset: int, size: int) -> bytes:
    prefix, name = text[:-20], uuid.UUID(bytes=_z85(text[-20:]))
    if "." in prefix or prefix.startswith("/"):
        raise ValueError("its file has an invalid name")
    folder = f"{prefix}/" if prefix else ""
    held = store.get_range(f"{folder}deletion_vector_{name}.bin", offset, size + VECTOR_FRAME_BYTES)
    if len(held) != size + VECTOR_FRAME_BYTES:
        raise ValueError("the length in its file is not the one in the log")
    framed_positions(held)
    return held[4:-4]
