"""Every block of code of README and of the site runs, and its output is the one on the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents.pages import (
    ANSWER,
    ELSEWHERE,
    RUN,
    SHOWN,
    SITE,
    blocks,
    checked,
    name_of,
    pages,
    statements,
)
from tests.places import ROOT

WITH_CODE = [page for page in pages() if any(block.language in RUN for block in blocks(page))]
HERE = [page for page in WITH_CODE if name_of(page) not in ELSEWHERE]


def test_an_answer_that_is_not_so_is_noticed() -> None:
    namespace: dict[str, Any] = {}
    exec(checked("x = 1\nx + 1  # -> 2\n"), namespace)
    with pytest.raises(AssertionError):
        exec(checked("x + 1  # -> 3\n"), namespace)


def test_statements_and_their_rows_are_told_apart() -> None:
    block = "INSERT INTO t\nVALUES (1);\nSELECT 1;\n-- 1\n-- 2 | x\n\nSELECT 2;\n"
    assert statements(block) == [
        ("INSERT INTO t\nVALUES (1)", []),
        ("SELECT 1", ["1", "2 | x"]),
        ("SELECT 2", []),
    ]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_of_a_known_kind_and_every_answer_is_checked(page: Path) -> None:
    """A block without a language, or an answer that the pattern misses, would never run."""
    text = page.read_text(encoding="utf-8")
    found = list(blocks(page))
    assert {block.language for block in found} - RUN - SHOWN == set()
    assert text.count("```") == 2 * len(found)
    answers = sum(len(ANSWER.findall(b.text)) for b in found if b.language == "python")
    assert answers == text.count("  # -> ")
    rows = sum(bool(r) for b in found if b.language == "sql" for _, r in statements(b.text))
    assert rows == text.count(";\n-- ")


def test_pages_that_run_elsewhere_exist() -> None:
    for page, test in ELSEWHERE.items():
        assert (SITE / page) in WITH_CODE
        assert page in (ROOT / test).read_text(encoding="utf-8")


def environment(folder: Path, s3_server: Any) -> dict[str, str]:
    """Return an environment with the commands of the package, and S3 on a local server."""
    (folder / "bin").mkdir()
    for name, module in (("tablefmt", " -m tablefmt"), ("python", "")):
        command = folder / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        command.chmod(0o755)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": s3_server.key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_page_runs_and_gives_what_it_says(tmp_path: Path, s3_server: Any) -> None:
    """One process runs all pages, so that Spark starts once. Each page has a folder of its own."""
    s3_server.client().create_bucket(Bucket="my-bucket")
    assert len(HERE) > 10
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.run_pages", str(tmp_path / "pages"), *HERE],
        cwd=tmp_path, env=environment(tmp_path, s3_server), capture_output=True, text=True,
        timeout=580,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
