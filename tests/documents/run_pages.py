"""Run the blocks of a page, in order, as one program in a folder of its own.

`python -m tests.documents.run_pages FOLDER PAGE...` runs pages in a process that has one Spark
session for all of them.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tablefmt.cli.main import main as tablefmt_command
from tests.documents.pages import Block, blocks, checked, name_of, sql_as_python
from tests.places import ROOT
from tests.s3server import S3Server


def environment(folder: Path, server: S3Server) -> dict[str, str]:
    """Return the variables of a user: the commands of the package, and S3 on a local server."""
    folder.mkdir(parents=True)
    for name, module in (("tablefmt", " -m tablefmt"), ("python", "")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        command.chmod(0o755)
    return {
        "PYTHONPATH": str(ROOT),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.key,
        "AWS_SECRET_ACCESS_KEY": server.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@pytest.fixture
def like_a_user(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Set the environment of a page up, with an empty bucket. Yield a folder to run it in."""
    for name, value in environment(tmp_path / "bin", s3_server).items():
        monkeypatch.setenv(name, value)
    s3_server.client().create_bucket(Bucket="my-bucket")
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("tablefmt")
    handlers, level = list(logger.handlers), logger.level
    yield tmp_path / "page"
    # A page shows how to configure the log, and other tests of this process expect it silent.
    logger.handlers[:] = handlers
    logger.setLevel(level)


def run_commands(text: str) -> None:
    """Run lines of a shell; plain `tablefmt` commands run in this process, which is faster."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["tablefmt"] and "|" not in words:
            errors = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
                code = tablefmt_command(words[1:], standalone_mode=False)
            complaint = errors.getvalue()
        elif words:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True
            )
            code, complaint = done.returncode, done.stderr
        else:
            continue
        assert (code, complaint) == (0, ""), f"{line}: exit code {code}: {complaint}"


def run_block(block: Block, namespace: dict[str, Any], place: str) -> None:
    """Run one block; Python of a page shares its names, and the lines are those of the page."""
    if block.language == "bash":
        run_commands(block.text)
        return
    text = sql_as_python(block.text) if block.language == "sql" else checked(block.text)
    exec(compile("\n" * block.line + text, place, "exec"), namespace)


def run_page(page: Path, folder: Path) -> None:
    """Run the blocks of a page, in order, in a folder."""
    folder.mkdir(parents=True)
    (folder / "tools").symlink_to(ROOT / "tools")  # pages may call what the repository has there
    os.chdir(folder)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language in ("python", "bash", "sql"):
            run_block(block, namespace, name_of(page))


def main(folder: str, *pages: str) -> int:
    """Run all pages, and return how many of them failed."""
    failed = 0
    for page in map(Path, pages):
        began = time.monotonic()
        try:
            run_page(page, Path(folder) / name_of(page).replace("/", "-"))
        except Exception:
            failed += 1
            traceback.print_exc()
        print(f"{name_of(page)}: {time.monotonic() - began:.1f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
