"""Vacuum: the files that it removes, the files that stay, and the report."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    ChangesExpiredError,
    CommitRejectedError,
    CommitUnknownError,
    InvalidRangeError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.object_names import overflow_key
from tablefmt.maintenance.vacuum import VacuumReport, vacuum
from tablefmt.session import staging
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_traits import Traits
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.s3server import S3Server
from tests.tables import (
    Clock,
    Dated,
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

DAY, HOUR = 86_400.0, 3600.0
NOW = time.time_ns() // 1000
"""Files in memory are as old as the test: a clock that starts now agrees with them."""

Files = dict[int, list[str]]


def paths(table: Table) -> Files:
    """Return the keys of the data files by version."""
    return {
        version: sorted(table.scan(version=version).files()["path"].to_pylist())
        for version in range(table.version + 1)
    }


def overwritten(days: Sequence[float], **more: Any) -> tuple[Table, Clock, Files]:
    """A table that was overwritten with its version's number, each so many days after the last."""
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock, **more)
    for number, pause in enumerate(days, 1):
        clock.forward(pause * DAY)
        table.overwrite(rows(number))
    return table, clock, paths(table)


def removed(report: VacuumReport) -> list[str]:
    """The keys in a report."""
    return sorted(report.to_arrow()["path"].to_pylist())


def everything(store: Store) -> list[str]:
    """All keys."""
    return [one.key for one in store.list_after("")]


def test_versions_go_by_the_time_at_which_another_took_their_place() -> None:
    """RET-4: the times of entries decide, if the store's own times agree."""
    table, clock, by_version = overwritten([1, 1, 1, 1])
    store = table.context.store
    clock.forward(7 * DAY - 2 * DAY)
    # Version 2 was the newest until seven days ago.
    report = table.vacuum(dry_run=False)
    assert removed(report) == by_version[1]
    assert (report.deleted, report.oldest, report.version) == (1, 2, 5)
    assert [ids(table, version) for version in (2, 3, 4, 5)] == [[2], [3], [4], [4]]
    with pytest.raises(VersionNotFoundError, match=r"version 1 is .* from 2 to 5"):
        table.scan(version=1)
    with pytest.raises(ChangesExpiredError, match="earliest that can still be read is 3"):
        table.changes(after_version=1)
    assert_sound(store)
    clock.forward(DAY - 1)
    assert table.vacuum().files.num_rows == 0
    clock.forward(1)
    assert removed(table.vacuum()) == by_version[2]


def test_a_dry_run_says_what_a_run_does_and_changes_nothing() -> None:
    """RET-5: the printed report has the reason of each file."""
    table, clock, by_version = overwritten([1, 1, 1])
    clock.forward(30 * DAY)
    before = everything(table.context.store)
    dry = table.vacuum()
    assert everything(table.context.store) == before
    assert handle(table.context.store).version == 3
    run = table.vacuum(dry_run=False)
    assert removed(dry) == removed(run) == sorted(by_version[1] + by_version[2])
    assert dry.to_arrow().equals(run.to_arrow())
    assert (dry.deleted, run.deleted, run.failures) == (0, 2, {})
    assert dry.bytes == run.bytes == sum(run.files["size"].to_pylist())
    text = str(dry)
    assert "would remove 2 of 3 files" in text
    assert f"{by_version[1][0]}: " in text
    assert "removed by version 2, longer ago than the retention" in text
    assert "dry run" in text
    assert "removed 2 of 3 files" in str(run)
    last = table.history(1).to_pylist()[0]
    assert (last["operation"], last["isBlindAppend"]) == ("VACUUM", False)
    assert dict(last["operationMetrics"])["numFilesToDelete"] == "2"
    assert table.vacuum(dry_run=False).files.num_rows == 0
    assert handle(table.context.store).version == 4


