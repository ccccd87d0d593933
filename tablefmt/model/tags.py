"""Tags: names of versions that a table keeps. Pure.

A tag is the property `tag.<name>`, whose value is JSON. The feature `tags` in `protocol.writer`
makes sure that no writer removes files of a tagged version unknowingly. Spec: TAG-1 .. TAG-3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tablefmt.errors import InvalidArgumentError
from tablefmt.model.argument_checks import number_in_text, version_number
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import there_are
from tablefmt.model.times import MICROS_MAX

PREFIX = "tag."
"""Prefix of the properties that are tags."""

HOLD = "clone-"
"""Prefix of the name of a tag that keeps a version for a shallow clone (CLN-4)."""

NAME_MAX = 128
"""Most characters of a name."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A name of a version."""

    version: int
    until: int | None = None
    """Time after which the version may go, µs since 1970 UTC; None: it stays with the tag."""

    def keeps(self, now_us: int) -> bool:
        """Return whether the version must stay at a time."""
        return self.until is None or self.until > now_us


def checked_tag_name(name: Any) -> str:
    """Return a name for a tag.

    Raises:
        InvalidArgumentError: TAG-1.
    """
    problem = ""
    if not isinstance(name, str):
        problem = "it is not text"
    elif not name.strip():
        problem = "it is empty"
    elif name != name.strip():
        problem = "it begins or ends with a blank"
    elif len(name) > NAME_MAX:
        problem = f"it has {len(name)} characters, more than {NAME_MAX}"
    elif not name.isprintable():
        problem = "it has a character that cannot be printed"
    elif number_in_text(name) is not None:
        problem = "it is a number, so it would name a version"
    if problem:
        raise InvalidArgumentError(
            f"{name!r:.200} cannot be the name of a tag: {problem}; use a name such as '2026-Q3'"
        )
    return str(name)


def tags_of(metadata: Metadata) -> dict[str, Tag]:
    """Return the tags by name, in the order of names. Properties of another form are no tags."""
    found = {}
    for property_name in sorted(metadata.properties):
        if property_name.startswith(PREFIX):
            tag = _read(metadata.properties[property_name])
            if tag is not None:
                found[property_name.removeprefix(PREFIX)] = tag
    return found


def _read(text: str) -> Tag | None:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(given, dict) or not {"version"} <= given.keys() <= {"version", "until"}:
        return None
    version, until = given["version"], given.get("until", 0)
    whole = type(version) is int and type(until) is int
    if not whole or not 0 <= version < 1 << 63 or not 0 <= until <= MICROS_MAX:
        return None
    return Tag(version, given.get("until"))


def without_tags(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are no tags."""
    return {name: text for name, text in properties.items() if not name.startswith(PREFIX)}


def only_tags(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are tags."""
    return {name: text for name, text in properties.items() if name.startswith(PREFIX)}


def with_tag(metadata: Metadata, name: str, tag: Tag) -> Metadata:
    """Return the metadata with one more tag, or another meaning of a tag."""
    value: dict[str, int] = {"version": tag.version}
    if tag.until is not None:
        value["until"] = tag.until
    text = orjson.dumps(value).decode()
    return replace(metadata, properties={**metadata.properties, PREFIX + name: text})


def without_tag(metadata: Metadata, name: str) -> Metadata:
    """Return the metadata without a tag.

    Raises:
        InvalidArgumentError: there is no such tag.
    """
    if name not in tags_of(metadata):
        known = there_are(name, list(tags_of(metadata)))
        raise InvalidArgumentError(f"there is no tag {name!r:.200}; {known}")
    left = {n: text for n, text in metadata.properties.items() if n != PREFIX + name}
    return replace(metadata, properties=left)


def version_or_tag(version: Any) -> int | str:
    """Return a version as a number, or the name of a tag as it is.

    Raises:
        InvalidRangeError: it is neither.
    """
    is_name = isinstance(version, str) and number_in_text(version) is None
    return str(version) if is_name else version_number(version)


def kept_for_tags(metadata: Metadata, now_us: int, kept: int, oldest: int) -> int:
    """Return the earliest version that must stay, at most `kept`: one that a tag keeps (TAG-2).

    Args:
        metadata: of the newest version.
        now_us: the writer's clock.
        kept: the earliest version that must stay without tags.
        oldest: the earliest version that can be read. A tag of an earlier one keeps nothing.
    """
    tags = tags_of(metadata).values()
    tagged = (tag.version for tag in tags if tag.keeps(now_us) and tag.version >= oldest)
    return min((kept, *tagged))


def is_tagging(before: Metadata, after: Metadata) -> bool:
    """Return whether two definitions differ in tags at most."""
    one, other = (replace(m, properties=without_tags(m.properties)) for m in (before, after))
    return one == other
