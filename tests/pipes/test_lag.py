"""Replication lag of a table: versions, times, and errors of a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import InvalidRangeError, StoreError, TableNotFoundError
from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location import open_store, scheme_of
from tablefmt.table import Table
from tests.tables import Clock, behind, handle


def made(folder: Path, clock: Clock) -> Table:
    return Table(create(LocalStore(folder), "id BIGINT", environment=clock.environment()))


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["lag", *arguments])
    return result.exit_code, result.output


def numbers(report: Any) -> list[tuple[Any, ...]]:
    return [(s.name, s.taken, s.newest, s.versions, s.seconds, s.problem) for s in report.sources]


def test_versions_and_the_age_of_what_is_missing(tmp_path: Path) -> None:
    """PIP-8: lag is reported by pipe. A metadata change and a compaction are versions too."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    tablefmt.pipe(here).into(there)
    clock.forward(100)
    tablefmt.pipe(here, name="late").into(there)
    up_to_date = [("", 1, 1, 0, 0.0, None), ("late", 1, 1, 0, 0.0, None)]
    assert numbers(there.lag(here.uri)) == up_to_date
    here.append({"id": [2]})
    tablefmt.pipe(here, name="late").into(there)
    clock.forward(50)
    here.append({"id": [3]})
    here.compact()
    clock.forward(7)
    report = there.lag(here.uri)
    assert numbers(report) == [("", 1, 4, 3, 57.0, None), ("late", 2, 4, 2, 7.0, None)]
    assert [(s.source, s.location, s.moved_at) for s in report.sources] == [
        (here.id, here.uri, 1),
        (here.id, here.uri, 3),
    ]
    assert report.ok
    assert "3 versions behind version 4, the oldest 57 s old" in str(report)
    assert report.to_arrow()["versions"].to_pylist() == [3, 2]


def test_an_open_table_is_a_source_like_its_address(tmp_path: Path) -> None:
    """PIP-8, SEC-2: an old handle too; its newest version counts."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    old = tablefmt.open(here.uri)
    tablefmt.pipe(here).into(there)
    here.append({"id": [1]})
    for sources in (here, old, [old]):
        assert there.lag(sources) == there.lag(here.uri)
    assert there.lag(old).sources[0].versions == 1
    assert old.version == 0


def test_a_table_without_pipes_has_no_lag(tmp_path: Path) -> None:
    """PIP-8."""
    table = made(tmp_path / "t", Clock())
    report = table.lag()
    assert (report.sources, report.ok, report.to_arrow().num_rows) == ((), True, 0)


def test_a_restored_table_is_behind_by_what_went(tmp_path: Path) -> None:
    """PIP-8, RPL-7: a cursor that went back to nothing."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    tablefmt.pipe(here).into(there)
    clock.forward(10)
    there.restore(version=0)
    assert numbers(there.lag(here.uri)) == [("", None, 1, 2, 10.0, None)]


def test_an_address_in_the_log_is_shown_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-2, PIP-8: the writer of the log chose the address.

    The report says how to request a check of it.
    """
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    tablefmt.pipe(here).into(there)
    opened: list[Any] = []
    monkeypatch.setattr(
        "tablefmt.pipes.replication_lag.open_store", lambda *given: opened.append(given)
    )
    report = there.lag()
    (one,) = report.sources
    assert (one.location, one.taken, one.newest, one.versions) == (here.uri, 1, None, None)
    assert "name it with lag(sources=[…])" in str(one.problem)
    assert not report.ok
    assert opened == []


def test_nothing_is_written_where_a_source_is(tmp_path: Path) -> None:
    """SEC-2: a hint that is missing or far behind is left as it is; a read would write one."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    tablefmt.pipe(here).into(there)
    for number in range(70):
        here.append({"id": [number]})
    root = tmp_path / "here"
    (root / "_log" / "hint.json").unlink(missing_ok=True)
    before = sorted(root.rglob("*"))
    (one,) = there.lag(root).sources
    assert (one.taken, one.newest, one.versions, one.problem) == (0, 70, 70, None)
    assert sorted(root.rglob("*")) == before
    tablefmt.open(root)
    assert (root / "_log" / "hint.json").exists()


def test_a_source_that_moved_is_named(tmp_path: Path) -> None:
    """PIP-8: the new location is accepted. A table that is no source is refused."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    tablefmt.pipe(here).into(there)
    moved = (tmp_path / "here").rename(tmp_path / "moved")
    with pytest.raises(TableNotFoundError):
        there.lag(tmp_path / "here")
    assert numbers(there.lag([str(moved)])) == [("", 1, 1, 0, 0.0, None)]
    tablefmt.create(str(tmp_path / "here"), "id BIGINT")
    for other in ("there", "here"):
        with pytest.raises(InvalidRangeError, match="is not a source of this table"):
            there.lag([str(tmp_path / other)])
    handle(LocalStore(moved)).append({"id": [2]})
    tablefmt.pipe(moved).into(there)
    assert numbers(there.lag(moved)) == [("", 2, 2, 0, 0.0, None)]


def test_a_source_may_be_given_alone(tmp_path: Path) -> None:
    """PIP-8: a text, a path, or an iterable of them. Other values are refused."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    tablefmt.pipe(here).into(there)
    place = (tmp_path / "here").rename(tmp_path / "moved")
    for given in (str(place), place, [place], (str(place),), {str(place)}, iter([place])):
        report = there.lag(given)
        assert numbers(report) == [("", 0, 0, 0, 0.0, None)]
        assert report.sources[0].location == str(place)
    for wrong in (5, [5], b"moved", None):
        with pytest.raises(StoreError, match="text or a path"):
            there.lag(wrong)  # type: ignore[arg-type]


