"""Times as text: four digits of the year, and the same time when it is read back."""

from __future__ import annotations

import datetime

import pytest

from tablefmt.model.times import from_micros, show_time, to_micros

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (FIRST, "0001-01-01T00:00:00.000000Z"),
        (-30_610_224_000_000_001, "0999-12-31T23:59:59.999999Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000_123_456, "2023-11-14T22:13:20.123456Z"),
        (LAST, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_time_is_read_back(micros: int, text: str) -> None:
    assert show_time(micros) == text
    assert to_micros(text) == micros
    assert from_micros(micros) == datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    for micros in (FIRST - 1, LAST + 1, 1 << 62):
        assert show_time(micros) == f"{micros} µs after 1970"
