"""Checks of JSON values that all parts of an entry share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.errors import CorruptEntryError

INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1

DIGEST = re.compile(r"[0-9a-f]{64}")
"""SHA-256 in hex."""

FIELD_ID = re.compile(r"[1-9][0-9]{0,18}")
"""Field id as text."""


def is_field_id(text: str) -> bool:
    """Return True if a text is the id of a field."""
    return FIELD_ID.fullmatch(text) is not None


def bad(rule: str, message: str) -> CorruptEntryError:
    """Return the error for an entry that breaks `rule`. The caller adds the entry's key."""
    return CorruptEntryError(message, rule=rule)


def integer(mapping: Mapping[str, Any], name: str, low: int = INTEGER_MIN) -> int:
    """Return the integer under `name`, from `low` to 2**63 - 1.

    Raises:
        CorruptEntryError: ENT-2, it is not such an integer. KeyError: it is missing.
    """
    value = mapping[name]
    if type(value) is not int or not low <= value <= INTEGER_MAX:
        raise bad("ENT-2", f"`{name}` is not an integer from {low} to 2**63 - 1")
    return int(value)


def are_counts(values: Sequence[object], low: int) -> bool:
    """Return True if all values are integers from `low` to 2**63 - 1."""
    if not values:
        return True
    numbers = [value for value in values if type(value) is int]
    return len(numbers) == len(values) and low <= min(numbers) and max(numbers) <= INTEGER_MAX
