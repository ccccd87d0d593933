"""Paths of fields inside columns: `column.field`, `list.element`, `map.value`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arguments import checked_name
from tablefmt.model.schema import Schema

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def path_of(schema: Schema, name: str, *, new: bool = False) -> tuple[str, ...]:
    """Return the names along a dotted path.

    A column with the whole text as its name comes first. Otherwise dots separate names, and
    backticks enclose names that contain a dot. With `new`, a text that is not a path is one name as
    a whole. A text in backticks is also one name.

    Raises:
        SchemaMismatchError: it is not a path; with `new`, its first part is not a column.
    """
    name = checked_name(name)
    if schema.find(name) is not None or "." not in name:
        return (name,)
    parts = parts_of(name)
    if not parts:
        if new:
            return (name,)
        raise SchemaMismatchError(
            f"{name!r:.200} is not a path of a field; expected names separated by dots", [name]
        )
    if new and len(parts) > 1 and schema.find(parts[0]) is None:
        # A typo in the first name must not create a column with a dot in its name.
        raise SchemaMismatchError(
            f"there is no column {parts[0]!r:.200} to hold the field {name!r:.200}; for a "
            "column with a dot in its name, enclose it in backticks",
            [name],
        )
    return parts


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a path without reference to a schema; empty if it is not a path."""
    return tuple(_parts(name))


def _parts(name: str) -> Iterator[str]:
    parts, at = [], 0
    while True:
        match = _PART.match(name, at)
        if match is None:
            return
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = match.end()
        if at == len(name):
            yield from parts
            return
        if name[at] != ".":
            return
        at += 1
