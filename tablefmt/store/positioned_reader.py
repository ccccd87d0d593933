"""A file object that reads an object of a store from its own position."""

from __future__ import annotations

import io


class PositionedReader(io.RawIOBase):
    """A file of a known length with a position. Subclasses read at `_at` and move it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True
