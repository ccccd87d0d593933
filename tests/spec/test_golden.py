"""Both readers give the results in expected.json for every golden table.

Names of the rules are in the cases: spec/golden/*/expected.json.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import logdump
import pytest
from golden import maker, tables

import tablefmt
from tablefmt import errors
from tests.oracle import assert_agrees
from tests.places import GOLDEN

EXPECTED = {
    folder.name: json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for folder in sorted(GOLDEN.iterdir())
    if folder.is_dir()
}
GOOD = [name for name, expected in EXPECTED.items() if "error" not in expected]
DAMAGED = [name for name, expected in EXPECTED.items() if "damaged" in expected]
"""Tables with a sound log, whose data files differ from it."""

BROKEN = [n for n, expected in EXPECTED.items() if "error" in expected and n not in DAMAGED]

pytestmark = pytest.mark.broken_tables


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """A copy of a golden table, for readers may leave a hint, and what is expected of it."""
    target = tmp_path / "table"
    shutil.copytree(GOLDEN / request.param / "table", target)
    return str(target), EXPECTED[request.param]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [name for name in GOOD if "remarks" not in EXPECTED[name]], indirect=True
)
def test_both_readers_agree_on_a_good_table(case: tuple[str, dict[str, Any]]) -> None:
    """State and every entry (RPL-1, RPL-3, RPL-4, RPL-5)."""
    assert_agrees(tablefmt.open(case[0]))


def instant(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


@pytest.mark.parametrize("case", GOOD, indirect=True)
def test_the_package_reads_a_good_table(case: tuple[str, dict[str, Any]]) -> None:
    """Files and rows of another writer's tables (RPL-1, RPL-2, ADD-1, ADD-2, KEY-3)."""
    uri, expected = case
    table = tablefmt.open(uri)
    files = table.scan().files().select(["path", "size", "rows"]).to_pylist()
    assert table.version == expected["version"]
    assert files == [{k: f[k] for k in ("path", "size", "rows")} for f in expected["files"]]
    assert maker.plain_rows(table.to_arrow().to_pylist()) == expected["rows"]
    times = [(t, table.scan(timestamp=instant(t)).to_arrow()) for t, _ in expected.get("times", [])]
    versions = [table.scan(version=version).to_arrow() for _, version in expected.get("times", [])]
    assert [shown for _, shown in times] == versions


@pytest.mark.slow
@pytest.mark.parametrize("case", GOOD, indirect=True)
def test_the_log_dump_reads_a_good_table(case: tuple[str, dict[str, Any]]) -> None:
    """No entry is refused, and the files and partition values agree (VAL-1, VAL-2, TIM-4)."""
    uri, expected = case
    document = logdump.read(uri, files=True)
    state = document["state"]
    keys = ("path", "size", "rows", "partition", "written")
    found = [[finding["version"], finding["rule"]] for finding in document["findings"]]
    assert found == expected.get("remarks", [])
    assert state["version"] == expected["version"]
    assert [{key: file[key] for key in keys} for file in state["files"]] == expected["files"]
    for time, version in expected.get("times", []):
        assert logdump.read(uri, as_of=instant(time))["state"]["version"] == version


@pytest.mark.parametrize("case", BROKEN, indirect=True)
def test_the_package_refuses_a_broken_table(case: tuple[str, dict[str, Any]]) -> None:
    """The class of the error is the one in the specification.

    The rule is checked if the error has one.
    """
    uri, expected = case
    with pytest.raises(errors.TablefmtError) as caught:
        tablefmt.open(uri).to_arrow()
    assert type(caught.value).__name__ == expected["error"]
    assert getattr(caught.value, "features", None) == expected.get("features")
    rule = getattr(caught.value, "rule", None)
    assert rule is None or rule in expected["rules"]


@pytest.mark.parametrize("case", BROKEN, indirect=True)
def test_the_log_dump_finds_what_is_broken(case: tuple[str, dict[str, Any]]) -> None:
    """Each finding with its version and rule, and the state of the last sound version."""
    uri, expected = case
    document = logdump.read(uri)
    found = {(finding["version"], finding["rule"]) for finding in document["findings"]}
    if expected["error"] == "TableNotFoundError":
        assert (found, document["state"]) == (set(), None)
        return
    first = min(version for version, _ in expected["findings"])
    assert found == {tuple(finding) for finding in expected["findings"]}
    assert (document["state"] or {"version": -1})["version"] == first - 1


@pytest.mark.parametrize("case", DAMAGED, indirect=True)
def test_damaged_data_files_are_refused_when_they_are_read(
    case: tuple[str, dict[str, Any]],
) -> None:
    """DAT-5, ADD-7, ADD-5: the state is there, and the rows of the file are not."""
    uri, expected = case
    table = tablefmt.open(uri)
    files = table.scan().files().select(["path", "size", "rows"]).to_pylist()
    assert table.version == expected["version"]
    assert files == [{k: f[k] for k in ("path", "size", "rows")} for f in expected["files"]]
    with pytest.raises(errors.CorruptDataError) as caught:
        table.to_arrow()
    assert caught.value.key in expected["damaged"]
    assert caught.value.rule in ("DAT-5", *expected["rules"])
    document = logdump.read(uri, files=True)
    found = [[finding["version"], finding["rule"]] for finding in document["findings"]]
    assert found == expected["findings"]
    assert document["state"]["version"] == expected["version"]