def test_nothing_to_remove_is_no_version() -> None:
    """RET-5: older versions that lose no file stay, however old they are."""
    clock = Clock(NOW)
    table = new_table(clock=clock)
    table.append(rows(1))
    table.append(rows(2))
    clock.forward(400 * DAY)
    report = table.vacuum(dry_run=False)
    assert (report.files.num_rows, report.oldest, table.refresh().version) == (0, 0, 2)
    assert ids(table, 1) == [1]
    assert new_table(clock=clock).vacuum(dry_run=False).listed == 0


def test_rows_that_were_deleted_stay_as_long_as_a_version_has_them() -> None:
    """RET-5: a file with deletes is live; one whose last row went is not."""
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete("id = 1")
    table.delete("id = 3")
    table.update({"id": "id + 10"})
    clock.forward(8 * DAY)
    table.append(rows(5))
    clock.forward(8 * DAY)
    report = table.vacuum(dry_run=False)
    assert report.deleted == 2
    assert ids(table.refresh()) == [5, 12]
    assert sorted(data_files(table.context.store)) == live_files(table.context.store)
    assert_sound(table.context.store)


@pytest.mark.parametrize("restored", [1, 2])
def test_a_file_that_came_back_is_needed(restored: int) -> None:
    """RET-1, RET-5: its id makes no difference. It is removed after the restored version was."""
    table, clock, by_version = overwritten([1, 1, 1])
    table.restore(version=restored)
    clock.forward(30 * DAY)
    report = table.vacuum(dry_run=False)
    assert removed(report) == sorted(
        path for version in (1, 2, 3) if version != restored for path in by_version[version]
    )
    assert ids(table.refresh()) == [restored]
    assert_sound(table.context.store)
    table.overwrite(rows(9))
    clock.forward(8 * DAY)
    assert removed(table.vacuum(dry_run=False)) == by_version[restored]


def unnamed(store: Store, name: str = "0.parquet") -> str:
    """A file of a transaction that was given up, or is under way."""
    key = f"data/{'a' * 32}/{name}"
    store.put(key, b"rows")
    return key


def test_orphans_are_removed_once_no_commit_can_name_them() -> None:
    """RET-6: left-overs of every kind, by the store's own time."""
    table, clock, _ = overwritten([0])
    store = table.context.store
    left = [
        unnamed(store),
        unnamed(store, "part=1/x.zstd.parquet"),
        f"deletes/{'b' * 32}.parquet",
        overflow_key("c" * 32),
        "_log/.probe-1",
        "_log/.tmp-x",
    ]
    for key in left:
        store.put(key, b"x")
    clock.forward(7 * DAY - 60)
    assert table.vacuum().files.num_rows == 0
    clock.forward(120)
    report = table.vacuum(dry_run=False)
    assert removed(report) == sorted(left)
    assert set(report.files["removed_version"].to_pylist()) == {None}
    assert all("no entry names it" in reason for reason in report.files["reason"].to_pylist())
    # The run is in the history, and no version was given up.
    assert (report.version, report.oldest) == (2, 0)
    assert table.history(1)["operation"].to_pylist() == ["VACUUM"]
    assert ids(table, 0) == []


def test_files_of_a_transaction_under_way_stay_whatever_the_property_says() -> None:
    """RET-6: an hour is a transaction's own, and two hours its files'."""
    table, clock, _ = overwritten([0], deletedFileRetentionDuration="0 seconds")
    table.overwrite(rows(2))
    work = table.transaction().append(rows(3))
    clock.forward(HOUR - 1)
    report = table.vacuum(dry_run=False)
    assert report.deleted == 1
    work.commit()
    assert ids(table.refresh()) == [2, 3]
    late = table.transaction().append(rows(4))
    clock.forward(HOUR + 1)
    with pytest.raises(CommitRejectedError, match="3600 s are allowed"):
        late.commit()
    unnamed(table.context.store)
    clock.forward(2 * HOUR - 1)
    assert table.vacuum().files.num_rows == 0
    clock.forward(1)
    assert table.vacuum(dry_run=False).deleted == 1


