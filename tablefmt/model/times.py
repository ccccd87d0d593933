"""Points in time as µs since 1970 UTC, and the texts people write for them. Pure. Spec: TIM-4."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Union

from tablefmt.errors import InvalidRangeError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ZULU = re.compile(r"[zZ]$")
_SHORT_ZONE = re.compile(r"([+-]\d{2})(\d{2})?$")
_FRACTION = re.compile(r"\.(\d+)")
_HAS_TIME = re.compile(r"\d{2}:\d{2}")

Time = Union[datetime, str]  # noqa: UP007 - run time
"""An aware datetime, or ISO 8601 text; text without a zone is UTC."""


def to_micros(when: Time) -> int:
    """A point in time as µs since 1970 UTC.

    Raises:
        InvalidRangeError: a naive datetime (it does not say which instant it is), or a text that
            is not ISO 8601.
    """
    if isinstance(when, str):
        when = _parse(when)
    elif not isinstance(when, datetime):
        kind = "date" if isinstance(when, date) else type(when).__name__
        raise InvalidRangeError(
            f"{when!r} is a {kind}, not a point in time; pass an aware datetime or ISO text"
        )
    elif when.utcoffset() is None:
        raise InvalidRangeError(
            f"{when!r} is naive: it does not say which instant it is. "
            "Add tzinfo (datetime.timezone.utc), or pass text, which is UTC"
        )
    return (when - _EPOCH) // timedelta(microseconds=1)


def _parse(text: str) -> datetime:
    """ISO 8601 as Python 3.11 reads it, on 3.10 too."""
    cleaned = _ZULU.sub("+00:00", text.strip())
    if _HAS_TIME.search(cleaned):
        cleaned = _SHORT_ZONE.sub(lambda m: f"{m[1]}:{m[2] or '00'}", cleaned)
    cleaned = _FRACTION.sub(lambda m: "." + m[1][:6].ljust(6, "0"), cleaned)
    try:
        when = datetime.fromisoformat(cleaned)
    except ValueError:
        raise InvalidRangeError(
            f"{text!r} is not a time; write it as 2026-11-21, 2026-11-21T10:00:00 or "
            "2026-11-21T10:00:00.123456+01:00 (UTC without a zone)"
        ) from None
    return when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of `micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def show_time(micros: int) -> str:
    """ISO text in UTC with µs, which `to_micros` reads back."""
    return from_micros(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
