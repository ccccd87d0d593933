"""Points in time as µs since 1970 UTC, and their text forms. Pure. Spec: TIM-4."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Union

from tablefmt.errors import InvalidRangeError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_ZULU = re.compile(r"[zZ]$")
_SHORT_ZONE = re.compile(r"([+-]\d{2})(\d{2})?$")
_FRACTION = re.compile(r"[.,](\d{1,6})(\d*)")
_DATE_ZONE = re.compile(r"(\d{4}-\d{2}-\d{2})([+-]\d{2}(?::?\d{2})?)$")
"""Date with a zone. Python would parse the zone as the time of day."""
_HAS_TIME = re.compile(r"\d{2}:\d{2}")

Time = Union[datetime, str]  # noqa: UP007 - run time
"""Aware datetime, or ISO 8601 text; text without a zone is UTC."""

MICROS_MIN, MICROS_MAX = 0, 253_402_300_799_999_999
"""Range of commit times (ENT-3): from 1970 to the end of 9999, which every calendar in use
supports.
"""


def next_time(micros: int) -> int:
    """Return the earliest time of an entry after one of that time (TIM-1).

    The successor of the last µs is itself: such an entry must not be the last one of its table.
    """
    return min(micros + 1, MICROS_MAX)


def to_micros(when: Time, *, up: bool = False) -> int:
    """Return a point in time as µs since 1970 UTC.

    Commits have whole µs, so the bounds "at or after", "at or before" and "after" are all exact
    (TIM-4).

    Args:
        when: the point; pandas' timestamps and text may be finer than a µs.
        up: round a finer time up to the next µs, as "at or after" needs. Otherwise round down,
            as "at or before" and "after" need.

    Raises:
        InvalidRangeError: a naive datetime (it does not identify an instant), or a text that
            is not ISO 8601.
    """
    finer = False
    if isinstance(when, str):
        when, finer = _parse(when)
    elif not isinstance(when, datetime) or when != when:
        # pandas' NaT is a datetime.
        kind = "date" if isinstance(when, date) else type(when).__name__
        raise InvalidRangeError(
            f"{when!r} is a {kind}, not a point in time; pass an aware datetime or ISO text"
        )
    elif when.utcoffset() is None:
        raise InvalidRangeError(
            f"{when!r} is naive, so it does not identify an instant. "
            "Add tzinfo (datetime.timezone.utc), or pass text, which is UTC"
        )
    else:
        # A pandas Timestamp is a datetime that has ns besides.
        finer = bool(getattr(when, "nanosecond", 0))
    return (when - _EPOCH) // timedelta(microseconds=1) + (up and finer)


def _parse(text: str) -> tuple[datetime, bool]:
    """Return the datetime of a text (UTC without a zone), and whether it has digits below a µs."""
    when, finer = parse_iso(text)
    return (when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)), bool(finer)


def parse_iso(text: str) -> tuple[datetime, str]:
    """Return the datetime of an ISO 8601 text, and its digits below a µs without trailing zeros.

    The text is parsed as Python 3.11 does, on 3.10 too. The datetime is naive if the text has no
    zone.

    Raises:
        InvalidRangeError: the text is not ISO 8601.
    """
    cleaned = _DATE_ZONE.sub(r"\1T00:00\2", _ZULU.sub("+00:00", text.strip()))
    if _HAS_TIME.search(cleaned):
        cleaned = _SHORT_ZONE.sub(lambda m: f"{m[1]}:{m[2] or '00'}", cleaned)
    fractions = _FRACTION.findall(cleaned)
    cleaned = _FRACTION.sub(lambda m: "." + m[1].ljust(6, "0"), cleaned)
    try:
        when = datetime.fromisoformat(cleaned)
    except ValueError:
        raise InvalidRangeError(
            f"{text!r} is not a time; write it as 2026-11-21, 2026-11-21T10:00:00 or "
            "2026-11-21T10:00:00.123456+01:00 (UTC without a zone)"
        ) from None
    return when, "".join(rest for _, rest in fractions).rstrip("0")


def from_micros(micros: int) -> datetime:
    """Return the aware UTC datetime of `micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def _naive(micros: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(microseconds=micros)


def show_time(micros: int) -> str:
    """Return the time as ISO text in UTC with µs, which `to_micros` reads back.

    For a time beyond Python's calendar, return the µs. A bound may be such a time, a commit never
    is.
    """
    try:
        return _naive(micros).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return f"{micros} µs after 1970"
