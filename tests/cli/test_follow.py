"""`changes --follow`: a line of JSON a batch, until somebody stops it; and what `net` prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
from tests.cli.conftest import run


def test_commits_are_printed_as_they_land(tmp_path: Path) -> None:
    """INC-8: each line with the version to go on from; an interrupt ends it well."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    command = [sys.executable, "-m", "tablefmt", "changes", uri, "--after", "0"]
    with subprocess.Popen(
        [*command, "--follow", "--json", "--poll", "0.05"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as following:
        assert following.stdout is not None

        def line() -> tuple[int, list[tuple[str, int]]]:
            found: Any = json.loads(following.stdout.readline())
            changes = [(c["_change_type"], c["id"]) for c in found["changes"]]
            return found["last_version"], changes

        assert line() == (1, [("insert", 1), ("insert", 2)])
        table.delete("id = 1")
        assert line() == (2, [("delete", 1)])
        table.append(pa.table({"id": [3]}))
        assert line() == (3, [("insert", 3)])
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 0
        assert following.stderr is not None
        assert following.stderr.read() == ""


def test_net_is_printed_and_an_end_goes_with_no_following(table: tablefmt.Table, uri: str) -> None:
    """INC-6, INC-8."""
    table.delete("id = 5")
    found = run("changes", uri, "--after", "2", "--content", "net", "--json").document
    assert [(c["_change_type"], c["id"]) for c in found["changes"]] == [
        ("delete", 1),
        ("delete", 3),
    ]
    refused = run("changes", uri, "--after", "0", "--until", "1", "--follow")
    assert refused.code == 2
    assert "end" in refused.err


def test_what_has_expired_is_marked(tmp_path: Path) -> None:
    """INC-7: refused, or all rows at the end with the number of that version."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append({"id": [1]})
    table.overwrite({"id": [2]})
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert run("changes", uri, "--after", "0", "--json").code == 3
    found = run("changes", uri, "--after", "0", "--expired", "snapshot", "--json").document
    assert [c["id"] for c in found["changes"]] == [2]
    assert found["snapshot"] == found["last_version"] == table.refresh().version
