"""Row changes of random histories of every kind of commit are those of a plain model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tablefmt.changes.columns import CHANGE_COLUMNS
from tests.changes.histories import History, Version


def found(table: Any, lost: set[str], **asked: Any) -> Counter[Any]:
    """Change rows as (version, type, row); None in columns that were lost."""
    changes = table.changes(**asked).to_arrow()
    rows: Counter[Any] = Counter()
    for row in changes.to_pylist():
        values = [None if n in lost else v for n, v in row.items() if n not in CHANGE_COLUMNS.names]
        rows[(row["_commit_version"], row.get("_change_type", "insert"), tuple(values))] += 1
    return rows


def check(history: History) -> None:
    """Every window of the history, by each content, and in both schemas."""
    head = len(history.versions)
    for a in range(head):
        for b in range(a, head):
            asked: Any = {"after_version": a, "ending_version": b}
            gone = history.lost(a, b)

            def names(version: Version, gone: frozenset[int] = gone) -> set[str]:
                return {c.name for c in version.columns if c.number in gone}

            lost = names(history.versions[b])
            changes = found(history.table, lost, **asked)
            assert changes == history.changes(a, b), (a, b)
            old = found(history.table, names(history.versions[a]), **asked, schema="start")
            assert old == history.changes(a, b, shown_at=a), (a, b)
            difference = history.net(a, b)
            net = found(history.table, lost, **asked, content="net")
            assert net == Counter({(b, *c): n for c, n in difference.items()}), (a, b)
            new = found(history.table, lost, **asked, content="append")
            inserts = {(b, *c): n for c, n in difference.items() if c[0] == "insert"}
            assert new == Counter(inserts), (a, b)


@pytest.mark.parametrize("seed", range(6))
def test_every_window_of_a_history_has_the_rows_of_the_model(seed: int) -> None:
    """INC-3 .. INC-6: any commits in any order, with compactions and changes of schema between."""
    check(History(seed).run(9))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_long_histories_too(seed: int) -> None:
    """INC-3 .. INC-6."""
    check(History(seed).run(16))