def test_a_statement_by_itself_does_not_outlive_its_files() -> None:
    """RET-6: its time begins when it begins."""
    clock = Clock(NOW)
    table = new_table(clock=clock, deletedFileRetentionDuration="2 hours")

    def slowly() -> Any:
        clock.forward(HOUR + 1)
        yield from rows(1).to_batches()

    with pytest.raises(CommitRejectedError, match="Vacuum may have removed its files"):
        table.append(pa.RecordBatchReader.from_batches(rows(1).schema, slowly()))
    assert data_files(table.context.store) == []
    assert handle(table.context.store).version == 0


def test_a_commit_ends_before_its_files_are_taken_for_left_over() -> None:
    """RET-6: the caller's number of lost races makes no difference."""
    clock, store = Clock(NOW), memory()
    table = new_table(store, clock=clock, deletedFileRetentionDuration="0 seconds")
    other = handle(store, clock)

    class Contended(ForwardingStore):
        rounds = 0

        def put_if_absent(self, key: str, body: bytes) -> Any:
            self.rounds += 1
            assert self.rounds < 100
            clock.forward(60)
            other.append(rows(self.rounds))
            return self.inner.put_if_absent(key, body)

    with pytest.raises(CommitUnknownError, match=r"deadline of .* s passed") as caught:
        behind(table, Contended(store)).append(rows(1000), deadline=30 * DAY)
    assert HOUR / 2 <= clock.seconds < HOUR
    assert table.resolve(caught.value.transaction, caught.value.version) is None


def test_an_append_does_not_rebase_onto_a_retention_that_it_has_outlived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RET-6, CFL-5: a shorter retention makes files of a running append look like orphans."""
    clock = Clock(NOW)
    dated = Dated(clock)
    table, other = new_table(dated, clock=clock), handle(dated, clock)

    def slowly(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        clock.forward(3 * HOUR)
        other.alter.set_properties({"deletedFileRetentionDuration": "1 hour"})
        assert other.vacuum(dry_run=False).deleted == 1
        return staging.commit_staged(*arguments, **named)

    monkeypatch.setattr(staging, "commit_staged", slowly)
    with pytest.raises(CommitRejectedError, match="began 10800 s ago, and 3600 s are allowed"):
        table.append(rows(1))
    assert ids(handle(dated, clock)) == []
    assert table.append(rows(2)).version == 3
    assert_sound(dated)


SHORT: dict[str, Any] = {
    "zero": 0,
    "zero text": "0 seconds",
    "zero delta": timedelta(0),
    "a day": "1 day",
    "nearly": 7 * DAY - 1,
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_retention_is_refused_unless_its_danger_is_named(name: str) -> None:
    """RET-7."""
    table, clock, by_version = overwritten([0, 1])
    left = unnamed(table.context.store)
    clock.forward(DAY if name == "a day" else 7 * DAY - 1)
    for dry_run in (True, False):
        with pytest.raises(InvalidRangeError, match="breaks_running_transactions=True"):
            table.vacuum(retention=SHORT[name], dry_run=dry_run)
    report = table.vacuum(retention=SHORT[name], dry_run=False, breaks_running_transactions=True)
    assert removed(report) == sorted([*by_version[1], left])
    assert ids(table.refresh()) == [2]


BAD: dict[str, Any] = {
    "below zero": -1,
    "below zero delta": timedelta(days=-1),
    "words": "a while",
    "no unit": "7",
    "nan": float("nan"),
    "infinite": float("inf"),
    "boolean": True,
    "list": [7],
}


@pytest.mark.parametrize("name", BAD)
def test_a_retention_that_is_no_time_is_refused(name: str) -> None:
    """RET-7: the text is no duration (PTY-3)."""
    table, _, _ = overwritten([0])
    with pytest.raises(InvalidRangeError, match="retention"):
        table.vacuum(retention=BAD[name], breaks_running_transactions=True)


def test_a_longer_retention_keeps_more() -> None:
    """RET-7."""
    table, clock, by_version = overwritten([1, 1, 1])
    clock.forward(9 * DAY)
    assert removed(table.vacuum()) == sorted(by_version[1] + by_version[2])
    assert removed(table.vacuum(retention="10 days")) == by_version[1]
    assert removed(table.vacuum(retention=timedelta(days=11))) == []
    assert removed(table.vacuum(retention=1e300)) == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table on a disk, old enough that all but its newest file may go."""
    table = new_table(LocalStore(tmp_path / "t"), clock=Clock(NOW))
    for number in (1, 2):
        table.overwrite(rows(number))
    return tmp_path / "t"


