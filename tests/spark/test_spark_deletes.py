"""Tables of which rows were deleted: the Arrow plane leaves them out, the native one says no.

The versions before stay readable on both.
"""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.entry import OperationClass
from tablefmt.spark import planes
from tests.rows import StagedTable
from tests.spark.looking import rows_of


@pytest.fixture
def staged(uri: str) -> StagedTable:
    """Two files of four rows; at version 3 three rows are gone, and one is new."""
    table = StagedTable(uri)
    for start in (0, 4):
        table.commit(OperationClass.INSERT, [[(start + i, i) for i in range(4)]])
    table.commit(
        OperationClass.UPDATE, [[(5, 9)]], marks={1: ([0, 3], []), 2: ([], [1])}, updated=[True]
    )
    return table


def test_the_native_plane_refuses_by_name(spark: Any, staged: StagedTable) -> None:
    """DEL-4: by function, by format and by SQL; older versions are read."""
    uri = staged.table.uri
    tablefmt.spark.register(spark)
    spark.sql(f"CREATE TABLE gone USING tablefmt OPTIONS (path '{uri}')")
    for read in (
        lambda: tablefmt.spark.read(spark, uri),
        lambda: spark.read.format("tablefmt").load(uri),
        lambda: spark.sql("SELECT count(*) FROM gone"),
    ):
        with pytest.raises(UnsupportedFeatureError, match="rows of 2 data files were deleted"):
            read().collect()
    spark.sql("DROP TABLE gone")
    before = tablefmt.spark.read(spark, uri, version=2)
    assert rows_of(before) == rows_of(staged.table.to_arrow(version=2))


def test_the_native_plane_refuses_the_rest_of_a_file_that_went(
    spark: Any, staged: StagedTable
) -> None:
    """INC-3: the change feed would give rows that were deleted before."""
    staged.commit(OperationClass.OVERWRITE, [[(50, 0)]], [1])
    with pytest.raises(UnsupportedFeatureError, match="rows of 1 data files"):
        tablefmt.spark.open(spark, staged.table.uri).changes(after_version=3)
    staged.commit(OperationClass.INSERT, [[(60, 0)]])
    later = tablefmt.spark.open(spark, staged.table.uri).changes(after_version=4)
    assert [row.id for row in later.collect()] == [60]


def test_the_arrow_plane_leaves_the_rows_out(
    spark: Any, staged: StagedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEL-4, INC-3: in Spark's workers, and in the change feed."""
    monkeypatch.setattr(planes, "choose", lambda spark, store: planes.Plane("arrow", "a test"))
    uri = staged.table.uri
    assert rows_of(tablefmt.spark.read(spark, uri)) == rows_of(staged.table.to_arrow())
    staged.commit(OperationClass.OVERWRITE, [], [1])
    changes = tablefmt.spark.open(spark, uri).changes(after_version=3).collect()
    assert sorted((row.id, row._change_type) for row in changes) == [(1, "delete"), (2, "delete")]
