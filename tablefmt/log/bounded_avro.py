"""Check of untrusted Avro files, with memory bounds, before any library reads their records.

A block may expand to any number of bytes. A block and a list record their own lengths, and fast
readers believe them: they reserve memory for that length, or read beyond the end of a block. So
blocks are decompressed within a limit, and each value is walked by the file's own schema. Pure.
Spec: STO-25.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from tablefmt.log.thrift_writing import signed

UNPACKED_FREE = 4 << 20
"""Bytes that the blocks of any file may take together."""

UNPACKED_MAX = 64
"""Maximum unpacked bytes for each stored byte, beyond UNPACKED_FREE."""

RECORDS_FREE = 10_000
"""Records that any file may have. A record takes about 1 KB of memory."""

STORED_PER_RECORD = 4
"""Minimum stored bytes for each record beyond RECORDS_FREE."""

DEPTH_MAX = 64
"""Maximum levels of a schema."""

MAGIC = b"Obj\x01"
SYNC_BYTES = 16

AVRO_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    pa.ArrowException,
    zlib.error,
)
"""Errors that a damaged file raises."""

Schema = Any
"""Parsed JSON of an Avro schema."""

_Skip = Callable[[bytes, int], int]
"""Return the place after the value that starts at a place."""

_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
}
"""Type of each logical type that does not change the bytes of a value."""


@dataclass(frozen=True, slots=True)
class AvroBlocks:
    """An Avro file with its blocks decompressed."""

    header: bytes
    """Bytes up to the first block, with the marker that ends each block."""
    meta: Mapping[str, bytes]
    schema: Schema
    blocks: list[tuple[int, bytes]]
    """Number of records and bytes of each block."""


def read_blocks(body: bytes) -> AvroBlocks:
    """Return the decompressed blocks of a file.

    Raises:
        AVRO_ERRORS: it is damaged, or expands beyond the limit.
    """
    if body[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin with Obj and 1")
    meta, start = _read_meta(body, len(MAGIC))
    schema = orjson.loads(meta["avro.schema"])
    codec = meta.get("avro.codec", b"null").decode()
    at = start + SYNC_BYTES
    sync = body[start:at]
    left = UNPACKED_FREE + UNPACKED_MAX * len(body)
    records = RECORDS_FREE + len(body) // STORED_PER_RECORD
    blocks = []
    while at < len(body):
        count, at = read_long(body, at)
        packed, at = read_bytes(body, at)
        if len(sync) < SYNC_BYTES or body[at : at + SYNC_BYTES] != sync:
            raise ValueError("a block does not end with the sync marker")
        at += SYNC_BYTES
        block = _unpacked(packed, codec, left)
        left, records = left - len(block), records - count
        if count < 0 or records < 0:
            raise ValueError(f"a block claims {count} records, which is too many for its file")
        blocks.append((count, block))
    return AvroBlocks(body[:at], meta, schema, blocks)


def checked_avro(body: bytes) -> bytes:
    """Return the same records without compression, after a walk over all of them.

    Raises:
        as `read_blocks`; ValueError: a value exceeds its block, or the schema is not one that all
            readers read alike.
    """
    found = walked_blocks(body)
    meta = {**found.meta, "avro.codec": b"null"}
    sync = b"\0" * SYNC_BYTES
    parts = [MAGIC, long_bytes(len(meta))]
    for name, value in meta.items():
        parts += [sized(name.encode()), sized(value)]
    parts += [b"\0", sync]
    for count, block in found.blocks:
        if count:
            parts += [long_bytes(count), sized(block), sync]
    return b"".join(parts)


def walked_blocks(body: bytes) -> AvroBlocks:
    """Return the decompressed blocks of a file, after a walk over all values.

    Raises:
        as `checked_avro`.
    """
    found = read_blocks(body)
    skip, least = _skipper(found.schema)
    if least == 0:
        raise ValueError("its schema has records without bytes")
    for count, block in found.blocks:
        place = 0
        for _ in range(count):
            place = skip(block, place)
        if place != len(block):
            raise ValueError("a block has bytes after its records")
    return found


def _unpacked(packed: bytes, codec: str, most: int) -> bytes:
    if codec == "null":
        block = packed
    elif codec == "deflate":
        unpacker = zlib.decompressobj(-15)
        block = unpacker.decompress(packed, max(1, most + 1))
        if len(block) <= most and not unpacker.eof:
            raise ValueError("a block is not complete")
    elif codec == "snappy":
        length, _ = _varint(packed, 0)
        if length > most:
            raise ValueError(_too_long(most))
        # The last bytes are a checksum.
        block = pa.Codec("snappy").decompress(packed[:-4], length, asbytes=True)
    elif codec in ("zstandard", "bzip2"):
        name = "zstd" if codec == "zstandard" else "bz2"
        with pa.CompressedInputStream(pa.BufferReader(packed), name) as stream:
            block = stream.read(most + 1)
    else:
        raise ValueError(f"unknown codec {codec!r:.100}")
    if len(block) > most:
        raise ValueError(_too_long(most))
    return block


def _too_long(most: int) -> str:
    return f"a block expands beyond {most} bytes"


def _read_meta(body: bytes, at: int) -> tuple[dict[str, bytes], int]:
    meta: dict[str, bytes] = {}
    count, at = read_long(body, at)
    while count:
        if count < 0:
            _, at = read_long(body, at)
        for _ in range(_fits(abs(count), body, at)):
            name, at = read_bytes(body, at)
            meta[name.decode()], at = read_bytes(body, at)
        count, at = read_long(body, at)
    return meta, at


def _fits(count: int, data: bytes, at: int) -> int:
    """Return the length of a list, whose elements take at least a byte each."""
    if count > len(data) - at:
        raise ValueError("a list is longer than its block")
    return count


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, at
        shift += 7
        if shift > 63:
            break
    raise ValueError("a number is longer than 64 bits")


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes at a place, which record their length, and the place after them."""
    length, at = read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise ValueError("a text ends beyond its block")
    return data[at : at + length], at + length


