"""The hint: how far the log was when somebody looked. Never trusted. Spec: LOG-6."""

from __future__ import annotations

import logging

import orjson

from tablefmt.errors import TablefmtError
from tablefmt.log.names import HINT, VERSION_MAX
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)


def read_hint(body: bytes | None) -> int | None:
    """The version in a hint, or None for anything that is not a hint. Pure."""
    if body is None or len(body) > 4096:
        return None
    try:
        version = orjson.loads(body)["version"]
    except (ValueError, TypeError, KeyError):
        return None
    usable = type(version) is int and 0 <= version <= VERSION_MAX
    return version if usable else None


def write_hint(store: Store, table: str, version: int) -> None:
    """Leave a hint for the next who opens the table. Failing is fine: a reader may not write."""
    try:
        store.put(HINT, orjson.dumps({"table": table, "version": version}))
    except TablefmtError as error:
        logger.debug("no hint written: %s", error)
