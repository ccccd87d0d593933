"""Table argument of an engine: an address, or an open table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tablefmt.table
from tablefmt.errors import InvalidArgumentError
from tablefmt.session.table_scan import ReadableTable
from tablefmt.store.location import Uri


def opened(given: Uri | ReadableTable, storage_options: Mapping[str, Any] | None) -> ReadableTable:
    """Return the table at an address, or an open table at its version.

    Raises:
        InvalidArgumentError: options are given for an open table. Other errors as `tablefmt.open`.
    """
    if not isinstance(given, ReadableTable):
        return tablefmt.table.open(given, storage_options=storage_options)
    if storage_options:
        raise InvalidArgumentError(
            "storage_options need an address, but this table is already open. Remove them."
        )
    return given