def long_bytes(value: int) -> bytes:
    """Return the bytes of a number. Thrift has the same ones."""
    return signed(value)


def sized(value: bytes) -> bytes:
    """Return bytes or a text as Avro encodes them: the length, then the bytes."""
    return long_bytes(len(value)) + value


# The walk. A skipper comes with the minimum number of bytes of a value.


def _skipper(schema: Schema, depth: int = 0) -> tuple[_Skip, int]:
    if depth > DEPTH_MAX:
        raise ValueError("its schema nests too deep")
    if isinstance(schema, list):
        return _option(schema, depth)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _skipper(kind, depth + 1)
    described = schema if isinstance(schema, dict) else {}
    _check_logical(kind, described)
    if kind == "record":
        return _record(described["fields"], depth)
    if kind == "array":
        return _list(_skipper(described["items"], depth + 1))
    if kind == "map":
        value, least = _skipper(described["values"], depth + 1)
        return _list((lambda data, at: value(data, _skip_bytes(data, at)), 1 + least))
    if kind in ("int", "long"):
        return _skip_number, 1
    if kind in ("string", "bytes"):
        return _skip_bytes, 1
    width = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(kind)
    if kind == "fixed":
        width = described["size"]
    if type(width) is not int or width < 0:
        raise ValueError(f"its schema has the type {kind!r:.100}")
    return _fixed(width), width


def _check_logical(kind: str, described: Mapping[str, Any]) -> None:
    """Check that a logical type does not make a reader take other bytes for the value."""
    logical = described.get("logicalType")
    if logical is None or _LOGICAL.get(logical) == kind:
        return
    if logical == "uuid" and (kind, described.get("size")) == ("fixed", 16):
        return
    if logical == "decimal" and kind == "fixed":
        digits = described["precision"]
        if type(digits) is int and 0 < digits <= 38:
            sizes = (n for n in range(1, 17) if 10**digits <= 1 << (8 * n - 1))
            if described["size"] == next(sizes):
                return
    if logical == "map" and kind == "array":
        fields = described["items"]["fields"]
        names = [field["name"] for field in fields]
        if names == ["key", "value"] and not isinstance(fields[0]["type"], list):
            return
    raise ValueError(f"its schema has the logical type {logical!r:.100} for {kind!r:.100}")


def _option(branches: list[Schema], depth: int) -> tuple[_Skip, int]:
    if len(branches) != 2 or branches[0] != "null":
        raise ValueError("its schema has a union that is not of null and one type")
    inner, _ = _skipper(branches[1], depth + 1)

    def skip(data: bytes, at: int) -> int:
        branch = data[at]
        if branch > 2 or branch == 1:
            raise ValueError("a union has no such branch")
        return inner(data, at + 1) if branch else at + 1

    return skip, 1


def _record(fields: list[Mapping[str, Any]], depth: int) -> tuple[_Skip, int]:
    parts = [_skipper(field["type"], depth + 1) for field in fields]
    skips = [skip for skip, _ in parts]

    def skip(data: bytes, at: int) -> int:
        for one in skips:
            at = one(data, at)
        return at

    return skip, sum(least for _, least in parts)


def _list(element: tuple[_Skip, int]) -> tuple[_Skip, int]:
    inner, least = element
    if least == 0:
        raise ValueError("its schema has a list of values without bytes")

    def skip(data: bytes, at: int) -> int:
        count, at = read_long(data, at)
        while count:
            if count < 0:
                _, at = read_long(data, at)
            for _ in range(_fits(abs(count), data, at)):
                at = inner(data, at)
            count, at = read_long(data, at)
        return at

    return skip, 1


def _skip_number(data: bytes, at: int) -> int:
    return _varint(data, at)[1] if data[at] > 0x7F else at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise ValueError("a text ends beyond its block")
    return at + length


def _fixed(width: int) -> _Skip:
    def skip(data: bytes, at: int) -> int:
        if width > len(data) - at:
            raise ValueError("a value ends beyond its block")
        return at + width

    return skip
