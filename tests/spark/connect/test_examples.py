"""All blocks of the page of examples run, in order, in one program, with the given results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents.pages import SITE, blocks, checked, sql_as_python
from tests.places import ROOT

PAGE = SITE / "guide/pyspark.md"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_page_runs_and_gives_what_it_says(
    tmp_path: Path, s3_server: Any, connect_address: str
) -> None:
    s3_server.client().create_bucket(Bucket="my-bucket", ACL="public-read-write")
    found = list(blocks(PAGE))
    assert {block.language for block in found} == {"python", "sql"}
    program = "\n".join(
        sql_as_python(block.text) if block.language == "sql" else checked(block.text)
        for block in found
    )
    text = PAGE.read_text(encoding="utf-8")
    assert program.count("assert _found") == text.count("  # -> ")
    assert program.count("assert _rows") == text.count(";\n-- ")
    program = program.replace("sc://localhost:15002", connect_address)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": s3_server.key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=580,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
