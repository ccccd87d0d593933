"""Changes of a table in the place of one that was dropped: from its very beginning. Spec: INC-1."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import ChangesExpiredError
from tablefmt.table import Table

_numbers = count()


@pytest.fixture
def table() -> Table:
    """Versions 0 to 2 are another table's; 3 makes this one, 4 and 5 write to it."""
    uri = f"memory://anew-{next(_numbers)}"
    tablefmt.create(uri, "id INT, gone STRING").append({"id": [7], "gone": ["x"]})
    tablefmt.drop(uri)
    made = tablefmt.create(uri, "id INT, x INT")
    made.append({"id": [1, 2], "x": [1, 2]})
    made.delete("id = 1")
    return made


def found(table: Table, **asked: Any) -> list[tuple[Any, ...]]:
    changes = table.changes(**asked)
    got = changes.to_arrow().to_pylist()
    told = [(row.get("_change_type"), row["id"], row["_commit_version"]) for row in got]
    assert (changes.first_version, changes.last_version) == (3, 5)
    assert changes.schema.names[:2] == ["id", "x"]
    assert not changes.is_snapshot
    return told


EVERY = [("insert", 1, 4), ("insert", 2, 4), ("delete", 1, 5)]


def created(table: Table) -> datetime:
    history = table.history().to_pylist()
    (when,) = (row["timestamp"] for row in history if row["version"] == 3)
    assert isinstance(when, datetime)
    return when


def test_a_range_may_start_where_the_table_does(table: Table) -> None:
    begins: list[dict[str, Any]] = [{"starting_version": 3}, {"after_version": 2}]
    others: list[dict[str, Any]] = [{}, {"schema": "start"}, {"expired": "snapshot"}]
    for asked in begins:
        for more in others:
            assert found(table, **asked, **more) == EVERY
        assert found(table, **asked, content="net") == [("insert", 2, 5)]
        assert found(table, **asked, content="append") == [(None, 2, 5)]
    assert found(table, starting_timestamp=created(table)) == EVERY
    alone = table.changes(starting_version=3, ending_version=3)
    assert (alone.to_arrow().num_rows, alone.settled) == (0, True)


def test_what_was_the_other_tables_is_not_told(table: Table) -> None:
    """ENT-13, ENT-14: the error names the first version that can be read."""
    begins: list[dict[str, Any]] = [
        {"starting_version": 0},
        {"starting_version": 2},
        {"after_version": 0},
        {"starting_version": 1, "ending_version": 2, "expired": "snapshot"},
    ]
    for asked in begins:
        with pytest.raises(ChangesExpiredError) as caught:
            table.changes(**asked)
        assert caught.value.earliest_version == 3
    table.compact("major")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    oldest = table.refresh().oldest_version
    assert oldest > 3
    for first in (3, oldest):
        with pytest.raises(ChangesExpiredError) as caught:
            table.changes(starting_version=first)
        assert caught.value.earliest_version == oldest + 1


def test_a_first_pipe_begins_where_the_table_does(table: Table) -> None:
    """PIP-1."""
    target = f"memory://anew-{next(_numbers)}"
    run = tablefmt.pipe(table).into(target)
    assert (run.first_version, run.last_version, run.rows) == (3, 5, 1)
    table.append({"id": [9]})
    run = tablefmt.pipe(table).into(target)
    assert (run.first_version, run.last_version, run.rows) == (6, 6, 1)
    assert sorted(tablefmt.open(target).to_arrow()["id"].to_pylist()) == [2, 9]


def test_a_beginning_is_one_also_from_a_checkpoint_on(table: Table) -> None:
    """CKP-5: the first entry is requested if the log begins with a checkpoint."""
    for number in range(4):
        table.append({"id": [number + 10]})
    table.checkpoint()
    opened = tablefmt.open(table.uri)
    changes = opened.changes(starting_version=3, ending_version=5)
    assert [row["id"] for row in changes.to_arrow().to_pylist()] == [1, 2, 1]
    assert tablefmt.pipe(opened).into(f"memory://anew-{next(_numbers)}").first_version == 3
