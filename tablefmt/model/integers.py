"""Whole numbers as callers give them: Python's, numpy's, and whatever else is one. Pure."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


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
