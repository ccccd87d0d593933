"""A writer of golden tables, written from spec/ alone: it imports nothing of tablefmt."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from golden.positions import Marks, delete_columns

Json = dict[str, Any]

START = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z in µs: the time of version 0 of every case."""
LAST_MICRO = 253_402_300_799_999_999
"""The last µs of year 9999."""
HOUR = 3_600_000_000
FILE_COLUMNS = ("path", "size", "rows", "written")
RULE = re.compile(r"\b[A-Z]{3}-\d+\b")

FLAT = {
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
    "variant": pa.struct(
        [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]
    ),
}


def hex_of(*parts: object, digits: int = 32) -> str:
    """Return hex digits that depend only on the parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:digits]


def seal(text: bytes) -> bytes:
    """Return the bytes of an entry, given its JSON object without the checksum (ENT-1)."""
    signed = text[:-1]
    return signed + b',"checksum":"' + hashlib.sha256(signed).hexdigest().encode() + b'"}'


def canonical(document: Json) -> bytes:
    """Return JSON in the plain form of ENT-1."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def field(identity: int, name: str, kind: Any, **other: Any) -> Json:
    """Return a field of a schema (SCH-1)."""
    return {"id": identity, "name": name, "nullable": True, "physical": name, "type": kind} | other


def list_of(element: Any, identity: int, nullable: bool = True) -> Json:
    """Return the type of a list (SCH-1); `identity` is the id of its elements."""
    return {"array": element, "element_id": identity, "nullable": nullable}


def map_of(key: Any, value: Any, first: int, second: int, nullable: bool = True) -> Json:
    """Return the type of a map (SCH-1); the ids are those of its keys and values."""
    return {"map": [key, value], "key_id": first, "value_id": second, "nullable": nullable}


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type of a type of SCH-1."""
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            precision, scale = kind[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        return FLAT[kind]
    if "struct" in kind:
        return pa.struct([arrow_field(child) for child in kind["struct"]])
    if "array" in kind:
        element = arrow_type(kind["array"])
        return pa.list_(_inner("element", element, kind["nullable"], kind["element_id"]))
    key, value = map(arrow_type, kind["map"])
    return pa.map_(
        _inner("key", key, False, kind["key_id"]),
        _inner("value", value, kind["nullable"], kind["value_id"]),
    )


def _inner(name: str, kind: pa.DataType, nullable: bool, identity: int) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(identity).encode()})


def arrow_field(described: Json) -> pa.Field:
    """Return a column of a data file: physical name and field id."""
    ids = {b"PARQUET:field_id": str(described["id"]).encode()}
    return pa.field(
        described["physical"], arrow_type(described["type"]), described["nullable"], ids
    )


def encode(value: Any) -> Any:
    """Return a Python value in the encoding of VAL-1."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    return value


