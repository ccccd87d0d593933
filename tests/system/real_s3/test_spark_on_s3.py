"""Spark on executors of their own, with a real S3 server: by S3A's jars, and through Arrow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.system.real_s3.servers import KEY, SECRET, RealServer
from tests.system.real_s3.test_real_s3 import server

__all__ = ["server"]

JOB = Path(__file__).with_name("spark_life.py")


@pytest.mark.soak
@pytest.mark.parametrize("plane", ["native", "arrow"])
def test_a_tables_life_on_spark(server: RealServer, plane: str) -> None:
    """STO-3, CMT-1: jobs at once, DML, time travel, vacuum; the rows are those of a model."""
    uri = server.new_root()
    given = {"uri": uri, "options": server.options, "plane": plane}
    keys = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    done = subprocess.run(
        [sys.executable, str(JOB), json.dumps(given)],
        env={**os.environ, **keys, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    at = done.stderr.find("Traceback")
    assert done.returncode == 0, done.stderr[at : at + 6000]
    assert "passed" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    bucket = uri.removeprefix("s3://").partition("/")[0]
    assert not server.client().list_multipart_uploads(Bucket=bucket).get("Uploads")
