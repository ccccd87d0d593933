"""The table that an engine is asked to read: at an address, or open already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tablefmt.table
from tablefmt.errors import InvalidRangeError
from tablefmt.session.readable import ReadableHandle
from tablefmt.store.open import Uri


def opened(
    given: Uri | ReadableHandle, storage_options: Mapping[str, Any] | None
) -> ReadableHandle:
    """Return the table at an address; or a table that is open already, at its version.

    Raises:
        InvalidRangeError: options for a table that is open. As `tablefmt.open`.
    """
    if not isinstance(given, ReadableHandle):
        return tablefmt.table.open(given, storage_options=storage_options)
    if storage_options:
        raise InvalidRangeError("storage_options go with an address; this table is open already")
    return given
