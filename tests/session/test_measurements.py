"""Metrics of a commit: times, requests, files. The result and the history agree."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.session import measurements
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Request
from tablefmt.table import Table
from tests.tables import Clock, handle, memory, new_table, rows

TIMES = {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}


class SlowStore(MemoryStore):
    """Every request takes a second of a test's clock."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name)
        self.clock = clock

    def put(self, key: str, body: bytes) -> None:
        self.clock.forward(1.0)
        super().put(key, body)


def told(table: Table) -> dict[str, int]:
    """The metrics of the newest version, as history has them."""
    (row,) = table.history(1).to_pylist()
    return {name: int(value) for name, value in row["operationMetrics"]}


OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: table.append(rows(7, 8)),
    "overwrite": lambda table: table.overwrite(rows(7)),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"p": "'z'"}, where="id = 1"),
    "merge": lambda table: (
        table.merge(rows(2, 5), "s.id = t.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    "alter": lambda table: table.alter.set_not_null("id"),
    "transaction": lambda table: table.transaction().append(rows(9)).commit(),
    "transaction delete": lambda table: table.transaction().delete("id = 1").commit(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_commit_tells_its_time_and_requests(name: str) -> None:
    table = new_table()
    table.append(rows(1, 2, 3))
    before = table.context.store.tally.sums()
    commit = OPERATIONS[name](table)
    asked = {k: n - before[k] for k, n in table.context.store.tally.sums().items()}
    found = dict(commit.metrics)
    assert found == told(table)
    assert found["executionTimeMs"] >= 0
    # The last put of a commit is that of the entry.
    assert found.get("numPutRequests", 0) == asked[Request.PUT]
    # Requests of the later call of history do not count.
    assert found.get("numGetRequests", 0) <= asked[Request.GET]
    changes = name.removeprefix("transaction ") in ("delete", "update", "merge")
    assert set(found) >= TIMES if changes else TIMES & set(found) == {"executionTimeMs"}


ROWS_AND_FILES = (
    "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsCopied",
    "numOutputRows", "numAddedFiles", "numRemovedFiles", "numDeletionVectorsAdded",
)  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        (
            "merge-on-read",
            {
                "delete": [0, 0, 1, 0, 0, 0, 0, 1],
                "update": [0, 1, 0, 0, 1, 1, 0, 1],
                "merge": [1, 1, 0, 0, 2, 2, 0, 1],
                "delete all": [0, 0, 3, 0, 0, 0, 1, 0],
                "overwrite rows": [1, 0, 1, 0, 1, 1, 0, 1],
            },
        ),
        (
            "copy-on-write",
            {
                "delete": [0, 0, 1, 2, 2, 1, 1, 0],
                "update": [0, 1, 0, 2, 3, 2, 1, 0],
                "merge": [1, 1, 0, 2, 4, 3, 1, 0],
                "delete all": [0, 0, 3, 0, 0, 0, 1, 0],
                "overwrite rows": [1, 0, 1, 2, 3, 2, 1, 0],
            },
        ),
    ],
)
def test_every_change_of_rows_says_all_of_rows_and_files(
    mode: str, wanted: dict[str, list[int]]
) -> None:
    """Every verb has the same names, zeros too. One file has three rows, id 1 to 3."""
    verbs = OPERATIONS | {
        "delete all": lambda table: table.delete(),
        "overwrite rows": lambda table: table.overwrite(rows(1), where="id = 1"),
    }
    found = {}
    for name in wanted:
        table = new_table(deleteMode=mode)
        table.append(rows(1, 2, 3))
        metrics = verbs[name](table).metrics
        found[name] = [metrics[each] for each in ROWS_AND_FILES]
        assert set(metrics) >= TIMES
    assert found == wanted


def test_an_append_counts_its_files_as_added() -> None:
    table = new_table()
    metrics = table.append(rows(1, 2, 3)).metrics
    assert (metrics["numAddedFiles"], metrics["numRemovedFiles"], metrics["numOutputRows"]) == (
        1, 0, 3,
    )  # fmt: skip


def test_the_names_are_those_of_delta() -> None:
    """Metrics of files and rows of DELETE, UPDATE and MERGE, in both modes."""
    wanted = {
        "delete": {"numDeletedRows": 1, "numDeletionVectorsAdded": 1, "numCopiedRows": 0},
        "update": {
            "numUpdatedRows": 1, "numAddedFiles": 1, "numOutputRows": 1,
            "numDeletionVectorsAdded": 1,
        },
        "merge": {
            "numSourceRows": 2, "numTargetRowsInserted": 1, "numTargetRowsUpdated": 1,
            "numTargetRowsDeleted": 0, "numTargetRowsCopied": 0, "numOutputRows": 2,
            "numTargetFilesAdded": 2, "numTargetFilesRemoved": 0, "numDeletionVectorsAdded": 1,
        },
    }  # fmt: skip
    for name, metrics in wanted.items():
        table = new_table()
        table.append(rows(1, 2, 3))
        found = OPERATIONS[name](table).metrics
        assert {n: found[n] for n in metrics} == metrics
    table = new_table(deleteMode="copy-on-write")
    table.append(rows(1, 2, 3))
    found = OPERATIONS["merge"](table).metrics
    assert found["numTargetRowsCopied"] == 2
    assert (found["numTargetFilesRemoved"], found["numTargetFilesAdded"]) == (1, 3)
    assert (found["numRemovedFiles"], found["numAddedFiles"]) == (1, 3)


def test_files_that_lost_rows_before_are_told_apart() -> None:
    """A vector that is new, one in place of another, and one that goes with its file."""
    table = new_table()
    table.append(rows(1, 2, 3))
    names = ["numDeletionVectorsAdded", "numDeletionVectorsUpdated", "numDeletionVectorsRemoved"]
    told = [table.delete(f"id = {n}").metrics for n in (1, 2)]
    told.append(table.delete("id > 0").metrics)
    assert [[m.get(n, 0) for n in names] for m in told] == [[1, 0, 0], [1, 1, 1], [0, 0, 1]]


def test_times_are_those_of_the_clock() -> None:
    """Data files of a second each; a transaction counts from its beginning."""
    clock = Clock()
    table = new_table(SlowStore("slow", clock), clock=clock)
    assert table.append(rows(1, 2)).metrics["executionTimeMs"] == 1000
    update = table.update({"p": "'z'"}, where="id = 1").metrics
    assert (update["executionTimeMs"], update["rewriteTimeMs"], update["scanTimeMs"]) == (
        1000, 1000, 0,
    )  # fmt: skip
    txn = table.transaction()
    clock.forward(5)
    table.append(rows(3))
    txn.append(rows(4))
    assert txn.commit().metrics["executionTimeMs"] == 7000
    assert table.append(rows(5)).metrics["executionTimeMs"] == 1000


def test_a_store_counts_requests_by_kind(tmp_path: Path) -> None:
    """A disk and memory count the same: what was asked, whether it was there or not."""
    sums = []
    for store in (tablefmt.create(str(tmp_path / "t"), "id INT").context.store, memory()):
        before = store.tally.sums()
        store.put("data/a", b"1")
        store.put_if_absent("data/b", b"2")
        with store.open_output("data/c") as stream:
            stream.write(b"3")
        store.get_many(["data/a", "data/none"])
        store.get("data/a")
        store.get_range("data/a", 0, 1)
        store.size("data/b")
        list(store.list_after("data/"))
        store.delete("data/a")
        sums.append({kind: n - before[kind] for kind, n in store.tally.sums().items()})
    expected = {Request.PUT: 3, Request.GET: 5, Request.LIST: 1, Request.DELETE: 1}
    assert sums == [expected, expected]


def test_a_long_merge_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A long one reports files and rows at intervals. A short one reports nothing."""
    source = pa.table({"id": pa.array(range(4), pa.int64()), "p": ["z"] * 4})
    with caplog.at_level(logging.INFO, "tablefmt.progress"):
        for seconds, messages in ((5.0, 0), (0.0, 4)):
            monkeypatch.setattr(measurements, "PROGRESS_SECONDS", seconds)
            table = new_table()
            for n in range(4):
                table.append(rows(n))
            table.merge(source, "s.id = t.id").when_matched_update_all().execute()
            assert len(caplog.messages) == messages
    assert caplog.messages[2].startswith("MERGE: 2 of 4 files read, 2 rows found")
    assert handle(table.context.store).to_arrow()["p"].to_pylist() == ["z"] * 4
