"""Executors in processes of their own, and what a whole run leaves in the event log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.spark.s3 import cluster_job


@pytest.mark.spark
@pytest.mark.parametrize(
    "master", ["local[2,4]", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.soak)]
)
def test_a_job_passes_and_its_event_log_holds_no_credentials(tmp_path: Path, master: str) -> None:
    """ADD-5, with a task that fails once; `cluster_job` asserts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, cluster_job.__file__, master, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        cwd=ROOT,
    )
    assert done.stdout.splitlines()[-1:] == ["passed"], done.stderr[-4000:]
