"""The README says what is so: its examples run, and its test command is the one CI calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^(?P<expression>\S.*?)  # -> (?P<answer>.+)$", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for found, text in FENCED.findall(README) if found == language]


def checked(text: str) -> str:
    """Every `expression  # -> answer` becomes an assertion on the answer's repr."""
    return ANSWER.sub(
        lambda m: f"_found = repr({m['expression']})\nassert _found == {m['answer']!r}, _found",
        text,
    )


def test_an_answer_that_is_not_so_is_noticed() -> None:
    namespace: dict[str, Any] = {}
    exec(checked("x = 1\nx + 1  # -> 2\n"), namespace)
    with pytest.raises(AssertionError):
        exec(checked("x + 1  # -> 3\n"), namespace)


@pytest.mark.spark
def test_examples_run_in_order_and_give_what_they_say(tmp_path: Path, s3_server: Any) -> None:
    """All Python blocks as one program, then the commands, in one folder; S3 is a local server."""
    s3_server.client().create_bucket(Bucket="my-bucket")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "bin").mkdir()
    for name, module in (("tablefmt", " -m tablefmt"), ("python", "")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        command.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": s3_server.key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    program = "\n".join(map(checked, blocks("python")))
    assert program.count("assert _found") == README.count("  # -> ")
    for arguments in (
        [sys.executable, "-c", program],
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks("bash"))],
    ):
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr[-3000:]
        if arguments[0] == "bash":
            assert done.stderr == ""


def test_the_test_command_is_the_one_that_ci_calls() -> None:
    """The last part of the README's second line is the recipe `test`, in the same environment."""
    setup = blocks("sh")
    assert len(setup) == 2
    install, test = setup[1].strip().split(" && ")[1:]
    recipes = (ROOT / ".ci" / "recipes").read_text(encoding="utf-8")
    assert f"test() {{ {test} " in recipes
    extras = install.rpartition(" -e ")[2].removesuffix("]'")
    assert recipes.partition(" -e ")[2].startswith(extras)
    assert '/recipes" all' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert setup[0].strip().endswith("tablefmt demo")


def test_paths_that_the_map_names_exist() -> None:
    named = re.findall(r"^\| (`.+?) \|", README.partition("## Where things are")[2], re.MULTILINE)
    paths = [path for cell in named for path in re.findall(r"`([^`]+)`", cell)]
    assert len(paths) > 15
    missing = [p for p in paths if not (ROOT / p).exists() and not (ROOT / "tablefmt" / p).exists()]
    assert missing == []
