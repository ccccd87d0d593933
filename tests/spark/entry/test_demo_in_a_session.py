"""The demo with some of its flights, in a session that runs already.

At each change, README and the guides run the same statements: test_pages.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.demo.flights import load
from tablefmt.demo.story import SPARK_CONF
from tablefmt.spark.entry.spark_session import DEFAULTS
from tests.demo.test_demo import by_month

ROWS = 2_000


@pytest.fixture
def settings(spark: Any) -> Iterator[None]:
    """The settings of the session of all tests, which the demo changes."""
    names = [name for name in (*SPARK_CONF, *DEFAULTS) if name.startswith("spark.sql.")]
    before = {name: spark.conf.get(name) for name in names}
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
    spark.sparkContext.setLogLevel("OFF")


@pytest.mark.soak
@pytest.mark.usefixtures("settings")
def test_some_flights_go_through_a_table_and_back(spark: Any, tmp_path: Path) -> None:
    """Every comparison with pandas holds, both tables have the rows, and the session goes on."""
    done = CliRunner().invoke(main, ["demo", "--uri", str(tmp_path), "--rows", str(ROWS)])
    lines = done.output.splitlines()
    verdicts = [line.split()[0] for line in lines if line.startswith(("ok ", "WRONG "))]
    assert (done.exit_code, set(verdicts)) == (0, {"ok"}), done.output[-2000:]
    assert f"{len(verdicts)} checks, 0 wrong" in lines[-1]
    assert "backend: Spark reads and writes the data files itself" in lines
    for name in ("flights", "flights_copy"):
        listed = tablefmt.open(tmp_path / name).to_arrow(columns=["month"])["month"].value_counts()
        found = {one["values"]: one["counts"] for one in listed.to_pylist()}
        assert found == by_month(load(ROWS), cancelled_in_february=False)
    log = CliRunner().invoke(main, ["log", str(tmp_path / "flights")])
    assert log.output in done.output
    assert len(log.output.splitlines()) == 1 + 14
    assert spark.range(3).count() == 3
