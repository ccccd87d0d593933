"""Avro: encoded Arrow columns, and object container files of records by a schema. Pure.

Records of few objects, such as manifests in a manifest list, are dicts. Thousands of records come
as Arrow columns. Each column is encoded as one binary array, a value per record, and `joined`
puts the fields of a record together. The bytes depend on the content alone. Spec: XPT-22.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptTableError
from tablefmt.log.bounded_avro import (
    AVRO_ERRORS,
    MAGIC,
    SYNC_BYTES,
    long_bytes,
    read_bytes,
    read_long,
    sized,
    walked_blocks,
)

Encoded = Union[pa.Array, bytes]  # noqa: UP007 - evaluated at run time in 3.10
"""Avro bytes of one field: a value per record, or the same bytes in every record."""

_NOTHING = pa.scalar(b"", pa.binary())
_ABSENT, _PRESENT = b"\x00", b"\x02"
"""Branches of the union of null and a type."""


FEW = 16
"""Numbers up to which a loop is faster than numpy."""


def longs(values: NDArray[np.int64]) -> pa.Array:
    """Return the encoding of `int` and `long`, as `long_bytes` of each number."""
    if len(values) <= FEW:
        return pa.array(list(map(long_bytes, values.tolist())), pa.binary())
    zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    limits = np.uint64(1) << np.arange(7, 64, 7, dtype=np.uint64)
    lengths = np.searchsorted(limits, zigzag, side="right") + 1
    widest = int(lengths.max()) if len(lengths) else 0
    places = np.arange(widest)
    groups = (zigzag[:, None] >> (places * 7).astype(np.uint64)) & np.uint64(0x7F)
    more = places < (lengths - 1)[:, None]
    matrix = groups.astype(np.uint8) | (more.astype(np.uint8) << 7)
    return binary_of(matrix, places < lengths[:, None], lengths)


def binary_of(
    matrix: NDArray[np.uint8], used: NDArray[np.bool_], lengths: NDArray[np.int64]
) -> pa.Array:
    """Return a binary array with the used bytes of each line of a matrix."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = np.ascontiguousarray(matrix[used])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def fixed(values: NDArray[np.generic]) -> pa.Array:
    """Return the bytes of numbers of a fixed width, as the array holds them."""
    width, count = values.dtype.itemsize, len(values)
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])


def texts(values: pa.Array) -> pa.Array:
    """Return the encoding of `string` and `bytes`: the length, then the bytes. NULL stays NULL."""
    raw = values.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(raw), 0).to_numpy(zero_copy_only=False)
    return joined(longs(lengths.astype(np.int64)), raw)


def joined(*parts: Encoded) -> pa.Array:
    """Return the parts of each record in one piece. It is NULL if one of them is NULL."""
    whole = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*whole, _NOTHING)


def optional(encoded: pa.Array) -> pa.Array:
    """Return the encoding of a union of null and a type. NULL is the absent value."""
    made = joined(_PRESENT, encoded)
    return pc.fill_null(made, pa.scalar(_ABSENT, pa.binary())) if made.null_count else made


def id_map(
    values: Mapping[int, pa.Array], count: int, widths: Mapping[int, int] | None = None
) -> pa.Array:
    """Return the encoding of a map with ids as keys: an array of records of a key and a value.

    Args:
        values: the encoded values by id; NULL where the map of a record lacks the id.
        count: the number of records.
        widths: lengths of values that are not encoded yet, but bytes of a fixed length.
    """
    sizes = np.zeros(count, np.int64)
    parts = []
    for key, encoded in values.items():
        sizes += _present(encoded)
        width = 0 if widths is None else widths.get(key, 0)
        pair = joined(long_bytes(key) + (long_bytes(width) if width else b""), encoded)
        parts.append(pc.fill_null(pair, _NOTHING) if pair.null_count else pair)
    empty = pa.scalar(_ABSENT, pa.binary())
    if not parts or not sizes.any():
        return pa.repeat(empty, count)
    if sizes.min() == sizes.max():
        return joined(long_bytes(int(sizes[0])), *parts, _ABSENT)
    return pc.if_else(pa.array(sizes > 0), joined(longs(sizes), *parts, _ABSENT), empty)


def _present(encoded: pa.Array) -> NDArray[np.int64] | int:
    if not encoded.null_count:
        return 1
    valid: NDArray[np.bool_] = pc.is_valid(encoded).to_numpy(zero_copy_only=False)
    return valid.astype(np.int64)


BLOCK_RECORDS = 1000
"""Records in a block. A reader decompresses one block at a time."""

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
    return write_encoded(schema, facts, [encode(schema, record) for record in records])


def write_encoded(schema: Schema, facts: Mapping[str, str], records: Sequence[bytes]) -> bytes:
    """Return the file of records that are encoded."""
    blocks = []
    for start in range(0, len(records), BLOCK_RECORDS):
        part = records[start : start + BLOCK_RECORDS]
        blocks.append((len(part), b"".join(part)))
    return _file(schema, facts, blocks)


def _file(
    schema: Schema, facts: Mapping[str, str], blocks: Sequence[tuple[int, bytes | memoryview]]
) -> bytes:
    meta = {**facts, "avro.schema": orjson.dumps(schema).decode(), "avro.codec": "deflate"}
    header = [MAGIC, long_bytes(len(meta))]
    for name, value in meta.items():
        header += [sized(name.encode()), sized(value.encode())]
    header.append(b"\x00")
    packed = [(count, _deflated(data)) for count, data in blocks]
    mark = hashlib.sha256(b"".join(header))
    for _, data in packed:
        mark.update(data)
    sync = mark.digest()[:SYNC_BYTES]
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
    except (*AVRO_ERRORS, struct.error) as error:
        message = f"it is not a readable Avro file ({type(error).__name__}: {error})"
        raise CorruptTableError(message, key=key, rule="XPT-22", advice=ADVICE) from None


def _records(body: bytes) -> Iterator[dict[str, Any]]:
    found = walked_blocks(body)
    for count, block in found.blocks:
        place = 0
        for _ in range(count):
            record, place = decode(found.schema, block, place)
            yield record


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
        return sized(value.encode())
    if kind == "bytes":
        return sized(value)
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    assert kind == "fixed", kind
    return bytes(value)


def decode(schema: Schema, data: bytes, at: int) -> tuple[Any, int]:
    """Return one value, and the place after it."""
    if isinstance(schema, list):
        branch, at = read_long(data, at)
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
        return read_long(data, at)
    if kind in ("string", "bytes"):
        raw, at = read_bytes(data, at)
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
    count, at = read_long(data, at)
    while count:
        if count < 0:
            _, at = read_long(data, at)
        for _ in range(abs(count)):
            value, at = decode(items, data, at)
            values.append(value)
        count, at = read_long(data, at)
    return values, at
