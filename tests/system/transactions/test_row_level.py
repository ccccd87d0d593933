"""Two statements on one file at once, through the verbs: rows of one's own, and the same row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.table import Table
from tests.races import Ended, race
from tests.system.transactions.world import of_data

KEYS = range(0, 40, 2)
EVEN, ODD = (list(KEYS[at::2]) for at in (0, 1))
"""Rows of the one file, every other one: ranges of keys that lie within each other."""

Rows = dict[int, int]
Statement = Callable[[Table, list[int], int], Any]


def source(rows: Rows) -> pa.Table:
    return pa.table({"k": pa.array(rows, pa.int64()), "v": pa.array(rows.values(), pa.int64())})


def listed(keys: list[int]) -> str:
    return ", ".join(map(str, keys))


def delete(table: Table, keys: list[int], _: int) -> Any:
    return table.delete(f"k IN ({listed(keys)})")


def update(table: Table, keys: list[int], value: int) -> Any:
    return table.update({"v": f"v + {value}"}, f"k IN ({listed(keys)})")


def merge(table: Table, keys: list[int], value: int) -> Any:
    """Set `v` of existing rows, and insert each key's successor."""
    rows = dict.fromkeys(keys, value) | {k + 1: value for k in keys}
    builder = table.merge(source(rows), "t.k = s.k").when_matched_update({"v": "s.v"})
    return builder.when_not_matched_insert_all().execute()


def replaced(table: Table, keys: list[int], value: int) -> Any:
    """An overwrite of a condition over rows."""
    return table.overwrite(source(dict.fromkeys(keys, value)), where=f"k IN ({listed(keys)})")


STATEMENTS: dict[str, tuple[Statement, Callable[[Rows, list[int], int], Rows]]] = {
    "DELETE": (delete, lambda rows, keys, _: {k: v for k, v in rows.items() if k not in keys}),
    "UPDATE": (
        update,
        lambda rows, keys, n: {k: v + n if k in keys else v for k, v in rows.items()},
    ),
    "MERGE": (
        merge,
        lambda rows, keys, n: rows | dict.fromkeys(keys, n) | {k + 1: n for k in keys},
    ),
    "OVERWRITE": (replaced, lambda rows, keys, n: rows | dict.fromkeys(keys, n)),
}
PAIRS = [(one, other) for one in STATEMENTS for other in STATEMENTS if one != "OVERWRITE"]
"""For an overwrite only the bounds of new rows are known, and these overlap here."""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of one file."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "k BIGINT, v BIGINT")
    table.append(source({k: k for k in KEYS}))
    return uri


def rows_of(uri: str, version: int | None = None) -> Rows:
    found = tablefmt.open(uri).to_arrow(version=version)
    rows = dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows
    return rows


def at_once(uri: str, one: str, other: str, keys: list[int], others: list[int]) -> list[Ended]:
    tables = [tablefmt.open(uri) for _ in range(2)]
    first, second = STATEMENTS[one][0], STATEMENTS[other][0]
    return race(lambda: first(tables[0], keys, 100), lambda: second(tables[1], others, 1000))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_other_rows_of_one_file_both_commit_by_metadata_alone(
    uri: str, one: str, other: str
) -> None:
    """CFL-10, CFL-17, CFL-18: bounds of keys overlap, and no data file is read or written again."""
    first, second = at_once(uri, one, other, EVEN, ODD)
    assert (first.conflict, second.conflict) == (None, None), (first.error, second.error)
    assert first.read_version == second.read_version == 1
    assert second.passed == (2,)
    assert of_data(second.requests) == []
    between = STATEMENTS[one][1](rows_of(uri, 1), EVEN, 100)
    assert rows_of(uri, 2) == between
    assert rows_of(uri) == STATEMENTS[other][1](between, ODD, 1000)
    assert tablefmt.open(uri).verify().ok


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_one_row_that_both_change_the_later_is_told(uri: str, one: str, other: str) -> None:
    """CFL-8, CFL-10: no file of the second stays, and the first commit is complete."""
    before = set(Path(uri).rglob("*.parquet"))
    first, second = at_once(uri, one, other, [*EVEN, ODD[3]], ODD)
    assert first.conflict is None
    # Two MERGEs insert the same key. Added rows are checked before deleted rows.
    both_insert = one == other == "MERGE"
    wanted = "ConcurrentAppendException" if both_insert else "ConcurrentDeleteReadException"
    assert second.conflict == wanted, second.error
    assert rows_of(uri) == STATEMENTS[one][1](rows_of(uri, 1), [*EVEN, ODD[3]], 100)
    table = tablefmt.open(uri)
    assert table.version == 2
    left = set(Path(uri).rglob("*.parquet")) - before
    assert {str(p.relative_to(uri)) for p in left} <= set(table.scan().files()["path"].to_pylist())


def test_several_concurrent_statements_each_rebase_onto_all_before(uri: str) -> None:
    """CMT-6, CFL-10: every fourth row each, as DELETE, UPDATE, MERGE and OVERWRITE."""
    tables = [tablefmt.open(uri) for _ in STATEMENTS]
    works = [
        lambda made=made, table=table, at=at: made(table, list(KEYS[at::4]), 100 * at)
        for at, ((made, _), table) in enumerate(zip(STATEMENTS.values(), tables, strict=True))
    ]
    ended = race(*works)
    assert [each.conflict for each in ended] == [None] * 4
    assert [each.passed for each in ended] == [tuple(range(2, 2 + at)) for at in range(4)]
    assert [of_data(each.requests) for each in ended[1:]] == [[], [], []]
    rows = rows_of(uri, 1)
    for at, (_, change) in enumerate(STATEMENTS.values()):
        rows = change(rows, list(KEYS[at::4]), 100 * at)
        assert rows_of(uri, 2 + at) == rows
