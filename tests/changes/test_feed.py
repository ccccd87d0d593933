"""Row changes of random histories of every kind of commit are those of a plain model. INC-3 .. 5"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.changes.histories import History


def found(table: Any, **bounds: Any) -> Counter[Any]:
    """Change rows as (version, type, row)."""
    changes = table.changes(**bounds).to_arrow()
    rows = []
    for row in changes.to_pylist():
        kind, version, _ = (row.pop(c) for c in changes.schema.names[-3:])
        rows.append((version, kind, tuple(row.values())))
    return Counter(rows)


def check(history: History) -> None:
    """Every window of the history."""
    head = len(history.versions)
    for a in range(head):
        for b in range(a, head):
            bounds: Any = {"after_version": a, "ending_version": b}
            assert found(history.table, **bounds) == history.changes(a, b), (a, b)
            net = found(history.table, **bounds, content="net")
            assert net == Counter({(b, *c): n for c, n in history.net(a, b).items()}), (a, b)
            new = history.table.changes(**bounds, content="append").to_arrow()
            rows = Counter(
                tuple(r.values()) for r in new.drop_columns(new.schema.names[-2:]).to_pylist()
            )
            inserts = {row: n for (kind, row), n in history.net(a, b).items() if kind == "insert"}
            assert rows == Counter(inserts), (a, b)


@pytest.mark.parametrize("seed", range(6))
def test_every_window_of_a_history_has_the_rows_of_the_model(seed: int) -> None:
    """INC-3, INC-5: with any commits in any order, compactions and changes of schema between."""
    check(History(seed).run(9))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_long_histories_too(seed: int) -> None:
    """INC-3, INC-5."""
    check(History(seed).run(16))
