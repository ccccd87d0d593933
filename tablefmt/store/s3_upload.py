"""Upload of an object in parts, so that it appears whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Upload(io.RawIOBase):
    """Writer's view of an upload. Its close() does nothing; the end of the block finishes the
    upload.
    """

    def __init__(self, upload: Any, problem: Callable[[Exception], Exception]) -> None:
        self._upload = upload
        self._problem = problem

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return int(self._upload.tell())

    def write(self, body: Any) -> int:
        """Accept bytes, and send them one part at a time."""
        data = bytes(body)
        self._guard(lambda: self._upload.write(data))
        return len(data)

    def finish(self) -> None:
        """Send the remaining bytes, and make the object visible."""
        self._guard(self._upload.close)

    def abort(self) -> None:
        """Abort the upload. If that fails, the bucket's lifecycle rule removes the parts."""
        try:
            self._upload.discard()
        except Exception:
            pass
        # fsspec sends the rest of an unclosed file when the garbage collector frees it.
        self._upload.closed = True

    def _guard(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except Exception as error:
            raise self._problem(error) from None