def test_options_go_to_sources_of_the_tables_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIP-8: the spelling of the address makes no difference."""
    here, there = made(tmp_path / "here", Clock()), made(tmp_path / "there", Clock())
    tablefmt.pipe(here).into(there)
    seen: list[Any] = []

    def looking(uri: Any, options: Any = None) -> Any:
        seen.append((str(uri), options))
        return open_store(tmp_path / "here", options)

    monkeypatch.setattr("tablefmt.pipes.replication_lag.open_store", looking)
    options = {"unsafe_single_writer": True}
    for uri in ("FILE:///x", f"file:{tmp_path}", str(tmp_path), tmp_path, "S3://b/x", "memory://x"):
        there.lag(uri, storage_options=options)
    given = [given for _, given in seen]
    assert given == [options, options, options, options, None, None]
    assert [scheme_of(u) for u in ("S3://b", "s3a://b", "S3A://b", "s3://b")] == ["s3"] * 4


@pytest.mark.broken_tables
def test_a_pipe_that_would_be_refused_says_so(tmp_path: Path) -> None:
    """PIP-8, PIP-7: a source that was set back, and one whose changes are not kept."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    tablefmt.pipe(here).into(there)
    here.delete("id = 1")
    here.append({"id": [5]})
    here.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    (one,) = there.lag(here.uri).sources
    assert "past retention" in str(one.problem)
    assert (one.newest, one.seconds) == (here.version, None)
    for version in range(1, here.version + 1):
        (tmp_path / "here" / "_log" / f"{version:020d}.json").unlink()
    (one,) = there.lag(here.uri).sources
    assert "ends at version 0, but version 1 was copied" in str(one.problem)
    assert not there.lag(here.uri).ok


def test_the_command(tmp_path: Path) -> None:
    """PIP-8: text, JSON, and the exit code."""
    here = tablefmt.create(tmp_path / "here", "id BIGINT")
    here.append({"id": [1]})
    target = str(tmp_path / "there")
    tablefmt.pipe(here).into(target)
    named = ("--source", here.uri)
    assert command(target, *named) == (
        0,
        f"{target}: version 1, 1 pipe\n  {here.uri}: up to date, at version 1\n",
    )
    here.append({"id": [2]})
    code, text = command(target, "--json", *named)
    document = json.loads(text)
    (source,) = document["sources"]
    assert (code, document["ok"], source["versions"], source["taken"]) == (0, True, 1, 1)
    assert 0 <= source["seconds"] < 3600
    moved = (tmp_path / "here").rename(tmp_path / "moved")
    code, text = command(target)
    assert (code, "with --source on the command line" in text) == (1, True)
    assert command(target, *named)[0] == 3
    assert command(target, "--source", str(moved))[0] == 0
    assert command(target, "--source", target)[0] == 2
    assert command(str(tmp_path / "nowhere"))[0] == 3
    described = CliRunner().invoke(main, ["describe", target, "--json"])
    (derived,) = json.loads(described.output)["derivedFrom"]
    assert (derived["source"], derived["taken"], derived["at"]) == (here.id, 1, 1)


def test_secrets_are_not_recorded(tmp_path: Path) -> None:
    """STO-13, ENT-15: only the location is recorded of a source's address and options."""
    here = tablefmt.create(tmp_path / "here", "id BIGINT")
    here.append({"id": [1]})
    target = tmp_path / "there"
    tablefmt.pipe(str(tmp_path / "here"), storage_options={"unsafe_single_writer": True}).into(
        str(target)
    )
    entry = json.loads((target / "_log" / f"{1:020d}.json").read_bytes())
    assert entry["derived_from"]["location"] == str(tmp_path / "here")


def test_a_source_is_opened_once(tmp_path: Path) -> None:
    """PIP-8: any number of pipes opens it once, and nothing is written."""
    clock = Clock()
    here, there = made(tmp_path / "here", clock), made(tmp_path / "there", clock)
    here.append({"id": [1]})
    for name in ("a", "b", "c"):
        tablefmt.pipe(here, name=name).into(there)
    before = there.version
    report = behind(there, there.context.store).lag(here.uri)
    assert [s.versions for s in report.sources] == [0, 0, 0]
    assert there.refresh().version == before
