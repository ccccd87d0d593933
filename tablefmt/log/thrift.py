"""Thrift's compact protocol, for Parquet's footers and page headers.

Every function reads from a byte offset on. It raises IndexError if the bytes end too early, and
ValueError if the value is invalid. Each element of a list takes at least one byte, so no loop runs
longer than the number of bytes.
"""

from __future__ import annotations

BOOLEANS, BYTE, VARINTS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Kinds of values."""

INT32, INT64, LIST = 5, 6, 9

DEPTH = 8
"""Maximum nesting of structs and lists below the value that is read."""

_FIELD_MAX = (1 << 15) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at a byte offset, and its end."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a number in Thrift is too long")
    return value | data[at] << shift, at + 1


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Return the signed number at a byte offset, and its end."""
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def number(data: bytes, at: int) -> int:
    """Return the signed number at a byte offset."""
    return zigzag(data, at)[0]


def binary(data: bytes, at: int) -> tuple[int, int]:
    """Return the start and the end of the bytes of a text."""
    length, at = varint(data, at)
    return at, at + length


def list_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of elements of a list, their kind, and the start of the first one."""
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = varint(data, at)
    return count, kind, at


def skip(data: bytes, at: int, kind: int, depth: int = DEPTH) -> int:
    """Return the end of a value of that kind."""
    if kind in VARINTS:
        return varint(data, at)[1]
    if kind in BOOLEANS:
        return at
    if kind == BYTE:
        return at + 1
    if kind == DOUBLE:
        return at + 8
    if kind == BINARY:
        end = binary(data, at)[1]
        data[end]
        return end
    if kind == STRUCT and depth:
        return fields(data, at, depth - 1)[1]
    if kind in LISTS and depth:
        count, inner, at = list_header(data, at)
        if inner in BOOLEANS:
            inner = BYTE
        for _ in range(count):
            at = skip(data, at, inner, depth - 1)
            data[at]
        return at
    raise ValueError(f"Thrift has a value of unknown kind {kind}, or one nested too deeply")


Fields = dict[int, tuple[int, int]]
"""Fields of a struct by number: the kind of each, and its start."""


def fields(data: bytes, at: int, depth: int = DEPTH, last: int = 0) -> tuple[Fields, int]:
    """Return the fields of a struct from the start of a field on, and the end of the struct.

    The numbers of the fields must ascend, as all writers write them. A reader that accepts a field
    twice would mix both. `last` is the number of the field before.
    """
    found: Fields = {}
    while head := data[at]:
        at += 1
        before, step = last, head >> 4
        if step:
            last += step
        else:
            last, at = zigzag(data, at)
        if not before < last <= _FIELD_MAX:
            raise ValueError("the fields of a struct do not ascend")
        kind = head & 15
        found[last] = (kind, at)
        at = skip(data, at, kind, depth)
    return found, at + 1
