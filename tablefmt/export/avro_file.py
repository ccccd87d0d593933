"""Avro object container files: header, blocks and records by a schema. Pure.

Records of few objects, such as manifests in a manifest list, are dicts. Thousands of records come
as Arrow columns (`avro_columns`). The bytes depend on the content alone. Spec: XPT-22.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tablefmt.errors import CorruptTableError
from tablefmt.export.avro_columns import long_bytes

BLOCK_RECORDS = 1000
"""Records in a block. A reader decompresses one block at a time."""

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16

ADVICE = "Remove the folder metadata/ of the table, and export the table again."
"""Advice for every damaged object of an export: all of them are derived."""

Schema = Any
"""Parsed JSON of an Avro schema."""


def write_columns(schema: Schema, facts: Mapping[str, str], records: pa.Array) -> bytes:
    """Return the file of encoded records, a binary Arrow array without NULL.

    Args:
        schema: the schema of a record.
        facts: metadata of the header.
        records: the Avro bytes of each record.
    """
    blocks = []
    for start in range(0, len(records), BLOCK_RECORDS):
        part = records.slice(start, BLOCK_RECORDS)
        offsets = np.frombuffer(part.buffers()[1], np.int32)[start : start + len(part) + 1]
        data = part.buffers()[2]
        blocks.append((len(part), memoryview(data)[int(offsets[0]) : int(offsets[-1])]))
    return _file(schema, facts, blocks)


def write_records(
    schema: Schema, facts: Mapping[str, str], records: Sequence[Mapping[str, Any]]
) -> bytes:
    """Return the file of records that are dicts."""
    blocks = []
    for start in range(0, len(records), BLOCK_RECORDS):
        part = records[start : start + BLOCK_RECORDS]
        blocks.append((len(part), b"".join(encode(schema, record) for record in part)))
    return _file(schema, facts, blocks)


def _file(
    schema: Schema, facts: Mapping[str, str], blocks: Sequence[tuple[int, bytes | memoryview]]
) -> bytes:
    meta = {**facts, "avro.schema": orjson.dumps(schema).decode(), "avro.codec": "deflate"}
    header = [_MAGIC, long_bytes(len(meta))]
    for name, value in meta.items():
        header += [_text(name.encode()), _text(value.encode())]
    header.append(b"\x00")
    packed = [(count, _deflated(data)) for count, data in blocks]
    mark = hashlib.sha256(b"".join(header))
    for _, data in packed:
        mark.update(data)
    sync = mark.digest()[:_SYNC_BYTES]
    parts = [*header, sync]
    for count, data in packed:
        parts += [long_bytes(count), long_bytes(len(data)), data, sync]
    return b"".join(parts)


def _deflated(data: bytes | memoryview) -> bytes:
    packer = zlib.compressobj(4, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def read_records(body: bytes, key: str) -> list[dict[str, Any]]:
    """Return the records of a file as dicts, by the schema in its header.

    Args:
        body: the file.
        key: its name, for the error.

    Raises:
        CorruptTableError: the bytes are not an Avro file, or damaged.
    """
    try:
        return list(_records(body))
    except (LookupError, ValueError, struct.error, zlib.error, TypeError) as error:
        message = f"it is not a readable Avro file ({type(error).__name__}: {error})"
        raise CorruptTableError(message, key=key, rule="XPT-22", advice=ADVICE) from None


def _records(body: bytes) -> Iterator[dict[str, Any]]:
    if body[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin with Obj and 1")
    meta, at = _read_meta(body, len(_MAGIC))
    schema = orjson.loads(meta["avro.schema"])
    codec = meta.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        raise ValueError(f"unknown codec {codec!r}")
    sync = body[at : at + _SYNC_BYTES]
    at += _SYNC_BYTES
    while at < len(body):
        count, at = _read_long(body, at)
        size, at = _read_long(body, at)
        data = body[at : at + size]
        if body[at + size : at + size + _SYNC_BYTES] != sync:
            raise ValueError("a block does not end with the sync marker")
        at += size + _SYNC_BYTES
        block = zlib.decompress(data, -15) if codec == b"deflate" else data
        place = 0
        for _ in range(count):
            record, place = decode(schema, block, place)
            yield record


def _read_meta(body: bytes, at: int) -> tuple[dict[str, bytes], int]:
    meta: dict[str, bytes] = {}
    count, at = _read_long(body, at)
    while count:
        if count < 0:
            _, at = _read_long(body, at)
        for _ in range(abs(count)):
            name, at = _read_bytes(body, at)
            meta[name.decode()], at = _read_bytes(body, at)
        count, at = _read_long(body, at)
    return meta, at


def encode(schema: Schema, value: Any) -> bytes:
    """Return the Avro bytes of one value."""
    if isinstance(schema, list):
        # All unions of Iceberg are of null and one type.
        return b"\x00" if value is None else b"\x02" + encode(schema[1], value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return encode(kind, value)
    if kind == "record":
        return b"".join(encode(f["type"], value[f["name"]]) for f in schema["fields"])
    if kind == "array":
        items = schema["items"]
        inside = b"".join(encode(items, each) for each in value)
        return long_bytes(len(value)) + inside + b"\x00" if value else b"\x00"
    if kind in ("int", "long"):
        return long_bytes(value)
    if kind == "string":
        return _text(value.encode())
    if kind == "bytes":
        return _text(value)
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    assert kind == "fixed", kind
    return bytes(value)


def decode(schema: Schema, data: bytes, at: int) -> tuple[Any, int]:
    """Return one value, and the place after it."""
    if isinstance(schema, list):
        branch, at = _read_long(data, at)
        return decode(schema[branch], data, at)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return decode(kind, data, at)
    if kind == "null":
        return None, at
    if kind == "record":
        record = {}
        for field in schema["fields"]:
            record[field["name"]], at = decode(field["type"], data, at)
        return record, at
    if kind == "array":
        return _read_array(schema["items"], data, at)
    if kind in ("int", "long"):
        return _read_long(data, at)
    if kind in ("string", "bytes"):
        raw, at = _read_bytes(data, at)
        return (raw.decode() if kind == "string" else raw), at
    if kind == "boolean":
        return data[at] == 1, at + 1
    if kind in ("float", "double"):
        form = "<f" if kind == "float" else "<d"
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if kind == "fixed":
        end = at + schema["size"]
        return data[at:end], end
    raise ValueError(f"unknown type {kind!r}")


def _read_array(items: Schema, data: bytes, at: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    count, at = _read_long(data, at)
    while count:
        if count < 0:
            _, at = _read_long(data, at)
        for _ in range(abs(count)):
            value, at = decode(items, data, at)
            values.append(value)
        count, at = _read_long(data, at)
    return values, at


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _text(value: bytes) -> bytes:
    return long_bytes(len(value)) + value


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise ValueError("a text ends beyond the file")
    return data[at : at + length], at + length
