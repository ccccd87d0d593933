"""Hint: a recent head version of the log. Never trusted. Spec: LOG-6."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from tablefmt.errors import TablefmtError
from tablefmt.log.names import HINT, VERSION_MAX, root_version
from tablefmt.store.lengths import HINT_BYTES_MAX, length_of
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hint:
    """Content of a hint."""

    version: int
    """Version of the newest entry at that time."""
    checkpoint: str | None = None
    """Name of a checkpoint's root."""


def read_hint(body: bytes | None) -> Hint | None:
    """Return the content of a hint, or None for bytes that are not a hint. Pure."""
    if body is None or length_of(body) > HINT_BYTES_MAX:
        return None
    try:
        document = orjson.loads(body)
        version, checkpoint = document["version"], document.get("checkpoint")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        return None
    usable = type(checkpoint) is str and root_version(checkpoint) is not None
    return Hint(version, checkpoint if usable else None)


def write_hint(store: Store, table: str, hint: Hint) -> None:
    """Write a hint for later readers of the table. Ignore failures, since readers may lack
    permission.
    """
    document: dict[str, str | int] = {"table": table, "version": hint.version}
    if hint.checkpoint is not None:
        document["checkpoint"] = hint.checkpoint
    try:
        store.put(HINT, orjson.dumps(document))
    except TablefmtError as error:
        logger.debug("no hint written: %s", error)
