"""Many decimals at once have the values, and the errors, of each one."""

from __future__ import annotations

import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import CorruptEntryError
from tablefmt.model.scalar_values import decode
from tablefmt.model.schema import Decimal
from tests.scheduling import examples

KINDS = [Decimal(5, 2), Decimal(38, 0), Decimal(38, 38), Decimal(9, 9), Decimal(3, 0)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Decimal, list[str | None]]:
    kind = draw(st.sampled_from(KINDS))
    digits = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
    exact = decimal.Context(prec=60)
    value = digits.map(lambda n: format(exact.scaleb(decimal.Decimal(n), -kind.scale), "f"))
    return kind, draw(st.lists(st.none() | value, min_size=64, max_size=80))


@examples(100)
@given(cases())
def test_many_decimals_are_those_of_single_values(case: tuple[Decimal, list[str | None]]) -> None:
    """VAL-1: to the digit, and NULL where there is none."""
    kind, values = case
    found = decode(values, kind)
    assert found.to_pylist() == [None if v is None else decimal.Decimal(v) for v in values]
    assert found.type == decode(values[:1], kind).type


@pytest.mark.parametrize(
    "wrong",
    [
        "1", "1.2", "1.234", "01.23", "+1.23", "-0.00", ".50", "1.23 ", "1.23\n", "1e1", "NaN", "",
        "١.٢٣", "1000.00", 1.23, 1, True, b"1.23", "\ud800",
    ],
)  # fmt: skip
def test_a_wrong_decimal_among_many_is_refused_as_alone(wrong: Any) -> None:
    """VAL-1: with the same words."""
    told = []
    for values in ([wrong], ["1.23"] * 100 + [wrong, None]):
        with pytest.raises(CorruptEntryError) as raised:
            decode(values, Decimal(5, 2))
        assert raised.value.rule == "VAL-1"
        told.append(raised.value.detail)
    assert told[0] == told[1]


def test_a_negative_number_below_one_is_no_zero() -> None:
    """VAL-1: only zero has no sign."""
    assert decode(["-0.05"] * 64, Decimal(5, 2)).to_pylist() == [decimal.Decimal("-0.05")] * 64
    assert decode([None] * 64, Decimal(5, 2)).null_count == 64


@pytest.mark.parametrize("kind", [Decimal(38, 2), Decimal(38, 0), Decimal(38, 38), Decimal(9, 9)])
def test_a_digit_too_many_is_refused_among_many(kind: Decimal) -> None:
    """VAL-1: Arrow's cast wraps around where 39 digits fit into its 128 bits."""
    point = "." + "0" * kind.scale if kind.scale else ""
    for whole in ("1" + "0" * (kind.precision - kind.scale), "9" * 39, "-" + "9" * 39):
        with pytest.raises(CorruptEntryError):
            decode([whole + point] * 64, kind)
