"""Avro files of strangers: bounds of memory, and no value beyond its block (STO-25)."""

from __future__ import annotations

import bz2
import json
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import CorruptTableError
from tablefmt.export.avro_file import read_records, write_records
from tablefmt.log.bounded_avro import AVRO_ERRORS, checked_avro, long_bytes

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "list", "type": {"type": "array", "items": "int"}},
    ],
}
RECORDS = [{"id": n, "name": None if n % 2 else "é" * n, "list": [n, -n]} for n in range(50)]


def sized(value: bytes) -> bytes:
    return long_bytes(len(value)) + value


def avro(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    """Return an Avro file of packed blocks."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    pairs = [sized(name.encode()) + sized(value) for name, value in meta.items()]
    sync = b"s" * 16
    packed = [long_bytes(count) + sized(body) + sync for count, body in blocks]
    return b"".join([b"Obj\x01", long_bytes(len(meta)), *pairs, b"\0", sync, *packed])


def record(kind: Any) -> dict[str, Any]:
    """Return the schema of a record of one field."""
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}


def deflated(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


def snappy(body: bytes) -> bytes:
    return pa.Codec("snappy").compress(body, asbytes=True) + b"\0\0\0\0"


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "deflate": deflated,
    "snappy": snappy,
    "bzip2": bz2.compress,
    "zstandard": lambda body: bytes(pa.Codec("zstd").compress(body, asbytes=True)),
}


def test_a_checked_file_has_the_same_records() -> None:
    """The checked form has no compression, and a reader of its own reads it."""
    whole = write_records(SCHEMA, {"k": "v"}, RECORDS)
    checked = checked_avro(whole)
    assert read_records(checked, "k") == RECORDS == read_records(whole, "k")
    assert (b"deflate" in whole, b"deflate" in checked) == (True, False)


@pytest.mark.slow
@pytest.mark.parametrize("codec", PACKERS)
def test_every_codec_is_bounded(codec: str) -> None:
    """A block of many megabytes is refused before it is in memory."""
    few = b"\x02\x02a" * 3
    text = record({"type": "array", "items": "long"})
    sound = avro(record("string"), (3, PACKERS[codec](few[1:] + few[:1])), codec=codec)
    with pytest.raises(AVRO_ERRORS):
        checked_avro(sound)
    sound = avro(record("string"), (3, PACKERS[codec](b"\x02a" * 3)), codec=codec)
    assert [one["x"] for one in read_records(checked_avro(sound), "k")] == ["a"] * 3
    packed = PACKERS[codec](b"\0" * (64 << 20))
    if codec == "snappy":
        # Snappy shrinks by 20 at most, but a file says its length first.
        packed = b"\x80\x80\x80\x80\x08" + packed[4:1000]
    bomb = avro(text, (1, packed), codec=codec)
    with pytest.raises(ValueError, match=r"expands beyond \d+ bytes"):
        checked_avro(bomb)


LONG = b"\xff" * 9 + b"\x01"
HOSTILE = {
    "records without end": avro(record("long"), (1 << 40, b"")),
    "fewer than no records": avro(record("long"), (-1, b"\0")),
    "records without bytes": avro(record("null"), (9_000, b"")),
    "a list without end": avro(record({"type": "array", "items": "int"}),
                               (1, long_bytes(1 << 40) + b"\0")),
    "a list of nothing": avro(record({"type": "array", "items": "null"}),
                              (1, long_bytes(1 << 40) + b"\0")),
    "a text beyond the block": avro(record("string"), (1, long_bytes(1 << 40) + b"a")),
    "a text of negative length": avro(record("bytes"), (1, long_bytes(-5) + b"a")),
    "a number beyond the block": avro(record("long"), (1, b"\x80\x80")),
    "a number of 70 bits": avro(record("long"), (1, b"\xff" * 10 + b"\0")),
    "bytes after the records": avro(record("long"), (1, b"\0\0")),
    "a union without null": avro(record(["int", "null"]), (1, b"\0\0")),
    "a third branch": avro(record(["null", "int"]), (1, b"\x04\0")),
    "a decimal of another size": avro(record({"type": "fixed", "size": 2, "name": "d",
                                      "logicalType": "decimal", "precision": 38}), (1, b"\0\0")),
    "a number for a uuid": avro(record({"type": "long", "logicalType": "uuid"}), (1, b"\0")),
    "a fixed of negative size": avro(record({"type": "fixed", "size": -1, "name": "d"}), (1, b"")),
    "an unknown codec": avro(record("long"), (1, b"\0"), codec="lzma"),
    "a schema of many levels": avro(json.loads('{"type":' * 99 + '"int"' + "}" * 99), (1, b"\0")),
    "a schema that is a number": avro(7, (1, b"\0")),
    "cut": write_records(SCHEMA, {}, RECORDS)[:-1],
    "a metadata list without end": b"Obj\x01" + LONG,
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_reader_reads_alike_is_refused(name: str) -> None:
    """Each is refused before a library reserves memory or reads beyond a block."""
    with pytest.raises(AVRO_ERRORS):
        checked_avro(HOSTILE[name])
    with pytest.raises(CorruptTableError, match="not a readable Avro file"):
        read_records(HOSTILE[name], "metadata/x.avro")


def test_any_changed_byte_is_records_or_an_error() -> None:
    """Each changed byte gives records or an error of the list."""
    whole = checked_avro(write_records(SCHEMA, {}, RECORDS[:6]))
    for at in range(len(whole)):
        for value in (0, 0x80, 0xFF):
            body = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                checked_avro(body)
            except AVRO_ERRORS:
                pass
