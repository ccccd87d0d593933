"""Table properties: names, allowed values, and defaults. Pure.

One literal is both the parser and the documentation. Names are Delta's where Delta has them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Union

import numpy as np

from tablefmt.errors import InvalidRangeError, SchemaMismatchError
from tablefmt.model.argument_checks import checked_mapping, checked_names
from tablefmt.model.identity_columns import without_identities
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import did_you_mean
from tablefmt.model.tags import without_tags


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its default, and a check for values given as text.

    Spec: PTY-2.
    """

    default: str | None
    """Value in force if the property is not set. None: no text can express it (`statsColumns`:
    PRN-11).
    """
    accepts: Callable[[str], bool]
    wants: str
    """Description of a valid value, for people."""


_DURATION = re.compile(r"\s*(\d{1,6})\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE)

_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def duration_seconds(text: str) -> int:
    """Return a duration such as `"30 days"` in seconds. Raises ValueError for any other text."""
    match = _DURATION.fullmatch(text.removeprefix("interval "))
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNIT_SECONDS[match[2].lower()]


def duration_text(seconds: float) -> str:
    """Return seconds in the largest unit that gives a whole number, such as `7 days`."""
    for unit in ("day", "hour", "minute", "second"):
        count, rest = divmod(seconds, _UNIT_SECONDS[unit])
        if count and not rest:
            return f"{count:g} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"


Retention = Union[str, timedelta, int, float]  # noqa: UP007 - run time
"""A duration: text by PTY-3 ("7 days"), a timedelta, or seconds."""


def retention_seconds(given: Retention) -> float:
    """Return a retention in seconds.

    Raises:
        InvalidRangeError: it is not a duration, or it is negative.
    """
    seconds: float | None = None
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, str):
        try:
            seconds = float(duration_seconds(given.strip()))
        except ValueError:
            seconds = None
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidRangeError(
            f"retention {given!r:.100} is not a duration. Pass a timedelta, seconds, or text "
            "such as '7 days' or '12 hours'."
        )
    if seconds < 0:
        raise InvalidRangeError(
            f"retention {given!r:.100} is negative. Pass a duration of 0 or more."
        )
    return seconds


TRANSACTION_SECONDS_MIN = 3600.0
"""Time that every transaction may take, regardless of the table's properties."""


def transaction_seconds(properties: Mapping[str, str]) -> float:
    """Return the longest time that a transaction may take: half of vacuum's file retention
    (RET-6).
    """
    kept = duration_seconds(get_property(properties, "deletedFileRetentionDuration"))
    return max(TRANSACTION_SECONDS_MIN, kept / 2)


def _is_duration(text: str) -> bool:
    try:
        return duration_seconds(text) >= 0
    except ValueError:
        return False


def _one_of(*words: str) -> tuple[Callable[[str], bool], str]:
    return (lambda text: text in words), " or ".join(words)


EXPORT_TARGETS = ("delta", "iceberg")
"""Formats that the property `export` may name."""


def _is_export(text: str) -> bool:
    names = [name.strip() for name in text.split(",")]
    return not text or (set(names) <= set(EXPORT_TARGETS) and len(set(names)) == len(names))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 1 << 50


STATS_COLUMNS = "statsColumns"
"""Property that names the columns with bounds (PRN-11)."""

CLUSTER_BY = "clusterBy"
"""Property that names the columns of the clustering order (CMP-8)."""

_NAMES = (STATS_COLUMNS, CLUSTER_BY)
"""Properties that name columns."""

DECISIVE = ("conflictGranularity", "isolationLevel", "deleteMode")
"""Properties that the conflict rules use, with their values at the transaction's read version."""

