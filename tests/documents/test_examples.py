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
    NOT_RUN,
    RUN,
    SHOWN,
    SITE,
    blocks,
    checked,
    name_of,
    pages,
    pages_here,
    statements,
    uses_spark,
)
from tests.documents.run_pages import environment, like_a_user, run_page
from tests.places import ROOT

__all__ = ["like_a_user"]

HERE = pages_here()


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


def test_blocks_that_are_not_run_are_known_with_the_reason() -> None:
    shown = {name_of(p): sum(b.language in SHOWN for b in blocks(p)) for p in pages()}
    assert {page: count for page, (count, _) in NOT_RUN.items()} == {
        page: count for page, count in shown.items() if count
    }


def test_pages_that_run_elsewhere_exist() -> None:
    for page, test in ELSEWHERE.items():
        assert (SITE / page) in pages()
        assert page in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.broken_tables
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page in HERE if not uses_spark(page)], ids=name_of)
def test_a_page_runs_and_gives_what_it_says(page: Path, like_a_user: Path) -> None:
    """tests/spark/entry/test_pages.py runs those that use Spark."""
    run_page(page, like_a_user)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_page_runs_in_a_process_that_starts_with_it(tmp_path: Path, s3_server: Any) -> None:
    """A program that makes its own session, with Spark's defaults."""
    s3_server.client().create_bucket(Bucket="my-bucket")
    variables = environment(tmp_path / "bin", s3_server)
    assert len(HERE) > 10
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.run_pages", str(tmp_path / "pages"), *HERE],
        cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=580,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
