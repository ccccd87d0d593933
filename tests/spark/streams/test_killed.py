"""SIGKILL at random moments of running streams: what comes of them is what the files say."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tests.places import ROOT
from tests.spark.streams.queries import Feed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

SEED = 20261122
DELAY_SECONDS_MAX = 0.6
"""About a batch."""


def job(python: Path, folder: Path, batches: int, seconds: float) -> int:
    """Run the queries in a process of their own. Return its exit code."""
    command = [sys.executable, "-m", "tests.spark.streams.killed_job"]
    with (folder / "job.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, str(folder), str(batches), str(seconds)],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": str(python)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return process.wait(1800)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def rows(uri: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in tablefmt.open(str(uri)).to_arrow().to_pylist())


@pytest.mark.soak
@pytest.mark.parametrize("kills", [1, 50])
def test_killed_at_any_moment_every_row_is_there_once(
    tmp_path: Path, forked_python: Path, kills: int
) -> None:
    """STR-11, STR-13: appended batches, whole tables of a count, a MERGE of each batch, and a table
    as the source of another one.
    """
    chosen = random.Random(SEED + kills)
    feed = Feed(None, tmp_path)
    tablefmt.create(str(tmp_path / "merged"), "p STRING, count BIGINT")
    tablefmt.create(str(tmp_path / "appended"), "id BIGINT, p STRING")
    for number in range(kills):
        for _ in range(4):
            first = len(feed.rows)
            feed.put(*range(first, first + chosen.randrange(4)))
        batches, seconds = chosen.randrange(1, 4), chosen.uniform(0, DELAY_SECONDS_MAX)
        ended = job(forked_python, tmp_path, batches, seconds)
        assert ended == -signal.SIGKILL, (number, (tmp_path / "job.log").read_text()[-4000:])
    feed.put(*range(len(feed.rows), len(feed.rows) + 3))
    assert job(forked_python, tmp_path, 0, 0) == 0, (tmp_path / "job.log").read_text()[-4000:]
    counts = Counter(list(Counter(p for _, p in feed.rows).items()))
    assert rows(tmp_path / "appended") == rows(tmp_path / "copied") == Counter(feed.rows)
    assert rows(tmp_path / "counted") == counts
    assert rows(tmp_path / "merged") == counts
