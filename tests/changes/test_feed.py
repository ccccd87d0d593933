"""Row changes of random histories of every kind of commit are those of a plain model."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.changes.feed_plan import Contents
from tests.changes.histories import Column, History, Test
from tests.tables import memory, rows


def found(table: Any, **asked: Any) -> dict[int, Counter[Any]]:
    """Change rows as (type, row), by version."""
    rows: dict[int, Counter[Any]] = {}
    for row in table.changes(**asked).to_arrow().to_pylist():
        values = tuple(v for n, v in row.items() if n not in CHANGE_COLUMNS.names)
        change = (row.get("_change_type", "insert"), values)
        rows.setdefault(row["_commit_version"], Counter())[change] += 1
    return rows


def matches(answer: dict[int, Counter[Any]], columns: Sequence[Column], test: Test) -> Any:
    """The rows of an answer that a condition selects."""

    def row(values: Sequence[Any]) -> Any:
        return {c.number: v for c, v in zip(columns, values, strict=True)}

    left = {
        version: Counter({(k, v): n for (k, v), n in rows.items() if test(row(v))})
        for version, rows in answer.items()
    }
    return {version: rows for version, rows in left.items() if rows}


def check(history: History) -> None:
    """Every window of the history."""
    head = len(history.versions)
    for a, b in itertools.combinations_with_replacement(range(head), 2):
        check_window(history, a, b)


def check_window(history: History, a: int, b: int) -> None:
    """Each content of a range, and in both schemas; with a condition too."""
    for end, at in (("end", b), ("start", a)):
        columns = history.versions[at].columns
        text, test = history.condition(history.versions[at])
        asked: Any = {"after_version": a, "ending_version": b, "schema": end}
        changes = found(history.table, **asked)
        expected = history.changes(a, b, shown_at=at)
        for each in expected:
            each.check(changes.get(each.version, Counter()))
        assert changes.keys() <= {each.version for each in expected}
        net = found(history.table, **asked, content="net")
        difference = history.net(a, b, shown_at=at)
        difference.check(net.get(b, Counter()))
        assert net.keys() <= {b}
        new = found(history.table, **asked, content="append")
        difference.check(new.get(b, Counter()), only="insert")
        asked["where"] = text
        assert found(history.table, **asked) == matches(changes, columns, test)
        assert found(history.table, **asked, content="net") == matches(net, columns, test)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [0, 1, pytest.param(3, marks=pytest.mark.soak)])
def test_every_window_of_a_history_has_the_rows_of_the_model(seed: int) -> None:
    """INC-3 .. INC-6: any commits in any order, with compactions and changes of schema between."""
    check(History(seed).run(9))


def test_a_restore_that_brings_a_file_back_changes_only_its_rows() -> None:
    """INC-3: the file is removed and added again; rows that both hold did not change."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 1")
    table.delete("id = 2")
    table.restore(version=2)
    contents: tuple[Contents, ...] = ("changes", "net")
    for content in contents:
        found = table.changes(after_version=3, content=content).to_arrow()
        pairs = zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), strict=True)
        assert sorted(pairs) == [("insert", 2)]


def test_deleted_rows_in_overflow_files_are_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """INC-3, DEL-3: the rows of a file that is older than the range."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1, 2, 3, 4))
    monkeypatch.setattr("tablefmt.commit.driver.DELETES_ABOVE_BYTES", 0)
    table.delete("id = 2")
    assert [one.key for one in table.context.store.list_after("deletes/")]
    found = tablefmt.open(table.uri).changes(after_version=1).to_arrow()
    assert found["_change_type"].to_pylist() == ["delete"]
    assert found["id"].to_pylist() == [2]


def test_rows_of_the_first_version_are_deleted_like_others(tmp_path: Path) -> None:
    """INC-3: version 0 of a clone has files. Later versions delete rows of one, and another one."""
    source = tablefmt.create(tmp_path / "source", rows().schema, partition_by=["p"])
    source.append(rows(1, 2, 3, p=["a", "a", "b"]))
    table = source.clone(tmp_path / "clone", shallow=False)
    table.delete("id = 2")
    table.overwrite(rows(4, p="b"), where="p = 'b'")
    found = tablefmt.open(table.uri).changes(after_version=0).to_arrow().to_pylist()
    assert [(r["_commit_version"], r["_change_type"], r["id"]) for r in found] == [
        (1, "delete", 2),
        (2, "delete", 3),
        (2, "insert", 4),
    ]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_long_histories_too(seed: int) -> None:
    """INC-3 .. INC-6."""
    check(History(seed).run(16))
