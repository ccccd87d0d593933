"""Cells of the matrices with an UPDATE in them, Spark's statements on one side at least.

What a scene should come to is worked out as for the transactions of tests/system/transactions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.store.local_store import LocalStore
from tests.races import race
from tests.spark.looking import frame_from
from tests.system.transactions import scenes
from tests.system.transactions.scenes import (
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
from tests.system.transactions.test_cells_file_and_row import CELLS, PROFILES, expected_conflict
from tests.system.transactions.test_cells_transaction import outcome
from tests.system.transactions.world import assert_rows, copy_to, data, of_data

Run = Callable[[Any, str, str], Any]
"""A session, the table's place and its name."""


@dataclass(frozen=True)
class Act:
    """An operation: what it does, and how."""

    doing: Doing
    run: Run
    everywhere: bool = False
    """It reads the whole table."""


def sql(doing: Doing, text: str) -> Act:
    """Return a statement. `{t}` in it is replaced by the table."""
    return Act(doing, lambda spark, uri, name: spark.sql(text.replace("{t}", name)).collect())


def by_spark(doing: Doing, verb: Callable[[Any], Any]) -> Act:
    """A verb of `SparkTable`."""
    return Act(doing, lambda spark, uri, name: verb(tablefmt.spark.open(spark, uri)))


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


def copy(place: Place, value: int) -> Act:
    """An INSERT whose source reads the table: for the rules all of it."""
    text = (
        f"INSERT INTO {{t}} SELECT p, CAST({value} AS BIGINT) AS k, v FROM {{t}} "
        f"WHERE p = '{place.p}' AND k = {place.key}"
    )
    doing = replace(
        scenes.copy_row(place, value),
        read=frozenset(base_rows()),
        condition=lambda row: True,
        looks_at=frozenset("pkv"),
    )
    return replace(sql(doing, text), everywhere=True)


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

UPDATES: list[Make] = [delete, update, merge, delete_by_value, update_by_verb, copy]
OTHERS: dict[str, Make] = {
    "INSERT": insert,
    "OVERWRITE": overwrite,
    "MINOR_COMPACT": lambda place, _: by_spark(
        scenes.minor(place), lambda t: t.compact("minor", where=scenes.files_of(place))
    ),
    "MAJOR_COMPACT": lambda place, _: by_spark(
        scenes.major(place), lambda t: t.compact("major", where=f"p = '{place.p}'")
    ),
    "CLUSTER": lambda place, _: by_spark(
        scenes.cluster(place), lambda t: t.cluster(["v"], where=scenes.files_of(place))
    ),
}
WHERE = (SAME, ROWS, OTHER_FILES, ELSEWHERE)
NEW = 2
"""A value that an UPDATE sets, and that `delete_by_value` selects."""


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
            if self.later == "OVERWRITE":
                # It replaces what is there when it commits; the matrix has no cell for it.
                return None
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
        if self.place == ELSEWHERE and not (self.first.everywhere or self.second.everywhere):
            return None
        if (self.earlier, self.later) == ("CLUSTER", "UPDATE"):
            # No lineage shows where clustering put a row, so a delete cannot follow it.
            moved = set(first.compacts) & {scenes.file_of(row) for row in second.removed}
            return "ConcurrentDeleteReadException" if moved else None
        fails = outcome(self.earlier, self.later) == "fail"
        return "ConcurrentWriteException" if fails else None


ISOLATIONS = ("WriteSerializable", "Serializable")
PAIRS = [("UPDATE", "UPDATE")]
PAIRS += [pair for other in OTHERS for pair in (("UPDATE", other), (other, "UPDATE"))]
LEVELS = (*PROFILES, "transaction")


def scenes_of() -> Iterator[Scene]:
    """Yield every pair with an UPDATE in it, everywhere, with alternating ways of an UPDATE."""
    ways = itertools.cycle(UPDATES)
    for granularity, pair, isolation, place in itertools.product(LEVELS, PAIRS, ISOLATIONS, WHERE):
        one, other = (OTHERS.get(kind) or next(ways) for kind in pair)
        first, second = one(PLACES[place], NEW), other(HERE, 3000)
        yield Scene(granularity, isolation, *pair, place, first, second)


def everyday() -> Iterator[Any]:
    """Yield one scene of each pair, with alternating granularities, places and levels.

    The rules themselves run on real files in every cell (tests/system/transactions).
    """
    for scene in scenes_of():
        pair = PAIRS.index((scene.earlier, scene.later))
        chosen = scene.granularity == LEVELS[pair % len(LEVELS)]
        chosen &= scene.place == WHERE[(0, 1, 0, 2, 1, 3)[pair % 6]]
        chosen &= scene.isolation == ISOLATIONS[pair // 2 % 2]
        yield pytest.param(scene, marks=() if chosen else pytest.mark.soak, id=str(scene))


_names = itertools.count()


@pytest.mark.share(6)
@pytest.mark.parametrize("scene", list(everyday()))
def test_a_cell_with_an_update_of_sparks(scene: Scene, sessions: list[Any], tmp_path: Path) -> None:
    """CFL-2, CFL-3: the exception or none, the rows of every version, no data file touched."""
    transaction = scene.granularity == "transaction"
    properties = (
        {"conflictGranularity": "transaction"} if transaction else PROFILES[scene.granularity]
    )
    memory, version = base(isolationLevel=scene.isolation, **properties)  # type: ignore[arg-type]
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
        commit_result = second.answer
        if not getattr(commit_result, "no_op", False):
            expected.append(after(expected[1], scene.second.doing))
    assert_rows(store, expected, version)


def test_the_scenes_leave_no_condition_out() -> None:
    """CFL-2, CFL-3: every pair at every granularity; it conflicts if the matrix ever lets it."""
    found: dict[str, dict[tuple[str, str], set[str | None]]] = {}
    for scene in scenes_of():
        outcomes = found.setdefault(scene.granularity.split(",")[0], {})
        outcomes.setdefault((scene.earlier, scene.later), set()).add(scene.expected)
    never = {("UPDATE", "INSERT"), ("UPDATE", "OVERWRITE")}
    moved = {("UPDATE", kind) for kind in ("MINOR_COMPACT", "MAJOR_COMPACT")}
    moved |= {pair[::-1] for pair in moved}
    fails = {pair for pair in PAIRS if outcome(*pair) == "fail"} | {("CLUSTER", "UPDATE")}
    wanted = {"file": {*PAIRS} - never, "row": {*PAIRS} - never - moved, "transaction": fails}
    for level, pairs in wanted.items():
        assert found[level].keys() == {*PAIRS}
        assert {pair for pair, seen in found[level].items() if seen != {None}} == pairs
        assert None in found[level]["UPDATE", "UPDATE"]
    assert sum(not each.marks for each in everyday()) == len(PAIRS)
