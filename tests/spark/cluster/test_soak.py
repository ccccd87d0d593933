"""A standalone cluster of two workers whose executors die, for a chosen time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT, TOOLS
from tests.spark.cluster.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SECONDS = float(os.environ.get("TABLEFMT_SOAK_SECONDS", "300"))
"""An hour is 3600; give pytest a longer `--timeout` then."""
ROUND_SECONDS = (60.0, 400.0)
CONFIGS = (
    "plain",
    "kryo+dynamic",
    "speculation+aqe",
    "kryo+speculation+dynamic+aqe",
    "dynamic+aqe",
    "kryo+aqe",
    "speculation+dynamic",
    "kryo+speculation",
)
"""Each application has one; of the first four, every two of them meet."""


def round_seconds() -> float:
    shortest, longest = ROUND_SECONDS
    return min(longest, max(shortest, SECONDS / len(CONFIGS)))


def application(url: str, workers: tuple[int, ...], *arguments: str) -> dict[str, Any]:
    """Run one application to its end and return its report."""
    command = [sys.executable, "-m", "tests.spark.cluster.soak", url, ",".join(map(str, workers))]
    done = subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TOOLS))),
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        timeout=round_seconds() + 1800,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, f"no report of {arguments}: {done.stderr[-6000:]}"
    report: dict[str, Any] = json.loads(lines[-1])
    return report


def test_tables_are_as_the_model_says_while_executors_die(tmp_path: Path, first_seed: int) -> None:
    """Every statement did all of its work or nothing. Each batch of a stream is there once."""
    until = time.monotonic() + SECONDS
    statements: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    kills = rounds = 0
    with standalone(tmp_path / "work") as cluster:
        while time.monotonic() < until:
            config = CONFIGS[rounds % len(CONFIGS)]
            folder = tmp_path / f"tables{rounds}"
            folder.mkdir()
            seconds = min(round_seconds(), until - time.monotonic() + 5)
            seed = str(first_seed + rounds)
            rounds += 1
            report = application(
                cluster.url, cluster.workers, str(folder), str(seconds), seed, config
            )
            print(json.dumps(report), flush=True)
            statements += Counter(report["statements"])
            failures += Counter(report["failures"])
            outcomes += Counter(report["outcomes"])
            kills += report["kills"]
            assert report["raised"] == "", report["raised"]
    total = {"rounds": rounds, "kills": kills, "outcomes": outcomes, "failures": failures}
    print(json.dumps({**total, "statements": statements}), flush=True)
    # A run without deaths, or one in which nothing succeeds, shows nothing.
    assert kills > 0
    assert outcomes["survived"] > 0
