"""The smoke on the tested PySparks between the oldest, which CI runs, and the newest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tablefmt.spark.jvm.spark_internals import MINORS
from tests.places import ROOT


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("minor", MINORS[1:-1])
def test_the_smoke_passes_on_a_pyspark_in_between(minor: tuple[int, int]) -> None:
    version = f"{minor[0]}.{minor[1]}"
    program = [sys.executable, "tools/checks/old_sparks.py", "--smoke", version]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith(f"pyspark {version}.")
