"""Times in text as a session reads them. Spec: TIM-5."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.literals import in_session
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.times import show_time, to_micros

NEW_YORK = "America/New_York"

WALLS = [
    ("2026-11-21", dt.datetime(2026, 11, 21)),
    ("2026-11-21T10:00:00.5", dt.datetime(2026, 11, 21, 10, 0, 0, 500_000)),
    ("2026-11-21 10:00", dt.datetime(2026, 11, 21, 10)),
    ("2026-7-4", dt.datetime(2026, 7, 4)),
    ("2026", dt.datetime(2026, 1, 1)),
    # Twice that night, and never that one: as Java has it, the first and the hour after.
    ("2026-11-01 01:30:00", dt.datetime(2026, 11, 1, 1, 30)),
    ("2026-03-08 02:30:00", dt.datetime(2026, 3, 8, 2, 30)),
]


@pytest.mark.parametrize(("text", "wall"), WALLS)
@pytest.mark.parametrize("zone", [NEW_YORK, "Asia/Kolkata", "UTC"])
def test_text_without_a_zone_is_in_the_sessions(text: str, wall: dt.datetime, zone: str) -> None:
    expected = wall.replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()
    assert to_micros(in_session(text, zone)) == round(expected * 1_000_000)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-21T10:00:00+02:00", "2026-11-21T08:00:00.000000Z"),
        ("2026-11-21Z", "2026-11-21T00:00:00.000000Z"),
        ("2026-11-21+05:00", "2026-11-20T19:00:00.000000Z"),
        ("2026-11-21 10:00:00 Asia/Tokyo", "2026-11-21T01:00:00.000000Z"),
    ],
)
@pytest.mark.parametrize("zone", [NEW_YORK, None])
def test_text_that_names_its_zone_is_that_instant(
    text: str, instant: str, zone: str | None
) -> None:
    assert show_time(to_micros(in_session(text, zone))) == instant


def test_fixed_zones_and_what_is_below_a_microsecond() -> None:
    """TIM-4: a bound that is finer than commits stays exact."""
    assert in_session("2026-11-21T10:00", "+02:00") == "2026-11-21T08:00:00.000000Z"
    finer = in_session("2026-11-21T10:00:00.1234567", NEW_YORK)
    assert to_micros(finer, up=True) - to_micros(finer) == 1
    when = dt.datetime(2026, 11, 21, tzinfo=dt.timezone.utc)
    assert in_session(when, NEW_YORK) is when


@pytest.mark.parametrize("text", ["", "nonsense", "2026-13-01", "2026112", "1969-01-01 00:00 x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    for zone in (NEW_YORK, None):
        with pytest.raises(InvalidRangeError, match="in the session's time zone"):
            in_session(text, zone)


def test_a_zone_that_is_not_known_is_refused_by_name() -> None:
    for text in ("2026-11-21", "2026-1-1"):
        with pytest.raises(UnsupportedFeatureError, match="the session's zone is not available"):
            in_session(text, None)
        with pytest.raises(UnsupportedFeatureError, match="'Mars/Olympus' is not known"):
            in_session(text, "Mars/Olympus")


def test_versions_in_text_are_whole_numbers_of_plain_digits() -> None:
    texts = {"1": 1, " 01 ": 1, "+1": 1, "-1": -1, "9" * 30: int("9" * 30)}
    assert {text: number_in_text(text) for text in texts} == texts
    for text in ("", "1.0", "1_0", "１", "1e0", "0x1", "latest", "true", "9" * 5000):
        assert number_in_text(text) is None
