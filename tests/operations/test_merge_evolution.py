"""MERGE with schema merging: what comes in, and what stays inside structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from tests import overlays
from tests.overlays import Kind, Row
from tests.tables import rows_by_id, table_of_rows


@pytest.mark.parametrize("kind", [overlays.LACKING, overlays.COMPLETE])
def test_fields_that_the_source_lacks_stay(tmp_path: Path, kind: Kind) -> None:
    """MRG-1: this holds at any depth. NULL over NULL is NULL."""
    table = table_of_rows(str(tmp_path / "t"), overlays.DDL, overlays.target_rows())
    merge = table.merge(overlays.source_rows(kind), "t.id = s.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_by_id(table) == overlays.expected(kind)


def test_a_field_that_is_not_null_stays_or_is_missed(tmp_path: Path) -> None:
    """MRG-1, DAT-3."""
    ddl = "id INT, v STRUCT<a: INT NOT NULL, b: INT>"
    rows: list[Row] = [{"id": 1, "v": {"a": 1, "b": 2}}, {"id": 2, "v": None}]
    table = table_of_rows(str(tmp_path / "t"), ddl, rows)
    shape = pa.schema([("id", pa.int32()), ("v", pa.struct([("b", pa.int32())]))])

    def merged(*rows: Row) -> None:
        source = pa.Table.from_pylist(list(rows), shape)
        merge = table.merge(source, "t.id = s.id", merge_schema=True)
        merge.when_matched_update_all().execute()

    with pytest.raises(ConstraintViolationError, match=r"v\.a"):
        merged({"id": 2, "v": {"b": 7}})
    merged({"id": 1, "v": {"b": 7}}, {"id": 2, "v": None})
    assert rows_by_id(table) == [{"id": 1, "v": {"a": 1, "b": 7}}, {"id": 2, "v": None}]


def test_what_a_clause_names_comes_in(tmp_path: Path) -> None:
    """MRG-1: columns and fields that only the source has, and no others."""
    rows: list[Row] = [{"id": 1, "v": {"a": 1}}, {"id": 2, "v": None}]
    table = table_of_rows(str(tmp_path / "t"), "id INT, v STRUCT<a: INT>", rows)
    source = pa.table(
        {
            "id": pa.array([1, 9], pa.int32()),
            "extra": [5, 6],
            "other": ["x", "y"],
            "w": [{"p": 1, "q": 2}, {"p": 3, "q": 4}],
            "v": [{"k": 7, "j": 8}, {"k": 9, "j": 10}],
        }
    )

    def merge(*, merge_schema: bool = True) -> Any:
        return table.merge(source, "t.id = s.id", merge_schema=merge_schema)

    for statement in (
        merge(merge_schema=False).when_matched_update({"extra": "s.extra"}),
        merge().when_matched_update({"nowhere": "s.extra"}),
        merge().when_not_matched_by_source_update({"extra": "1"}),
    ):
        with pytest.raises(SchemaMismatchError, match="no column"):
            statement.execute()
    with pytest.raises(UnsupportedFeatureError):
        merge().when_not_matched_insert({"v.k": "1"}).execute()
    assert table.refresh().version == 1
    merge().when_matched_update({"t.extra": "s.extra + 1", "v.k": "s.v.k"}).execute()
    merge().when_not_matched_insert({"id": "s.id", "w": "s.w"}).execute()
    assert rows_by_id(table) == [
        {"id": 1, "v": {"a": 1, "k": 7}, "extra": 6, "w": None},
        {"id": 2, "v": None, "extra": None, "w": None},
        {"id": 9, "v": None, "extra": None, "w": {"p": 3, "q": 4}},
    ]
    merge().when_matched_update({"v": "s.v"}).execute()
    assert rows_by_id(table)[0]["v"] == {"a": None, "k": 7, "j": 8}


REFUSED: dict[str, tuple[Any, str]] = {
    "unsigned": (pa.array([1, 2], pa.uint64()), "uint64, which Spark lacks; use decimal128"),
    "small": (pa.array([1, 2], pa.uint8()), "uint8, which Spark lacks; use int16"),
    "half": (pa.array([1, 2], pa.float16()), "halffloat, which Spark lacks; use float32"),
    "time": (pa.array([1, 2], pa.time32("s")), r"time32\[s\], which Spark lacks; use int32"),
    "length": (pa.array([1, 2], pa.duration("us")), r"duration\[us\], which Spark lacks"),
    "wide": (pa.array([1, 2], pa.decimal256(60)), r"decimal256\(60, 0\), which Spark lacks"),
    "listed": (pa.array([[1], []], pa.list_(pa.uint16())), r"'v\.element' has type uint16"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_source_column_of_a_type_that_spark_lacks_is_named_where_it_is_used(
    kind: str, tmp_path: Path
) -> None:
    """SCH-5: the error names the column, its type and what to use; unused it does no harm."""
    values, said = REFUSED[kind]
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, v BIGINT")
    table.append([{"id": 1, "v": 7}])
    source = pa.table({"id": [1, 2], "v": values})

    def merge(on: str = "t.id = s.id", *, merge_schema: bool = False) -> Any:
        return table.merge(source, on, merge_schema=merge_schema)

    bare = tablefmt.create(str(tmp_path / "bare"), "id BIGINT")
    evolving = bare.merge(source, "t.id = s.id", merge_schema=True)
    for used in (
        merge().when_matched_update_all(),
        merge(merge_schema=True).when_matched_update_all(),
        merge().when_not_matched_insert_all(),
        merge().when_matched_update({"v": "s.v"}),
        merge().when_matched_delete("length(s.v) = 1"),
        merge("t.v = s.v").when_matched_delete(),
        evolving.when_not_matched_insert_all(),
    ):
        with pytest.raises(SchemaMismatchError, match=said):
            used.execute()
    merge().when_matched_update({"id": "s.id + 5"}).when_not_matched_insert(
        {"id": "s.id"}
    ).execute()
    assert rows_by_id(table) == [{"id": 2, "v": None}, {"id": 6, "v": 7}]
