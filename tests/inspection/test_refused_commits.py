"""Refused commits are reported by the next entry of their process: once, and never twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import tablefmt
from tablefmt.commit.commit_protocol import Outcome, Rejected, Unknown
from tablefmt.commit.driver import commit as real
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentModificationException,
)
from tablefmt.inspection.rebased_commits import REFUSED
from tablefmt.model.refusals import Refusal, refusals_of
from tablefmt.session.refused_commits import REFUSED_COMMITS
from tablefmt.store.object_store import Request
from tests.cli.conftest import run
from tests.tables import memory, rows


@pytest.fixture
def table() -> Iterator[tablefmt.Table]:
    """Return a table with the ids 1 to 3 in version 1."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1, 2, 3))
    yield table
    REFUSED_COMMITS.take(table.context.view.head.table)


def refuse(table: tablefmt.Table, winner: str = "id = 1") -> ConcurrentModificationException:
    """Make an UPDATE of all rows conflict with a DELETE. Return its error."""
    behind = tablefmt.open(table.uri).transaction()
    behind.update({"id": "id + 10"}, "id < 1000")
    table.delete(winner)
    with pytest.raises(ConcurrentModificationException) as caught:
        behind.commit()
    return caught.value


def reported(table: tablefmt.Table) -> dict[int, tuple[Refusal, ...]]:
    """Return the reports of all entries by version."""
    table.refresh()
    entries = table.context.view.entries_after(-1)
    return {e.version: found for e in entries if (found := refusals_of(e.entry.unknown))}


def test_the_next_entry_reports_a_refusal(table: tablefmt.Table) -> None:
    """ENT-17, with the concurrent commit, the rule and the cell of the error."""
    error = refuse(table)
    assert reported(table) == {}
    tablefmt.open(table.uri).append(rows(4))
    one = Refusal(
        "UPDATE", "DELETE", error.rule or "", error.cell, error.kind, 1, error.winner_version or 0
    )
    assert reported(table) == {3: (one,)}
    assert one.last_winner == 2
    table.append(rows(5))
    found = table.conflicts()
    assert found.refused.schema == REFUSED
    assert found.refused.to_pylist() == [
        {
            "operation": "UPDATE",
            "refused_by": "DELETE",
            "rule": error.rule,
            "cell": error.cell,
            "error": error.kind,
            "times": 1,
            "last_winner": 2,
            "first_version": 3,
            "last_version": 3,
        }
    ]
    assert found.refusals == 1
    assert f"UPDATE by DELETE: 1 time by rule {error.rule}" in str(found)
    assert table.conflicts(starting_version=4).refusals == 0
    assert table.conflicts(ending_version=2).refusals == 0
    record = run("conflicts", table.uri, "--json").document
    assert record["refused"] == found.refused.to_pylist()
    assert record["refusals"] == 1
    page = table.report()
    assert "Refused commits" in page
    assert error.rule is not None
    assert page.index("Refused commits") < page.index(error.rule)


def test_refusals_of_one_kind_are_one_group(table: tablefmt.Table) -> None:
    others = [tablefmt.open(table.uri).transaction() for _ in range(3)]
    for other in others:
        other.update({"id": "id + 10"}, "id < 1000")
    table.delete("id = 1")
    for other in others:
        with pytest.raises(ConcurrentModificationException):
            other.commit()
    table.append(rows(4))
    ((version, (group,)),) = reported(table).items()
    assert (version, group.operation, group.times, group.last_winner) == (3, "UPDATE", 3, 2)


def test_a_commit_makes_no_request_for_it(table: tablefmt.Table) -> None:
    table.append(rows(8))
    before = table.context.store.tally.sums()
    table.append(rows(9))
    plain = {kind: n - before[kind] for kind, n in table.context.store.tally.sums().items()}
    refuse(table)
    before = table.context.store.tally.sums()
    table.append(rows(10))
    after = table.context.store.tally.sums()
    assert {kind: n - before[kind] for kind, n in after.items()} == plain
    assert after[Request.PUT] > 0


@pytest.mark.parametrize("error", [CommitRejectedError, CommitUnknownError])
def test_a_report_is_made_at_most_once(
    table: tablefmt.Table, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """A rejected commit gives its counts back; one with an unknown outcome may have them."""
    refuse(table)

    def commit(*arguments: Any) -> Any:
        done = real(*arguments)
        lost: Outcome = Rejected("no") if error is CommitRejectedError else Unknown(99, "no answer")
        done.outcome, done.entry = lost, None
        return done

    key = table.context.view.head.table
    with monkeypatch.context() as patch:
        patch.setattr("tablefmt.session.table_context.commit", commit)
        with pytest.raises(error):
            table.append(rows(4))
    left = REFUSED_COMMITS.take(key)
    assert bool(left) is (error is CommitRejectedError)


def test_a_child_does_not_report_its_parents_refusals(table: tablefmt.Table) -> None:
    refuse(table)
    key = table.context.view.head.table
    child = os.fork()
    if child == 0:
        os._exit(0 if REFUSED_COMMITS.take(key) == () else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(REFUSED_COMMITS.take(key)) == 1
