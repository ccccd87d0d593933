"""Imports that are killed at any request of the store, and imports that race (IMP-5)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import tablefmt
from tablefmt.errors import CommitRejectedError, TableExistsError, TablefmtError
from tablefmt.imports import import_table
from tablefmt.imports.import_table import import_source
from tablefmt.log.object_names import entry_key
from tablefmt.operations.create import create_as
from tablefmt.store.local_store import LocalStore
from tablefmt.testing.faults import Fault, FaultyStore, Killed
from tests.imports.sources import alike, contents, hive, write


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("fault", ["kill_before", "kill_after", "lost_answer"])
def test_an_import_killed_at_any_request_is_finished_by_the_next(
    tmp_path: Path, fault: Fault, elsewhere: bool
) -> None:
    """IMP-5: at each request of the new table's store; every row is there once."""
    resumed = 0
    for at in range(200):
        source, place = tmp_path / f"s{at}", tmp_path / f"t{at}"
        rows = hive(source)
        before = contents(source)
        folder = place if elsewhere else source
        faulty = FaultyStore(LocalStore(folder), lambda n, v, k, at=at: fault if n == at else None)
        try:
            if elsewhere:
                import_source(LocalStore(source), faulty)
            else:
                import_source(faulty, None)
        except (Killed, TablefmtError):
            pass
        into = place if elsewhere else None
        try:
            tablefmt.import_table(source, into=into)
            resumed += 1
        except TableExistsError:
            pass
        options = {"import_roots": str(source)} if elsewhere else None
        table = tablefmt.open(folder, storage_options=options)
        assert alike(table.to_arrow()) == alike(rows), at
        assert table.version == 1
        assert contents(source) == before
        if not faulty.fired:
            break
    else:
        raise AssertionError("the import never ran without a fault")
    assert fault == "lost_answer" or resumed > 0


@pytest.mark.parametrize("stop", range(3))
def test_two_importers_that_finish_the_same_import_add_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """IMP-5, CFL-7: the other importer finishes between this one's look and its commit."""
    rows = hive(tmp_path / "t")
    real = import_table._commit_files
    others: list[tablefmt.Table | None] = []

    def behind(*arguments: object) -> None:
        monkeypatch.setattr(import_table, "_commit_files", real)
        for _ in range(stop):
            try:
                others.append(tablefmt.import_table(tmp_path / "t"))
            except TableExistsError:
                others.append(None)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(import_table, "_commit_files", behind)
    mine = tablefmt.import_table(tmp_path / "t")
    assert [other is not None for other in others] == [True, False][:stop]
    assert mine.version == 1
    for table in (mine, tablefmt.open(tmp_path / "t")):
        assert alike(table.to_arrow()) == alike(rows)


@pytest.mark.parametrize("other", ["stops", "finishes", "of another source"])
def test_of_two_importers_at_once_one_creates_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """IMP-5: the later one finishes what the other began, or finds a table."""
    source, place = tmp_path / "s", tmp_path / "t"
    rows = hive(source)
    write(tmp_path / "u" / "a.parquet", {"x": [1]})
    real = create_as

    def stops(_: int, verb: str, key: str) -> Fault | None:
        kills = (verb, key) == ("put_if_absent", entry_key(0)) and other == "stops"
        return "kill_after" if kills else None

    def behind(*arguments: object, **keywords: object) -> object:
        monkeypatch.setattr(import_table, "create_as", real)
        theirs = tmp_path / "u" if other == "of another source" else source
        with contextlib.suppress(Killed):
            import_source(LocalStore(theirs), FaultyStore(LocalStore(place), stops))
        return real(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(import_table, "create_as", behind)
    if other == "stops":
        mine = tablefmt.import_table(source, into=place)
        assert alike(mine.to_arrow()) == alike(rows)
    else:
        with pytest.raises(TableExistsError):
            tablefmt.import_table(source, into=place)
    options = {"import_roots": str(tmp_path)}
    table = tablefmt.open(place, storage_options=options)
    assert (table.version, table.count()) == (1, 1 if other == "of another source" else 60)


def test_an_importer_of_other_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMP-5, CFL-7: the source got a file between the two, and the other importer saw it."""
    write(tmp_path / "t" / "a.parquet", {"x": [1]})
    real = import_table._commit_files

    def behind(*arguments: object) -> None:
        monkeypatch.setattr(import_table, "_commit_files", real)
        write(tmp_path / "t" / "b.parquet", {"x": [2]})
        tablefmt.import_table(tmp_path / "t")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(import_table, "_commit_files", behind)
    with pytest.raises(CommitRejectedError, match="other files"):
        tablefmt.import_table(tmp_path / "t")
    table = tablefmt.open(tmp_path / "t")
    assert (table.version, sorted(table.to_arrow()["x"].to_pylist())) == (1, [1, 2])


def test_another_unfinished_import_is_not_finished(tmp_path: Path) -> None:
    """IMP-5: version 0 of other metadata is refused, and nothing is written."""
    hive(tmp_path / "t")
    log = tmp_path / "t" / "_log"

    def plan(_: int, verb: str, key: str) -> Fault | None:
        return "kill_after" if (verb, key) == ("put_if_absent", entry_key(0)) else None

    with pytest.raises(Killed):
        import_source(FaultyStore(LocalStore(tmp_path / "t"), plan), None)
    assert tablefmt.open(tmp_path / "t").version == 0
    before = sorted(log.rglob("*"))
    with pytest.raises(TableExistsError, match="without files"):
        tablefmt.import_table(tmp_path / "t", adopt=True)
    assert sorted(log.rglob("*")) == before
