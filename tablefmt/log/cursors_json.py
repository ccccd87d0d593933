"""Between source cursors and their JSON in an entry. Pure, strict. Spec: ENT-15, ENT-16."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.log.checks import DIGEST, bad, integer
from tablefmt.log.names import is_transaction
from tablefmt.model.entry import CursorBack, DerivedFrom, Entry, OperationClass

NAME_BYTES_MAX = 1024
"""Of the name of a pipe, in UTF-8."""

LOCATION_BYTES_MAX = 4096
"""Of the place of a source."""


def derived_to_json(derived: DerivedFrom) -> dict[str, Any]:
    """The field `derived_from`."""
    document: dict[str, Any] = {
        "digest": derived.digest,
        "from": derived.start,
        "name": derived.name,
        "source": derived.source,
        "to": derived.to,
    }
    if derived.location is not None:
        document["location"] = derived.location
    return document


def derived_from_json(value: Mapping[str, Any]) -> DerivedFrom:
    """The reverse.

    Raises:
        CorruptEntryError: ENT-15, ENT-2. KeyError, TypeError: a field is missing, or no object.
    """
    source, name = key_from_json(value, "ENT-15")
    start = None if value["from"] is None else integer(value, "from", low=0)
    to = integer(value, "to", low=0)
    if start is not None and to <= start:
        raise bad("ENT-15", "`derived_from` takes no version: `to` is not above `from`")
    location = location_from_json(value, "ENT-15")
    return DerivedFrom(source, name, start, to, _digest(value["digest"], "ENT-15"), location)


def cursors_to_json(cursors: Sequence[CursorBack]) -> list[dict[str, Any]]:
    """The field `cursors`."""
    return [{"digest": c.digest, "name": c.name, "source": c.source, "to": c.to} for c in cursors]


def cursors_from_json(value: Any) -> tuple[CursorBack, ...]:
    """The reverse. Raises as `derived_from_json`, ENT-16."""
    if type(value) is not list or not value:
        raise bad("ENT-16", "`cursors` is not a list of one or more")
    cursors = tuple(map(_back, value))
    keys = [cursor.key for cursor in cursors]
    if any(after <= before for before, after in itertools.pairwise(keys)):
        raise bad("ENT-16", "`cursors` is not ascending")
    return cursors


def check_cursors(entry: Entry) -> None:
    """Refuse cursors in an entry that may have none. Raises CorruptEntryError: ENT-15, ENT-16."""
    cls, scope = entry.operation.cls, entry.basis.scope
    if entry.cursors and not (cls is OperationClass.OVERWRITE and scope is None):
        raise bad("ENT-16", "it takes cursors back, and is no OVERWRITE of the whole table")
    if entry.derived_from is None:
        return
    if entry.cursors or entry.ends or entry.horizon is not None:
        raise bad("ENT-15", "it has `derived_from`, and takes cursors back, ends or gives up")


def key_from_json(value: Mapping[str, Any], rule: str) -> tuple[str, str]:
    """`source` and `name`. Raises CorruptEntryError."""
    source, name = value["source"], value["name"]
    if type(source) is not str or not is_transaction(source):
        raise bad(rule, "the source of a cursor is not 32 hex digits")
    if type(name) is not str or len(name.encode()) > NAME_BYTES_MAX:
        raise bad(rule, f"the name of a cursor is not text of {NAME_BYTES_MAX} bytes at most")
    return source, name


def location_from_json(value: Mapping[str, Any], rule: str) -> str | None:
    """`location`, where it is. Raises CorruptEntryError."""
    if "location" not in value:
        return None
    location = value["location"]
    if type(location) is not str or not 0 < len(location.encode()) <= LOCATION_BYTES_MAX:
        raise bad(rule, "the location of a source is not text, or too long")
    return str(location)


def state_from_json(value: Mapping[str, Any], rule: str) -> tuple[int | None, str | None]:
    """`to` and `digest`: both, or neither. Raises CorruptEntryError."""
    if value["to"] is None and value["digest"] is None:
        return None, None
    return integer(value, "to", low=0), _digest(value["digest"], rule)


def _back(value: Mapping[str, Any]) -> CursorBack:
    return CursorBack(*key_from_json(value, "ENT-16"), *state_from_json(value, "ENT-16"))


def _digest(value: Any, rule: str) -> str:
    if type(value) is not str or not DIGEST.fullmatch(value):
        raise bad(rule, "the digest of a cursor is not 64 hex digits")
    return str(value)
