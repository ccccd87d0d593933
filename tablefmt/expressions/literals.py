"""Literals, times and LIKE patterns: what Spark's parser and ANSI casts read from text. Pure.

Dates are days and timestamps µs since 1970-01-01, because both reach beyond Python's year 9999. A
LIKE pattern keeps the backslash as its only escape, and is checked as in Spark. A point in time
without a zone is in the session's zone. Spec: TIM-5.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import zoneinfo
from typing import Any

from tablefmt.errors import InvalidPredicateError, InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.times import MICROS_MAX, MICROS_MIN, Time, parse_iso, show_time

DAY = 86_400_000_000
"""Number of µs in a day."""

EXACT = decimal.Context(prec=2000, traps=[decimal.InvalidOperation])
"""Decimal context that never rounds a value this package accepts."""

_INT64 = range(-(1 << 63), 1 << 63)
_YEAR = r"([+-]?\d{4,7})"
_DATE = re.compile(_YEAR + r"(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    _YEAR
    + r"(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?"
    + r"(?: *([A-Za-z+-].*))?)?)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DOUBLE = re.compile(_NUMBER.pattern + "[dDfF]?", re.ASCII)
_FLOATS = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
# Characters that Spark's casts from text trim at both ends: space and control characters.
_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
_BLANK_OF_FRACTIONS = _BLANK[:-1]
"""Blanks for casts to decimals and floats, where Java keeps DEL."""


def literal_sql(value: Any, kind: str) -> str:
    """Return one value of the type called `kind` as a Spark literal of exactly that type and
    value.
    """
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind == "string":
        return text_sql(value)
    if kind == "binary":
        return f"X'{value.hex().upper()}'"
    if kind == "date":
        return f"DATE '{_date_text(value)}'"
    if kind in ("timestamp", "timestamp_ntz"):
        days, rest = divmod(value, DAY)
        clock = f"{rest // 3_600_000_000:02}:{rest // 60_000_000 % 60:02}"
        clock += f":{rest // 1_000_000 % 60:02}.{rest % 1_000_000:06}"
        zone = "Z" if kind == "timestamp" else ""
        return f"{kind.upper()} '{_date_text(days)} {clock}{zone}'"
    if kind in ("float", "double"):
        if math.isfinite(value):
            return f"{value!r}D"
        word = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{word}' AS DOUBLE)"
    if kind.startswith("decimal"):
        return f"{value:f}BD"
    return f"{value}" if abs(value) < 1 << 31 else f"{value}L"


_ESCAPES = {ord("\\"): "\\\\", ord("'"): "\\'", 0: "\\u0000", 10: "\\n", 13: "\\r", 26: "\\Z"}
_UNESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7][0-7])|(.))", re.DOTALL)


def text_sql(value: object) -> str:
    """Return the text of a value as a Spark string literal."""
    # Spark replaces ${…} by settings and environment variables before it parses a text.
    body = str(value).translate(_ESCAPES)
    return "'" + body.replace("${", "\\u0024{") + "'"


def literal_text(source: str) -> str:
    """Return the value of a Spark string literal in single or double quotes.

    Raises:
        InvalidPredicateError: an escape that is not a character.
    """
    quote = source[0]
    # A doubled quote is one quote; after a backslash it is an ordinary character.
    body = re.sub(
        r"\\.|" + quote * 2,
        lambda m: "\\" + quote if m[0] == quote * 2 else m[0],
        source[1:-1],
        flags=re.DOTALL,
    )
    return unescape(body)


def unescape(body: str) -> str:
    """Return the text between the quotes of a Spark string literal, unescaped as in Spark.

    Raises:
        InvalidPredicateError: an escape that is not a character.
    """

    def character(match: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 8)):
            if match[group]:
                point = int(match[group], base)
                if point > 0x10FFFF:
                    raise InvalidPredicateError(f"{match[0]} is not a character")
                return chr(point)
        # LIKE needs these two to stay escaped.
        return match[0] if match[4] in "%_" else _UNESCAPES.get(match[4], match[4])

    return _well_formed(_ESCAPE.sub(character, body))


def _well_formed(text: str) -> str:
    """Return the text with pairs of surrogate escapes joined to one character."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise InvalidPredicateError(
            "a string literal has an unpaired surrogate, which is not a character"
        ) from None


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a proleptic Gregorian date. Raises ValueError if
    invalid.
    """
    # 400 Gregorian years have 146,097 days, so any year can be shifted into Python's range.
    cycles, within = divmod(year - 2000, 400)
    date = datetime.date(within + 2000, month, day)
    return date.toordinal() - 719_163 + cycles * 146_097


def _date_text(days: int) -> str:
    cycles, within = divmod(days - 10_957, 146_097)
    date = datetime.date.fromordinal(within + 10_957 + 719_163)
    year = date.year + 400 * cycles
    sign = "" if 0 <= year <= 9999 else "+" if year > 0 else "-"
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def text_to_date(text: str) -> int:
    """Return days, as CAST(text AS DATE). Raises ValueError if Spark refuses the text."""
    match = _DATE.fullmatch(text.strip(_BLANK))
    if not match:
        raise ValueError("not a date")
    days = days_from_civil(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError("out of range")
    return days


def text_to_timestamp(text: str, time_zone: str, *, with_zone: bool) -> int:
    """Return µs, as CAST(text AS TIMESTAMP), or AS TIMESTAMP_NTZ without `with_zone`.

    A zone in the text overrides `time_zone`; without `with_zone` any zone is dropped. Raises
    ValueError if Spark refuses the text, or the zone cannot be used for that year.
    """
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if not match:
        raise ValueError("not a timestamp")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise ValueError("no such time of day")
    days = days_from_civil(int(year), int(month or 1), int(day or 1))
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    wall = days * DAY + seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    if not with_zone:
        return in_range(wall)
    return wall_to_instant(wall, (zone or time_zone).strip())


def wall_to_instant(wall: int, time_zone: str) -> int:
    """Return the µs UTC of a wall-clock time in µs. Of two possible instants, return the earlier,
    as Java.

    Raises ValueError for an unknown zone, or a named zone outside the years 2 .. 9998.
    """
    if fixed := is_fixed(time_zone):
        return in_range(wall - fixed[0] * 1_000_000)
    try:
        zone = zoneinfo.ZoneInfo(time_zone)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=wall)
        if not 2 <= moment.year <= 9998:
            raise OverflowError
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {time_zone!r}") from None
    except OverflowError:
        raise ValueError(f"zone {time_zone} is not known for that year") from None
    offset = moment.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return in_range(wall - offset // datetime.timedelta(microseconds=1))


def in_range(micros: int) -> int:
    """Return the same number. Raises ValueError if a timestamp cannot hold it."""
    if micros not in _INT64:
        raise ValueError("out of range")
    return micros


def is_fixed(time_zone: str) -> tuple[int] | None:
    """Return the seconds east of UTC of a zone without daylight saving, or None for a named
    zone.
    """
    if time_zone.upper() in ("UTC", "Z", "GMT", "UT", "ETC/UTC"):
        return (0,)
    match = _OFFSET.fullmatch(time_zone)
    if not match:
        return None
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    if seconds > 18 * 3600:
        raise ValueError(f"unknown time zone {time_zone!r}")
    return (-seconds if match[1] == "-" else seconds,)


def text_to_int(text: str) -> int:
    """Return CAST(text AS BIGINT). Raises ValueError if Spark refuses the text."""
    trimmed = text.strip(_BLANK)
    if not _INTEGER.fullmatch(trimmed) or len(trimmed) > 40 or int(trimmed) not in _INT64:
        raise ValueError("not a BIGINT")
    return int(trimmed)


def text_to_decimal(text: str) -> decimal.Decimal:
    """Return CAST(text AS DECIMAL), without fitting a scale. Raises ValueError if Spark refuses
    it.
    """
    trimmed = text.strip(_BLANK_OF_FRACTIONS)
    if not _NUMBER.fullmatch(trimmed) or len(trimmed) > 400:
        raise ValueError("not a DECIMAL")
    value = decimal.Decimal(trimmed)
    if not -400 < value.adjusted() < 400:
        raise ValueError("out of range")
    return value


def text_to_float(text: str) -> float:
    """Return CAST(text AS DOUBLE). Raises ValueError if Spark refuses the text."""
    trimmed = text.strip(_BLANK_OF_FRACTIONS)
    word = _FLOATS.get(trimmed.lower())
    if word is not None:
        return word
    if not _DOUBLE.fullmatch(trimmed):
        raise ValueError("not a DOUBLE")
    return float(trimmed.rstrip("dDfF"))


def text_to_bool(text: str) -> bool:
    """Return CAST(text AS BOOLEAN). Raises ValueError if Spark refuses the text."""
    word = _BOOLEANS.get(text.strip(_BLANK).lower())
    if word is None:
        raise ValueError("not a BOOLEAN")
    return word


_LIKE_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def exact_pattern(text: str) -> str:
    """Return the pattern that matches only this text."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def like_pattern(pattern: str, escape: str) -> str:
    """Return the pattern with a backslash as its escape, checked as in Spark.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: an invalid pattern or escape.
    """
    if escape != "\\":
        if escape in "%_":
            raise UnsupportedFeatureError("LIKE with a wildcard as its escape", ["sql:escape"])
        pattern = re.sub(
            re.escape(escape) + r"(.?)|(\\)",
            lambda m: "\\\\" if m[2] or m[1] == escape else "\\" + m[1],
            pattern,
            flags=re.DOTALL,
        )
    for match in _LIKE_ESCAPE.finditer(pattern):
        if match[1] == "" or match[1] not in "\\%_":
            if escape != "\\" and match[1] == escape:
                continue
            raise InvalidPredicateError(
                f"LIKE pattern {pattern[:80]!r}: an escape must be followed by %, _ or itself"
            )
    return pattern


_EPOCH = datetime.datetime(1970, 1, 1)
_MICRO = datetime.timedelta(microseconds=1)


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
