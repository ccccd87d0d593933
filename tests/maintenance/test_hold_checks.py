"""`verify` names what a table keeps for its clones, and what a clone lost. Spec: CLN-4, VFY-1."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.maintenance.finding_kinds import KINDS
from tablefmt.table import Table
from tests.tables import rows

NOW: dict[str, Any] = {"retention": 0, "dry_run": False, "breaks_running_transactions": True}


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Table, Table]:
    """A table whose version 1 is kept for a shallow clone, and the clone."""
    source = tablefmt.create(str(tmp_path / "source"), rows().schema)
    source.append(rows(1, 2))
    clone = source.clone(tmp_path / "clone", hold=True)
    return source, tablefmt.open(clone.uri, storage_options={"import_roots": [source.uri]})


def found(table: Table, **how: Any) -> list[tuple[str, str, str]]:
    report = table.verify(**how)
    assert all(KINDS[one.kind].action in str(report) for one in report.findings)
    return [(one.kind, one.object, one.problem) for one in report.findings]


def test_a_hold_is_a_note_that_names_tag_version_and_clone(tables: tuple[Table, Table]) -> None:
    source, clone = tables
    source.overwrite(rows(3))
    source.clone(f"{clone.uri}2", hold=True)
    source.alter.set_tag("quarter", version=1)
    first, second = sorted(
        (tag for tag in source.tags().to_pylist() if tag["name"] != "quarter"),
        key=lambda tag: tag["version"],
    )
    expected = {
        (
            "clone-hold",
            f"tag.{tag['name']}",
            f"it keeps version {tag['version']} and later ones for a shallow clone at {uri!r}, so "
            "no vacuum removes their files",
        )
        for tag, uri in ((first, clone.uri), (second, f"{clone.uri}2"))
    }
    for deep in (False, True):
        report = source.verify(deep=deep)
        assert report.ok
        assert set(found(source, deep=deep)) == expected
        assert str(report).startswith(f"{source.uri}: version {source.version}, 1 live file")
    assert found(clone) == []


def test_a_hold_whose_entry_has_expired_is_named_without_its_clone(tmp_path: Path) -> None:
    """CLN-4: another clone's address is not taken for it."""
    source = tablefmt.create(str(tmp_path / "source"), rows().schema)
    source.append(rows(1, 2))
    source.alter.set_tag("clone-0123", version=1)
    source.clone(tmp_path / "clone", hold=True)
    problems = {key: text for kind, key, text in found(source) if kind == "clone-hold"}
    assert len(problems) == 2
    assert problems["tag.clone-0123"] == (
        "it keeps version 1 and later ones for a shallow clone, so no vacuum removes their files"
    )


def test_a_clone_without_its_hold_says_so(tables: tuple[Table, Table]) -> None:
    source, clone = tables
    (tag,) = source.tags()["name"].to_pylist()
    source.alter.drop_tag(tag)
    said = f"it has no tag {tag!r} any more, so its next vacuum may remove files of this clone"
    assert found(clone) == [("lost-hold", source.uri, said)]
    assert not clone.verify().ok
    clone.overwrite(clone.to_arrow())
    assert found(clone) == [], "no live file is the source's"


def test_a_clone_whose_source_was_removed_says_so(tables: tuple[Table, Table]) -> None:
    source, clone = tables
    shutil.rmtree(source.uri)
    kinds = [kind for kind, _, _ in found(clone)]
    assert kinds.count("lost-hold") == 1
    assert kinds.count("missing-file") == 1


def test_a_source_that_is_damaged_is_not_checked(tables: tuple[Table, Table]) -> None:
    source, clone = tables
    newest = Path(source.uri) / "_log" / f"{source.version:020d}.json"
    newest.write_bytes(newest.read_bytes()[:-9])
    ((kind, place, problem),) = found(clone)
    assert (kind, place) == ("not-checked", source.uri)
    assert "cannot be read" in problem


def test_a_hostile_address_is_shown_as_text(tmp_path: Path) -> None:
    source = tablefmt.create(str(tmp_path / "source"), rows().schema)
    source.append(rows(1))
    place = tmp_path / "clone\x1b[2J\n\u202e"
    source.clone(place, hold=True)
    (line,) = [line for line in str(source.verify()).splitlines() if "note: " in line]
    assert "clone\\x1b[2J\\n\\u202e" in line


def test_objects_of_the_log_that_nothing_names_are_notes(tmp_path: Path) -> None:
    """RET-6: overflow files, left-overs of probes; parts of checkpoints if deep."""
    table = tablefmt.create(str(tmp_path / "t"), rows().schema)
    for number in range(4):
        table.append(rows(number))
    table.checkpoint()
    assert found(table, deep=True) == []
    store = table.context.store
    nonce = "0" * 32
    orphans = [f"deletes/{nonce}.parquet", f"_log/side/{nonce}.parquet", "_log/.probe-1"]
    part = f"_log/checkpoints/parts/{nonce}.parquet"
    for key in [*orphans, part]:
        store.put(key, b"x" * 9)
    for deep in (False, True):
        report = table.verify(deep=deep)
        assert report.ok
        notes = [one for one in report.findings if one.kind == "orphan-log-object"]
        assert [one.object for one in notes] == [*orphans, *([part] if deep else [])]
        assert all(one.problem.startswith("it is 9 bytes long, written at 2") for one in notes)
        assert len(report.findings) == len(notes)
    assert table.repair().steps == ()
    left = {one.key for one in store.list_after("")}
    table.vacuum(**NOW)
    assert left - {one.key for one in store.list_after("")} >= set(orphans)
