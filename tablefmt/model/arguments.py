"""Arguments that many calls take: yes or no, how many at most, names, values by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tablefmt.errors import InvalidPredicateError, InvalidRangeError, SchemaMismatchError
from tablefmt.model.integers import whole_from_0


def check_flags(**given: Any) -> None:
    """Refuse what is neither True nor False: None or "false" would count as one of them.

    Raises:
        InvalidRangeError: it names the argument.
    """
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidRangeError(f"{name}={value!r:.100} is neither True nor False")


def checked_limit(given: Any) -> int | None:
    """The most rows that are asked for; None for all.

    Raises:
        InvalidRangeError: it is not a whole number from 0 on.
    """
    limit = None if given is None else whole_from_0(given)
    if given is not None and limit is None:
        raise InvalidRangeError(f"limit {given!r:.100} is not a whole number from 0 on")
    return limit


def checked_name(given: Any) -> str:
    """The name of a column, or a path; whether there is such is not looked at.

    Raises:
        SchemaMismatchError: it is no text.
    """
    if not isinstance(given, str):
        raise SchemaMismatchError(f"{given!r:.100} is no name of a column")
    return str(given)


def checked_names(given: Any, what: str) -> list[str]:
    """Names of columns: one, or several; None for none. Whether there are such is not looked at.

    Args:
        given: what a caller gave.
        what: what it is called there.

    Raises:
        SchemaMismatchError: not all of it is text.
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    names = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise SchemaMismatchError(f"{what}={given!r:.100} is neither a column's name nor several")
    return names


def check_set(given: Any, call: str) -> None:
    """Refuse new values that are no dict by column: arguments that were swapped, for one.

    Args:
        given: what a caller gave for SET, or the values of an INSERT.
        call: how the call looks, for people.

    Raises:
        InvalidPredicateError: it says what was expected.
    """
    if isinstance(given, Mapping):
        return
    hint = "; a condition comes behind it" if isinstance(given, str) else ""
    raise InvalidPredicateError(
        f"{given!r:.100} does not say what to set: expected a dict of column -> SQL text, got "
        f"{type(given).__name__}{hint}: {call}"
    )


def check_expression(given: Any, what: str) -> None:
    """Refuse a condition that cannot be one, whatever the engine. Raises InvalidPredicateError."""
    if given is None or isinstance(given, Mapping | list | tuple | bytes | int | float):
        swapped = "; new values come before the condition" if isinstance(given, Mapping) else ""
        raise InvalidPredicateError(
            f"{what} is {given!r:.100}: expected SQL text, got {type(given).__name__}{swapped}"
        )


def checked_mapping(given: Any, what: str) -> dict[str, Any]:
    """Values by name, as a dict of one's own.

    Args:
        given: what a caller gave.
        what: what it is called there.

    Raises:
        SchemaMismatchError: it is no mapping, or a name is no text.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SchemaMismatchError(f"{what}={given!r:.100} is no dict of values by name")
    return dict(given)
