"""Parser of sealed JSON objects. Pure. Spec: ENT-1, ENT-2, VAL-1.

The checksum covers the bytes as they are, so any JSON text is allowed. Another writer may format
numbers, escapes and white space in its own way. The parser serializes the object again and
compares, which is cheap. It examines the text only if this differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from tablefmt.log.checks import INTEGER_MAX, INTEGER_MIN, bad

NESTING_MAX = 128
"""Maximum levels of objects and arrays, including the outermost object. ENT-2."""

CONTAINERS_MAX = 1 << 20
"""Maximum number of objects and arrays: an empty one takes 3 bytes of text, and 80 in memory.
STO-25.
"""

TEXTS_MAX = 1 << 22
"""Maximum number of texts, including names: one takes 3 bytes of text, and 64 in memory. STO-25."""

_MAYBE_WIDE = re.compile(rb"[:\[,]-?[1-9][0-9]{18}")
_WIDE = re.compile(rb"(?<![0-9.eE+-])-?[1-9][0-9]{18,}(?![0-9.eE])")
_QUOTE = ord('"')
_BY_COLUMN = ("partition", "lower", "upper")


def object_of(text: bytes) -> dict[str, Any]:
    """Return the object of a sealed JSON text.

    Args:
        text: the object without its checksum.

    Raises:
        CorruptEntryError: ENT-1, not a JSON object, or a repeated key; ENT-2.
    """
    problem = amount_problem(text)
    if problem is not None:
        raise bad("ENT-2", problem)
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise bad("ENT-1", f"not JSON: {error}") from None
    if type(document) is not dict:
        raise bad("ENT-1", "not a JSON object")
    # The walk costs more than the parse, so skip it for entries that cannot break a limit.
    if text.count(b"[") + text.count(b"{") > NESTING_MAX or _MAYBE_WIDE.search(text):
        _round_wide(document)
        check_limits(document)
    if orjson.dumps(document, option=orjson.OPT_SORT_KEYS) != text:
        document = _examined(text, document)
    if "checksum" in document:
        raise bad("ENT-1", "the key 'checksum' is repeated")
    found: dict[str, Any] = document
    return found


def amount_problem(text: bytes) -> str | None:
    """Return the STO-25 limit that a text exceeds, as an error text; None if it can be parsed."""
    if text.count(b"[") + text.count(b"{") <= CONTAINERS_MAX and text.count(b'"') <= 2 * TEXTS_MAX:
        return None
    # Brackets and escaped quotes inside texts do not count.
    texts = _without_escapes(text).count(b'"') // 2
    if texts > TEXTS_MAX:
        return f"it holds {texts} texts; at most {TEXTS_MAX} are allowed"
    bare = _without_strings(text)
    containers = bare.count(b"[") + bare.count(b"{")
    if containers > CONTAINERS_MAX:
        return f"it holds {containers} objects and arrays; at most {CONTAINERS_MAX} are allowed"
    return None


def check_limits(value: Mapping[str, object] | list[object], level: int = 1) -> None:
    """Refuse JSON that nests too deep or holds an integer beyond 64 bits.

    Args:
        value: an object or an array.
        level: the level of `value` in its entry, 1 for the outermost object.

    Raises:
        CorruptEntryError: ENT-2.
    """
    if level > NESTING_MAX:
        raise bad("ENT-2", f"it nests deeper than {NESTING_MAX} levels")
    items: Iterable[object] = value.values() if isinstance(value, dict) else value
    kinds = set(map(type, items))
    if int in kinds and any(type(v) is int and not INTEGER_MIN <= v <= INTEGER_MAX for v in items):
        raise bad("ENT-2", "it holds an integer beyond signed 64 bits")
    if dict in kinds or list in kinds:
        for inner in items:
            if isinstance(inner, dict | list):
                check_limits(inner, level + 1)


def _examined(text: bytes, document: dict[str, Any]) -> dict[str, Any]:
    """Return the object of another writer's text, after checks that the parser does not make."""
    bare = _without_strings(text)
    if bare.count(b":") != _members(document):
        raise bad("ENT-1", "a key is repeated")
    if _WIDE.search(bare):
        # The fast parser turns an integer beyond 64 bits into a float.
        try:
            document = json.loads(text)
        except ValueError as error:
            raise bad("ENT-2", f"it holds an integer that is too long: {error}") from None
        _round_wide(document)
    check_limits(document)
    return document


def _without_strings(text: bytes) -> bytes:
    """Return JSON text without its strings and keys."""
    codes = np.frombuffer(_without_escapes(text), np.uint8)
    quotes = codes == _QUOTE
    outside = ~(np.logical_xor.accumulate(quotes) | quotes)
    bare: bytes = codes[outside].tobytes()
    return bare


def _without_escapes(text: bytes) -> bytes:
    """Return JSON text without backslashes and escaped quotes."""
    # Backslashes occur only in strings, so escapes can be removed without tracking position.
    return text.replace(rb"\\", b"").replace(rb"\"", b"")


def _members(document: Mapping[str, Any]) -> int:
    """Return the number of keys of the objects in a document, at all levels."""
    count = 0
    level: list[Any] = [document]
    while level:
        count += sum(len(each) for each in level if isinstance(each, dict))
        values = (each.values() if isinstance(each, dict) else each for each in level)
        level = [v for each in values for v in each if isinstance(v, dict | list)]
    return count


def _round_wide(document: dict[str, Any]) -> None:
    """Replace integers beyond 64 bits by floats where a column may be of floats (VAL-1).

    Some writers leave out the exponent: 1e20 is `100000000000000000000` in JavaScript. In other
    columns, the type check refuses the float.
    """
    for values, places in _typed_values(document):
        for at in places:
            value = values[at]
            if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
                try:
                    values[at] = float(value)
                except OverflowError:
                    raise bad("ENT-2", "it holds an integer that no double can hold") from None


def _typed_values(document: dict[str, Any]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield the lists and objects that hold column values, each with the places of these values.

    The document is an entry, or the root of a checkpoint.
    """
    for group in _BY_COLUMN:
        by_field = _inner(document, "add", group)
        yield from ((v, range(len(v))) for v in by_field.values() if isinstance(v, list))
    for field in _objects(_inner(document, "metadata", "schema").get("fields")):
        yield field, [name for name in ("default", "initial") if name in field]
    rows = _inner(document, "basis", "scope").get("partitions")
    for row in rows if isinstance(rows, list) else ():
        yield row, range(len(row) if isinstance(row, list) else 0)
    for segment in _objects(document.get("segments")):
        for bounds in _objects(list(_inner(segment, "bounds").values())):
            yield bounds, [name for name in ("lower", "upper") if name in bounds]


def _inner(document: dict[str, Any], *way: str) -> dict[str, Any]:
    """Return the object at the end of a path of keys; an empty one if it is missing."""
    found: Any = document
    for step in way:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _objects(values: Any) -> list[dict[str, Any]]:
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []
