"""Values in Thrift's compact protocol, as the footers and page headers of Parquet files have them.

A field of a struct is its kind and its encoded value. `parquet_footer` reads what this writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tablefmt.log.parquet_footer import INT32, INT64, LIST

Encoded: TypeAlias = "tuple[int, bytes]"
"""A value of a field, after its kind."""


def unsigned(value: int) -> bytes:
    """Return an unsigned number."""
    if value < 0x80:
        return bytes((value,))
    # Without a loop: the footer of a file in memory has thousands of numbers.
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    body = bytearray()
    while value > 0x7F:
        body.append(value & 0x7F | 0x80)
        value >>= 7
    body.append(value)
    return bytes(body)


def signed(value: int) -> bytes:
    """Return a signed number of up to 64 bits."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def int32(value: int) -> Encoded:
    """Return a field of 32 bits."""
    return INT32, signed(value)


def int64(value: int) -> Encoded:
    """Return a field of 64 bits."""
    return INT64, signed(value)


def list_of(kind: int, elements: Sequence[bytes]) -> Encoded:
    """Return a list of encoded elements of one kind."""
    count = len(elements)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + unsigned(count)
    return LIST, head + b"".join(elements)


def struct_of(fields: Mapping[int, Encoded]) -> bytes:
    """Return a struct of fields, whose numbers ascend by less than 16."""
    body, last = bytearray(), 0
    for number, (kind, encoded) in fields.items():
        body.append((number - last) << 4 | kind)
        body += encoded
        last = number
    return bytes(body) + b"\0"
