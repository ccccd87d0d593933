"""Whole numbers as callers give them: Python's, numpy's, and whatever else is one. Pure."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")


def whole_number(given: Any) -> int | None:
    """The number as an int; None for what is none, a truth value or a float included."""
    if isinstance(given, bool | np.bool_):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def whole_from_0(given: Any) -> int | None:
    """The same for numbers from 0 on."""
    number = whole_number(given)
    return None if number is None or number < 0 else number


def number_in_text(given: Any) -> int | None:
    """Return the whole number that text says; None if it says none.

    Blanks around it and zeros before it change nothing. A point, an exponent, an underscore or a
    digit of another script makes it no whole number.
    """
    text = str(given).strip()
    return int(text) if _WHOLE.fullmatch(text) else None
