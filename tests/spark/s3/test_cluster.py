"""Executors in processes of their own, and what a whole run leaves in the event log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.spark.s3 import cluster_job


@pytest.mark.soak
def test_a_job_whose_task_fails_once_leaves_one_copy_of_every_row(
    spark: Any, s3_server: Any
) -> None:
    """ADD-5: the shared session retries tasks too."""
    uri = f"s3://{s3_server.new_bucket()}/table"
    cluster_job.on_executors(spark, s3_server, uri, s3_server.options)


@pytest.mark.spark
@pytest.mark.soak
def test_a_job_passes_and_its_event_log_holds_no_credentials(tmp_path: Path) -> None:
    """ADD-5: one task fails once. `cluster_job` asserts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, cluster_job.__file__, "local-cluster[2,1,1024]", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        cwd=ROOT,
    )
    assert done.stdout.splitlines()[-1:] == ["passed"], done.stderr[-4000:]
