"""Cells of the matrices with an UPDATE in them, Spark's statements on one side at least.

What a scene should come to is worked out as for the transactions of tests/transactions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.store.local import LocalStore
from tests.races import race
from tests.spark.looking import frame_from
from tests.transactions import scenes
from tests.transactions.scenes import (
    ELSEWHERE,
    HERE,
    OTHER_FILES,
    PLACES,
    ROWS,
    SAME,
    Doing,
    Place,
    after,
    base,
    base_rows,
)
from tests.transactions.test_cells_file_and_row import CELLS, PROFILES, expected_conflict
from tests.transactions.test_cells_transaction import outcome
from tests.transactions.world import assert_rows, begin, copy_to, data, handle, of_data

Run = Callable[[Any, str, str], Any]
"""A session, the table's place and its name."""


@dataclass(frozen=True)
class Act:
    """An operation: what it does, and how."""

    doing: Doing
    run: Run


def sql(doing: Doing, text: str) -> Act:
    """A statement; `{t}` in it stands for the table."""
    return Act(doing, lambda spark, uri, name: spark.sql(text.replace("{t}", name)).collect())


def on_arrow(doing: Doing) -> Act:
    """What Spark has no statement for."""

    def run(spark: Any, uri: str, name: str) -> Any:
        txn = begin(handle(LocalStore(uri)))
        doing.stage(txn)
        return txn.commit()

    return Act(doing, run)


def delete(place: Place, value: int) -> Act:
    return sql(scenes.delete(place), f"DELETE FROM {{t}} WHERE p = '{place.p}' AND k = {place.key}")


def delete_by_value(place: Place, value: int) -> Act:
    doing = scenes.delete_by_value(place)
    return sql(doing, f"DELETE FROM {{t}} WHERE p = '{place.p}' AND v = {place.key}")


def update(place: Place, value: int) -> Act:
    where = f"p = '{place.p}' AND k = {place.key}"
    return sql(scenes.set_value(place, value), f"UPDATE {{t}} SET v = {value} WHERE {where}")


def update_by_verb(place: Place, value: int) -> Act:
    where = f"p = '{place.p}' AND k = {place.key}"

    def run(spark: Any, uri: str, name: str) -> Any:
        return tablefmt.spark.open(spark, uri).update({"v": str(value)}, where)

    return Act(scenes.set_value(place, value), run)


def merge(place: Place, value: int) -> Act:
    """Updates what is there, and inserts nothing, for it is there."""
    source = f"SELECT '{place.p}' AS p, CAST({place.key} AS BIGINT) AS k, {value}L AS v"
    return sql(
        scenes.set_value(place, value),
        f"MERGE INTO {{t}} t USING ({source}) s ON t.p = s.p AND t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
    )


def insert(place: Place, value: int) -> Act:
    doing = scenes.insert(place, place.key)
    ((p, k, v),) = doing.added
    return sql(doing, f"INSERT INTO {{t}} VALUES ('{p}', {k}, {v})")


def overwrite(place: Place, value: int) -> Act:
    doing = scenes.overwrite(place, place.key)

    def run(spark: Any, uri: str, name: str) -> Any:
        rows = frame_from(spark, data(doing.added))
        return tablefmt.spark.open(spark, uri).overwrite(rows, where=f"p = '{place.p}'")

    return Act(doing, run)


Make = Callable[[Place, int], Act]

UPDATES: list[Make] = [delete, update, merge, delete_by_value, update_by_verb]
OTHERS: dict[str, Make] = {
    "INSERT": insert,
    "OVERWRITE": overwrite,
    "MINOR_COMPACT": lambda place, _: on_arrow(scenes.minor(place)),
    "MAJOR_COMPACT": lambda place, _: on_arrow(scenes.major(place)),
    "CLUSTER": lambda place, _: on_arrow(scenes.cluster(place)),
}
WHERE = (SAME, ROWS, OTHER_FILES, ELSEWHERE)
NEW = 2
"""A value that an UPDATE sets: what `delete_by_value` looks for."""


