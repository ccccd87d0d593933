"""`--follow`: what lands is printed until somebody stops it; and logs that lack entries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.cli.command_options import landing
from tablefmt.log.object_names import entry_key
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.store_wrappers import CountingStore
from tests.cli.conftest import run
from tests.tables import memory, new_table, rows


class Lines:
    """Lines that a process prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._out, self._err = process, process.stdout, process.stderr

    def __call__(self) -> Any:
        """The next line, of JSON."""
        return json.loads(self._out.readline())

    def text(self) -> str:
        """The next line as it is."""
        return self._out.readline()

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it complained of."""
        return self._process.wait(20), self._err.read()


@contextmanager
def following(*arguments: str) -> Iterator[tuple[Lines, Callable[[], tuple[int, str]]]]:
    """A command that goes on for ever, and what stops it."""
    command = [sys.executable, "-m", "tablefmt", *arguments, "--follow", "--poll", "0.05"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as process:
        lines = Lines(process)

        def stop() -> tuple[int, str]:
            process.send_signal(signal.SIGINT)
            return lines.end()

        try:
            yield lines, stop
        finally:
            process.kill()


@pytest.mark.slow
def test_commits_are_printed_as_they_land(tmp_path: Path) -> None:
    """INC-8: each line has the version to resume from.

    An interrupt ends the command without an error.
    """
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    with following("changes", uri, "--after", "0", "--json") as (line, stop):

        def changed() -> tuple[int, list[tuple[str, int]]]:
            found = line()
            changes = [(c["_change_type"], c["id"]) for c in found["changes"]]
            return found["last_version"], changes

        assert changed() == (1, [("insert", 1), ("insert", 2)])
        table.delete("id = 1")
        assert changed() == (2, [("delete", 1)])
        table.append(pa.table({"id": [3]}))
        assert changed() == (3, [("insert", 3)])
        assert stop() == (0, "")


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
    assert "cannot be combined with --until" in refused.err


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


@pytest.mark.slow
def test_entries_are_printed_as_they_land(tmp_path: Path) -> None:
    """Each whole, as `log` prints it afterwards; an interrupt ends it well."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    with following("log", uri, "--limit", "1", "--json") as (line, stop):
        lines = [line()]
        table.delete("id = 1")
        lines.append(line())
        table.append(pa.table({"id": [3]}))
        table.alter.add_column("x", "INT")
        lines += [line(), line()]
        assert stop() == (0, "")
    assert lines == run("log", uri, "--since", "1", "--json").lines
    assert [(each["version"], each["operation"]) for each in lines] == [
        (1, "WRITE"),
        (2, "DELETE"),
        (3, "WRITE"),
        (4, "ADD COLUMNS"),
    ]


@pytest.mark.slow
def test_a_table_that_is_dropped_ends_its_log(tmp_path: Path) -> None:
    """ENT-14: the log ends with the entry of the drop."""
    uri = str(tmp_path / "t")
    tablefmt.create(uri, "id BIGINT")
    with following("log", uri) as (line, _):
        assert [line.text().split()[0] for _ in range(2)] == ["version", "0"]
        tablefmt.drop(uri)
        assert line.text().split()[0] == "1"
        code, complaint = line.end()
    assert (code, len(complaint.splitlines())) == (1, 1)
    assert "dropped" in complaint


def test_a_look_at_nothing_new_is_one_request() -> None:
    """CMT-5: new entries come in the order of versions, also from a start in the middle."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    counting = CountingStore(store)
    view = LogView.open(counting)
    looks: list[list[tuple[str, str]]] = []

    def sleep(seconds: float) -> None:
        assert seconds == 7.0
        looks.append(list(counting.requests))
        counting.reset()
        if len(looks) == 3:
            table.append(rows(2))
            table.append(rows(3))

    counting.reset()
    landed = landing(view, 0, 7.0, sleep)
    assert [each.version for each in next(landed)] == [1]
    assert looks == []
    assert [each.version for each in next(landed)] == [2, 3]
    assert looks == [[], [("get", entry_key(2))], [("get", entry_key(2))]]


@pytest.mark.slow
def test_the_log_of_a_table_that_was_expired(tmp_path: Path) -> None:
    """RET-9: its first entry, and those that are kept; `show` too."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    for number in range(20):
        table.append({"id": [number]})
    table.overwrite({"id": [1]})
    lines = run("log", uri, "--json").lines
    table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
    table.append({"id": [99]})
    newest = table.version
    kept = [0, *range(21, newest + 1)]
    assert sorted(int(p.stem) for p in (tmp_path / "t" / "_log").glob("0*.json")) == kept
    done = run("log", uri, "--json")
    assert (done.code, [each["version"] for each in done.lines]) == (0, kept)
    assert done.lines[:2] == [lines[0], lines[21]]
    for each in done.lines:
        shown = run("show", uri, str(each["version"]), "--json").document
        assert {k: v for k, v in shown.items() if k != "removed"} == each
        # The files that version 21 removed are in entries that have expired.
        assert shown["removed"] == (None if each["version"] == 21 else [])
    for version in (5, 20, newest + 1):
        assert run("show", uri, str(version)).code == 3
    with following("log", uri, "--since", str(newest), "--json") as (line, _):
        assert line()["version"] == newest
        table.append({"id": [100]})
        assert line()["version"] == newest + 1
