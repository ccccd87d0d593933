"""Two readers of one specification: what one takes for sound, the other reads, and reads alike."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import TablefmtError
from tests.oracle import assert_agrees, logdump
from tests.spec.spoiled import spoil

pytestmark = pytest.mark.broken_tables


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_value_in_any_place_of_an_entry_is_read_alike_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """ENT-3 to ENT-8, ADD-1, ADD-6, VAL-1: no foreign error, and no state that only one sees."""
    folder = tmp_path_factory.mktemp("table")
    spoil(data, folder)
    findings = logdump.read(str(folder))["findings"]
    try:
        table = tablefmt.open(str(folder))
        table.scan().files()
        table.history()
    except TablefmtError:
        assert findings != []
        return
    if not findings:
        assert_agrees(table)
