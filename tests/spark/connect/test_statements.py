"""Statements on a table as a whole over Spark Connect: unknown there, and what to call instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.entry.pyspark_wrappers import CALLS
from tests.imports.sources import write
from tests.spark.connect.conftest import new_session


@pytest.fixture
def session(connect_address: str) -> Iterator[Any]:
    session = new_session(connect_address)
    for _ in range(2):
        tablefmt.spark.register(session)
    yield session
    session.stop()


CASES: list[tuple[str, str, str, Callable[[Any], Any], int]] = [
    ("/* a */ OPTIMIZE {t} WHERE id > 1", "OPTIMIZE", "compact(", lambda t: t.compact(), 3),
    ("OPTIMIZE {t} ZORDER BY (id)", "OPTIMIZE", "cluster(", lambda t: t.cluster(["id"]), 3),
    ("CONVERT TO tablefmt delta.`/a`", "CONVERT", "import_table(", lambda t: t.to_df().count(), 2),
    ("VACUUM '/a'", "VACUUM", "vacuum(", lambda t: t.vacuum(dry_run=False), 2),
    ("VACUUM {t}", "VACUUM", "vacuum(", lambda t: t.vacuum(dry_run=False), 2),
    ("RESTORE t TO VERSION AS OF 1", "RESTORE", "restore(", lambda t: t.restore(version=1), 3),
    ("DESCRIBE HISTORY {t}", "HISTORY", "history(", lambda t: t.history().collect(), 2),
    ("DESCRIBE DETAIL {t}", "DETAIL", "properties", lambda t: t.table.properties, 2),
]


@pytest.mark.parametrize(("text", "verb", "named", "call", "version"), CASES)
def test_the_error_names_the_call_and_the_call_is_there(
    session: Any,
    tmp_path: Path,
    text: str,
    verb: str,
    named: str,
    call: Callable[[Any], Any],
    version: int,
) -> None:
    """The table is named by path and by name. The error has no traceback of Spark."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, {"id": [1, 2]})
    table.append({"id": [3]})
    before = table.refresh().version
    with pytest.raises(UnsupportedFeatureError, match=f"cannot run {verb} on") as seen:
        session.sql(text.format(t=f"tablefmt.`{uri}`"))
    assert seen.value.features == [f"sql:{verb}"]
    assert seen.value.__context__ is None
    assert named in CALLS[verb]
    assert CALLS[verb] in str(seen.value)
    assert table.refresh().version == before
    call(tablefmt.spark.open(session, uri))
    assert table.refresh().version - before == version - 2


CHANGES = {
    "DELETE FROM {} WHERE id = 1": "delete",
    "update {} set id = 5": "update",
    "MERGE INTO {} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE": "merge",
    "INSERT INTO TABLE {} VALUES (1)": "append",
    "INSERT OVERWRITE {} VALUES (1)": "append",
    "TRUNCATE TABLE {}": "truncate",
    "ALTER TABLE {} ADD COLUMN x INT": "alter",
    "ALTER TABLE {} SET TBLPROPERTIES (appendOnly = 'true')": "alter",
    "SELECT * FROM {} VERSION AS OF 1": "to_df",
}


def test_a_change_by_name_names_the_method_to_call(session: Any, tmp_path: Path) -> None:
    """Spark alone would have altered the columns of the catalog, and no others."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, {"id": [1, 2]})
    session.sql(f"CREATE TABLE `1st` (id BIGINT) USING tablefmt LOCATION '{uri}'")
    session.sql("CREATE TABLE others (id BIGINT) USING parquet")
    try:
        for text, method in CHANGES.items():
            for name in ("`1st`", "default.`1st`", "spark_catalog.default.`1st`"):
                with pytest.raises(UnsupportedFeatureError, match=rf"1st'\)\.{method}[.(]"):
                    session.sql(text.format(name)).collect()
        session.sql("INSERT INTO others VALUES (1)")
        session.sql("ALTER TABLE others ADD COLUMN x INT")
        session.sql("ALTER TABLE `1st` RENAME TO renamed")
        assert session.sql("DESCRIBE renamed").count() == 1
        assert (table.refresh().version, table.schema.names) == (1, ["id"])
    finally:
        for name in ("`1st`", "renamed", "others"):
            session.sql(f"DROP TABLE IF EXISTS {name}")


def test_spark_statements_and_unknown_ones_are_unchanged(session: Any) -> None:
    """Arguments reach Spark, and its errors the caller."""
    from pyspark.errors import ParseException

    assert session.sql("SELECT :a + 1 AS b", args={"a": 2}).collect() == [(3,)]
    assert session.sql("SELECT * FROM {df}", df=session.range(2)).count() == 2
    for text in ("OPTIMIZE", "VACUUM t DRY", "SELECT (1"):
        with pytest.raises(ParseException):
            session.sql(text)


def test_imports_and_exports_over_connect(session: Any, tmp_path: Path) -> None:
    """IMP-4, XPT-1: the client imports and exports; the server's workers read the files."""
    write(tmp_path / "s" / "p=1" / "a.parquet", {"A": pa.array([1, 2], pa.int32())})
    write(tmp_path / "s" / "p=2" / "b.parquet", {"a": [3.5]})
    table = tablefmt.spark.import_table(session, str(tmp_path / "s"))
    assert sorted(table.to_df().collect()) == [(1.0, 1), (2.0, 1), (3.5, 2)]
    table.delete("A = 2")
    assert sorted(row.A for row in table.to_df().collect()) == [1.0, 3.5]
    loaded = session.read.format("tablefmt").load(str(tmp_path / "s"))
    assert sorted(row.A for row in loaded.collect()) == [1.0, 3.5]
    plain = tablefmt.create(str(tmp_path / "t"), {"id": [1, 2]})
    report = tablefmt.spark.open(session, plain.uri).export("delta")
    assert (report.exported, report.held) == (1, None)
    assert pa.table(deltalake.DeltaTable(plain.uri).scan())["id"].to_pylist() == [1, 2]