def old(root: Path) -> Table:
    """Return a handle of a disk at a clock one year later."""
    clock = Clock(NOW + int(365 * DAY * 1_000_000))
    return handle(Dated(clock, LocalStore(root)), clock)


def snapshot_of(root: Path, *, without: Path | None = None) -> dict[str, bytes | None]:
    """Every file below a folder."""
    return {
        str(path.relative_to(root)): None if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or (path.is_file() and without not in path.parents)
    }


def test_what_is_not_the_tables_own_is_left_alone(root: Path, tmp_path: Path) -> None:
    """RET-6: other names, links, which are not listed (STO-9), and what lies behind them."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.parquet").write_bytes(b"mine")
    folder = root / "data" / ("d" * 32)
    folder.mkdir()
    (folder / "link.parquet").symlink_to(outside / "x.parquet")
    (root / "data" / ("e" * 32)).symlink_to(outside)
    (folder / "notes.txt").write_text("mine")
    for name in ("notes.txt", "data/readme.md", "data/x.parquet", "_log/7.json", "_log/notes"):
        (root / name).write_text("mine")
    for name in ("DATA", f"data/{'A' * 32}", f"data/{'f' * 31}", "metadata", "_delta_log"):
        (root / name).mkdir()
        (root / name / "0.parquet").write_text("mine")
    before, behind_links = snapshot_of(root), snapshot_of(outside)
    report = old(root).vacuum(dry_run=False)
    assert report.deleted == 1
    after = snapshot_of(root)
    assert {*before} - {*after} == {*removed(report)}
    assert {*after} - {*before} == {"_log/00000000000000000003.json"}
    assert snapshot_of(outside) == behind_links
    assert ids(old(root)) == [2]


def test_no_empty_folder_is_left(root: Path) -> None:
    """RET-5, STO-15."""
    many = [f"{n}" for n in range(3)]
    table = new_table(LocalStore(root.parent / "p"), partitioned=True, clock=Clock(NOW))
    for number in (1, 2):
        table.overwrite(rows(number, number, number, p=many))
    assert old(root.parent / "p").vacuum(dry_run=False).deleted == 3
    assert len(list((root.parent / "p" / "data").iterdir())) == 1


@pytest.mark.parametrize("place", ["inner", "data/inner", f"data/{'9' * 32}", f"data/{'9' * 32}/x"])
def test_another_table_below_is_left_alone(root: Path, place: str) -> None:
    """RET-6: wherever it lies; and vacuum of that one leaves the outer alone."""
    inner = new_table(LocalStore(root / place), clock=Clock(NOW))
    for number in (5, 6):
        inner.overwrite(rows(number))
    before = snapshot_of(root / place)
    report = old(root).vacuum(dry_run=False)
    assert report.deleted == 1
    assert snapshot_of(root / place) == before
    outer = snapshot_of(root, without=root / place)
    outer = {name: body for name, body in outer.items() if not name.startswith(place)}
    assert old(root / place).vacuum(dry_run=False).deleted == 1
    after = snapshot_of(root, without=root / place)
    assert {n: b for n, b in after.items() if not n.startswith(place)} == outer
    assert ids(old(root / place)) == [6]


def test_a_folder_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """LOG-7: before anything is listed."""
    (tmp_path / "data" / ("a" * 32)).mkdir(parents=True)
    (tmp_path / "data" / ("a" * 32) / "0.parquet").write_bytes(b"mine")
    with pytest.raises(TableNotFoundError):
        tablefmt.open(tmp_path).vacuum(dry_run=False)
    table = new_table(LocalStore(tmp_path / "t"))
    for path in sorted((tmp_path / "t" / "_log").iterdir()):
        path.unlink()
    with pytest.raises(tablefmt.errors.TablefmtError):
        table.vacuum(dry_run=False)
    assert (tmp_path / "data" / ("a" * 32) / "0.parquet").exists()


WHOLE = {
    "s3://bucket": Traits(scheme="s3", bucket="bucket", path="", remote=True),
    "/": Traits(scheme="file", path="", on_disk=True),
}


@pytest.mark.parametrize("uri", WHOLE)
def test_a_whole_bucket_is_refused(uri: str) -> None:
    """RET-6: everything else in it would be below the table."""

    class Root(ForwardingStore):
        @property
        def uri(self) -> str:
            return uri

        @property
        def traits(self) -> Traits:
            return WHOLE[uri]

    table, _, _ = overwritten([0, 0])
    other = behind(table, Root(table.context.store))
    with pytest.raises(UnsupportedFeatureError, match="whole bucket or disk"):
        other.vacuum()
    assert ids(table) == [2]


class Clocked(ForwardingStore):
    """A store that tells the time."""

    def __init__(self, inner: Store, clock: Clock) -> None:
        super().__init__(inner)
        self.clock = clock

    def server_time_us(self) -> int | None:
        return self.clock.micros


def test_the_earlier_of_two_clocks_decides() -> None:
    """RET-4, TIM-3: a machine or a store whose clock is ahead for a moment removes nothing."""
    table, clock, by_version = overwritten([0, 1])
    for days in (365, -365):
        wrong = Clock(NOW + int(days * DAY * 1_000_000))
        for store_clock, own in ((clock, wrong), (wrong, clock)):
            other = handle(Clocked(table.context.store, store_clock), own)
            assert other.vacuum().files.num_rows == 0
    clock.forward(8 * DAY)
    slow = handle(Clocked(table.context.store, clock), Clock(NOW))
    assert slow.vacuum().files.num_rows == 0
    right = handle(Clocked(table.context.store, clock), clock)
    assert removed(right.vacuum(dry_run=False)) == by_version[1]


@pytest.mark.slow
def test_overflow_files_stay_as_long_as_their_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """RET-6, ADD-6, DEL-3: the state of later versions is read from them."""
    monkeypatch.setattr("tablefmt.commit.driver.OVERFLOW_ABOVE_BYTES", 10_000)
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock, partitioned=True)
    table.append(rows(*range(2500), p=[f"partition {n}" for n in range(2500)]))
    table.overwrite(rows(1))
    sides = [key for key in everything(table.context.store) if key.startswith("_log/side/")]
    assert len(sides) == 1
    table.context.store.put(overflow_key("f" * 32), b"x")
    clock.forward(30 * DAY)
    report = table.vacuum(dry_run=False)
    assert report.deleted == 2501
    assert [key for key in everything(table.context.store) if "/side/" in key] == sides
    assert ids(handle(table.context.store)) == [1]


def test_reads_of_given_up_versions_are_errors() -> None:
    """ENT-13: the error is not that a file is missing. A scan that began before raises it too."""
    table, clock, _ = overwritten([0, 1])
    store = table.context.store
    warm = handle(store, clock)
    scan, counted = warm.scan(version=1), warm.scan(version=1, where="id > 0")
    net = warm.changes(after_version=1, ending_version=2)
    clock.forward(8 * DAY)
    table.vacuum(dry_run=False)
    for read in (scan.to_arrow, counted.count):
        with pytest.raises(VersionNotFoundError, match=r"version 1 is .* from 2 to 3"):
            read()
    with pytest.raises(VersionNotFoundError, match="version 1 is"):
        net.to_arrow()
    assert warm.to_arrow()["id"].to_pylist() == [2]
    # A file that is missing from a version that is kept is damage.
    (path,) = live_files(store)
    body = store.get(path)
    store.delete(path)
    with pytest.raises(tablefmt.errors.CorruptDataError):
        warm.to_arrow()
    store.put(path, body)


def test_a_restore_and_a_vacuum_in_both_orders() -> None:
    """RET-2, RET-5: planned before the other committed."""
    for restore_first in (True, False):
        table, clock, by_version = overwritten([1, 1])
        store = table.context.store
        clock.forward(30 * DAY)
        work = table.transaction().restore(version=1)
        if restore_first:
            meanwhile = Meanwhile(store, "_log/00000000000000000003.json", work.commit)
            report = behind(table, meanwhile).vacuum(dry_run=False)
            assert ids(handle(store)) == [1]
            # The file of 2 is needed by version 2, which this vacuum meant to keep.
            assert (removed(report), report.oldest, ids(handle(store), 2)) == ([], 2, [2])
            assert live_files(store) == by_version[1]
        else:
            table.vacuum(dry_run=False)
            with pytest.raises(VersionNotFoundError, match="from 2 to 3"):
                work.commit()
            assert ids(handle(store)) == [2]
        assert_sound(store)


class Meanwhile(ForwardingStore):
    """Does something else right before a key is created."""

    def __init__(self, inner: Store, key: str, work: Callable[[], object]) -> None:
        super().__init__(inner)
        self._key, self._work = key, work

    def put_if_absent(self, key: str, body: bytes) -> Any:
        if key == self._key:
            self._key = ""
            self._work()
        return self.inner.put_if_absent(key, body)


@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
def test_a_vacuum_rebases_onto_every_commit(granularity: str) -> None:
    """RET-5, ENT-13: it conflicts with nothing, and nothing with it."""
    wins: list[Callable[[Table], object]] = [
        lambda t: t.append(rows(3)),
        lambda t: t.delete("id = 2"),
        lambda t: t.overwrite(rows(8)),
        lambda t: t.alter.add_column("q", "INT"),
        lambda t: t.alter.set_properties({"deletedFileRetentionDuration": "1 day"}),
        lambda t: t.vacuum(dry_run=False),
    ]
    for win in wins:
        table, clock, by_version = overwritten([1, 1], conflictGranularity=granularity)
        store = table.context.store
        clock.forward(30 * DAY)
        meanwhile = Meanwhile(store, "_log/00000000000000000003.json", lambda w=win, t=table: w(t))
        report = behind(table, meanwhile).vacuum(dry_run=False)
        assert removed(report) == by_version[1]
        fresh = handle(store)
        assert (fresh.version, fresh.context.view.head.totals.oldest) == (4, 2)
        assert not {*by_version[1]} & {*data_files(store)}
        assert_sound(store)


def test_writers_rebase_onto_a_vacuum() -> None:
    """ENT-13: a horizon conflicts with no writer, under `transaction` granularity too."""
    table, clock, _ = overwritten([1, 1], conflictGranularity="transaction")
    clock.forward(30 * DAY)
    append = table.transaction().append(rows(3))
    table.vacuum(dry_run=False)
    append.commit()
    assert ids(table.refresh()) == [2, 3]
    table.delete("id = 3")
    update = table.transaction().update({"id": "id + 1"}, "id = 2")
    unnamed(table.context.store)
    clock.forward(1.5 * HOUR)
    short = table.vacuum(retention=HOUR, dry_run=True, breaks_running_transactions=True)
    assert short.files.num_rows == 3
    table.alter.set_properties({"deletedFileRetentionDuration": "1 hour"})
    assert table.vacuum(dry_run=False).deleted == 1
    with pytest.raises(tablefmt.errors.MetadataChangedException):
        update.commit()
    assert ids(table.refresh()) == [2]


def test_what_cannot_be_removed_is_told_and_goes_with_the_next_run() -> None:
    """RET-5: the retention horizon is committed, so nothing else depends on the deletion."""
    table, clock, by_version = overwritten([1, 1, 1])
    clock.forward(30 * DAY)

    class Stubborn(ForwardingStore):
        def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
            first, *rest = keys
            return {first: "AccessDenied", **self.inner.delete_many(rest)}

    report = behind(table, Stubborn(table.context.store)).vacuum(dry_run=False)
    (left,) = report.failures
    assert (report.files.num_rows, report.deleted) == (2, 1)
    assert f"not removed: {left}: AccessDenied" in str(report)
    again = table.vacuum(dry_run=False)
    assert (removed(again), again.failures) == ([left], {})
    assert left in by_version[1] + by_version[2]


def test_two_vacuums_at_once_do_no_more_than_one() -> None:
    """RET-5."""
    table, clock, by_version = overwritten([1, 1, 1])
    store = table.context.store
    clock.forward(30 * DAY)
    other = handle(store, clock)
    reports: list[VacuumReport] = []

    class Twice(ForwardingStore):
        def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
            reports.append(other.vacuum(dry_run=False))
            return self.inner.delete_many(keys)

    reports.append(behind(table, Twice(store)).vacuum(dry_run=False))
    assert [removed(report) for report in reports] == [sorted(by_version[1] + by_version[2])] * 2
    assert ids(handle(store)) == [3]
    assert_sound(store)


def test_it_asks_for_the_log_a_listing_and_one_entry() -> None:
    """RET-5: the number of files makes no difference. One request deletes a thousand."""
    table, clock, by_version = overwritten([1] * 5)
    clock.forward(30 * DAY)
    counting = CountingStore(table.context.store)
    behind(table, counting).vacuum(dry_run=False)
    counts = counting.counts
    assert (counts["put_if_absent"], counts["put"]) == (1, 0)
    assert counts["delete"] == 4
    # Three more than where nothing may go: times of entries (RET-4), copies to keep (XPT-12).
    assert counts["list_after"] == 11
    assert set(counts) == {"get", "list_after", "put_if_absent", "delete"}
    assert by_version[5] == live_files(table.context.store)


def test_it_is_shown_from_where_on_versions_are_kept() -> None:
    """ENT-13."""
    table, clock, _ = overwritten([1, 1])
    assert table.history()["canBeRead"].to_pylist() == [True, True, True]
    clock.forward(30 * DAY)
    table.vacuum(dry_run=False)
    shown = table.history().select(["version", "canBeRead"]).to_pylist()
    assert [(row["version"], row["canBeRead"]) for row in shown] == [
        (3, True),
        (2, True),
        (1, False),
        (0, False),
    ]
    assert table.refresh().oldest_version == 2


@pytest.mark.parametrize("kept", [True, False])
def test_a_copy_is_as_old_as_the_times_that_were_copied(tmp_path: Path, *, kept: bool) -> None:
    """RET-4: a copy with its times (`cp -a`) takes its ages along; else its versions are young."""
    month_ago = NOW - int(30 * DAY * 1_000_000)
    table = new_table(LocalStore(tmp_path / "t"), clock=Clock(month_ago))
    for number in (1, 2):
        table.overwrite(rows(number))
    for path in (tmp_path / "t").rglob("*.*"):
        os.utime(path, (month_ago / 1e6,) * 2)
    copy = shutil.copy2 if kept else shutil.copyfile
    shutil.copytree(tmp_path / "t", tmp_path / "copy", copy_function=copy)
    copied = handle(LocalStore(tmp_path / "copy"), Clock(NOW))
    assert copied.vacuum(dry_run=False).deleted == (1 if kept else 0)
    assert ids(copied.refresh()) == [2]
    # A copy need not grow old: a retention of 0 requires no age.
    assert copied.vacuum(retention=0, breaks_running_transactions=True).files.num_rows == 1 - kept


@pytest.mark.slow
def test_many_files_go_in_one_run() -> None:
    """RET-5: the files are deleted in batches."""
    clock = Clock(NOW)
    store = Dated(clock)
    table = new_table(store, clock=clock, partitioned=True)
    table.append(rows(*range(1500), p=[f"{n}" for n in range(1500)]))
    table.overwrite(rows(1))
    for number in range(5000):
        store.put(f"data/{number:032x}/0.parquet", b"x")
    clock.forward(30 * DAY)
    seen: list[tuple[int, int]] = []
    report = vacuum(
        table.context, dry_run=False, progress=lambda done, total: seen.append((done, total))
    )
    assert (report.deleted, report.listed) == (6500, 6501)
    assert seen == [(4096, 6500), (6500, 6500)]
    assert str(report).count("\n") == 21
    assert data_files(store) == live_files(store)


@pytest.mark.slow
def test_it_works_on_s3(s3_uri: str, s3_server: S3Server) -> None:
    """RET-5, RET-9: the store's clock decides. One request deletes many files."""
    options = s3_server.options
    table = tablefmt.create(
        s3_uri, "id BIGINT, p STRING", partition_by=["p"], storage_options=options
    )
    for number in (1, 2, 3):
        table.overwrite(rows(*[number] * 5, p=[f"{n}" for n in range(5)]))
    assert table.vacuum(dry_run=False).files.num_rows == 0
    report = table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert (report.deleted, report.failures) == (10, {})
    assert table.restore(version=3).no_op
    expiry = table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
    assert expiry.deleted >= 2
    fresh = tablefmt.open(s3_uri, storage_options=options)
    assert ids(fresh) == [3] * 5
    assert fresh.oldest_version == expiry.oldest
    assert fresh.verify(deep=True).ok


