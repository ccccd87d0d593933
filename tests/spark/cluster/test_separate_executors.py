"""Executors in processes of their own: they know none of the classes compiled at run time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tests.places import ROOT

pytestmark = pytest.mark.spark

LOCAL_CLUSTER = "local-cluster[2,1,1024]"


def start(master: str, folder: Path, *names: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
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
def clustered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One application for all tests: its executors take long to start."""
    names = ["core", "killed_executor", "killed_merge", "failing_task", "sql_statements"]
    names.append("stopped_session")
    return answers(start(LOCAL_CLUSTER, tmp_path_factory.mktemp("cluster"), *names))


def test_writes_reads_pruning_overwrites_and_changes_work(clustered: dict[str, Any]) -> None:
    assert clustered["core"] == {
        "count": 20_010,
        "sum": sum(range(20_000)) + 45,
        "filtered": ["s1", "s1", "s4", "s4"],
        "files_of_one_partition": 2,
        "left": [
            {"count(1)": 19_999 + n, "sum(id)": sum(range(20_000)) + 45 - 20 - 19_999 + 7 * n}
            for n in range(3)
        ],
        "changes": {"_change_type": "insert", "count": 10},
        "version_1": 20_000,
        "after": 5,
    }


def test_an_executor_killed_in_a_write_leaves_one_copy_of_every_row(
    clustered: dict[str, Any],
) -> None:
    """DAT-6: files of the attempt that died are in no version and not on disk."""
    found = clustered["killed_executor"]
    said = found.pop("said")
    assert found == {"killed": True, "rows": 20_000, "one_copy_each": True, "no_leftovers": True}
    assert (said["numFiles"], said["numOutputRows"]) == (12, 20_000)


def test_an_executor_killed_while_a_source_is_read_gives_no_key_twice(
    clustered: dict[str, Any],
) -> None:
    """MRG-3: its part of the source is computed again, and differs."""
    assert clustered["killed_merge"] == {"read_twice": True, "as_one": True}


def test_a_task_that_fails_for_good_leaves_no_version_and_orphans_at_most(
    clustered: dict[str, Any],
) -> None:
    assert clustered["failing_task"] == {"raised": True, "strays": []}


def test_statements_in_sql_work(clustered: dict[str, Any]) -> None:
    """Their numbers are handed to code that executors make; every row as a plain model has it."""
    model = {i: [i, i % 3, f"s{i}"] for i in range(3000)}
    for number in (7, 8, 2999):
        del model[number]
        model[number - 5] = [number - 5, number, "new"]
    model[2998][1] = -1
    model |= {i: [i, 0, "merged"] for i in (2999, 3000, 3001)}
    found = clustered["sql_statements"]
    assert found["rows"] == [model[i] for i in sorted(model)]
    assert found["few"] == [model[i] for i in range(4)]
    assert found["history"] == ["RESTORE", "DELETE", "CLUSTER", "COMPACT MINOR"]


STOPPED = {
    "raised": ["CommitRejectedError"],
    "said": ["the commit was rejected: the Spark session was stopped while its tasks were writing"],
    "alive": False,
    "version": 1,
    "rows": 5,
    "strays": [],
}


def test_a_session_stopped_in_a_write_leaves_no_version(clustered: dict[str, Any]) -> None:
    """The writer is told, and does not hang; what stays is named by no entry."""
    assert clustered["stopped_session"] == STOPPED


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
def two_hosts() -> Iterator[str]:
    """A standalone cluster of two hosts: Spark speculates on another host alone."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    commands = [[f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in ("127.0.0.2", "127.0.0.3"):
        worker = [f"{package}.worker.Worker", "--host", host, "--cores", "2", "--memory", "800m"]
        commands.append([*worker, "--webui-port", "0", url])
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_LOCAL_IP", None)
    started = [
        subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    yield url
    for process in reversed(started):
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def speculated(two_hosts: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One application whose slow attempts all lose."""
    names = ("slow_attempt", "slow_merge", "slow_delete")
    return answers(start(two_hosts, tmp_path_factory.mktemp("speculated"), *names))


@pytest.mark.soak
def test_a_speculative_attempt_that_wins_leaves_one_copy(speculated: dict[str, Any]) -> None:
    found = speculated["slow_attempt"]
    said = found.pop("said")
    assert found == {"won": True, "rows": 20_000, "one_copy_each": True, "no_leftovers": True}
    assert said["numFiles"] == 12


CHANGED = {"won": True, "same_rows": True, "strays": [], "missing": []}


@pytest.mark.soak
def test_a_merge_whose_slow_attempt_loses_has_each_row_once(speculated: dict[str, Any]) -> None:
    """DAT-6: only what winning attempts wrote is in the log, and on disk."""
    assert speculated["slow_merge"] == {**CHANGED, "new_files": 5}


@pytest.mark.soak
def test_a_delete_by_copies_whose_slow_attempt_loses_has_each_row_once(
    speculated: dict[str, Any],
) -> None:
    """The attempt that loses has written its copy: it is gone from the disk."""
    assert speculated["slow_delete"] == {**CHANGED, "new_files": 4}
