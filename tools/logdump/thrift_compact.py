"""Thrift's compact protocol, from its own specification: how Parquet encodes footers.

Values are walked and not kept, so that no bytes take more memory than they have. Spec: STO-26.
"""

from __future__ import annotations

from collections.abc import Iterator

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Kinds of values. Parquet has no maps."""

NESTING = 8
"""Levels of structs and lists inside of each other; Parquet's own fields have four."""

FIELD_MOST, VARINT_BYTES = 2**15 - 1, 10


class BadThriftError(ValueError):
    """The bytes are not what they would be in the compact protocol."""


class Cursor:
    """A place in bytes. Each method reads what is there, and moves the cursor behind it."""

    def __init__(self, data: bytes, most: int) -> None:
        """Begin with the first byte; a list has `most` elements or fewer (STO-25)."""
        self.data, self.most, self.at = data, most, 0

    def byte(self) -> int:
        """Read a byte."""
        if self.at >= len(self.data):
            raise BadThriftError("ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Read a number: seven bits a byte, the lowest first; the last byte is below 128."""
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
        """Read bytes with their length before them."""
        count = self.unsigned()
        self.at += count
        if self.at > len(self.data):
            raise BadThriftError("ends too early")
        return self.data[self.at - count : self.at]

    def fields(self) -> Iterator[tuple[int, int]]:
        """Read a struct: the number and the kind of each field, whose value the caller reads."""
        number = 0
        while head := self.byte():
            before = number
            number = before + (head >> 4) if head >> 4 else self.signed()
            if not before < number <= FIELD_MOST:
                raise BadThriftError(f"has field {number} after field {before}")
            yield number, head & 15

    def elements(self, kind: int | None = None) -> Iterator[int]:
        """Read a list: the kind of each element, which the caller reads, and which `kind` is."""
        head = self.byte()
        count, inner = head >> 4, head & 15
        count = self.unsigned() if count == 15 else count
        if count > self.most:
            raise BadThriftError(f"has a list of {count} elements; {self.most} at most")
        if count and kind not in (None, inner):
            raise BadThriftError(f"has a list of the kind {inner}, and not {kind}")
        for _ in range(count):
            yield inner

    def skip(self, kind: int, nesting: int = NESTING) -> None:
        """Pass a value over that nobody wants; what it holds is walked like all else."""
        if kind in (I16, I32, I64):
            self.unsigned()
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind == BINARY:
            count = self.unsigned()
            self.at += count
        elif kind == STRUCT and nesting:
            for _, inner in self.fields():
                self.skip(inner, nesting - 1)
        elif kind in (LIST, SET) and nesting:
            for inner in self.elements():
                # A truth value is a byte in a list; in a struct it is in the field's own head.
                self.skip(BYTE if inner in (TRUE, FALSE) else inner, nesting - 1)
        elif kind not in (TRUE, FALSE):
            raise BadThriftError(f"has a value of the kind {kind}, or one nested too deep")
