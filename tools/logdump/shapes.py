"""Shapes of JSON values, and refusals, from spec/ alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

LAST_MICRO = 253_402_300_799_999_999
"""The last µs of year 9999."""


class Refusal(Exception):
    """Raised for a broken rule that stops every reader."""


def require(condition: object, rule: str, message: str) -> None:
    """Refuse unless the condition holds."""
    if not condition:
        raise Refusal(rule, message)


def fits(value: Any, shape: Any) -> bool:
    """Return True if a JSON value has a shape.

    A dict has the shapes of keys ("?" at the end: optional). A list has the shape of every element.
    A tuple lists choices, and a set lists strings. A pattern, a type, None and a function match
    directly.
    """
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            fits(value[key.rstrip("?")], inner) if key.rstrip("?") in value else key[-1] == "?"
            for key, inner in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(element, shape[0]) for element in value)
    if isinstance(shape, tuple):
        return any(fits(value, choice) for choice in shape)
    if isinstance(shape, set):
        return isinstance(value, str) and value in shape
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.match(value) is not None
    if isinstance(shape, type):
        return type(value) is shape
    return value is None if shape is None else bool(shape(value))


def address(value: Any) -> bool:
    """Return True for text of at most 4,096 bytes of UTF-8 (IMP-2)."""
    return isinstance(value, str) and len(value.encode()) <= 4096


def natural(value: Any) -> bool:
    """Return True for an integer from 0 on."""
    return type(value) is int and value >= 0


def time(value: Any) -> bool:
    """Return True for a time in µs from 1970 to the end of 9999."""
    return natural(value) and value <= LAST_MICRO


def positive(value: Any) -> bool:
    """Return True for an integer from 1 on."""
    return type(value) is int and value > 0


def ascending(shape: Any) -> Callable[[Any], bool]:
    """Return a check for a sorted list of a shape, without duplicates."""
    return lambda value: fits(value, [shape]) and sorted(set(value)) == value


def different(value: Any) -> bool:
    """Return True for a list of positive integers without duplicates."""
    return fits(value, [positive]) and len(set(value)) == len(value)


def map_of(shape: Any) -> Callable[[Any], bool]:
    """Return a check for an object with any names, whose values have a shape."""
    return lambda value: isinstance(value, dict) and fits([*value.values()], [shape])


def strangers(value: Any, shape: Any, place: str, open_places: set[str]) -> list[str]:
    """Return the dotted names in a value that its shape lacks (VER-2).

    In an object of `open_places`, names that start with `x_` are ignored.
    """
    choices = shape if isinstance(shape, tuple) else (shape,)
    known: Json = {}
    for choice in choices:
        if isinstance(choice, dict):
            known |= {key.rstrip("?"): inner for key, inner in choice.items()}
        elif isinstance(choice, list) and isinstance(value, list):
            return [n for one in value for n in strangers(one, choice[0], place, open_places)]
    if not known or not isinstance(value, dict):
        return []
    found = []
    for key, inner in value.items():
        where = f"{place}.{key}" if place else key
        if key in known:
            found += strangers(inner, known[key], where, open_places)
        elif not (place in open_places and key.startswith("x_")):
            found.append(where)
    return found
