"""Pipes and change feeds of tables whose partitioning changes, into tables whose own changes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tablefmt
from tests.operations.evolving_table import COLUMNS, PARTITIONINGS, Model, counted, plain
from tests.tables import memory


def sums(feed: tablefmt.Table) -> Counter[str]:
    """Return the rows that the changes in a table lead to."""
    total: Counter[str] = Counter()
    for each in feed.to_arrow().to_pylist():
        (text,) = counted([each])
        total[text] += 1 if each["_change_type"] in ("insert", "update_postimage") else -1
    return Counter({text: count for text, count in total.items() if count})


@pytest.mark.parametrize("seed", range(3))
def test_a_pipe_follows_whatever_partitions_files(seed: int) -> None:
    """PIP-4, EVO-4: by keys, and as changes. RESTORE may bring back a hidden partition field."""
    model, dice = Model(seed, memory().uri, deleteMode="merge-on-read"), random.Random(seed)
    copy, feed = memory().uri, memory().uri
    for _ in range(12):
        model.step()
        tablefmt.pipe(model.table, content="changes").into(feed)
        assert sums(tablefmt.open(feed)) == counted(model.rows)
        if dice.random() < 0.6:
            tablefmt.pipe(model.table).into(copy, keys="id")
            target = tablefmt.open(copy)
            assert counted(target.to_arrow().to_pylist()) == counted(model.rows)
            target.alter.set_partitioning(list(dice.choice(PARTITIONINGS)))
    assert tablefmt.open(copy).verify(deep=True).ok


def test_a_restore_brings_back_a_hidden_field() -> None:
    """INC-4, HID-1: no row of the feed has its values, so nothing of it was dropped."""
    table = tablefmt.create(memory().uri, COLUMNS, partition_by=["days(ts)"])
    table.append(plain(range(3)))
    table.alter.set_partitioning(["region"])
    table.repartition()
    table.append(plain(range(3, 5)))
    table.restore(version=1)
    for first, came in ((0, 5), (3, 2)):
        found = table.changes(starting_version=first).to_arrow()
        assert Counter(found["_change_type"].to_pylist()) == {"insert": came, "delete": 2}
    net = table.changes(starting_version=0, content="net").to_arrow()
    assert net["_change_type"].to_pylist() == ["insert"] * 3
