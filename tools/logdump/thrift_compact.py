"""Thrift's compact protocol, which encodes Parquet's footers and page headers.

The cursor walks over values and keeps none, so it takes no memory for them. Spec: STO-25, STO-26.
"""

from __future__ import annotations

from collections.abc import Iterator

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Kinds of values. Parquet has no maps."""

NESTING = 8
"""Maximum levels of structs and lists inside each other. Parquet's own fields have four."""

FIELD_MOST, VARINT_BYTES, TEXT_MOST = 2**15 - 1, 10, 64 << 20
"""Maximum number of a field, bytes of a number, and bytes of a text."""


class BadThriftError(ValueError):
    """The bytes are not valid in the compact protocol."""


class Cursor:
    """A position in bytes. Each method reads a value and moves the position behind it."""

    def __init__(self, data: bytes, most: int) -> None:
        """Start at the first byte. A list may have at most `most` elements."""
        self.data, self.most, self.at = data, most, 0

    def byte(self) -> int:
        """Read a byte."""
        if self.at >= len(self.data):
            raise BadThriftError("ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Read a number: seven bits in each byte, the lowest first. The last byte is below 128."""
        number = 0
        for place in range(VARINT_BYTES):
            byte = self.byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise BadThriftError("has a number of too many bytes")

    def signed(self) -> int:
        """Read a number whose lowest bit is its sign."""
        number = self.unsigned()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def text(self) -> bytes:
        """Read a text, which begins with its length."""
        count = self._length()
        self.at += count
        if self.at > len(self.data):
            raise BadThriftError("ends too early")
        return self.data[self.at - count : self.at]

    def _length(self) -> int:
        count = self.unsigned()
        if count > TEXT_MOST:
            raise BadThriftError(f"has a text of {count} bytes; at most {TEXT_MOST}")
        return count

    def fields(self) -> Iterator[tuple[int, int]]:
        """Read a struct: yield the number and kind of each field. The caller reads the value."""
        number = 0
        while head := self.byte():
            before = number
            number = before + (head >> 4) if head >> 4 else self.signed()
            if not before < number <= FIELD_MOST:
                raise BadThriftError(f"has field {number} after field {before}")
            yield number, head & 15

    def elements(self, kind: int | None = None) -> Iterator[int]:
        """Read a list: yield the kind of each element. The caller reads the element.

        Raises BadThriftError if the list claims another kind than `kind`.
        """
        head = self.byte()
        count, inner = head >> 4, head & 15
        count = self.unsigned() if count == 15 else count
        if count > self.most:
            raise BadThriftError(f"has a list of {count} elements; at most {self.most}")
        if count and kind not in (None, inner):
            raise BadThriftError(f"has a list of kind {inner}; expected {kind}")
        for _ in range(count):
            yield inner

    def skip(self, kind: int, nesting: int = NESTING) -> None:
        """Skip a value. Its structs and lists are checked like all others."""
        if kind in (I16, I32, I64):
            self.unsigned()
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind == BINARY:
            count = self._length()
            self.at += count
        elif kind == STRUCT and nesting:
            for _, inner in self.fields():
                self.skip(inner, nesting - 1)
        elif kind in (LIST, SET) and nesting:
            for inner in self.elements():
                # A truth value is a byte in a list. In a struct it is part of the field's header.
                self.skip(BYTE if inner in (TRUE, FALSE) else inner, nesting - 1)
        elif kind not in (TRUE, FALSE):
            raise BadThriftError(f"has a value of unknown kind {kind}, or nested too deeply")
