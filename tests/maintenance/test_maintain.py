"""A run of all that is due: what it does, what it leaves alone, what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import InvalidRangeError, StoreError
from tablefmt.maintenance.due import WORK, due
from tablefmt.maintenance.maintain import SCHEMA, maintain
from tablefmt.store.protocol import Store, StoredObject
from tablefmt.store.wrap import ForwardingStore
from tablefmt.table import Table
from tests.tables import (
    Clock,
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    live_files,
    memory,
    new_table,
    rows,
)

DAY = 86_400.0


def outcomes(table: Table, **how: Any) -> dict[str, str]:
    """By work."""
    return {step.work: step.outcome for step in table.maintain(**how).steps}


def small_files(days: float = 0.0, versions: int = 12) -> tuple[Table, Clock, Store]:
    """A table of a few small files, so many days after they were written."""
    clock, store = Clock(), memory()
    table = new_table(store, clock=clock, checkpointInterval="10")
    for number in range(versions):
        table.append(rows(number))
    clock.forward(days * DAY)
    return table, clock, store


def test_a_table_that_is_fresh_is_left_alone() -> None:
    table, _, store = small_files(versions=2)
    before = [one.key for one in store.list_after("")]
    report = table.maintain()
    assert {step.outcome for step in report.steps} == {"not due"}
    assert [step.work for step in report.steps] == list(WORK)
    assert (report.ok, report.next, report.version) == (True, (), table.version)
    assert [one.key for one in store.list_after("")] == before


def test_all_that_is_due_is_done_once() -> None:
    table, clock, store = small_files(days=40)
    table.append(rows(100))
    clock.forward(8 * DAY)
    assert [one.work for one in due(table.context)] == list(WORK)
    assert set(outcomes(table, dry_run=True).values()) == {"is due"}
    report = table.maintain()
    assert {step.outcome for step in report.steps} == {"done"}, str(report)
    assert report.ok
    table.refresh()
    assert table.scan().files().num_rows == 1
    assert ids(handle(store, clock)) == [*range(12), 100]
    assert_sound(store)
    operations = table.history()["operation"].to_pylist()
    assert {"COMPACT MINOR", "EXPIRE LOG"} <= set(operations)
    # Files of before the compaction are of versions that are kept: until these are old, too.
    assert len(data_files(store)) == 14
    clock.forward(8 * DAY)
    assert table.maintain().ok
    assert table.history()["operation"].to_pylist()[0] == "VACUUM"
    assert data_files(store) == live_files(store)
    assert ids(handle(store, clock)) == [*range(12), 100]
    again = table.maintain()
    assert {s.work: s.outcome for s in again.steps if s.outcome == "failed"} == {}
    assert again.steps[0].outcome == again.steps[1].outcome == "not due"


def test_a_dry_run_changes_nothing() -> None:
    table, _, store = small_files(days=40)
    before = {one.key: store.get(one.key) for one in store.list_after("")}
    report = table.maintain(dry_run=True)
    assert {one.key: store.get(one.key) for one in store.list_after("")} == before
    assert "nothing was changed" in str(report)
    assert report.to_arrow().schema == SCHEMA
    assert report.to_arrow()["work"].to_pylist() == list(WORK)


def test_nothing_begins_when_the_time_is_over() -> None:
    table, clock, store = small_files(days=40)

    class Slow(ForwardingStore):
        def get_many(self, keys: Any) -> Any:
            clock.forward(1)
            return self.inner.get_many(keys)

    slow = behind(table, Slow(store))
    before = [one.key for one in store.list_after("")]
    report = slow.maintain(seconds=0)
    assert [step.outcome for step in report.steps] == ["postponed"] * 4
    assert [one.work for one in report.next] == list(WORK)
    assert [one.key for one in store.list_after("")] == before


def test_what_fails_keeps_nothing_else_from_being_done() -> None:
    table, clock, store = small_files(days=40)

    class Unlisted(ForwardingStore):
        """Lists no data: vacuum cannot work."""

        def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
            if prefix.startswith("data"):
                raise StoreError("denied")
            return self.inner.list_after(prefix, after)

    report = behind(table, Unlisted(store)).maintain()
    by_work = {step.work: step for step in report.steps}
    assert (by_work["vacuum"].outcome, report.ok) == ("failed", False)
    assert "denied" in (by_work["vacuum"].result or "")
    assert by_work["compact"].outcome == by_work["checkpoint"].outcome == "done"
    assert ids(handle(store, clock)) == list(range(12))


def test_rows_that_are_gone_are_reason_enough() -> None:
    clock, store = Clock(), memory()
    table = new_table(store, clock=clock)
    table.append(rows(*range(100)))
    table.delete("id < 50")
    (one,) = due(table.context)
    assert one.work == "compact"
    assert "50 of their 100 rows are gone" in one.reason
    assert outcomes(table)["compact"] == "done"
    assert due(table.context) == ()
    table.refresh()
    assert table.scan().files()["deleted"].to_pylist() == [0]
    assert ids(table) == list(range(50, 100))


@pytest.mark.parametrize("seconds", [-1, math.nan, True, "60", None])
def test_a_time_that_is_none_is_refused(seconds: Any) -> None:
    table, _, _ = small_files(versions=1)
    with pytest.raises(InvalidRangeError, match="seconds"):
        maintain(table.context, seconds=seconds)


def test_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT, p STRING", properties={"checkpointInterval": "10"})
    for number in range(11):
        table.append(rows(number))
    assert main(["describe", uri, "--json"], standalone_mode=False) == 0
    assert set(json.loads(capsys.readouterr().out)["maintenance"]) <= {"compact", "checkpoint"}
    assert main(["maintain", uri, "--dry-run"], standalone_mode=False) == 0
    assert "compact: is due: 11 files could be 1" in capsys.readouterr().out
    assert main(["maintain", uri, "--json"], standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["steps"][0]["outcome"] == "done"
    assert tablefmt.open(uri).scan().files().num_rows == 1
    assert ids(tablefmt.open(uri)) == list(range(11))
    assert tablefmt.maintain(uri).steps[0].outcome == "not due"
    assert main(["maintain", str(tmp_path / "none")], standalone_mode=False) == 3
