"""Names of fields inside columns: `column.field`, `list.element`, `map.value`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arguments import checked_name
from tablefmt.model.schema import Schema

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def path_of(schema: Schema, name: str, *, new: bool = False) -> tuple[str, ...]:
    """The names that a dotted name goes through.

    A column that is called so as a whole comes first; else dots divide, and backticks go around
    names that hold one. With `new`, what is no path is one name as a whole, and so is what stands
    between backticks.

    Raises:
        SchemaMismatchError: it is no path; with `new`, its first part is no column.
    """
    name = checked_name(name)
    if schema.find(name) is not None or "." not in name:
        return (name,)
    parts = parts_of(name)
    if not parts:
        if new:
            return (name,)
        raise SchemaMismatchError(f"{name!r:.200} is no path of a field", [name])
    if new and len(parts) > 1 and schema.find(parts[0]) is None:
        # Not a column of that name as a whole: it would be one for a letter that is wrong.
        raise SchemaMismatchError(
            f"there is no column {parts[0]!r:.200} for {name!r:.200} to be a field of; for a "
            "column with a dot in its name put backticks around it",
            [name],
        )
    return parts


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a path, whatever the columns are called; none if it is not one."""
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
