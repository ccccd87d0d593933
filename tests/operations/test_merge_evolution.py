"""MERGE with schema merging: what comes in, and what stays inside structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

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
