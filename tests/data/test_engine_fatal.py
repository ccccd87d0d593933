"""A fatal error of one engine does not affect others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablefmt.errors import InvalidPredicateError
from tests.tables import new_table, rows


def test_text_that_is_no_text_stops_one_statement_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL-1: DuckDB calls its whole instance invalid then, and others share it."""
    # A writer of ours refuses such text; another's may not.
    monkeypatch.setattr("tablefmt.data.column_cast._check_sound", lambda values, name: None)
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    bad, good = new_table(), new_table()
    bad.append(pa.table({"id": [1], "p": broken}))
    good.append(rows(1, 2, p="a"))
    for _ in range(2):
        with pytest.raises(InvalidPredicateError, match="cannot be evaluated"):
            bad.to_arrow(where="upper(p) = 'X'")
        assert good.to_arrow(where="upper(p) = 'A'")["id"].to_pylist() == [1, 2]
