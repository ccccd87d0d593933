"""The page of examples does what it says: every block, in order, in one program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents.test_readme import FENCED, ROOT, checked

PAGE = (ROOT / "spec" / "examples" / "pyspark.md").read_text(encoding="utf-8")


def statements(block: str) -> list[tuple[str, list[str]]]:
    """Statements of a block of SQL, each with the rows that stand below it."""
    found: list[tuple[str, list[str]]] = []
    text: list[str] = []
    for line in block.splitlines():
        if line.startswith("-- "):
            found[-1][1].append(line.removeprefix("-- "))
        elif line.strip():
            text.append(line)
        if line.endswith(";"):
            found.append(("\n".join(text).removesuffix(";"), []))
            text.clear()
    assert not text, text
    return found


def run(block: str) -> str:
    """A block of SQL as Python; what a query gives has to be what stands below it."""
    program = []
    for text, rows in statements(block):
        program.append(f"_rows = spark.sql({text!r}).collect()")
        if rows:
            program.append("_rows = [' | '.join(map(str, row)) for row in _rows]")
            program.append(f"assert _rows == {rows!r}, _rows")
    return "\n".join(program)


def test_statements_and_their_rows_are_told_apart() -> None:
    block = "INSERT INTO t\nVALUES (1);\nSELECT 1;\n-- 1\n-- 2 | x\n\nSELECT 2;\n"
    assert statements(block) == [
        ("INSERT INTO t\nVALUES (1)", []),
        ("SELECT 1", ["1", "2 | x"]),
        ("SELECT 2", []),
    ]


@pytest.mark.timeout(600)
def test_the_page_runs_and_gives_what_it_says(
    tmp_path: Path, s3_server: Any, connect_address: str
) -> None:
    s3_server.client().create_bucket(Bucket="my-bucket", ACL="public-read-write")
    blocks = FENCED.findall(PAGE)
    assert {language for language, _ in blocks} == {"python", "sql"}
    program = "\n".join(run(text) if kind == "sql" else checked(text) for kind, text in blocks)
    assert program.count("assert _found") == PAGE.count("  # -> ")
    parts = [part for kind, text in blocks if kind == "sql" for part in statements(text)]
    answered = sum(bool(rows) for _, rows in parts)
    assert program.count("assert _rows") == answered == PAGE.count(";\n-- ")
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