@dataclass(frozen=True)
class Scene:
    granularity: str
    """A profile of the published matrix, or `transaction`."""
    isolation: str
    earlier: str
    later: str
    place: str
    first: Act
    second: Act

    def __str__(self) -> str:
        return f"{self.granularity}, {self.isolation}: {self.earlier} at {self.place}, {self.later}"

    @property
    def expected(self) -> str | None:
        """The exception by the published matrix."""
        first, second = self.first.doing, self.second.doing
        if self.granularity != "transaction":
            kind = {"MINOR_COMPACT": "COMPACT", "MAJOR_COMPACT": "COMPACT"}
            earlier = "UPDATE" if self.earlier == "OVERWRITE" else self.earlier
            wanted = {
                "profile": self.granularity,
                "isolation": self.isolation,
                "earlier": kind.get(earlier, earlier),
                "later": kind.get(self.later, self.later),
            }
            (cell,) = (c for c in CELLS if wanted.items() <= c.items())
            return expected_conflict(cell, first, second)
        if self.place == ELSEWHERE:
            return None
        if (self.earlier, self.later) == ("CLUSTER", "UPDATE"):
            # Nothing says where clustering put a row, so one that is to go cannot be followed.
            moved = set(first.compacts) & {scenes.file_of(row) for row in second.removed}
            return "ConcurrentDeleteReadException" if moved else None
        fails = outcome(self.earlier, self.later) == "fail"
        return "ConcurrentWriteException" if fails else None


def scenes_of() -> Iterator[Scene]:
    """Every pair with an UPDATE in it, everywhere, the ways of an UPDATE in turn."""
    ways = itertools.cycle(UPDATES)
    isolations = itertools.cycle(["WriteSerializable", "Serializable"])
    pairs = [("UPDATE", "UPDATE")]
    pairs += [pair for other in OTHERS for pair in (("UPDATE", other), (other, "UPDATE"))]
    for granularity in (*PROFILES, "transaction"):
        for earlier, later in pairs:
            for place in WHERE:
                one, other = OTHERS.get(earlier) or next(ways), OTHERS.get(later) or next(ways)
                yield Scene(
                    granularity,
                    next(isolations),
                    earlier,
                    later,
                    place,
                    one(PLACES[place], NEW),
                    other(HERE, 3000),
                )


def everyday() -> Iterator[Any]:
    """One place of each pair and granularity; places in turn, the other ones are in the soak."""
    turns: dict[tuple[str, str, str], int] = {}
    for scene in scenes_of():
        level = scene.granularity.split(",")[0]
        at = turns.setdefault((level, scene.earlier, scene.later), len(turns))
        cow = "copy" in scene.granularity
        chosen = WHERE[(0, 1, 0, 2, 1, 3)[at % 6]] == scene.place
        chosen &= level != "file" or cow == (at % 2 == 0)
        yield pytest.param(scene, marks=() if chosen else pytest.mark.soak, id=str(scene))


@pytest.fixture
def sessions(spark: Any) -> list[Any]:
    """Two, of one context."""
    both = [spark, spark.newSession()]
    for session in both:
        tablefmt.spark.register(session)
    return both


_names = itertools.count()


@pytest.mark.parametrize("scene", list(everyday()))
def test_a_cell_with_an_update_of_sparks(scene: Scene, sessions: list[Any], tmp_path: Path) -> None:
    """CFL-2, CFL-3: the exception or none, the rows of every version, no data file touched."""
    transaction = scene.granularity == "transaction"
    properties = (
        {"conflictGranularity": "transaction"} if transaction else PROFILES[scene.granularity]
    )
    memory, version = base(isolationLevel=scene.isolation, **properties)
    store = copy_to(memory, LocalStore(tmp_path / "t"))
    name = f"cell{next(_names)}"
    sessions[0].sql(f"CREATE TABLE {name} USING tablefmt OPTIONS (path '{store.uri}')")
    first, second = race(
        lambda: scene.first.run(sessions[0], store.uri, name),
        lambda: scene.second.run(sessions[1], store.uri, name),
    )
    sessions[0].sql(f"DROP TABLE {name}")
    assert first.error is None, first.error
    assert of_data(second.requests) == []
    expected = [tuple(sorted(base_rows()))]
    expected.append(after(expected[0], scene.first.doing))
    assert second.conflict == scene.expected, second.error
    if second.error is None:
        assert second.passed == (version + 1,)
        receipt = second.answer
        if not getattr(receipt, "no_op", False):
            expected.append(after(expected[1], scene.second.doing))
    assert_rows(store, expected, version)


def test_every_pair_is_tried_at_every_granularity_and_conflicts_somewhere_or_must_not() -> None:
    """CFL-2, CFL-3: the scenes leave no condition out."""
    found: dict[tuple[str, str, str], set[str | None]] = {}
    for scene in scenes_of():
        level = scene.granularity.split(",")[0]
        found.setdefault((level, scene.earlier, scene.later), set()).add(scene.expected)
    assert len(found) == 3 * 11
    assert all(None in outcomes for outcomes in found.values())
    never = {
        (level, earlier, later)
        for (level, earlier, later), outcomes in found.items()
        if outcomes == {None}
    }
    assert {(level, later) for level, earlier, later in never if earlier == "UPDATE"} >= {
        (level, other) for level in ("file", "row") for other in ("INSERT", "OVERWRITE")
    }
    assert len(never) < len(found) / 2, sorted(never)
