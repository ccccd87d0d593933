"""Deletion vectors in the form of Delta: inside a log line, or framed in one object a commit. Pure.

The inside of a vector is the roaring form of DEL-2. The object's name holds the version of its
foreign commit. A later commit finds a vector again by its bytes, so nothing else is kept about it.
Spec: XPT-8.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.model.positions import pack_positions, unpack_positions

INLINE_MAX = 512
"""Longest vector in bytes that goes into the log line."""

_MAGIC = struct.pack("<I", 1681511377)
_FORMAT = b"\x01"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Return the Z85 text of bytes, padded with zeros to a multiple of four."""
    padded = data + b"\0" * (-len(data) % 4)
    out: list[str] = []
    for (number,) in struct.iter_unpack(">I", padded):
        digits = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits.append(_ALPHABET[digit])
        out.extend(reversed(digits))
    return "".join(out)


def vector_bytes(positions: BitMap64) -> bytes:
    """Return a vector in Delta's serialized form."""
    return _MAGIC + pack_positions(positions)


def _uuid(table: str, version: int) -> uuid.UUID:
    return uuid.UUID(bytes=bytes.fromhex(table)[:8] + version.to_bytes(8, "big"))


def vectors_key(table: str, version: int) -> str:
    """Return the name of the object with the vectors of a foreign commit."""
    return f"deletion_vector_{_uuid(table, version)}.bin"


def vectors_prefix(table: str) -> str:
    """Return the beginning of the names of all vector objects of a table's copy."""
    return vectors_key(table, 0)[: len("deletion_vector_") + 19]


@dataclass(slots=True)
class VectorFile:
    """The object with the vectors of one foreign commit. Equal vectors are stored once."""

    table: str
    version: int
    body: bytearray = field(default_factory=lambda: bytearray(_FORMAT))
    places: dict[bytes, int] = field(default_factory=dict)
    """Offset by the bytes of a vector."""

    @classmethod
    def read(cls, table: str, version: int, body: bytes) -> VectorFile:
        """Return the object with its places."""
        made = cls(table, version, bytearray(body))
        for offset, data in _frames(body):
            made.places.setdefault(data, offset)
        return made

    def add(self, data: bytes) -> None:
        """Add a vector."""
        if data in self.places:
            return
        self.places[data] = len(self.body)
        self.body += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))

    def find(self, data: bytes, positions: BitMap64) -> tuple[int, int] | None:
        """Return offset and length of a vector; None if it is not here."""
        if data in self.places:
            return self.places[data], len(data)
        # Another release may have chosen other containers for the same positions.
        for other, offset in self.places.items():
            # Anybody may have written them.
            try:
                known = unpack_positions(other[len(_MAGIC) :])
            except CorruptEntryError:
                continue
            if known == positions:
                return offset, len(other)
        return None

    def descriptor(self, data: bytes, positions: BitMap64) -> dict[str, Any] | None:
        """Return the descriptor of a vector in this object; None if it is not here."""
        found = self.find(data, positions)
        if found is None:
            return None
        return {
            "storageType": "u",
            "pathOrInlineDv": z85(_uuid(self.table, self.version).bytes),
            "offset": found[0],
            "sizeInBytes": found[1],
            "cardinality": len(positions),
        }


def inline_descriptor(data: bytes, positions: BitMap64) -> dict[str, Any]:
    """Return the descriptor of a vector that is in the log line."""
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def _frames(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(_FORMAT)
    while at + 4 <= len(body):
        (size,) = struct.unpack_from(">I", body, at)
        yield at, body[at + 4 : at + 4 + size]
        at += size + 8
