"""Numbers, lists and structs in Thrift's compact protocol, read back by the second reader."""

from __future__ import annotations

import pytest
from logdump.thrift_compact import I32, I64, LIST, Cursor

from tablefmt.log.thrift_writing import int32, int64, list_of, signed, struct_of

NUMBERS = [0, 1, -1, 63, -64, 64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_has_its_sign_in_the_lowest_bit(number: int) -> None:
    cursor = Cursor(signed(number), 0)
    assert (cursor.signed(), cursor.at) == (number, len(signed(number)))


@pytest.mark.parametrize("count", [0, 1, 14, 15, 300])
def test_a_struct_has_its_fields_and_a_list_its_elements(count: int) -> None:
    """From 15 elements on, a list has another head."""
    elements = [signed(-at) for at in range(count)]
    body = struct_of({1: int32(-5), 3: list_of(I64, elements), 17: int64(2**40)})
    cursor, found = Cursor(body, count), []
    for number, kind in cursor.fields():
        value = [cursor.signed() for _ in cursor.elements(I64)] if kind == LIST else cursor.signed()
        found.append((number, kind, value))
    assert found == [(1, I32, -5), (3, LIST, [-at for at in range(count)]), (17, I64, 2**40)]
    assert cursor.at == len(body)
