"""Days and moments beyond Python's calendar, where an error would show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    ConstraintViolationError,
    MergeCardinalityError,
    SchemaMismatchError,
    TablefmtError,
)
from tablefmt.table import Table
from tests.tables import memory

FAR_DAY, FAR_MICROS = 5_000_000, 400_000_000_000_000_000

ROWS = pa.table(
    {
        "id": pa.array([1], pa.int32()),
        "d": pa.array([FAR_DAY], pa.date32()),
        "ts": pa.array([FAR_MICROS], pa.timestamp("us", "UTC")),
        "tn": pa.array([-FAR_MICROS], pa.timestamp("us")),
        "n": pa.nulls(1, pa.int32()),
    }
)
SHOWN = {
    "id": 1,
    "d": "15659-07-15",
    "ts": "14645-06-30 15:06:40.000000Z",
    "tn": "-10706-07-03 08:53:20.000000",
    "n": None,
}


def merge(table: Table) -> Any:
    twice = pa.concat_tables([ROWS, ROWS])
    return table.merge(twice, "t.d = s.d AND t.ts = s.ts").when_matched_update_all().execute()


def checked(table: Table) -> Any:
    table.alter.add_constraint("later", "id > 0 AND (id <> 1 OR n IS NOT NULL OR n > 1 OR TRUE)")
    table.alter.add_constraint("small", "d < DATE '2024-01-01' OR id < 2")
    return table.append(ROWS.set_column(0, "id", pa.array([2], pa.int32())))


USES: dict[str, tuple[Callable[[Table], Any], type[TablefmtError], dict[str, Any]]] = {
    "add_constraint": (
        lambda table: table.alter.add_constraint("c", "d < DATE '2024-01-01'"),
        ConstraintViolationError,
        SHOWN,
    ),
    "set_not_null": (lambda table: table.alter.set_not_null("n"), ConstraintViolationError, SHOWN),
    "check": (checked, ConstraintViolationError, {**SHOWN, "id": 2}),
    "merge": (merge, MergeCardinalityError, {"d": SHOWN["d"], "ts": SHOWN["ts"]}),
}


@pytest.mark.parametrize("name", USES)
def test_an_error_shows_them_as_text(name: str) -> None:
    """DAT-13, ENT-10, MRG-4: no foreign exception."""
    table = tablefmt.create(memory().uri, "id INT, d DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, n INT")
    table.append(ROWS)
    use, kind, row = USES[name]
    with pytest.raises(kind, match="15659-07-15") as caught:
        use(table)
    error = caught.value
    assert (error.keys[0] if isinstance(error, MergeCardinalityError) else error.row) == row  # type: ignore[attr-defined]


def test_a_default_beyond_the_calendar_is_an_error_of_ours() -> None:
    """SCH-7."""
    table = tablefmt.create(memory().uri, "id INT, d DATE")
    with pytest.raises(SchemaMismatchError, match="cannot be the default"):
        table.alter.set_default("d", pa.scalar(FAR_DAY, pa.date32()))
