"""A table whose newest entry has the last µs of year 9999: every verb goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import logdump
import pytest

import tablefmt
from tablefmt.errors import CorruptEntryError, TableNotFoundError
from tablefmt.log.codec import decode, encode
from tablefmt.model.times import MICROS_MAX, next_time
from tests.tables import sorted_rows

END = "9999-12-31T23:59:59.999999Z"
ROWS = [(1, "a"), (2, "b"), (3, "c")]


def at_the_end(uri: Path, micros: int = MICROS_MAX) -> tablefmt.Table:
    """Return a table of ROWS, whose newest entry has that time."""
    table = tablefmt.create(uri, "id BIGINT, t STRING")
    table.append({"id": [1, 2], "t": ["a", "b"]})
    version = table.append({"id": [3], "t": ["c"]}).version
    path = uri / "_log" / f"{version:020d}.json"
    entry = decode(path.read_bytes(), version).entry
    path.write_bytes(encode(replace(entry, timestamp=micros, time_version=micros)))
    return tablefmt.open(uri)


VERBS: dict[str, tuple[Callable[[tablefmt.Table], Any], list[tuple[Any, ...]]]] = {
    "append": (lambda t: t.append({"id": [4], "t": ["d"]}), [*ROWS, (4, "d")]),
    "overwrite": (lambda t: t.overwrite({"id": [4], "t": ["d"]}), [(4, "d")]),
    "truncate": (lambda t: t.truncate(), []),
    "delete": (lambda t: t.delete("id = 2"), [ROWS[0], ROWS[2]]),
    "update": (lambda t: t.update({"t": "'x'"}, where="id = 2"), [ROWS[0], (2, "x"), ROWS[2]]),
    "merge": (
        lambda t: (
            t.merge({"id": [3, 4], "t": ["y", "z"]}, on="s.id = t.id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
        [*ROWS[:2], (3, "y"), (4, "z")],
    ),
    "compact": (lambda t: t.compact(), ROWS),
    "cluster": (lambda t: t.cluster(["id"]), ROWS),
    "alter": (lambda t: t.alter.set_properties({"checkpointInterval": "7"}), ROWS),
    "restore": (lambda t: t.restore(version=1), ROWS[:2]),
    "vacuum": (
        lambda t: t.vacuum(retention=0, dry_run=False, breaks_running_transactions=True),
        ROWS,
    ),
    "expire": (
        lambda t: t.expire_log(retention=0, dry_run=False, breaks_running_transactions=True),
        ROWS,
    ),
    "checkpoint": (lambda t: t.checkpoint(), ROWS),
}


@pytest.mark.broken_tables
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_goes_on(verb: str, tmp_path: Path) -> None:
    """TIM-1: the next entry has the same µs, and so has the one after it; both readers agree."""
    table = at_the_end(tmp_path / "t")
    work, expected = VERBS[verb]
    work(table)
    table.append({"id": [9], "t": ["i"]})
    again = tablefmt.open(tmp_path / "t")
    assert sorted_rows(again) == sorted([*expected, (9, "i")])
    assert sorted_rows(again, timestamp=END) == sorted_rows(again)
    document = logdump.read(again.uri, {}, None)
    assert document["findings"] == []
    newest = document["entries"][-1]["entry"]
    assert (newest["timestamp"], newest["time_version"]) == (MICROS_MAX, MICROS_MAX)


@pytest.mark.broken_tables
def test_it_can_be_dropped_and_made_anew(tmp_path: Path) -> None:
    """TIM-1, ENT-14: the entry that ends it, and the one that begins the next, have that µs too."""
    at_the_end(tmp_path / "t")
    tablefmt.drop(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        tablefmt.open(tmp_path / "t")
    anew = tablefmt.create(tmp_path / "t", "id BIGINT, t STRING")
    anew.append({"id": [7], "t": ["g"]})
    assert sorted_rows(tmp_path / "t") == [(7, "g")]


@pytest.mark.broken_tables
def test_versions_of_one_time_are_told_apart_by_number(tmp_path: Path) -> None:
    """TIM-4: a time selects its last version. Changes and transactions use versions."""
    table = at_the_end(tmp_path / "t")
    table.append({"id": [4], "t": ["d"]})
    table.delete("id = 1")
    with table.transaction() as transaction:
        transaction.append({"id": [5], "t": ["e"]})
    assert [len(sorted_rows(table, version=v)) for v in range(6)] == [0, 2, 3, 4, 3, 4]
    assert sorted_rows(table, timestamp=END) == [*ROWS[1:], (4, "d"), (5, "e")]
    changes = table.changes(starting_timestamp=END, content="changes").to_arrow()
    assert sorted(changes["_commit_version"].to_pylist()) == [2, 3, 4, 5]
    tablefmt.pipe(table).into(tmp_path / "u")
    assert sorted_rows(tmp_path / "u") == sorted_rows(table)


@pytest.mark.broken_tables
@pytest.mark.parametrize("micros", [MICROS_MAX - 1, 1_800_000_000_000_000])
def test_before_the_last_one_times_rise(micros: int, tmp_path: Path) -> None:
    """TIM-1: an entry with the time of the one before it is damage there."""
    table = at_the_end(tmp_path / "t", micros)
    table.append({"id": [4], "t": ["d"]})
    path = tmp_path / "t" / "_log" / f"{3:020d}.json"
    entry = decode(path.read_bytes(), 3).entry
    assert entry.timestamp == micros + 1
    path.write_bytes(encode(replace(entry, timestamp=micros, time_version=micros)))
    with pytest.raises(CorruptEntryError) as seen:
        tablefmt.open(tmp_path / "t")
    assert (seen.value.rule, seen.value.key) == ("TIM-1", f"_log/{3:020d}.json")


def test_the_next_time() -> None:
    """TIM-1."""
    assert [next_time(t) for t in (0, 5, MICROS_MAX - 1, MICROS_MAX)] == [
        1,
        6,
        MICROS_MAX,
        MICROS_MAX,
    ]
