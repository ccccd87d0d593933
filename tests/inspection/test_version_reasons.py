"""Reasons for which a version can be read: the same as what a scan of it does."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import TablefmtError, VersionNotFoundError
from tests.tables import Clock, Dated, new_table, rows

DAY = 86_400.0
NOW = time.time_ns() // 1000


def aged(days: int = 12) -> tuple[tablefmt.Table, Clock]:
    clock = Clock(NOW)
    table = new_table(Dated(clock), clock=clock)
    for number in range(days):
        clock.forward(DAY)
        table.overwrite(rows(number))
    return table, clock


def assert_as_read(table: tablefmt.Table) -> None:
    """Compare each report with a read of the version."""
    for version in range(-1, table.version + 2):
        try:
            table.scan(version=version).to_arrow()
            readable = True
        except TablefmtError:
            readable = False
        report = table.why(version=version)
        assert report.readable == readable, str(report)
        assert pa.table(report).to_pylist()[0]["readable"] == readable


def test_versions_that_vacuum_gave_up() -> None:
    """ENT-13: the report names the vacuum, and the files that are missing."""
    table, clock = aged()
    before = table.scan(version=2).files()["path"].to_pylist()
    assert table.why(version=2).cause == "readable"
    clock.forward(DAY)
    table.vacuum(dry_run=False)
    table.refresh()
    report = table.why(version=2)
    assert (report.cause, report.given_up_by) == ("given_up", table.version)
    assert list(report.missing) == before
    assert f"VACUUM gave it up in version {table.version} at " in str(report)
    assert f"Choose a version from {table.oldest_version} to {table.version}." in str(report)
    assert table.why(version=-1).cause == table.why(version=99).cause == "not_committed"
    assert_as_read(table)


def test_versions_whose_entries_have_expired() -> None:
    table, clock = aged(8)
    clock.forward(40 * DAY)
    table.append(rows(50))
    table.vacuum(dry_run=False)
    clock.forward(40 * DAY)
    table.append(rows(51))
    table.expire_log(dry_run=False)
    table.refresh()
    report = table.why(version=2)
    assert (report.cause, report.given_up_by, report.missing_files) == ("given_up", 10, 0)
    assert "the log no longer knows its files" in report.reason
    assert_as_read(table)
    clock.forward(40 * DAY)
    table.append(rows(52))
    table.expire_log(dry_run=False)
    report = table.refresh().why(version=2)
    assert (report.cause, report.given_up_by) == ("given_up", None)
    assert "given up before version" in report.reason


@pytest.mark.broken_tables
def test_a_missing_file_and_a_missing_entry(tmp_path: Path) -> None:
    """DAT-5, LOG-2."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT")
    for number in range(6):
        table.overwrite({"id": [number]})
    table.checkpoint()
    lost = table.scan(version=3).files()["path"][0].as_py()
    (tmp_path / "t" / lost).unlink()
    report = table.why(version=3)
    assert (report.cause, report.missing_files, report.missing) == ("missing_files", 1, (lost,))
    assert table.why(version=4).readable
    (tmp_path / "t" / "_log" / f"{2:020}.json").unlink()
    fresh = tablefmt.open(tmp_path / "t")
    assert fresh.why(version=6).readable
    report = fresh.why(version=1)
    assert report.readable or report.cause == "damaged"
    assert fresh.why(version=2).cause == "damaged"
    assert "not version 2" in fresh.why(version=2).reason


def test_tags_are_versions() -> None:
    table, _ = aged(3)
    table.alter.set_tag("q", version=1)
    assert table.why(version="q").version == 1
    with pytest.raises(VersionNotFoundError):
        table.why(version="none")
