"""Deletion vectors in the form of Delta and Iceberg: length, magic number, set, checksum. Pure.

The set is the portable form of DEL-2. Spec: IMP-5.
"""

from __future__ import annotations

import base64
import struct
import zlib

from pyroaring import BitMap64

from tablefmt.model.positions import decode_positions

MAGIC = 1681511377
"""First bytes of a deletion vector, as a little-endian number."""

AROUND = 8
"""Bytes of the length before a vector, and of the checksum after it."""


def framed_positions(held: bytes) -> BitMap64:
    """Return the positions of a vector with its length and its checksum.

    Raises:
        ValueError, struct.error, CorruptEntryError: the bytes are damaged.
    """
    body = held[4:-4]
    if struct.unpack_from(">I", held)[0] != len(body):
        raise ValueError("its length is not the stored one")
    if zlib.crc32(body) != struct.unpack(">I", held[-4:])[0]:
        raise ValueError("its bytes do not match their checksum")
    return bare_positions(body)


def bare_positions(body: bytes) -> BitMap64:
    """Return the positions of a vector without length and checksum. Raises as
    `framed_positions`."""
    if struct.unpack_from("<I", body)[0] != MAGIC:
        raise ValueError("it is not a deletion vector")
    return decode_positions(base64.b64encode(body[4:]).decode())
