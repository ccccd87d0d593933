"""A session whose `spark_catalog` is somebody else's, as Delta's and Iceberg's are."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.entry.registration import CATALOG
from tablefmt.spark.jvm import java_classes
from tests.places import ROOT
from tests.tables import sorted_rows

SOURCE = """
package peer%d;
public class Catalog extends org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension {
}
"""
"""Hands everything on, as a catalog does with tables that are not its own."""

_numbers = itertools.count()


def compiled(spark: Any, folder: Path, number: int) -> str:
    """The name of a catalog's class that Spark's class loader finds."""
    jvm = spark._jvm
    resource = jvm.org.codehaus.commons.compiler.util.resource
    texts = spark.sparkContext._gateway.new_array(resource.Resource, 1)
    texts[0] = resource.StringResource(f"peer{number}/Catalog.java", SOURCE % number)
    compiler = jvm.org.codehaus.janino.Compiler()
    there = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(there))
    classes = jvm.java.util.HashMap()
    compiler.setClassFileCreator(resource.MapResourceCreator(classes))
    compiler.compile(texts)
    (name,) = list(classes.keySet())
    (folder / f"peer{number}").mkdir()
    (folder / name).write_bytes(bytes(classes.get(name)))
    java_classes._loader(spark).addURL(jvm.java.io.File(str(folder)).toURI().toURL())
    return f"peer{number}.Catalog"


@pytest.fixture(params=["fresh", "in use"])
def other(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Any]:
    """A registered session with another's catalog, which Spark has asked before, or not."""
    session = spark.newSession()
    session.conf.set(CATALOG, compiled(spark, tmp_path, next(_numbers)))
    if request.param == "in use":
        session.sql("SHOW TABLES").collect()
    tablefmt.spark.register(session)
    assert session.conf.get(CATALOG).startswith("peer")
    yield session
    for table in session.sql("SHOW TABLES").collect():
        session.sql(f"DROP TABLE IF EXISTS `{table.tableName}`")


def statements_work(session: Any, name: str, uri: str) -> None:
    """Run all SQL statements on a table of ids 0 to 4, all with 'a', that has one version."""
    assert sorted_rows(session.sql(f"SELECT id FROM {name} WHERE id > 2")) == [(3,), (4,)]
    session.sql(f"DELETE FROM {name} WHERE id = 0")
    session.sql(f"UPDATE {name} SET v = 'b' WHERE id = 1")
    session.sql(f"INSERT INTO {name} VALUES (9, 'i')")
    session.sql(
        f"MERGE INTO {name} AS t USING (SELECT id + 2 AS k FROM range(6)) ON t.id = k "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, 'n')"
    )
    expected = [(1, "b"), (2, "m"), (3, "m"), (4, "m"), (5, "n"), (6, "n"), (7, "n"), (9, "i")]
    assert sorted_rows(session.sql(f"SELECT * FROM {name}")) == expected
    version = tablefmt.open(uri).version
    session.sql(f"OPTIMIZE {name}").collect()
    session.sql(f"DELETE FROM {name} WHERE id > 1")
    session.sql(f"RESTORE {name} TO VERSION AS OF {version}").collect()
    session.sql(f"VACUUM {name} DRY RUN").collect()
    assert sorted_rows(session.sql(f"SELECT * FROM {name} VERSION AS OF {version}")) == expected
    done = [row.operation for row in session.sql(f"DESCRIBE HISTORY {name}").collect()]
    assert done[:5] == ["RESTORE", "DELETE", "COMPACT MINOR", "MERGE", "WRITE"]
    session.sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (id > 0)")
    shown = session.sql(f"SHOW TBLPROPERTIES {name} ('constraints.positive')").first()
    assert shown.value == "id > 0"
    columns = tablefmt.open(uri).to_arrow().select(["id", "v"]).to_pydict().values()
    assert sorted(zip(*columns, strict=True)) == expected


@pytest.mark.parametrize("other", ["fresh"], indirect=True)
def test_statements_by_path_work_below_another_catalog(other: Any, uri: str) -> None:
    tablefmt.spark.write(other.range(5).selectExpr("id", "'a' AS v"), uri)
    statements_work(other, f"tablefmt.`{uri}`", uri)


@pytest.mark.parametrize("other", ["in use"], indirect=True)
def test_statements_by_name_work_below_another_catalog(other: Any, uri: str) -> None:
    other.sql(f"CREATE TABLE mine (id BIGINT, v STRING) USING tablefmt LOCATION '{uri}'")
    other.sql("INSERT INTO mine SELECT id, 'a' FROM range(5)")
    statements_work(other, "mine", uri)
    other.sql("CREATE TABLE alike LIKE mine")
    assert other.table("alike").columns == ["id", "v"]
    other.sql("ALTER TABLE mine ADD COLUMN more INT")
    assert tablefmt.open(uri).schema.names == ["id", "v", "more"]


def test_tables_of_others_stay_as_they_are_below_another_catalog(other: Any) -> None:
    other.sql("CREATE TABLE plain USING parquet AS SELECT id FROM range(3)")
    other.sql("INSERT INTO plain VALUES (7)")
    assert sorted_rows(other.table("plain")) == [(0,), (1,), (2,), (7,)]
    other.sql("CREATE TABLE kept USING tablefmt AS SELECT id FROM range(3)")
    other.range(3, 5).writeTo("kept").append()
    assert sorted_rows(other.table("kept")) == [(0,), (1,), (2,), (3,), (4,)]


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_statements_work_below_the_catalogs_of_peers(kind: str, tmp_path: Path) -> None:
    """The catalogs have their own jars, from Maven.

    `catalog_job` asserts, and `checks.old_sparks` runs it.
    """
    if not pyspark.__version__.startswith("4.1."):
        pytest.skip("the newest jars of Delta and Iceberg are for Spark 4.1")
    jars = str(tmp_path / "jars")
    groups = "-DincludeGroupIds=io.delta,io.unitycatalog,org.apache.iceberg"
    maven = ["mvn", "-q", "-f", str(ROOT / "benchmarks" / "peers.xml")]
    subprocess.run(
        [*maven, "dependency:copy-dependencies", groups, f"-DoutputDirectory={jars}"], check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.entry.catalog_job", kind, jars, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
    )
    assert done.stdout.splitlines()[-1:] == ["passed"], done.stderr[-4000:]
