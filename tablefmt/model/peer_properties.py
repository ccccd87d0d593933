"""Table properties as users of Delta and Iceberg write them, translated to ours. Pure.

A name that is neither ours, nor Delta's, nor Iceberg's is one of the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model import delta_properties, iceberg_properties
from tablefmt.model.argument_checks import bytes_in_text
from tablefmt.model.delta_properties import DELTA, PeerProperty, delta_row
from tablefmt.model.iceberg_properties import iceberg_row, iceberg_value, is_icebergs
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.model.properties import PROPERTIES, USER_PREFIX


def translate_properties(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with those of Delta and Iceberg replaced by those that have their meaning.

    A name of the user's own gets its prefix.

    Raises:
        SchemaMismatchError: a property that tablefmt tables cannot have. The message says what to
            do instead. Or two properties that become one.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        ours = _translated(name, value)
        if ours is None:
            continue
        if found.get(ours[0], ours[1]) != ours[1]:
            raise SchemaMismatchError(
                f"the properties set {ours[0]} to {found[ours[0]]!r} and to {ours[1]!r}; "
                f"set it once. {name} becomes {ours[0]}"
            )
        found[ours[0]] = ours[1]
    return found


def our_name(name: str) -> str | None:
    """Return the property that a name stands for. None: it stands for none.

    Raises:
        SchemaMismatchError: an unknown property of Delta's or Iceberg's.
    """
    if folded(name).startswith(DELTA):
        row = delta_row(name)
        return None if row is None else row.ours
    return iceberg_row(name).ours if is_icebergs(name) else _own(name)


def _own(name: str) -> str:
    """Return a name of ours, or the user's own with its prefix.

    A name that is nearly one of ours stays as it is, and becomes an error.
    """
    if name in PROPERTIES or name.startswith(USER_PREFIX) or did_you_mean(name, PROPERTIES):
        return name
    return USER_PREFIX + name


def _translated(name: str, value: Any) -> tuple[str, Any] | None:
    if folded(name).startswith(DELTA):
        row = delta_row(name)
        return None if row is None else _by_row(row, name, value, delta_properties.error_of)
    if is_icebergs(name):
        text = iceberg_value(name, str(value))
        return _by_row(iceberg_row(name), name, text, iceberg_properties.error_of)
    return _own(name), value


def _checked(row: PeerProperty, ours: str, name: str, value: Any) -> Any:
    """Return the value of our property. Raises SchemaMismatchError, with the name as written."""
    size = bytes_in_text(str(value)) if row.is_size else None
    if size is not None:
        return str(size)
    known = PROPERTIES[ours]
    if isinstance(value, str) and not known.accepts(value):
        wants = "a size such as 134217728 or 128mb, from 1 byte" if row.is_size else known.wants
        raise SchemaMismatchError(f"the property {name} is {value!r:.100}; expected {wants}")
    return value


def _by_row(row: PeerProperty, name: str, value: Any, error_of: Any) -> tuple[str, Any] | None:
    if row.instead is not None and not row.values:
        raise error_of(name, row.instead)
    if not row.values:
        return None if row.ours is None else (row.ours, _checked(row, row.ours, name, value))
    text = folded(str(value))
    if text not in row.values:
        wanted = " or ".join(row.values)
        instead = f"; {row.instead}" if row.instead else ""
        raise SchemaMismatchError(
            f"the property {name} is {value!r:.100}; on tablefmt tables it may be {wanted}{instead}"
        )
    ours = row.values[text]
    return None if row.ours is None or ours is None else (row.ours, ours)
