"""Reports of refused commits in an entry, of a good and of any other shape. ENT-17."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tablefmt
from tablefmt.inspection.rebased_commits import refused_commits
from tablefmt.log.codec import decode, encode
from tests.tables import memory, rows


def test_reports_of_another_shape_are_ignored() -> None:
    """A reader refuses no entry for this field, and shows what it understands (ENT-17)."""
    table = tablefmt.create(memory().uri, rows().schema)
    (stored,) = table.context.view.entries_after(-1)
    good: dict[str, Any] = {"operation": "A", "winner": "B", "rule": "CFL-2", "cell": "c"}
    good |= {"error": "e", "times": 2, "last_winner": 0}
    worse: list[Any] = [
        good | {"times": 0},
        good | {"times": True},
        good | {"times": 1.5},
        good | {"last_winner": -1},
        good | {"cell": 7},
        good | {"rule": None},
        good | {"more": 1},
        {},
        None,
        "text",
    ]
    for value in ([*worse, good], good, None, "text", [[]]):
        body = encode(replace(stored.entry, unknown={"x_refused": value}))
        found = refused_commits([decode(body, 0)]).to_pylist()
        assert [row["times"] for row in found] == [2] * (value == [*worse, good])
