"""An object that is written piece by piece and appears whole, or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Upload(io.RawIOBase):
    """What a writer sees of an upload: its close() decides nothing, the block's end does."""

    def __init__(self, upload: Any, problem: Callable[[Exception], Exception]) -> None:
        self._upload = upload
        self._problem = problem

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Bytes given so far."""
        return int(self._upload.tell())

    def write(self, body: Any) -> int:
        """Take bytes in; they are sent a part at a time."""
        data = bytes(body)
        self._guard(lambda: self._upload.write(data))
        return len(data)

    def finish(self) -> None:
        """Send what is left and make the object appear."""
        self._guard(self._upload.close)

    def abort(self) -> None:
        """Leave nothing. A failed abort leaves parts that the bucket's life cycle removes."""
        try:
            self._upload.discard()
        except Exception:
            pass
        # fsspec sends what is left of an unclosed file when it is collected.
        self._upload.closed = True

    def _guard(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except Exception as error:
            raise self._problem(error) from None
