"""Checks of arguments that many calls share: flags, whole numbers, column names, values by name.

Pure. A whole number is Python's, numpy's, or of any other integer type.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tablefmt.errors import (
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidRangeError,
    SchemaMismatchError,
)

_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*(?:([kmgt])i?)?b?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def whole_number(given: Any) -> int | None:
    """Return the number as an int; None for any other value, including booleans and floats."""
    if isinstance(given, bool | np.bool_):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def version_number(version: Any) -> int:
    """Return a version as an int.

    Raises:
        InvalidRangeError: it is not a whole number.
    """
    number = whole_number(version)
    if number is None:
        hint = "; pass a time as a timestamp" if isinstance(version, str) else ""
        raise InvalidRangeError(f"version {version!r:.100} is not a whole number{hint}")
    return number


def whole_from_0(given: Any) -> int | None:
    """Return the number as an int; None for any other value and for negative numbers."""
    number = whole_number(given)
    return None if number is None or number < 0 else number


def bytes_in_text(text: str) -> int | None:
    """Return the bytes that a text such as `1024`, `64mb` or `1 GiB` means, from 1 to below 2^50.

    None for any other text. A unit is a power of 1,024.
    """
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << _UNITS[(match[2] or "").lower()] if match else 0
    return size if 0 < size < 1 << 50 else None


def number_in_text(given: Any) -> int | None:
    """Return the whole number that a text contains; None for any other text.

    Surrounding blanks and leading zeros are ignored. A point, an exponent, an underscore or a digit
    of another script is not part of a whole number.
    """
    text = str(given).strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def check_flags(**given: Any) -> None:
    """Refuse a flag that is neither True nor False. None or "false" would silently act as one of
    them.

    Raises:
        InvalidArgumentError: it names the argument.
    """
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidArgumentError(f"{name}={value!r:.100}: expected True or False")


def checked_limit(given: Any) -> int | None:
    """Return the row limit as an int; None means all rows.

    Raises:
        InvalidArgumentError: the limit is not a whole number of 0 or more.
    """
    limit = None if given is None else whole_from_0(given)
    if given is not None and limit is None:
        raise InvalidArgumentError(f"limit {given!r:.100}: expected a whole number of 0 or more")
    return limit


def checked_name(given: Any) -> str:
    """Return the name of a column, or a path. The caller checks that the column exists.

    Raises:
        SchemaMismatchError: the name is not text.
    """
    if not isinstance(given, str):
        raise SchemaMismatchError(
            f"{given!r:.100} is not a column name: expected str, got {type(given).__name__}"
        )
    return str(given)


def checked_names(given: Any, what: str) -> list[str]:
    """Return column names as a list: one name, several, or None for no names.

    The caller checks that the columns exist.

    Args:
        given: the caller's value.
        what: the name of the argument, for the error.

    Raises:
        SchemaMismatchError: a name is not text.
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    names = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise SchemaMismatchError(
            f"{what}={given!r:.100}: expected a column name or a list of column names"
        )
    return names


def check_set(given: Any, call: str) -> None:
    """Refuse new values that are not a dict by column, for example because arguments were swapped.

    Args:
        given: the caller's value for SET, or the values of an INSERT.
        call: an example of the correct call, for the error.

    Raises:
        InvalidPredicateError: it names what was expected.
    """
    if isinstance(given, Mapping):
        return
    hint = "; the condition comes after it" if isinstance(given, str) else ""
    raise InvalidPredicateError(
        f"invalid new values {given!r:.100}: expected a dict of column -> SQL text, got "
        f"{type(given).__name__}{hint}: {call}"
    )


def check_expression(given: Any, what: str) -> None:
    """Refuse a condition of a type that no engine accepts. Raises InvalidPredicateError."""
    if given is None or isinstance(given, Mapping | list | tuple | bytes | int | float):
        swapped = "; new values come before the condition" if isinstance(given, Mapping) else ""
        raise InvalidPredicateError(
            f"{what} is {given!r:.100}: expected SQL text, got {type(given).__name__}{swapped}"
        )


def checked_mapping(given: Any, what: str) -> dict[str, Any]:
    """Return values by name as a new dict.

    Args:
        given: the caller's value.
        what: the name of the argument, for the error.

    Raises:
        SchemaMismatchError: the value is not a mapping, or a name is not text.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SchemaMismatchError(f"{what}={given!r:.100}: expected a dict with names as keys")
    return dict(given)
