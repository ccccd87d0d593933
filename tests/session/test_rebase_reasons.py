"""Verdicts on concurrent commits: they are those of the commit, before it and after it."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import ConcurrentModificationException, TransactionStateError
from tablefmt.operations.transaction import Transaction
from tablefmt.session.rebase_reasons import CONCURRENT, CommitReport
from tests.tables import memory


def work(table: tablefmt.Table, chance: random.Random) -> Transaction:
    """Return a transaction with a random statement."""
    low = chance.randrange(40)
    where = f"id between {low} and {low + 7}"
    part = f"p = '{chance.choice('ab')}'"
    begun = table.transaction()
    kind = chance.randrange(7)
    if kind == 0:
        return begun.append({"id": [low], "p": ["a"]})
    if kind == 1:
        return begun.delete(where)
    if kind == 2:
        return begun.update({"id": "id + 100"}, f"{where} and {part}")
    if kind == 3:
        return begun.overwrite({"id": [low], "p": [part[-2]]}, where=part)
    if kind == 4:
        return begun.compact(kind="major")
    if kind == 5:
        return begun.alter.set_properties({"user.n": str(low)})
    return begun.cluster(by=["id"])


def assert_same(report: CommitReport, error: ConcurrentModificationException) -> None:
    """Compare the verdict that decides with the error of the commit."""
    (row,) = [row for row in report.commits.to_pylist() if row["verdict"] == "conflict"]
    for name, said in (
        *(("version", error.winner_version), ("operation", error.winner_operation)),
        *(("rule", error.rule), ("cell", error.cell), ("error", error.kind)),
        *(("reason", error.reason), ("advice", error.advice)),
    ):
        assert row[name] == said
    assert json.loads(row["evidence"]) == json.loads(json.dumps(error.evidence))
    assert error.reason in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
def test_the_verdict_is_the_decision(granularity: str) -> None:
    """CFL-1: on random statements. A report after the commit is that from before it."""
    seen: set[str] = set()
    chance = random.Random(granularity)
    for _ in range(12):
        table = tablefmt.create(
            memory().uri,
            "id BIGINT, p STRING",
            partition_by=["p"],
            properties={"conflictGranularity": granularity},
        )
        for start in (0, 20):
            ids = list(range(start, start + 20))
            table.append({"id": ids, "p": ["ab"[i % 2] for i in ids]})
        mine, *others = [work(table, chance) for _ in range(4)]
        for other in others:
            try:
                other.commit()
            except ConcurrentModificationException:
                continue
        before = mine.why()
        rows = before.to_arrow().to_pylist()
        assert before.commits.schema == CONCURRENT
        versions = list(range(mine.read_version + 1, table.refresh().version + 1))
        assert [row["version"] for row in rows] == versions
        seen.add(before.verdict)
        if before.verdict == "conflict":
            with pytest.raises(ConcurrentModificationException) as caught:
                mine.commit()
            assert_same(before, caught.value)
            assert mine.why() == before
            continue
        assert before.verdict in ("may_follow", "overtaken")
        commit = mine.commit()
        if not commit.no_op:
            over = [(o.version, o.rule, o.cell) for o in commit.rebased_over]
            assert over == [(r["version"], r["rule"], r["cell"]) for r in rows]
            after = mine.why()
            assert after.verdict == "committed"
            assert after.commits["version"][-1].as_py() == commit.version
    assert {"may_follow", "conflict"} <= seen


def test_commits_after_the_deciding_one_are_not_judged() -> None:
    table = tablefmt.create(memory().uri, "id BIGINT")
    table.append({"id": [1, 2]})
    mine = table.transaction().delete("id = 1")
    table.delete("id = 1")
    table.append({"id": [3]})
    report = mine.why()
    assert report.commits["verdict"].to_pylist() == ["conflict", "not_judged"]
    assert pa.table(report).equals(report.commits)
    mine.abort()
    with pytest.raises(TransactionStateError):
        mine.commit()
    assert mine.why() == report
