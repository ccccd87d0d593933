"""Metadata tables and changes over Spark Connect: what works there, and the call to use instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError, VersionNotFoundError
from tablefmt.operations.metadata_tables import NAMES, metadata_rows
from tests.spark.looking import rows_of


@pytest.fixture
def table(connect: Any, tmp_path: Path) -> tablefmt.Table:
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, p STRING", partition_by=["p"])
    table.append({"id": [1, 2], "p": ["a", None]})
    table.append({"id": [3], "p": ["a"]})
    table.delete("id = 3")
    table.alter.set_tag("q", version=1)
    return table.refresh()


def test_metadata_tables_have_the_rows_of_the_python_api(
    connect: Any, table: tablefmt.Table
) -> None:
    """By path as a DataFrame, and as a temporary view in SQL."""
    for kind in NAMES:
        rows = metadata_rows(table.context, kind)
        loaded = connect.read.format("tablefmt").load(f"{table.uri}#{kind}")
        assert loaded.columns == rows.column_names
        assert rows_of(loaded, rows.schema) == rows_of(rows), kind
    rows = table.scan(version=1).files()
    for version in ("1", "q"):
        old = connect.read.format("tablefmt").option("versionAsOf", version)
        assert rows_of(old.load(f"{table.uri}#files"), rows.schema) == rows_of(rows)
    connect.sql(
        f"CREATE TEMPORARY VIEW inspected_files USING tablefmt OPTIONS (path '{table.uri}#files')"
    )
    found = connect.sql("SELECT version, partition.p FROM inspected_files WHERE rows > 0")
    assert found.collect() == [(1, "a"), (1, None)]
    connect.sql("DROP VIEW inspected_files")
    with pytest.raises(InvalidRangeError, match="covers all versions"):
        connect.read.format("tablefmt").option("versionAsOf", 1).load(f"{table.uri}#tags").collect()
    with pytest.raises(VersionNotFoundError, match="99"):
        connect.read.format("tablefmt").option("versionAsOf", 99).load(
            f"{table.uri}#files"
        ).collect()


def test_sql_of_a_server_without_our_classes_says_what_to_call(
    connect: Any, table: tablefmt.Table
) -> None:
    """The errors name the path. Names that are none of ours keep the error of Spark."""
    from pyspark.errors import AnalysisException

    tablefmt.spark.register(connect)
    connect.sql(f"CREATE TABLE inspected_t (id BIGINT) USING tablefmt LOCATION '{table.uri}'")
    connect.sql("CREATE TABLE inspected_p USING parquet AS SELECT 1 AS x")
    try:
        for name in (
            "inspected_t.files",
            "spark_catalog.default.inspected_t.FILES",
            f"tablefmt.`{table.uri}`.files",
        ):
            with pytest.raises(UnsupportedFeatureError, match="by its name") as seen:
                connect.sql(f"SELECT * FROM {name}")
            assert seen.value.features == ["sql:files"]
            assert f"load('{table.uri}#files')" in str(seen.value)
        for call in ("table_changes('t', 1)", "TABLE_CHANGES_BY_PATH('/t', 1)"):
            with pytest.raises(UnsupportedFeatureError, match="readChangeFeed"):
                connect.sql(f"SELECT * FROM {call}")
        for text in (
            "SELECT * FROM inspected_p.files",
            "SELECT * FROM missing.history",
            "SELECT * FROM default.missing.history",
            "SELECT missing FROM inspected_p",
        ):
            with pytest.raises(AnalysisException):
                connect.sql(text)
    finally:
        connect.sql("DROP TABLE inspected_t")
        connect.sql("DROP TABLE inspected_p")
    connect.sql(
        "CREATE TEMPORARY VIEW inspected_changes USING tablefmt "
        f"OPTIONS (path '{table.uri}', readChangeFeed 'true', startingVersion '3')"
    )
    found = connect.sql("SELECT id, _change_type FROM inspected_changes").collect()
    assert found == [(3, "delete")]
    connect.sql("DROP VIEW inspected_changes")
