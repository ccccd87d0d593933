"""Points in time as text in a Spark session. Pure. Spec: TIM-5."""

from __future__ import annotations

from datetime import datetime, timedelta

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.literals import text_to_timestamp, wall_to_instant
from tablefmt.model.times import MICROS_MAX, MICROS_MIN, Time, parse_iso, show_time

_EPOCH = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)


def in_session(when: Time, zone: str | None) -> Time:
    """Return a point in time with a zone: text without one is in the session's zone.

    Args:
        when: an aware datetime, ISO 8601 text, or text that Spark casts to a TIMESTAMP.
        zone: the session's time zone; None: it is not known here.

    Returns:
        A datetime unchanged; text as ISO 8601 with a zone.

    Raises:
        InvalidRangeError: the text is not a time.
        UnsupportedFeatureError: the text has no zone, and the session's zone is not known.
    """
    if not isinstance(when, str):
        return when
    try:
        moment, finer = parse_iso(when)
    except InvalidRangeError as error:
        return show_time(_as_spark_casts(when, zone, error))
    if moment.tzinfo is not None:
        return when
    wall = (moment - _EPOCH) // _MICRO
    instant = show_time(_instant(wall, _known(zone, when), when))
    return f"{instant.removesuffix('Z')}{finer}Z"


def _as_spark_casts(text: str, zone: str | None, error: InvalidRangeError) -> int:
    """Return CAST(text AS TIMESTAMP), in µs."""
    try:
        here, elsewhere = (text_to_timestamp(text, z, with_zone=True) for z in ("+00:00", "+01:00"))
    except ValueError:
        raise _not_a_time(text) from error
    if here != elsewhere:
        zone = _known(zone, text)
        here = _instant(here, zone, text)
    if not MICROS_MIN <= here <= MICROS_MAX:
        raise _not_a_time(text) from error
    return here


def _instant(wall: int, zone: str, text: str) -> int:
    try:
        return wall_to_instant(wall, zone)
    except ValueError:
        raise UnsupportedFeatureError(
            f"the time {text!r} has no zone, and the session's zone {zone!r} is not known here; "
            "write the zone into the text (2026-11-21T10:00:00Z), or set "
            "spark.sql.session.timeZone to a name such as America/New_York or +02:00",
            ["time:zone"],
        ) from None


def _known(zone: str | None, text: str) -> str:
    if zone is None:
        raise UnsupportedFeatureError(
            f"the time {text!r} has no zone, and the session's zone is not available here; "
            "write the zone into the text: 2026-11-21T10:00:00Z",
            ["time:zone"],
        )
    return zone


def _not_a_time(text: str) -> InvalidRangeError:
    return InvalidRangeError(
        f"{text!r} is not a time; write it as 2026-11-21, 2026-11-21T10:00:00 or "
        "2026-11-21T10:00:00.123456+01:00 (in the session's time zone without a zone)"
    )