PROPERTIES: dict[str, Property] = {
    "isolationLevel": Property("WriteSerializable", *_one_of("WriteSerializable", "Serializable")),
    "conflictGranularity": Property("row", *_one_of("row", "file", "transaction")),
    "deleteMode": Property("merge-on-read", *_one_of("merge-on-read", "copy-on-write")),
    "appendOnly": Property("false", *_one_of("true", "false")),
    "checkpointInterval": Property("100", _is_count, "a whole number of versions"),
    "logRetentionDuration": Property("30 days", _is_duration, "a duration such as '30 days'"),
    "deletedFileRetentionDuration": Property("7 days", _is_duration, "a duration such as '7 days'"),
    "applicationRetentionDuration": Property(
        "30 days", _is_duration, "a duration such as '30 days'"
    ),
    "targetFileSize": Property(str(128 << 20), _is_count, "a whole number of bytes"),
    "autoCompact": Property("false", *_one_of("true", "false")),
    "optimizeWrite": Property("false", *_one_of("true", "false")),
    "export": Property("", _is_export, " or ".join(EXPORT_TARGETS) + "; several with commas"),
    "export.iceberg.format": Property("auto", *_one_of("auto", "2", "3")),
    "export.iceberg.snapshots": Property("20", _is_count, "a whole number of snapshots"),
    STATS_COLUMNS: Property(None, lambda text: True, "column names, separated by commas"),
    CLUSTER_BY: Property("", lambda text: True, "column names, separated by commas"),
}

USER_PREFIX = "user."
"""Prefix of user-defined names, which may hold any text."""


def check_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties as text, in their stored form.

    Args:
        properties: values by name: text, True or False, numbers; a timedelta for a duration; and
            several names for `statsColumns` and `clusterBy`.

    Raises:
        SchemaMismatchError: an unknown name, or an invalid value.
    """
    result = {}
    for name, given in checked_mapping(properties, "properties").items():
        text = _text(name, given)
        known = PROPERTIES.get(name)
        if known is None and not name.startswith(USER_PREFIX):
            raise SchemaMismatchError(
                f"unknown table property {name!r}; expected one of {', '.join(PROPERTIES)}, or a "
                f"name of your own that starts with {USER_PREFIX!r}"
                f"{did_you_mean(name, PROPERTIES)}"
            )
        if known is not None and not known.accepts(text):
            raise SchemaMismatchError(f"property {name} is {text!r}; expected {known.wants}")
        result[name] = text
    return result


def _text(name: str, given: Any) -> str:
    """Return a value in its stored form.

    Raises:
        SchemaMismatchError: text cannot represent the value.
    """
    if isinstance(given, bool | np.bool_):
        return str(given).lower()
    if isinstance(given, timedelta):
        return _duration_text(given)
    if name in _NAMES and isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return listed(checked_names(given, name))
    if isinstance(given, str) or not (given is None or isinstance(given, Iterable)):
        return str(given)
    raise SchemaMismatchError(
        f"property {name} is {given!r:.100}; expected text"
        + ("; to restore the default, call unset_properties()" if given is None else "")
    )


_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^,]+))\s*(?:,|$)")


def split_names(text: str) -> list[str]:
    """Split a list of column names at commas. Backticks may enclose a name with a comma."""
    names = [quoted.replace("``", "`") or plain.strip() for quoted, plain in _NAME.findall(text)]
    return [name for name in names if name]


def listed(names: Iterable[str]) -> str:
    """Return column names as the text that `split_names` reads."""
    return ", ".join(map(_listed, names))


def _listed(name: str) -> str:
    """Return a name as a list item. Backticks enclose it if it would not be read back without
    them.
    """
    plain = name and name == name.strip() and not {",", "`"}.intersection(name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def _duration_text(given: timedelta) -> str:
    """Return whole seconds in the largest unit that divides them."""
    seconds = given // timedelta(seconds=1)
    if given != timedelta(seconds=seconds):
        return str(given)
    unit = next(u for u in reversed(_UNIT_SECONDS) if seconds % _UNIT_SECONDS[u] == 0)
    return f"{seconds // _UNIT_SECONDS[unit]} {unit}s"


def get_property(properties: Mapping[str, str], name: str) -> str:
    """Return the value in force of a property that has a default: the set value, else the
    default.
    """
    default = PROPERTIES[name].default
    assert default is not None, name
    return properties.get(name, default)


def export_targets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the formats to which every commit is exported (XPT-12)."""
    given = properties.get("export", "")
    return tuple(name.strip() for name in given.split(",")) if given else ()


def plain_properties(metadata: Metadata) -> dict[str, str]:
    """Return the properties that are neither tags (TAG-1) nor identity columns (IDN-1)."""
    return without_tags(without_identities(metadata).properties)