@pytest.mark.slow
def test_keys_that_s3_does_not_delete_are_told_and_go_with_the_next_run(
    s3_uri: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RET-5, STO-9: DeleteObjects answers 200 with an error for some of its keys."""
    options = s3_server.options
    table = tablefmt.create(
        s3_uri, "id BIGINT, p STRING", partition_by=["p"], storage_options=options
    )
    for number in (1, 2):
        table.overwrite(rows(*[number] * 5, p=[f"{n}" for n in range(5)]))
    store = tablefmt.open(s3_uri, storage_options=options).context.store
    planned = removed(table.vacuum(retention=0, breaks_running_transactions=True))
    assert len(planned) == 5
    kept = planned[1:3]
    kind: Any = type(store)
    whole = kind._call

    async def partly(self: Any, name: str, **asked: Any) -> Any:
        """Answer as a bucket does whose policy protects some keys."""
        if name != "delete_objects":
            return await whole(self, name, **asked)
        objects = asked["Delete"]["Objects"]
        refused = [one for one in objects if one["Key"].endswith(tuple(kept))]
        rest = {**asked["Delete"], "Objects": [one for one in objects if one not in refused]}
        answer = await whole(self, name, Delete=rest)
        errors = [{**one, "Code": "AccessDenied", "Message": "protected"} for one in refused]
        return {**answer, "Errors": errors}

    monkeypatch.setattr(kind, "_call", partly)
    report = table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert (removed(report), report.failures) == (planned, dict.fromkeys(kept, "AccessDenied"))
    assert report.deleted == 3
    there = {one.key for one in store.list_after("data/")}
    assert {*kept} <= there
    assert not ({*planned} - {*kept}) & there
    # Every run lists the files that still exist, dry runs too.
    again = tablefmt.open(s3_uri, storage_options=options)
    assert removed(again.vacuum(retention=0, breaks_running_transactions=True)) == kept
    monkeypatch.undo()
    last = again.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert (removed(last), last.failures) == (kept, {})
    fresh = tablefmt.open(s3_uri, storage_options=options)
    assert ids(fresh) == [2] * 5
    assert fresh.verify(deep=True).ok
