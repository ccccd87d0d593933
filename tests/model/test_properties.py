"""Durations as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tablefmt.model.properties import duration_seconds, duration_text


@given(st.integers(0, 999_999) | st.integers(0, 11).map(lambda count: count * 86_400))
def test_a_duration_is_read_back_from_its_text(seconds: int) -> None:
    """PTY-3."""
    text = duration_text(seconds)
    assert duration_seconds(text) == seconds
    assert int(text.partition(" ")[0]) <= seconds


def test_it_has_the_largest_unit_that_fits() -> None:
    assert duration_text(604_800) == "7 days"
    assert duration_text(3600) == "1 hour"
    assert duration_text(90) == "90 seconds"
    assert duration_text(0.5) == "0.5 seconds"
