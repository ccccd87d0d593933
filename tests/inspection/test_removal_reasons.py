"""Reasons for removal: they are the decision of vacuum, and their times come true."""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import tablefmt
from tablefmt.errors import InvalidArgumentError
from tablefmt.inspection.removal_reasons import RemovalReport
from tests.tables import Clock, Dated, new_table, rows

DAY = 86_400.0
NOW = time.time_ns() // 1000


def goes(report: RemovalReport) -> list[str]:
    table = report.to_arrow()
    return sorted(table.filter(table["goes"])["path"].to_pylist())


def removed(table: tablefmt.Table) -> list[str]:
    return sorted(table.vacuum().files["path"].to_pylist())


def micros_of(when: datetime) -> int:
    return (when - datetime.fromtimestamp(0, timezone.utc)) // timedelta(microseconds=1)


@pytest.mark.parametrize("seed", range(3))
def test_the_reasons_are_the_decision(seed: int) -> None:
    """RET-4, RET-6, TAG-2: `goes` is what a dry run removes, and each file goes at `can_go`."""
    chance, clock = random.Random(seed), Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    store = table.context.store
    for number in range(9):
        clock.forward(chance.uniform(0.1, 2) * DAY)
        step = chance.randrange(4)
        if step == 0 and number:
            retain = chance.choice([None, timedelta(days=chance.uniform(5, 15))])
            table.alter.set_tag(
                f"t{number}", version=chance.randrange(table.version), retain=retain
            )
        elif step == 1:
            store.put(f"data/{number:032x}/0-0.parquet", b"left over")
        elif step == 2:
            table.append(rows(number))
        else:
            table.overwrite(rows(number))
    report = table.why(vacuum=True)
    assert goes(report) == removed(table)
    dated = [row for row in report.objects.to_pylist() if row["can_go"] is not None]
    by_time: dict[int, set[str]] = {}
    for row in dated:
        by_time.setdefault(micros_of(row["can_go"]), set()).add(row["path"])
    for at, paths in sorted(by_time.items()):
        assert at > clock.micros
        clock.micros = at - 1
        assert not paths & set(removed(table))
        clock.micros = at
        assert paths <= set(removed(table))
    clock.forward(400 * DAY)
    report = table.why(vacuum=True)
    assert goes(report) == removed(table)
    stays = {row["kept_by"] for row in report.objects.to_pylist() if not row["goes"]}
    assert stays <= {"live", "tag"}


def test_each_kind_of_reason(tmp_path: Path) -> None:
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    store = table.context.store
    table.append(rows(1))
    table.append(rows(2))
    first = table.scan(version=1).files()["path"][0].as_py()
    table.alter.set_tag("q", version=1)
    table.overwrite(rows(3))
    live = table.scan().files()["path"][0].as_py()
    store.put(f"data/{7:032x}/0-0.parquet", b"left over")
    store.put(f"data/{8:032x}/notes.txt", b"by hand")
    table.checkpoint()
    clock.forward(1)
    by_path = {row["path"]: row for row in table.why(vacuum=True).objects.to_pylist()}
    assert by_path[live]["kept_by"] == "live"
    assert by_path[first]["kept_by"] == "retention, tag"
    assert by_path[first]["removed_version"] == 4
    assert by_path[first]["can_go"] is None
    assert (
        "the tag 'q' keeps version 1 and later ones until it is dropped" in by_path[first]["reason"]
    )
    assert by_path[f"data/{7:032x}/0-0.parquet"]["kept_by"] == "young"
    assert by_path[f"data/{8:032x}/notes.txt"]["kept_by"] == "other"
    checkpoints = [r for path, r in by_path.items() if path.startswith("_log/checkpoints/")]
    assert {r["kept_by"] for r in checkpoints} == {"checkpoint"}
    shown = str(table.why(vacuum=True))
    assert "kept by retention, tag: 2" in shown
    assert live not in shown
    assert live in str(table.why(file=live))
    clock.forward(30 * DAY)
    by_path = {row["path"]: row for row in table.why(vacuum=True).objects.to_pylist()}
    assert by_path[first]["kept_by"] == "tag"
    assert by_path[f"data/{7:032x}/0-0.parquet"]["goes"]


def test_a_clone_that_holds_its_source_is_named(tmp_path: Path) -> None:
    """CLN-4."""
    source = tablefmt.create(tmp_path / "s", "id BIGINT")
    source.append({"id": [1]})
    source.clone(tmp_path / "c", hold=True)
    path = source.scan().files()["path"][0].as_py()
    source.refresh()
    source.overwrite({"id": [2]})
    (row,) = source.why(file=path).objects.to_pylist()
    assert row["kept_by"] == "retention, tag"
    assert "the tag of a clone 'clone-" in row["reason"]


@pytest.mark.broken_tables
def test_a_file_that_is_no_longer_there_is_explained() -> None:
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    table.append(rows(1))
    path, number = (table.scan().files()[name][0].as_py() for name in ("path", "id"))
    table.overwrite(rows(2))
    clock.forward(30 * DAY)
    table.vacuum(dry_run=False)
    for file in (path, number):
        (row,) = table.why(file=file).objects.to_pylist()
        assert (row["kept_by"], row["removed_version"], row["goes"]) == ("missing", 2, False)
        assert "version 2 removed it from the table, version 3 gave up" in row["reason"]
    live = table.refresh().scan().files()["path"][0].as_py()
    table.context.store.delete_many([live])
    (row,) = table.why(file=live).objects.to_pylist()
    assert "needs it, but the store does not have it" in row["reason"]
    for file in ("data/none", 99):
        with pytest.raises(InvalidArgumentError, match="neither the store nor an entry"):
            table.why(file=file)
