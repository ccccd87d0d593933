"""Text of a declared length: CHAR(n) and VARCHAR(n), counted in code points. Pure. Spec: SCH-10."""

from __future__ import annotations

import re
from typing import Any

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError

LENGTH_MAX = (1 << 31) - 1
"""Maximum n."""

SHOWN = 100
"""Maximum characters of a value in an error."""

_LENGTH = re.compile(r"(var)?char\(([1-9][0-9]{0,9})\)")


def length_of(text: str) -> tuple[bool, int]:
    """Return whether values are padded, and their maximum number of characters.

    Args:
        text: `char(n)` or `varchar(n)`, with n from 1 to `LENGTH_MAX`.

    Raises:
        ValueError: it is neither.
    """
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[2]) > LENGTH_MAX:
        raise ValueError(f"{text!r:.100} is neither char(n) nor varchar(n)")
    return match[1] is None, int(match[2])


def is_length(value: Any) -> bool:
    """Return True if `length_of` accepts the value."""
    try:
        return isinstance(value, str) and bool(length_of(value))
    except ValueError:
        return False


def fits_within(old: str | None, new: str | None) -> bool:
    """Return True if every stored value of `old` is also a stored value of `new`; None: STRING."""
    if old == new or new is None:
        return True
    if old is None:
        return False
    padded, most = length_of(new)
    return not padded and length_of(old)[1] <= most


def fitted_text(value: str, text: str) -> str | None:
    """Return the value as a column of that length stores it; None if it is too long."""
    padded, most = length_of(text)
    if len(value) > most:
        return value[:most] if len(value.rstrip(" ")) <= most else None
    return value.ljust(most) if padded else value


def fitted_default(value: Any, text: str | None, name: str) -> Any:
    """Return a default of VAL-1 as the column stores it. Raises SchemaMismatchError if it is too
    long.
    """
    if value is None or text is None:
        return value
    fitted = fitted_text(value, text)
    if fitted is None:
        raise SchemaMismatchError(
            f"{value!r:.{SHOWN}} cannot be the default of column {name!r} ({text.upper()}): it has "
            f"{len(value)} characters",
            [name],
        )
    return fitted


def too_long(name: str, text: str, characters: int, value: str) -> ConstraintViolationError:
    """Return the error for a value that is too long; `value` may be cut."""
    return ConstraintViolationError(
        f"column {name!r} is {text.upper()}, and a value has {characters} characters: "
        f"{value!r:.{SHOWN}}; nothing was written",
        row={name: value},
    )
