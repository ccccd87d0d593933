"""Points in time as µs since 1970 UTC, and the texts people write for them. Pure. Spec: TIM-4."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Union

from tablefmt.errors import InvalidRangeError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ZULU = re.compile(r"[zZ]$")
_SHORT_ZONE = re.compile(r"([+-]\d{2})(\d{2})?$")
_FRACTION = re.compile(r"[.,](\d{1,6})(\d*)")
_DATE_ZONE = re.compile(r"(\d{4}-\d{2}-\d{2})([+-]\d{2}(?::?\d{2})?)$")
"""A day with a zone: Python would take the zone for the time of day."""
_HAS_TIME = re.compile(r"\d{2}:\d{2}")

Time = Union[datetime, str]  # noqa: UP007 - run time
"""An aware datetime, or ISO 8601 text; text without a zone is UTC."""

MICROS_MIN, MICROS_MAX = 0, 253_402_300_799_999_999
"""ENT-3: commits are from 1970 to the end of 9999, as every calendar in use knows them."""


def next_time(micros: int) -> int:
    """Return the earliest time of an entry after one of that time (TIM-1).

    The last µs is its own: an entry that has it must not be the last one of its table.
    """
    return min(micros + 1, MICROS_MAX)


def to_micros(when: Time, *, up: bool = False) -> int:
    """A point in time as µs since 1970 UTC.

    Args:
        when: the point; pandas' timestamps and text may be finer than a µs.
        up: what is finer goes to the next µs, as "at or after" asks for. Else to the one before,
            as "at or before" and "after" do: commits have whole µs, so all three are exact (TIM-4).

    Raises:
        InvalidRangeError: a naive datetime (it does not say which instant it is), or a text that
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
            f"{when!r} is naive: it does not say which instant it is. "
            "Add tzinfo (datetime.timezone.utc), or pass text, which is UTC"
        )
    else:
        # A pandas Timestamp is a datetime that has ns besides.
        finer = bool(getattr(when, "nanosecond", 0))
    return (when - _EPOCH) // timedelta(microseconds=1) + (up and finer)


def _parse(text: str) -> tuple[datetime, bool]:
    """Text without a zone is UTC; and whether there is something below a µs."""
    when, finer = parse_iso(text)
    return (when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)), bool(finer)


def parse_iso(text: str) -> tuple[datetime, str]:
    """ISO 8601 as Python 3.11 reads it, on 3.10 too: naive if the text names no zone; and the
    digits below a µs, without trailing zeros.

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
    """The aware UTC datetime of `micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def show_time(micros: int) -> str:
    """ISO text in UTC with µs, which `to_micros` reads back; of a time that no calendar here has
    (a bound may be one, never a commit), the µs.
    """
    try:
        return from_micros(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return f"{micros} µs after 1970"
