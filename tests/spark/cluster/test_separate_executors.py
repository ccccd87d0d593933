"""Separate applications: stopped sessions, first writes, speculation on two hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tests.places import ROOT
from tests.spark.cluster.standalone import standalone

pytestmark = pytest.mark.spark

LOCAL_CLUSTER = "local-cluster[2,1,1024]"


def start(
    master: str, folder: Path, *names: str, python: str = sys.executable
) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster.scenarios", master, str(folder), *names],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=280)
    found: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    assert process.returncode == 0, err[-3000:]
    return found


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory, forked_python: Path) -> dict[str, Any]:
    """One application of two executors for several tests: they take long to start."""
    names = ("killed_merge", "stopped_session")
    folder = tmp_path_factory.mktemp("cluster")
    return answers(start(LOCAL_CLUSTER, folder, *names, python=str(forked_python)))


@pytest.mark.soak
def test_an_executor_killed_while_a_source_is_read_gives_no_key_twice(
    clustered: dict[str, Any],
) -> None:
    """MRG-3: its part of the source is computed again, and differs."""
    assert clustered["killed_merge"] == {"read_twice": True, "as_one": True}


STOPPED = {
    "raised": ["CommitRejectedError"],
    "said": ["the commit was rejected: the Spark session was stopped while its tasks were writing"],
    "alive": False,
    "version": 1,
    "rows": 5,
    "strays": [],
}


@pytest.mark.soak
def test_a_session_stopped_in_a_write_leaves_no_version(clustered: dict[str, Any]) -> None:
    """The writer gets an error and does not hang. No entry names the files that stay."""
    assert clustered["stopped_session"] == STOPPED


@pytest.mark.soak
def test_a_session_stopped_in_a_write_by_format_leaves_no_version(tmp_path: Path) -> None:
    """The same where Spark calls Python, though Spark raises a failure of its own clean-up."""
    found = answers(start("local[2]", tmp_path, "stopped_format"))["stopped_format"]
    assert found == STOPPED


@pytest.mark.soak
def test_two_processes_that_make_the_same_table_both_have_their_rows_in_it(
    tmp_path: Path,
) -> None:
    """CFL-4: two first writes at once, then appends beside each other."""
    processes = [start("local[1]", tmp_path, "first_write") for _ in range(2)]
    versions = [answers(process)["first_write"]["versions"] for process in processes]
    assert sorted(versions[0] + versions[1]) == list(range(1, 11))
    assert tablefmt.open(str(tmp_path / "first_write")).to_arrow().num_rows == 100


@pytest.fixture(scope="module")
def speculated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the answers of one application on two hosts whose slow attempts all lose."""
    names = ("slow_attempt", "slow_merge", "slow_delete", "slow_identity")
    folder = tmp_path_factory.mktemp("speculated")
    with standalone(folder / "work") as cluster:
        return answers(start(cluster.url, folder, *names))


@pytest.mark.soak
def test_a_speculative_attempt_that_wins_leaves_one_copy(speculated: dict[str, Any]) -> None:
    found = speculated["slow_attempt"]
    said = found.pop("said")
    assert found == {"won": True, "rows": 20_000, "one_copy_each": True, "no_leftovers": True}
    assert said["numFiles"] == 12


@pytest.mark.soak
def test_two_writes_of_200_tasks_whose_slow_attempts_lose_give_no_number_twice(
    speculated: dict[str, Any],
) -> None:
    """IDN-2: each attempt of a task has numbers of its own."""
    assert speculated["slow_identity"] == {
        "won": True,
        "rows": 40_000,
        "files": 400,
        "values": 40_000,
        "ids": 40_000,
        "least": 1,
        "strays": [],
    }


CHANGED = {"won": True, "same_rows": True, "strays": [], "missing": []}


@pytest.mark.soak
def test_a_merge_whose_slow_attempt_loses_has_each_row_once(speculated: dict[str, Any]) -> None:
    """DAT-6: only what winning attempts wrote is in the log, and on disk."""
    assert speculated["slow_merge"] == {**CHANGED, "new_files": 5}


@pytest.mark.soak
def test_a_delete_by_copies_whose_slow_attempt_loses_has_each_row_once(
    speculated: dict[str, Any],
) -> None:
    """The losing attempt has written its copy, which is deleted from the disk."""
    assert speculated["slow_delete"] == {**CHANGED, "new_files": 4}
