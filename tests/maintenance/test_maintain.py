"""A run of all due tasks: its changes, the tasks that it skips, and its report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import InvalidRangeError, StoreError
from tablefmt.maintenance.maintain import SCHEMA, WORK, due, maintain
from tablefmt.store.object_store import Store, StoredObject
from tablefmt.store.store_traits import Traits
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    behind,
    contents_of,
    data_files,
    handle,
    ids,
    live_files,
    new_table,
    rows,
)

DAY = 86_400.0


def outcomes(table: Table, **how: Any) -> dict[str, str]:
    """Return the outcomes by task."""
    return {step.work: step.outcome for step in table.maintain(**how).steps}


def small_files(days: float = 0.0, versions: int = 12) -> tuple[Table, Clock, Store]:
    """A table of a few small files, so many days after they were written, and one that went."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock, checkpointInterval="10")
    table.append(rows(-1))
    table.delete("id = -1")
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
    assert [step.outcome for step in table.maintain().steps] == ["not due"] * 4
    clock.forward(8 * DAY)
    assert table.maintain().ok
    assert table.history()["operation"].to_pylist()[0] == "VACUUM"
    assert data_files(store) == live_files(store)
    assert ids(handle(store, clock)) == [*range(12), 100]
    clock.forward(8 * DAY)
    before = table.refresh().version
    assert outcomes(table)["vacuum"] == "not due"
    assert table.refresh().version == before


def test_files_that_a_restore_brought_back_are_not_waited_for() -> None:
    """RET-5, RET-6: no vacuum is run in vain; what went for good is counted by what is there."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock, deletedFileRetentionDuration="0 seconds")
    table.append(rows(1, 2))
    for _ in range(2):
        table.truncate()
        table.restore(version=1)
    clock.forward(1)
    table.append(rows(3))
    clock.forward(3600)
    for _ in range(2):
        assert outcomes(table)["vacuum"] == "not due"
        assert due(table.context) == ()
    assert (table.refresh().version, table.oldest_version) == (6, 0)
    assert table.vacuum().files.num_rows == 0
    table.overwrite(rows(9))
    clock.forward(3600)
    reasons = {one.work: one.reason for one in due(table.context)}
    assert reasons["vacuum"].startswith("2 files were removed")
    assert outcomes(table)["vacuum"] == "done"
    assert data_files(store) == live_files(store)
    assert due(table.context) == ()
    assert ids(handle(store, clock)) == [9]
    assert_sound(store)


def test_a_dry_run_changes_nothing() -> None:
    table, _, store = small_files(days=40)
    before = contents_of(store)
    report = table.maintain(dry_run=True)
    assert contents_of(store) == before
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


def test_what_removed_no_file_makes_no_vacuum_due() -> None:
    """RET-5: old versions alone make no vacuum due.

    A handle on a checkpoint reads the entries below.
    """
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock, checkpointInterval="5")
    for number in range(20):
        table.append(rows(number))
        clock.forward(DAY)
    clock.forward(8 * DAY)
    assert outcomes(table, dry_run=True)["vacuum"] == "not due"
    table.overwrite(rows(1))
    table.checkpoint()
    clock.forward(7 * DAY - 1)
    table.append(rows(2))
    for fresh in (table, handle(store, clock)):
        assert outcomes(fresh, dry_run=True)["vacuum"] == "not due"
    clock.forward(1)
    for fresh in (table, handle(store, clock)):
        (why,) = [one.reason for one in due(fresh.context) if one.work == "vacuum"]
        assert "20 files were removed longer ago" in why
    for number in range(3, 20):
        table.append(rows(number))
    table.checkpoint()
    fresh = handle(store, clock)
    assert fresh.context.view.base.version == table.version
    assert [one.reason for one in due(fresh.context) if one.work == "vacuum"] == [why]
    assert fresh.vacuum(dry_run=False).deleted == 20
    assert outcomes(fresh, dry_run=True)["vacuum"] == "not due"


@pytest.mark.parametrize("asked", ["place", "last", "disk"])
def test_what_cannot_be_asked_is_a_step_that_failed(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason that cannot be had keeps nothing else from being done, and nothing is raised."""
    table, clock, store = small_files(days=40)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    if asked == "place":
        table.expire_log(dry_run=False)
        table.overwrite(rows(*range(12)))
        clock.forward(100 * DAY)

        class Bucket(ForwardingStore):
            @property
            def uri(self) -> str:
                return "s3://bucket"

            @property
            def traits(self) -> Traits:
                return Traits(scheme="s3", bucket="bucket", path="", remote=True)

        report = behind(table, Bucket(store)).maintain()
        failed = {"vacuum", "expire-log"}
        assert "whole bucket" in str(report)
    elif asked == "disk":
        monkeypatch.setattr("tablefmt.maintenance.maintain.checkpoint", full)
        report, failed = table.maintain(), {"checkpoint"}
        assert "OSError: [Errno 28] No space left" in str(report)
    else:
        calls = iter([None] * 4)

        def unasked(context: Any, work: str) -> None:
            if next(calls, work) is not None:
                raise StoreError("no answer")

        monkeypatch.setattr("tablefmt.maintenance.maintain.reason_for", unasked)
        report, failed = table.maintain(), {*WORK}
        assert [step.outcome for step in report.steps] == ["not due"] * 4 + ["failed"] * 4
    assert not report.ok
    assert {step.work for step in report.steps if step.outcome == "failed"} == failed
    assert report.to_arrow().num_rows == len(report.steps)
    assert sorted(ids(handle(store, clock))) == list(range(12))


def test_a_log_that_was_never_cut_is_not_read_to_see_whether_it_should_be() -> None:
    """RET-9: the newest state decides if an expiry is due, without reading all entries."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(30):
        table.append(rows(number))
    table.checkpoint()
    counting = CountingStore(store)
    fresh = handle(counting, clock)
    counting.requests.clear()
    assert fresh.maintain(dry_run=True).steps[-1].outcome == "not due"
    assert len({key for verb, key in counting.requests if verb == "get"}) < 6


def test_what_could_not_be_removed_is_a_failure() -> None:
    """RET-5: it is there, and the run has not done what it should."""
    table, _, store = small_files(days=40)

    class Stubborn(ForwardingStore):
        def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
            return dict.fromkeys(keys, "AccessDenied")

    steps = {step.work: step for step in behind(table, Stubborn(store)).maintain().steps}
    assert steps["vacuum"].outcome == "failed"
    assert "removed 0 of" in (steps["vacuum"].result or "")
    assert "files, 0 bytes" in (steps["vacuum"].result or "")
    assert "AccessDenied" in (steps["vacuum"].result or "")


def test_deleted_rows_alone_make_a_compaction_due() -> None:
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    table.append(rows(*range(100)))
    table.delete("id < 50")
    (one,) = due(table.context)
    assert one.work == "compact"
    assert "50 of their 100 rows are deleted" in one.reason
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
    assert "compact: is due: 11 files can be compacted into 1" in capsys.readouterr().out
    assert main(["maintain", uri, "--json"], standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["steps"][0]["outcome"] == "done"
    assert tablefmt.open(uri).scan().files().num_rows == 1
    assert ids(tablefmt.open(uri)) == list(range(11))
    assert tablefmt.maintain(uri).steps[0].outcome == "not due"
    assert main(["maintain", str(tmp_path / "none")], standalone_mode=False) == 3