def plain_rows(rows: list[Json]) -> list[Json]:
    """Return sorted rows as JSON: values as in VAL-1, maps as lists of pairs."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(inner) for inner in value]
        return encode(value)

    return sorted((plain(row) for row in rows), key=lambda row: json.dumps(row, sort_keys=True))


class Maker:
    """Builder of one table version by version, with the result that a reader must return."""

    def __init__(self, name: str, fields: list[Json], partition_by: tuple[int, ...] = ()) -> None:
        self.name = name
        self.table = hex_of("table", name)
        self.objects: dict[str, bytes] = {}
        self.why = ""
        self.expected: Json = {}
        self.documents: list[Json] = []
        self.live: dict[int, Json] = {}
        self.gone: dict[int, set[int]] = {}
        self.next_id, self.metadata_version, self.oldest = 1, 0, 0
        self.described = 0
        """The newest version with metadata, under which files are written (ADD-9)."""
        self.metadata: Json = {}
        self.protocol: Json = {"reader": [], "writer": []}
        self.commit("PROTOCOL", "CREATE TABLE", metadata=schema_of(fields, partition_by))

    def key(self, version: int) -> str:
        """Return the name of an entry."""
        return f"_log/{version:020d}.json"

    def file(
        self, rows: list[Json], path: str = "", *, shape: Json | None = None, **other: Any
    ) -> Json:
        """Write a data file of these rows (by physical name) for the next commit.

        `shape`: settings that differ from those of the oldest files.
        """
        arrow = pa.schema([arrow_field(f) for f in self.metadata["schema"]["fields"]])
        sink = io.BytesIO()
        table = pa.Table.from_pylist(rows, schema=arrow)
        pq.write_table(table, sink, write_page_checksum=True, store_schema=False, **(shape or {}))
        transaction = hex_of(self.name, len(self.documents))
        number = sum(key.startswith(f"data/{transaction}/") for key in self.objects)
        path = path or f"data/{transaction}/{number}.parquet"
        self.objects[path] = sink.getvalue()
        names = {f["id"]: f["physical"] for f in self.metadata["schema"]["fields"]}
        first = rows[0] if rows else other.pop("partition", {})
        keys = [i for i in self.metadata["partition_by"] if i in names]
        partition = {i: encode(first[names[i]]) for i in keys}
        file = {"path": path, "size": len(sink.getvalue()), "rows": len(rows), "content": rows}
        file["written"] = self.described
        return file | {"partition": partition} | self._bounds(rows) | other

    def _bounds(self, rows: list[Json]) -> Json:
        bounds: Json = {"lower": {}, "upper": {}, "nulls": {}}
        for described in self.metadata["schema"]["fields"]:
            if described["type"] not in ("byte", "short", "integer", "long", "date"):
                continue
            values = [row.get(described["physical"]) for row in rows]
            known = [value for value in values if value is not None]
            bounds["nulls"][described["id"]] = len(values) - len(known)
            bounds["lower"][described["id"]] = encode(min(known)) if known else None
            bounds["upper"][described["id"]] = encode(max(known)) if known else None
        return bounds

    def commit(
        self,
        kind: str,
        name: str,
        add: tuple[Json, ...] = (),
        remove: tuple[int, ...] = (),
        *,
        change: Callable[[Json], object] | None = None,
        side: bool = False,
        delete: Mapping[int, Marks] | None = None,
        delete_side: bool = False,
        time: int | None = None,
        scope: Json | None = None,
        **fields: Any,
    ) -> None:
        """Write the next entry; `change` may spoil its JSON before it is sealed.

        `delete`: positions deleted, and updated, by the id of a file.
        """
        version = len(self.documents)
        self._follow(add, remove, delete or {}, fields)
        document = self._entry(kind, name, START + version * HOUR if time is None else time)
        document["basis"]["scope"] = scope
        if remove:
            document["remove"] = list(remove)
        document |= fields
        if add:
            columns = self._columns(add)
            document["add"] = self._side(columns, version) if side else columns
        if delete:
            columns = delete_columns(delete)
            document["delete"] = self._delete_side(columns, version) if delete_side else columns
        if change is not None:
            change(document)
        self.documents.append(document)
        self.objects[self.key(version)] = seal(canonical(document))

    def _follow(
        self,
        add: tuple[Json, ...],
        remove: tuple[int, ...],
        delete: Mapping[int, Marks],
        fields: Json,
    ) -> None:
        """Update the expected result with the entry that is being made."""
        self.metadata = fields.get("metadata", self.metadata)
        self.protocol = fields.get("protocol", self.protocol)
        if {"metadata", "protocol"} & set(fields):
            self.metadata_version = len(self.documents)
        if "metadata" in fields:
            self.described = len(self.documents)
        for identity in remove:
            self.live.pop(identity, None)
        for file in add:
            self.live[self.next_id] = file
            self.next_id += 1
        for identity, marks in delete.items():
            self.gone.setdefault(identity, set()).update(*marks)

    def _entry(self, kind: str, name: str, timestamp: int) -> Json:
        """Return the next entry, as far as the state determines it."""
        version = len(self.documents)
        timeless = kind in ("MINOR_COMPACT", "MAJOR_COMPACT", "CLUSTER")
        carried = self.documents[-1]["time_version"] if timeless else timestamp
        before = self.objects[self.key(version - 1)] if version else None
        deleted = sum(len(self.gone.get(identity, ())) for identity in self.live)
        return {
            "format": 1,
            "table": self.table,
            "version": version,
            "timestamp": timestamp,
            "time_version": carried,
            "transaction": hex_of(self.name, version),
            "previous": before and hashlib.sha256(before).hexdigest(),
            "operation": {"class": kind, "metrics": {}, "name": name, "parameters": {}},
            "basis": {
                "read_version": version - 1 if version else None,
                "isolation": "WriteSerializable",
                "granularity": "row",
                "blind": kind == "INSERT",
            },
            "totals": {
                "files": len(self.live),
                "rows": sum(file["rows"] for file in self.live.values()),
                "bytes": sum(file["size"] for file in self.live.values()),
                "next_id": self.next_id,
                "metadata_version": self.metadata_version,
                **({"deleted": deleted} if deleted else {}),
                **({"oldest": self.oldest} if self.oldest else {}),
            },
            **({} if version else {"protocol": self.protocol}),
        }

    def _columns(self, files: tuple[Json, ...]) -> Json:
        columns: Json = {name: [f[name] for f in files] for name in FILE_COLUMNS}
        for name in ("import", "digest", "partitioning"):
            if any(name in f for f in files):
                columns[name] = [f.get(name) for f in files]
        for group in ("partition", "lower", "upper", "nulls", "nans"):
            ids = sorted({identity for f in files for identity in f.get(group, {})})
            if ids:
                columns[group] = {str(i): [f.get(group, {}).get(i) for f in files] for i in ids}
        return columns

    def _side(self, columns: Json, version: int) -> Json:
        kinds = {str(f["id"]): arrow_type(f["type"]) for f in self.metadata["schema"]["fields"]}
        flat = {
            name: pa.array(columns[name], pa.string() if name == "path" else pa.int64())
            for name in FILE_COLUMNS
        }
        for group in ("partition", "lower", "upper", "nulls", "nans"):
            for key, values in columns.get(group, {}).items():
                kind = pa.int64() if group in ("nulls", "nans") else kinds[key]
                flat[f"{group}.{key}"] = pa.array(values, kind)
        sink = io.BytesIO()
        pq.write_table(pa.table(flat), sink, write_page_checksum=True)
        raw = sink.getvalue()
        path = f"_log/side/{hex_of(self.name, version)}.parquet"
        self.objects[path] = raw
        digest = hashlib.sha256(raw).hexdigest()
        count = len(columns["path"])
        return {"side": {"files": count, "path": path, "sha256": digest, "size": len(raw)}}

    def _delete_side(self, columns: Json, version: int) -> Json:
        flat = {name: pa.array(columns[name], pa.int64()) for name in ("file", "rows")}
        for name in ("deleted", "updated"):
            raw = [text and base64.b64decode(text) for text in columns[name]]
            flat[name] = pa.array(raw, pa.binary())
        sink = io.BytesIO()
        pq.write_table(pa.table(flat), sink, write_page_checksum=True)
        path = f"deletes/{hex_of(self.name, version)}.parquet"
        self.objects[path] = sink.getvalue()
        digest = hashlib.sha256(sink.getvalue()).hexdigest()
        count, size = len(columns["file"]), len(sink.getvalue())
        return {"side": {"files": count, "path": path, "sha256": digest, "size": size}}

    def append(self, *rows: Json, **other: Any) -> Json:
        """Commit one file of these rows; return the file."""
        file = self.file(list(rows))
        self.commit("INSERT", "WRITE", (file,), **other)
        return file

    def good(self, why: str, **more: Any) -> Maker:
        """Finish a table that must be read."""
        fields = self.metadata["schema"]["fields"]
        named = [*fields, *self.metadata["schema"].get("hidden", ())]
        names = {f["id"]: f["name"] for f in named}
        files = [
            {
                "path": file["path"],
                "size": file["size"],
                "rows": file["rows"],
                "partition": {names[i]: v for i, v in file["partition"].items()},
                "written": file["written"],
            }
            for file in self.live.values()
        ]
        rows = [
            {f["name"]: row.get(f["physical"]) for f in fields}
            for identity, file in self.live.items()
            for position, row in enumerate(file["content"])
            if position not in self.gone.get(identity, ())
        ]
        version = len(self.documents) - 1
        self.expected = {"version": version, "files": files, "rows": plain_rows(rows), **more}
        self.expected["about"] = sorted(set(RULE.findall(why)))
        self.why = why
        return self

    def broken(self, why: str, error: str, *findings: tuple[int, str], also: str = "") -> Maker:
        """Finish a table that must be refused, with the error and the findings.

        `also`: a rule that is also broken, and that an error may name instead.
        """
        rules = sorted({rule for _, rule in findings} | ({also} if also else set()))
        self.expected = {"error": error, "rules": rules, "findings": findings}
        self.expected["about"] = sorted({*RULE.findall(why), *(rule for _, rule in findings)})
        self.why = why
        return self


def schema_of(fields: list[Json], partition_by: tuple[int, ...] = (), **other: str) -> Json:
    """Return metadata (ENT-8) with these fields; further arguments are properties."""
    schema = {"fields": fields, "last_id": max(map(_last, fields))}
    return {"partition_by": list(partition_by), "properties": other, "schema": schema}


LONG = [field(1, "x", "long")]
CORRUPT = "CorruptEntryError"


def three(name: str) -> Maker:
    """Make a table with two appends: versions 0 to 2, x from 1 to 4."""
    maker = Maker(name, LONG)
    maker.append({"x": 1}, {"x": 2})
    maker.append({"x": 3}, {"x": 4})
    return maker


def _last(described: Json) -> int:
    found: list[int] = [described["id"]]
    stack = [described["type"]]
    while stack:
        kind = stack.pop()
        if isinstance(kind, dict):
            children = kind.get("struct", [])
            found += [child["id"] for child in children]
            found += [kind[name] for name in ("element_id", "key_id", "value_id") if name in kind]
            stack += [child["type"] for child in children]
            stack += [kind["array"]] if "array" in kind else kind.get("map", [])
    return max(found)
