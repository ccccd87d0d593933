"""Headers of Parquet pages that claim other sizes, counts and encodings, of the same length.

A page's checksum covers its data only, so a changed header passes it.
"""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow.parquet as pq

I8, INTEGERS, BINARY, STRUCT = 3, (4, 5, 6), 8, 12
CHECKSUM = 4
"""Id of the field that holds a page's checksum."""

NUMBERS = (-1, 0, 1, 2, 7, 100, 1 << 16, 1 << 20, 1 << 30, (1 << 31) - 1, -(1 << 31))

Struct = list[list[Any]]
"""Fields of a Thrift struct: id, type and value."""


def unsigned(number: int) -> bytes:
    """Return a number as a varint."""
    whole = bytearray()
    while number > 0x7F:
        whole.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*whole, number])


def signed(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    return unsigned((number << 1 ^ number >> 63) & (1 << 64) - 1)


def read_unsigned(body: bytes, at: int) -> tuple[int, int]:
    """Return a varint, and the place after it."""
    number = shift = 0
    while True:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at


def read_signed(body: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint, and the place after it."""
    number, at = read_unsigned(body, at)
    return number >> 1 ^ -(number & 1), at


def read_struct(body: bytes, at: int) -> tuple[Struct, int]:
    """Return a struct of Thrift's compact protocol, and the place after it."""
    fields: Struct = []
    last = 0
    while body[at]:
        kind, step = body[at] & 15, body[at] >> 4
        at += 1
        if step:
            last += step
        else:
            last, at = read_signed(body, at)
        value: Any = None
        if kind == I8:
            value, at = body[at], at + 1
        elif kind in INTEGERS:
            value, at = read_signed(body, at)
        elif kind == BINARY:
            length, at = read_unsigned(body, at)
            value, at = body[at : at + length], at + length
        elif kind == STRUCT:
            value, at = read_struct(body, at)
        else:
            assert kind in (1, 2), kind
        fields.append([last, kind, value])
    return fields, at + 1


def struct_bytes(fields: Struct) -> bytes:
    """Return a struct in Thrift's compact protocol."""
    whole, last = b"", 0
    for number, kind, value in fields:
        step = number - last
        whole += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + signed(number)
        last = number
        if kind == I8:
            whole += bytes([value])
        elif kind in INTEGERS:
            whole += signed(value)
        elif kind == BINARY:
            whole += unsigned(len(value)) + value
        elif kind == STRUCT:
            whole += struct_bytes(value)
    return whole + b"\0"


def headers(body: bytes) -> list[tuple[int, int, Struct]]:
    """Return begin, end and fields of each page header of a sound file."""
    footer = pq.read_metadata(io.BytesIO(body))
    found = []
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            chunk = footer.row_group(group).column(column)
            at = chunk.dictionary_page_offset or chunk.data_page_offset
            stop = at + chunk.total_compressed_size
            while at < stop:
                fields, after = read_struct(body, at)
                found.append((at, after, fields))
                at = after + next(value for number, _, value in fields if number == 3)
    return found


def numbers_in(fields: Struct) -> list[list[Any]]:
    """Return the fields of a struct that hold integers, at any depth."""
    found = [field for field in fields if field[1] in INTEGERS and field[0] != CHECKSUM]
    for field in fields:
        if field[1] == STRUCT:
            found += numbers_in(field[2])
    return found


def with_another_header(body: bytes, chance: random.Random) -> bytes:
    """Return a file one of whose page headers claims other numbers. The length stays."""
    begin, end, fields = chance.choice(headers(body))
    for _ in range(chance.choice((1, 1, 2))):
        field = chance.choice(numbers_in(fields))
        field[2] = chance.choice((*NUMBERS, min(field[2] + 1, NUMBERS[-2]), field[2] // 2))
    made = struct_bytes(fields)
    if len(made) > end - begin:
        # Without its checksum and statistics, a header is shorter.
        fields = [field for field in fields if field[0] != CHECKSUM]
        for field in fields:
            if field[1] == STRUCT:
                field[2] = [inner for inner in field[2] if inner[1] != STRUCT]
        made = struct_bytes(fields)
    for length in range(end - begin):
        if len(made) == end - begin:
            return body[:begin] + made + body[end:]
        # Readers skip a field that they do not know.
        made = struct_bytes([*fields, [fields[-1][0] + 1, BINARY, b"\0" * length]])
    return body
