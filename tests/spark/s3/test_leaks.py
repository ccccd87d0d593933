"""Spark shows credentials from options nowhere. There is a process for each backend.

Before the job registers its session, it tries what needs a registration. At each change,
test_native.py and test_workers_credentials.py look at plans, settings and logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.spark.s3 import leaks_job


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("jars", ["native", "arrow"])
def test_credentials_show_nowhere(jars: str, tmp_path: Path) -> None:
    """Plans, SQL's descriptions, logs of both languages, entries, errors, the UI's REST answers."""
    done = subprocess.run(
        [sys.executable, leaks_job.__file__, jars, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert len(answer["unregistered"]) == 5
    for name, text in answer["unregistered"]:
        assert name == "UnsupportedFeatureError", text
        assert ("register(spark)" in text, "\tat " in text) == (True, False), text
    found = answer["found"]
    found["output of the process"] = leaks_job.marks_in(done.stdout + done.stderr)
    assert {where: marks for where, marks in found.items() if marks} == {}
    assert len(found) > 15
