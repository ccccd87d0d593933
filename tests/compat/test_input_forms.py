"""Forms of rows, filters and schemas that programs of delta-rs pass, with another import."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tablefmt.compat.deltalake import DeltaTable, Field, Schema, write_deltalake
from tablefmt.compat.deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

ROWS = {"num": [1, 2, 3], "letter": ["a", "b", "c"]}


def found(place: Any, **how: Any) -> list[tuple[Any, ...]]:
    rows = DeltaTable(place).to_pyarrow_table(**how).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize(
    "defined", [{}, {"name": "n", "configuration": {"delta.appendOnly": "false"}}]
)
@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pa.table(ROWS),
        pa.table(ROWS).to_batches(max_chunksize=2),
        pa.table(ROWS).to_pylist(),
    ],
    ids=["pandas", "polars", "arrow", "batches", "dicts"],
)
def test_rows_of_every_form_make_a_table(tmp_path: Path, rows: Any, defined: Any) -> None:
    write_deltalake(tmp_path / "t", rows, partition_by=["letter"], **defined)
    assert found(tmp_path / "t") == [(1, "a"), (2, "b"), (3, "c")]
    table = DeltaTable(tmp_path / "t")
    assert table.metadata().partition_columns == ["letter"]
    assert table.metadata().name == defined.get("name")


def test_a_reader_of_batches_is_read_once(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table(ROWS).to_reader(), description="read once")
    assert found(tmp_path / "t") == [(1, "a"), (2, "b"), (3, "c")]


def test_filters_of_every_form_select_the_same_rows(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_deltalake(place, pa.table({"y": [2025, 2026, 2026], "n": [1, 2, 3]}), partition_by="y")
    assert found(place, partitions=[("y", "=", "2026")]) == [(2026, 2), (2026, 3)]
    assert found(place, partitions=[("y", "in", ["2025", "2024"])]) == [(2025, 1)]
    assert found(place, filters=[[("n", ">", 2)], [("y", "=", 2025)]]) == [(2025, 1), (2026, 3)]
    both = found(place, partitions=[("y", "=", "2026")], filters=[[("n", "=", 2)], [("n", "=", 1)]])
    assert both == [(2026, 2)]
    assert found(place, filters=pa.compute.field("n") == 3) == [(2026, 3)]
    table = DeltaTable(place)
    assert len(table.file_uris([("y", "=", "2026")])) == 1
    assert len(table.file_uris(file_pruning_predicate="y = 2025 OR n > 2")) == 2


def test_versions_load_by_time(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table(ROWS))
    table = DeltaTable(tmp_path / "t")
    now = datetime.now(timezone.utc)
    table.delete()
    for when in (now, now.isoformat(), "2099-12-19T16:39:57-08:00"):
        table.load_as_version(when)
        assert (table.version(), table.count()) == ((2, 0) if "2099" in str(when) else (1, 3))


def test_schemas_keep_nested_types(tmp_path: Path) -> None:
    schema = Schema(
        [
            Field("a", ArrayType(PrimitiveType("integer"))),
            Field("s", StructType([Field("x", "double", nullable=False)])),
            Field("m", MapType("string", "long", value_contains_null=False)),
        ]
    )
    table = DeltaTable.create(tmp_path / "t", schema=schema)
    assert table.schema() == schema
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_arrow(schema.to_arrow()) == schema
    assert schema.fields[0].to_arrow() == pa.field("a", schema.fields[0].type.to_arrow())