@pytest.mark.parametrize(
    "case", [name for name in GOOD if "write_error" in EXPECTED[name]], indirect=True
)
def test_a_table_that_asks_more_of_writers_is_not_written(
    case: tuple[str, dict[str, Any]],
) -> None:
    """ENT-7: an unknown writer feature refuses writing and leaves the table as it is."""
    uri, expected = case
    before = logdump.read(uri)
    with pytest.raises(getattr(errors, expected["write_error"])):
        tablefmt.open(uri).truncate()
    assert logdump.read(uri) == before


@pytest.mark.slow
def test_making_the_cases_again_changes_none(tmp_path: Path) -> None:
    """The generator leaves existing cases alone, and its catalogue is the one that is kept."""
    copy = tmp_path / "golden"
    shutil.copytree(GOLDEN, copy)
    assert tables.make(copy) == []
    assert (copy / "README.md").read_bytes() == (GOLDEN / "README.md").read_bytes()


def test_every_key_of_what_is_expected_is_explained() -> None:
    """spec/golden/README.md has a line for each key, and no other lines."""
    page = (GOLDEN / "README.md").read_text(encoding="utf-8")
    tables = [part.partition("\n\n")[0] for part in page.split("| key | type | meaning |")[1:]]
    explained = [set(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)) for part in tables]
    found = {key for expected in EXPECTED.values() for key in expected}
    asked = {key for e in EXPECTED.values() for each in e.get("changes", ()) for key in each}
    assert [{k for line in each for k in re.findall(r"\w+", line)} for each in explained] == [
        found,
        asked,
    ]


@pytest.mark.slow
def test_the_generator_still_makes_the_same_cases(tmp_path: Path) -> None:
    """The new tables have the same rows and findings. Sizes depend on the Parquet writer."""
    tables.make(tmp_path)
    made = {
        folder.name: json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for folder in tmp_path.iterdir()
        if folder.is_dir()
    }

    def lasting(expected: dict[str, Any]) -> dict[str, Any]:
        files = [{**file, "size": None} for file in expected.get("files", [])]
        return {**expected, "files": files}

    assert {name: lasting(expected) for name, expected in made.items()} == {
        name: lasting(expected) for name, expected in EXPECTED.items()
    }


@pytest.mark.parametrize(
    "case", [name for name in GOOD if "oldest" in EXPECTED[name]], indirect=True
)
def test_versions_that_were_given_up_are_not_shown(case: tuple[str, dict[str, Any]]) -> None:
    """ENT-13, TIM-4, INC-1: versions by number, by time and as changes are hidden.

    The first kept version is shown.
    """
    uri, expected = case
    table, oldest = tablefmt.open(uri), expected["oldest"]
    for point in ({"version": oldest - 1}, {"timestamp": instant(maker.START)}):
        with pytest.raises(errors.VersionNotFoundError):
            table.to_arrow(**point)
    with pytest.raises(errors.VersionNotFoundError) as caught:
        table.to_arrow(version=0)
    assert (caught.value.oldest, caught.value.latest) == (oldest, expected["version"])
    with pytest.raises(errors.ChangesExpiredError) as expired:
        table.changes(after_version=oldest - 1)
    assert expired.value.earliest_version == oldest + 1
    assert table.changes(after_version=oldest).last_version == expected["version"]
    assert table.to_arrow(version=oldest).num_rows > 0
    if "remarks" in expected:
        # With something to remark there is a document, and nothing in it.
        assert logdump.read(uri, as_of=oldest - 1)["state"] is None
        return
    with pytest.raises(logdump.NothingThereError):
        logdump.read(uri, as_of=oldest - 1)


@pytest.mark.parametrize("case", ["horizon", "expired-checkpoints"], indirect=True)
def test_a_writer_carries_the_horizon_on(case: tuple[str, dict[str, Any]]) -> None:
    """ENT-13: both readers agree on the new entry."""
    uri, expected = case
    table = tablefmt.open(uri)
    table.append([{"x": 7}])
    entry = logdump.read(uri)["entries"][-1]["entry"]
    assert entry["totals"]["oldest"] == expected["oldest"]
    assert_agrees(table)


@pytest.mark.parametrize(
    "case", [name for name in GOOD if "cursors" in EXPECTED[name]], indirect=True
)
def test_cursors_are_where_entries_left_them(case: tuple[str, dict[str, Any]]) -> None:
    """RPL-7: each source and name has the last copied version, and its version here."""
    uri, expected = case
    cursors = tablefmt.open(uri).context.view.read_head.cursors
    assert [[*key, c.to, c.at] for key, c in sorted(cursors.items())] == expected["cursors"]
    state = logdump.read(uri)["state"]["cursors"]
    assert [[c[n] for n in ("source", "name", "to", "at")] for c in state] == expected["cursors"]
