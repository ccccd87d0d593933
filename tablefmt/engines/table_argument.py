"""Table argument of an engine: an address, or an open table."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import tablefmt.table
from tablefmt.errors import InvalidArgumentError, TablefmtError
from tablefmt.log.object_names import entry_key
from tablefmt.session.table_scan import ReadableTable
from tablefmt.store.location import Uri
from tablefmt.table import Table

TABLES_KEPT = 2
"""Tables on a local disk that each thread keeps open. Opening one again costs as much as a query of
one key.
"""

FILES_MAX = 100_000
"""Most files of a table that is kept open: a file takes about 100 bytes of memory."""


def opened(given: Uri | ReadableTable, storage_options: Mapping[str, Any] | None) -> ReadableTable:
    """Return the table at an address at its newest version, or an open table at its own version.

    Raises:
        InvalidArgumentError: options are given for an open table. Other errors as `tablefmt.open`.
    """
    if isinstance(given, ReadableTable):
        if storage_options:
            raise InvalidArgumentError(
                "storage_options need an address, but this table is already open. Remove them."
            )
        return given
    if storage_options or not isinstance(given, str | PurePath):
        return tablefmt.table.open(given, storage_options=storage_options)
    address = str(Path(given).absolute())
    kept = _kept.tables.pop(address, None)
    if kept is not None:
        table, head = kept
        try:
            if _head(table) == head:
                return _keep(address, table.refresh())
        except TablefmtError:
            # It was removed or replaced. Opening it anew raises the right error.
            pass
    return _keep(address, tablefmt.table.open(given))


def _keep(address: str, table: Table) -> Table:
    """Keep a table for the next call of this thread, if it is on a local disk and not large."""
    context = table.context
    if context.store.traits.on_disk and context.view.head.totals.files <= FILES_MAX:
        _kept.tables[address] = table, _head(table)
        while len(_kept.tables) > TABLES_KEPT:
            _kept.tables.popitem(last=False)
    return table


def _head(table: Table) -> bytes:
    """Return the digest of the newest entry. A table that was made anew has another one."""
    return hashlib.blake2b(table.context.store.get(entry_key(table.version))).digest()


class _Kept(threading.local):
    """Tables of this thread, the least recently used first."""

    def __init__(self) -> None:
        self.tables: OrderedDict[str, tuple[Table, bytes]] = OrderedDict()


_kept = _Kept()
