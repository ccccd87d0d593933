"""Blame: its counts are those of the change feed, and files are followed through rewrites."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidRangeError,
    VersionNotFoundError,
)
from tablefmt.inspection.blame_report import BLAME, BlameReport
from tablefmt.store.store_wrappers import CountingStore
from tests.operations.evolving_table import Model, conditions, evolving
from tests.tables import Clock, Dated, memory, new_table, rows

DAY = 86_400.0
NOW = time.time_ns() // 1000

MOVES = ("rewritten_in", "rewritten_out")


def events(report: BlameReport) -> Counter[tuple[int, str]]:
    """Return the number of rows by version and change, without moved rows."""
    assert report.commits.schema == BLAME
    return Counter(
        {
            (row["version"], row["change"]): row["rows"]
            for row in pa.table(report).to_pylist()
            if row["change"] not in MOVES
        }
    )


def fed(table: tablefmt.Table, where: str | None, first: int = 0) -> Counter[tuple[int, str]]:
    """Return the same from the change feed."""
    found = table.changes(starting_version=first, where=where).to_arrow()
    return Counter(
        zip(
            found["_commit_version"].to_pylist(),
            found["_change_type"].to_pylist(),
            strict=True,
        )
    )


def lived(seed: int, **properties: str) -> tablefmt.Table:
    """Return a partitioned table with random DML, compactions, a checkpoint and a restore."""
    chance = random.Random(seed)
    table = tablefmt.create(
        memory().uri, "id BIGINT, p STRING", partition_by=["p"], properties=properties
    )
    for number in range(22):
        low = chance.randrange(60)
        where = f"id between {low} and {low + 9}"
        kind = chance.choice("aaadumcor") if number else "a"
        if kind == "a":
            ids = [chance.randrange(60) for _ in range(8)]
            table.append({"id": ids, "p": [chance.choice(["a", "b", None]) for _ in ids]})
        elif kind == "d":
            table.delete(where)
        elif kind == "u":
            table.update({"id": "id + 1"}, where)
        elif kind == "m":
            source = {"id": [low, low + 1], "p": ["a", "a"]}
            merge = table.merge(source, "t.id = s.id and t.p = 'b' and t.id < 0")
            merge.when_not_matched_insert_all().execute()
        elif kind == "c":
            table.compact(kind=chance.choice(["minor", "major"]))
        elif kind == "o":
            table.overwrite({"id": [low], "p": ["a"]}, where="p = 'a'")
        elif table.version > 3:
            table.restore(version=table.version - 2)
        if number == 12:
            table.checkpoint()
    return table


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(2))
def test_counts_are_those_of_the_change_feed(seed: int) -> None:
    """INC-3: for conditions that bounds decide, and for others; in the whole log, and in a part."""
    mode = {"deleteMode": "copy-on-write"} if seed % 2 else {}
    table = lived(seed, **mode)
    for where in ("id < 25", "id = 40", "p = 'a' and id > 10", "p is null", "id % 2 = 0"):
        for first in (0, 9):
            report = table.blame(where=where, starting_version=first)
            counted = Counter({k: n for k, n in events(report).items() if k[1] != "present"})
            assert counted == fed(table, where, first), (where, first)
            before = [r["rows"] for r in report.commits.to_pylist() if r["change"] == "present"]
            there = table.count(where=where, version=first - 1) if first else 0
            assert sum(before) == there, (where, first)
    for value, where in (("a", "p = 'a'"), (None, "p is null")):
        assert events(table.blame(partition={"p": value})) == fed(table, where)
    history = {row["version"]: row for row in table.history().to_pylist()}
    for row in table.blame(where="id < 25").commits.to_pylist():
        of = history[row["version"]]
        for mine, theirs in (
            *(("timestamp", "timestamp"), ("operation", "operation")),
            *(("read_version", "readVersion"), ("transaction", "transaction")),
        ):
            assert row[mine] == of[theirs]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5])
def test_rows_of_files_add_up(seed: int) -> None:
    """LIN-1: rows that came less rows that went, of a file and its inputs, are its live rows."""
    table = lived(seed + 10)
    live = table.scan().files().to_pylist()
    for file in live:
        for key in ("id", "path"):
            report = table.blame(file=file[key])
            left = 0
            named = set()
            for row in report.commits.to_pylist():
                went = row["change"] in ("delete", "update_preimage", "rewritten_out")
                left += -row["rows"] if went else row["rows"]
                named |= set(row["paths"])
            others = [f for f in live if f["path"] in named and f["id"] != file["id"]]
            rest = sum(f["rows"] - f["deleted"] for f in others)
            assert left == file["rows"] - file["deleted"] + rest
            assert file["path"] in named
            assert set(report.traced) <= named - {file["path"]}


def test_a_file_is_followed_through_rewrites() -> None:
    table = tablefmt.create(memory().uri, "id BIGINT")
    for number in range(3):
        table.append({"id": [number * 10 + n for n in range(4)]}, user_metadata={"job": number})
    table.delete("id = 2")
    old = table.scan().files()["path"].to_pylist()
    table.compact(kind="major")
    table.delete("id = 11")
    (path,) = table.scan().files()["path"].to_pylist()
    report = table.blame(file=path)
    shown = [(r["version"], r["change"], r["rows"]) for r in report.commits.to_pylist()]
    assert shown == [
        *((1, "insert", 4), (2, "insert", 4), (3, "insert", 4), (4, "delete", 1)),
        *((5, "rewritten_out", 11), (5, "rewritten_in", 11), (6, "delete", 1)),
    ]
    assert report.traced == tuple(old)
    assert report.complete
    assert not report.expired
    assert report.commits["user_metadata"].to_pylist()[:3] == [f'{{"job":{n}}}' for n in range(3)]
    assert report.commits["condition"].to_pylist()[3] == "`id` = 2"
    assert f"its rows came from {old[0]}, " in str(report)
    gone = table.blame(file=old[0])
    assert [r["change"] for r in gone.commits.to_pylist()] == ["insert", "delete", "rewritten_out"]
    later = table.blame(file=path, starting_version=6)
    assert [(r["version"], r["change"], r["rows"]) for r in later.commits.to_pylist()] == [
        (5, "present", 11),
        (6, "delete", 1),
    ]
    assert "were not asked for" in str(later)


def test_only_files_that_may_match_are_read() -> None:
    """PRN-4: counting rows reads the file whose bounds allow them, and a partition reads none."""
    store = CountingStore(memory())
    table = new_table(store, partitioned=True)
    for number in range(8):
        table.append(rows(number * 10, number * 10 + 5, p="ab"[number % 2]))
    store.reset()
    assert table.blame(partition={"p": "a"}).commits.num_rows == 4
    assert not [key for _, key in store.requests if key.startswith("data/")]
    report = table.blame(where="id = 30")
    assert [(r["version"], r["rows"]) for r in report.commits.to_pylist()] == [(4, 1)]
    read = {key for _, key in store.requests if key.startswith("data/")}
    assert read == {table.scan(where="id = 30").files()["path"][0].as_py()}


def test_vacuumed_files_are_not_counted_and_it_says_so() -> None:
    """RET-5: the numbers are upper limits then."""
    table = tablefmt.create(memory().uri, "id BIGINT")
    table.append({"id": [1, 2, 3]})
    table.overwrite({"id": [2, 9]})
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    report = table.blame(where="id = 2")
    found = {
        (r["version"], r["change"]): (r["rows"], r["rows_max"]) for r in report.commits.to_pylist()
    }
    assert found == {(1, "insert"): (None, 3), (2, "delete"): (None, 3), (2, "insert"): (1, 1)}
    assert "a vacuum may have removed" in str(report)
    assert "inserted at most 3 rows" in str(report)
    assert events(table.blame(file=1)) == Counter({(1, "insert"): 3, (2, "delete"): 3})


def test_expired_entries_are_named() -> None:
    """ENT-13: the log no longer tells who brought the older rows."""
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    for number in range(20):
        clock.forward(DAY)
        table.append(rows(number))
    clock.forward(60 * DAY)
    table.append(rows(50))
    table.vacuum(dry_run=False)
    table.expire_log(dry_run=False)
    clock.forward(60 * DAY)
    table.append(rows(51))
    table.expire_log(dry_run=False)
    table.refresh()
    report = table.blame(where="id < 100")
    assert report.expired
    assert not report.complete
    assert 0 < report.first_version < table.version
    present, *others = report.commits.to_pylist()
    assert present["change"] == "present"
    assert present["operation"] is None
    total = present["rows"] + sum(row["rows"] for row in others)
    assert total == table.count() == 22
    assert "have expired: the log no longer tells" in str(report)
    file = table.blame(file=1)
    assert [(r["version"], r["change"], r["rows"]) for r in file.commits.to_pylist()] == [
        (1, "present", 1)
    ]
    with pytest.raises(InvalidRangeError, match="are not a range in the log"):
        table.blame(file=1, starting_version=0)


def test_a_table_after_a_dropped_one_begins_with_itself(tmp_path: Path) -> None:
    """ENT-14."""
    first = tablefmt.create(tmp_path / "t", "id BIGINT")
    for number in range(5):
        first.append({"id": [number]})
    tablefmt.drop(tmp_path / "t")
    table = tablefmt.create(tmp_path / "t", "id BIGINT")
    table.append({"id": [7]})
    report = table.blame(where="id < 100")
    assert report.complete
    assert report.first_version == 7
    assert events(report) == Counter({(table.version, "insert"): 1})


def test_a_changed_partitioning_hides_no_rows() -> None:
    """ENT-8: files of the old partitioning have no value of the new column."""
    data = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})
    table = tablefmt.create(memory().uri, data.schema)
    table.append(data)
    table.overwrite(data.slice(1), overwrite_schema=True, partition_by=["p"])
    table.append(data)
    table.overwrite(data.slice(2), overwrite_schema=True, partition_by=["id"])
    for where in ("p = 'a'", "id > 1"):
        assert events(table.blame(where=where)) == fed(table, where)


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_those_of_the_feed_whatever_partitions_files(seed: int) -> None:
    """EVO-3: a file of another partitioning may hold rows of any partition."""
    model = Model(seed, memory().uri, deleteMode="merge-on-read")
    for _ in range(12):
        model.step()
    for _ in range(5):
        where, _ = conditions(model.dice)
        assert events(model.table.blame(where=where)) == fed(model.table, where), where


def test_a_column_of_an_older_partitioning_names_a_partition() -> None:
    """EVO-3: a column is in every file, and a hidden field is not."""
    table = evolving(memory())
    report = table.blame(partition={"region": "EU"})
    assert events(report) == fed(table, "region = 'EU'")
    assert table.blame(partition={"region": None}).commits.num_rows == 1
    with pytest.raises(InvalidArgumentError, match="the partitioning changed"):
        table.blame(partition={"ts_day": "2026-01-01"})


@pytest.mark.slow
def test_an_empty_table_and_a_wide_one() -> None:
    empty = tablefmt.create(memory().uri, "id BIGINT")
    report = empty.blame(where="id = 1")
    assert (report.commits.num_rows, report.complete) == (0, True)
    names = [f"c{number}" for number in range(2000)]
    wide = tablefmt.create(memory().uri, ", ".join(f"{name} INT" for name in names))
    wide.append({"c7": [1, 2]})
    wide.delete("c7 = 2")
    assert events(wide.blame(where="c7 = 2")) == Counter({(1, "insert"): 1, (2, "delete"): 1})
    assert wide.why(where="c7 = 3").read == 0


def test_bad_questions_are_refused() -> None:
    table = tablefmt.create(memory().uri, "id BIGINT, p STRING", partition_by=["p"])
    table.append({"id": [1], "p": ["a"]})
    asked: dict[str, Any]
    for asked, error in (
        ({}, InvalidArgumentError),
        ({"file": 1, "where": "id = 1"}, InvalidArgumentError),
        ({"file": "data/none"}, InvalidArgumentError),
        ({"file": True}, InvalidArgumentError),
        ({"partition": {}}, InvalidArgumentError),
        ({"partition": {"id": 1}}, InvalidArgumentError),
        ({"partition": {"p": 1.5}}, InvalidPredicateError),
        ({"where": "nope = 1"}, InvalidPredicateError),
        ({"file": 1, "starting_version": 9}, InvalidRangeError),
        ({"file": 1, "starting_version": 1, "ending_version": 0}, InvalidRangeError),
        ({"file": 1, "ending_version": "none"}, VersionNotFoundError),
    ):
        with pytest.raises(error):
            table.blame(**asked)
