"""Values beyond the range of their column, by each way into a table without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import SchemaMismatchError

BEYOND: list[tuple[str, pa.DataType, Any, str]] = [
    ("TINYINT", pa.int64(), 300, "BIGINT"),
    ("FLOAT", pa.float64(), 1e300, "DOUBLE"),
    ("FLOAT", pa.float64(), -1e300, "DOUBLE"),
    ("INT", pa.float64(), 1e300, "DOUBLE"),
    ("BIGINT", pa.float64(), 2.0**63, "DOUBLE"),
    ("DECIMAL(5, 2)", pa.float64(), 1e30, "DOUBLE"),
    ("TIMESTAMP_NTZ", pa.date32(), 2**31 - 1, "DATE"),
    ("TIMESTAMP", pa.date32(), -(2**31) + 1, "DATE"),
]


def new(columns: str) -> Any:
    return tablefmt.create(f"memory://ranges-{uuid.uuid4().hex}", columns)


@pytest.mark.parametrize(("narrow", "kind", "value", "wide"), BEYOND)
def test_a_value_beyond_its_column_is_refused_by_every_way(
    narrow: str, kind: pa.DataType, value: Any, wide: str
) -> None:
    """SCH-5, SQL-3: the error names the column, and nothing is committed."""
    given = pa.array([value], pa.int32()).view(kind) if kind == pa.date32() else pa.array([value])
    rows = pa.table({"id": pa.array([1], pa.int64()), "v": given.cast(kind)})
    table = new(f"id BIGINT, v {narrow}, w {wide}")
    table.append({"id": [1]})
    table.append(rows.set_column(0, "id", pa.array([2], pa.int64())).rename_columns(["id", "w"]))
    source = new(f"id BIGINT, v {wide}")
    source.append(rows)
    ways: list[Callable[[], Any]] = [
        lambda: table.append(rows),
        lambda: table.overwrite(rows),
        lambda: table.update({"v": "w"}, "id = 2"),
        lambda: table.merge(rows, "t.id = s.id").when_matched_update({"v": "s.v"}).execute(),
        lambda: (
            table.merge(rows, "t.id = -s.id")
            .when_not_matched_insert({"id": "s.id", "v": "coalesce(s.v, s.v)"})
            .execute()
        ),
        lambda: tablefmt.pipe(source).into(table),
        lambda: tablefmt.pipe(source).into(table, keys="id"),
    ]
    for way in ways:
        with pytest.raises(SchemaMismatchError, match="column 'v'") as caught:
            way()
        assert caught.value.columns == ["v"]
    assert table.refresh().version == 2


def test_an_infinite_number_fits_and_a_default_beyond_a_float_does_not() -> None:
    """SQL-3, SCH-7."""
    table = new("id BIGINT, v FLOAT")
    endless = float("inf")
    table.append({"id": [1]})
    rows = pa.table({"id": [1], "v": [endless]})
    table.merge(rows, "t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(SchemaMismatchError, match="out of range"):
        table.alter.add_column("w", "FLOAT", default=1e300)
    table.alter.add_column("w", "FLOAT", default=-endless)
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": endless, "w": -endless}]
