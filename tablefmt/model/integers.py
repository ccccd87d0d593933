"""Whole numbers that callers pass: Python's, numpy's, or any other integer type. Pure."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")


def whole_number(given: Any) -> int | None:
    """Return the number as an int; None for any other value, including booleans and floats."""
    if isinstance(given, bool | np.bool_):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def whole_from_0(given: Any) -> int | None:
    """Return the number as an int; None for any other value and for negative numbers."""
    number = whole_number(given)
    return None if number is None or number < 0 else number


def number_in_text(given: Any) -> int | None:
    """Return the whole number that a text contains; None for any other text.

    Surrounding blanks and leading zeros are ignored. A point, an exponent, an underscore or a digit
    of another script is not part of a whole number.
    """
    text = str(given).strip()
    return int(text) if _WHOLE.fullmatch(text) else None
