"""What the Java classes and Python say to each other: one published shape, checked on both sides.

The shapes are in `java/messages.schema.json`. Java checks what it sends and what it gets, by
Messages.java; `entry.bridge` checks the same by this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from tablefmt.errors import UnsupportedFeatureError


@lru_cache(maxsize=1)
def text() -> str:
    """Return the schema as JSON text."""
    return (resources.files("tablefmt.spark.jvm") / "java" / "messages.schema.json").read_text(
        "utf-8"
    )


@lru_cache(maxsize=1)
def schema() -> Mapping[str, Any]:
    """Return the schema."""
    loaded: Mapping[str, Any] = json.loads(text())
    return loaded


def check_request(verb: str, arguments: Sequence[Any]) -> None:
    """Make sure that a call of Java's is one that the schema has.

    Raises:
        UnsupportedFeatureError: it is not; the classes are those of another release.
    """
    known = schema()["verbs"].get(verb)
    if known is None:
        raise _refused(verb, "there is no such verb")
    kinds = known["arguments"]
    for at, kind in enumerate(kinds):
        given = arguments[at] if at < len(arguments) else None
        problem = _of_kind(given, kind, f"argument {at}")
        if problem is not None:
            raise _refused(verb, problem)
    if len(arguments) > len(kinds):
        raise _refused(verb, f"it has {len(arguments)} arguments, not {len(kinds)}")


def check_answer(verb: str, answer: Any) -> None:
    """Make sure that an answer is what the schema has for the verb. Raises as `check_request`."""
    problem = _of_kind(answer, schema()["verbs"][verb]["answer"], "the answer")
    if problem is not None:
        raise _refused(verb, problem)


def problem_of(value: Any, shape: str) -> str | None:
    """Return what is wrong with a value of a shape in `$defs`; None if nothing is. Pure."""
    return _wrong(value, schema()["$defs"][shape.removeprefix("#")], "it")


def _refused(verb: str, problem: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"tablefmt's Java classes and its Python do not agree about {verb!r}: {problem}; start "
        "Python anew, so that both are of one release",
        ["spark:messages"],
    )


_PLAIN: Mapping[str, type] = {"text": str, "boolean": bool, "long": int}
"""Kinds that py4j gives as a value. Others are objects of the JVM."""


def _of_kind(given: Any, kind: str, place: str) -> str | None:
    if given is None:
        return None if kind.endswith("?") or kind == "any" else f"{place} is missing"
    wanted = kind.removesuffix("?")
    if wanted.startswith("#"):
        return _wrong(json.loads(given), schema()["$defs"][wanted[1:]], place)
    plain = _PLAIN.get(wanted)
    if plain is not None and not isinstance(given, plain):
        return f"{place} is a {type(given).__name__}, not {wanted}"
    return None


def _wrong(value: Any, shape: Mapping[str, Any], place: str) -> str | None:
    if "$ref" in shape:
        return _wrong(value, schema()["$defs"][shape["$ref"].rpartition("/")[2]], place)
    if "enum" in shape:
        return None if value in shape["enum"] else f"{place} is {value!r:.100}"
    types = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    if not any(_is(value, kind) for kind in types):
        return f"{place} is {value!r:.100}, not {' or '.join(types)}"
    if isinstance(value, dict):
        return _wrong_fields(value, shape, place)
    if isinstance(value, list):
        first, others = shape.get("prefixItems", []), shape.get("items")
        for at, item in enumerate(value):
            wanted = first[at] if at < len(first) else others
            problem = None if wanted is None else _wrong(item, wanted, f"{place}[{at}]")
            if problem is not None:
                return problem
    return None


def _wrong_fields(value: Mapping[str, Any], shape: Mapping[str, Any], place: str) -> str | None:
    for name in shape.get("required", ()):
        if name not in value:
            return f"{place} lacks {name}"
    others = shape.get("additionalProperties", True)
    for name, inner in value.items():
        wanted = shape.get("properties", {}).get(name, others)
        if wanted is False:
            return f"{place} has {name}"
        problem = None if wanted is True else _wrong(inner, wanted, f"{place}.{name}")
        if problem is not None:
            return problem
    return None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    types = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
    return kind in types and isinstance(value, types[kind])
