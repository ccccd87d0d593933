"""Source cursors to JSON of an entry and back. Pure, strict. Spec: ENT-15, ENT-16."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.log.checks import DIGEST, bad, integer
from tablefmt.log.names import is_transaction
from tablefmt.model.entry import CursorBack, DerivedFrom, Entry, OperationClass

NAME_BYTES_MAX = 1024
"""Maximum length of a pipe's name in UTF-8."""

LOCATION_BYTES_MAX = 4096
"""Maximum length of a source's location in UTF-8."""


def derived_to_json(derived: DerivedFrom) -> dict[str, Any]:
    """Return the field `derived_from`."""
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
    """Return the batch range from the field `derived_from`.

    Raises:
        CorruptEntryError: ENT-15, ENT-2. KeyError, TypeError: a field is missing, or not an object.
    """
    source, name = key_from_json(value, "ENT-15")
    start = None if value["from"] is None else integer(value, "from", low=0)
    to = integer(value, "to", low=0)
    if start is not None and to <= start:
        raise bad("ENT-15", "`derived_from` covers no version: `to` is not above `from`")
    location = location_from_json(value, "ENT-15")
    return DerivedFrom(source, name, start, to, _digest(value["digest"], "ENT-15"), location)


def cursors_to_json(cursors: Sequence[CursorBack]) -> list[dict[str, Any]]:
    """Return the field `cursors`."""
    return [{"digest": c.digest, "name": c.name, "source": c.source, "to": c.to} for c in cursors]


def cursors_from_json(value: Any) -> tuple[CursorBack, ...]:
    """Return the cursors from the field `cursors`. Raises as `derived_from_json`, ENT-16."""
    if type(value) is not list or not value:
        raise bad("ENT-16", "`cursors` is not a list with at least one element")
    cursors = tuple(map(_back, value))
    keys = [cursor.key for cursor in cursors]
    if any(after <= before for before, after in itertools.pairwise(keys)):
        raise bad("ENT-16", "`cursors` is not ascending")
    return cursors


def check_cursors(entry: Entry) -> None:
    """Refuse cursors in entries that may not have them. Raises CorruptEntryError: ENT-15,
    ENT-16.
    """
    cls, scope = entry.operation.cls, entry.basis.scope
    if entry.cursors and not (cls is OperationClass.OVERWRITE and scope is None):
        raise bad("ENT-16", "only an OVERWRITE of the whole table may move cursors back")
    if entry.derived_from is None:
        return
    if entry.cursors or entry.ends or entry.horizon is not None:
        raise bad(
            "ENT-15",
            "an entry with `derived_from` may not have `cursors`, `ends` or `horizon`",
        )


def key_from_json(value: Mapping[str, Any], rule: str) -> tuple[str, str]:
    """Return `source` and `name`. Raises CorruptEntryError."""
    source, name = value["source"], value["name"]
    if type(source) is not str or not is_transaction(source):
        raise bad(rule, "the source of a cursor is not 32 hex digits")
    if type(name) is not str or len(name.encode()) > NAME_BYTES_MAX:
        raise bad(rule, f"the name of a cursor is not text of at most {NAME_BYTES_MAX} bytes")
    return source, name


def location_from_json(value: Mapping[str, Any], rule: str) -> str | None:
    """Return `location`, or None if it is missing. Raises CorruptEntryError."""
    if "location" not in value:
        return None
    location = value["location"]
    if type(location) is not str or not 0 < len(location.encode()) <= LOCATION_BYTES_MAX:
        raise bad(rule, f"the location of a source is not text of 1 to {LOCATION_BYTES_MAX} bytes")
    return str(location)


def state_from_json(value: Mapping[str, Any], rule: str) -> tuple[int | None, str | None]:
    """Return `to` and `digest`: both, or neither. Raises CorruptEntryError."""
    if value["to"] is None and value["digest"] is None:
        return None, None
    return integer(value, "to", low=0), _digest(value["digest"], rule)


def _back(value: Mapping[str, Any]) -> CursorBack:
    return CursorBack(*key_from_json(value, "ENT-16"), *state_from_json(value, "ENT-16"))


def _digest(value: Any, rule: str) -> str:
    if type(value) is not str or not DIGEST.fullmatch(value):
        raise bad(rule, "the digest of a cursor is not 64 hex digits")
    return str(value)
