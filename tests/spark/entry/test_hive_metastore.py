"""Tables in a catalog that outlives its session: Hive's metastore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tablefmt

pytestmark = [pytest.mark.spark, pytest.mark.soak]

PROGRAM = """
import json, sys
import tablefmt.spark
from pyspark.sql import SparkSession

folder, statements = sys.argv[1], json.loads(sys.argv[2])
database = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", database)
    .config("spark.driver.extraJavaOptions", f"-Dderby.stream.error.file={folder}/derby.log")
    .enableHiveSupport()
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
assert spark.conf.get("spark.sql.catalogImplementation") == "hive"
tablefmt.spark.register(spark)
answers = [spark.sql(each).collect() for each in statements]
print("ANSWERS", json.dumps([sorted(map(list, rows), key=str) for rows in answers], default=str))
spark.stop()
"""


def answers(folder: Path, *statements: str) -> list[list[Any]]:
    """Return the answers of a session in its own process, as JSON values."""
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(statements)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, cwd=folder
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert len(lines) == 1, done.stderr[-4000:]
    found: list[list[Any]] = json.loads(lines[0].removeprefix("ANSWERS "))
    return found


def test_tables_of_one_session_are_there_in_the_next(tmp_path: Path) -> None:
    """Managed ones and those with a path, names in any case and with dots; and the columns that a
    RESTORE took back are those that the next session reads.
    """
    place = tmp_path / "e"
    answers(
        tmp_path,
        "CREATE DATABASE d",
        "CREATE TABLE d.m (Id BIGINT, part STRING, s STRUCT<a: INT, `b c`: STRING>) "
        "USING tablefmt PARTITIONED BY (part)",
        "INSERT INTO d.m VALUES (1, 'a', named_struct('a', 1, 'b c', 'x')), (2, 'b', NULL)",
        "CREATE TABLE e (id BIGINT NOT NULL, `odd. name` STRING) USING tablefmt "
        f"OPTIONS (path '{place}')",
        "INSERT INTO e VALUES (1, 'q')",
        "ALTER TABLE e ADD COLUMN late INT",
        "INSERT INTO e VALUES (2, 'q', 3)",
        "RESTORE e TO VERSION AS OF 1",
        "CREATE TABLE c USING tablefmt AS SELECT id FROM range(3)",
    )
    found = answers(
        tmp_path,
        "SELECT Id, part, s.`b c` FROM d.m",
        "SELECT * FROM e",
        "SELECT * FROM c",
        "UPDATE d.m SET part = 'z' WHERE id = 1",
        "OPTIMIZE d.m",
        "RESTORE e TO VERSION AS OF 3",
        "SELECT * FROM e",
        "DROP TABLE c",
        "SHOW TABLES",
    )
    assert found[0] == [[1, "a", "x"], [2, "b", None]]
    assert found[1] == [[1, "q"]]
    assert found[2] == [[0], [1], [2]]
    assert found[6] == [[1, "q", None], [2, "q", 3]]
    assert found[8] == [["default", "e", False]]
    last = answers(tmp_path, "SELECT id, part FROM d.m", "SELECT * FROM e", "DESCRIBE DETAIL e")
    assert last[0] == [[1, "z"], [2, "b"]]
    assert last[1] == found[6]
    assert str(place) in last[2][0]
    assert tablefmt.open(str(place)).schema.names == ["id", "odd. name", "late"]
