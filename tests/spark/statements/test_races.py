"""Two statements on one file at once, in two sessions: rows of one's own, and the same row.

Keys of the two lie within each other's bounds. Both do all of their work before either commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tests.races import Ended, race
from tests.spark.looking import everything, strays
from tests.system.transactions.test_row_level import (
    EVEN,
    KEYS,
    ODD,
    STATEMENTS,
    listed,
    rows_of,
    source,
)
from tests.system.transactions.world import of_data

Change = Callable[[Any, str, list[int], int], Any]
"""A session, a table's name or place, the keys, a value."""

_names = itertools.count()


def sql_delete(spark: Any, name: str, keys: list[int], _: int) -> Any:
    return spark.sql(f"DELETE FROM {name} WHERE k IN ({listed(keys)})").collect()


def sql_update(spark: Any, name: str, keys: list[int], value: int) -> Any:
    return spark.sql(f"UPDATE {name} SET v = v + {value} WHERE k IN ({listed(keys)})").collect()


def sql_merge(spark: Any, name: str, keys: list[int], value: int) -> Any:
    given = f"SELECT explode(array({listed(keys)})) AS k"
    return spark.sql(
        f"MERGE INTO {name} t USING (SELECT CAST(k + n AS BIGINT) AS k, {value} AS v FROM "
        f"({given}) CROSS JOIN (SELECT explode(array(0, 1)) AS n)) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def delete(spark: Any, uri: str, keys: list[int], _: int) -> Any:
    return tablefmt.spark.open(spark, uri).delete(f"k IN ({listed(keys)})")


def update(spark: Any, uri: str, keys: list[int], value: int) -> Any:
    return tablefmt.spark.open(spark, uri).update({"v": f"v + {value}"}, f"k IN ({listed(keys)})")


def merge(spark: Any, uri: str, keys: list[int], value: int) -> Any:
    rows = dict.fromkeys(keys, value) | {k + 1: value for k in keys}
    given = spark.createDataFrame(source(rows))
    builder = tablefmt.spark.open(spark, uri).merge(given, "t.k = s.k")
    return builder.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()


VERBS: dict[str, Change] = {"DELETE": delete, "UPDATE": update, "MERGE": merge}
TEXTS: dict[str, Change] = {"DELETE": sql_delete, "UPDATE": sql_update, "MERGE": sql_merge}
PAIRS = [(one, other) for one in VERBS for other in VERBS]


@pytest.fixture
def table(uri: str) -> str:
    """A table of one file."""
    made = tablefmt.create(uri, "k BIGINT, v BIGINT")
    made.append(source({k: k for k in KEYS}))
    return uri


@pytest.fixture
def named(sessions: list[Any], table: str) -> Iterator[str]:
    """The table's name in the catalog, which the sessions share."""
    name = f"raced{next(_names)}"
    sessions[0].sql(f"CREATE TABLE {name} USING tablefmt OPTIONS (path '{table}')")
    yield name
    sessions[0].sql(f"DROP TABLE {name}")


def both(
    sessions: list[Any], where: str, changes: list[Change], keys: list[int], others: list[int]
) -> list[Ended]:
    first, second = changes
    return race(
        lambda: first(sessions[0], where, keys, 100),
        lambda: second(sessions[1], where, others, 1000),
    )


def check_both_committed(uri: str, names: tuple[str, str], ended: list[Ended]) -> None:
    first, second = ended
    assert (first.conflict, second.conflict) == (None, None), (first.error, second.error)
    assert first.read_version == second.read_version == 1
    assert second.passed == (2,)
    assert of_data(second.requests) == []
    between = STATEMENTS[names[0]][1](rows_of(uri, 1), EVEN, 100)
    assert rows_of(uri, 2) == between
    assert rows_of(uri) == STATEMENTS[names[1]][1](between, ODD, 1000)
    assert tablefmt.open(uri).verify().ok


def check_later_was_refused(
    uri: str, names: tuple[str, str], ended: list[Ended], before: list[str]
) -> None:
    first, second = ended
    assert first.conflict is None, first.error
    both_insert = names == ("MERGE", "MERGE")
    wanted = "ConcurrentAppendException" if both_insert else "ConcurrentDeleteReadException"
    assert second.conflict == wanted, second.error
    assert of_data(second.requests) == []
    assert rows_of(uri) == STATEMENTS[names[0]][1](rows_of(uri, 1), [*EVEN, ODD[3]], 100)
    found = tablefmt.open(uri)
    assert found.version == 2
    live = [f"{uri}/{path}" for path in found.scan().files()["path"].to_pylist()]
    logs = [path for path in everything(uri) if "/_log/" in path]
    assert strays(uri, sorted({*before, *live, *logs})) == []


EVERY = [
    *((name, TEXTS[name], True) for name in TEXTS),
    *((name, VERBS[name], False) for name in VERBS),
]
"""The statement, its call, and whether it names the table."""


@pytest.mark.share(2)
@pytest.mark.parametrize("turned", [0, 3])
def test_six_concurrent_statements_each_rebase_onto_all_before(
    spark: Any, sessions: list[Any], table: str, named: str, turned: int
) -> None:
    """CMT-6, CFL-10, CFL-17, CFL-18: every sixth row each, in SQL and by verbs."""
    doing = [*EVERY[turned:], *EVERY[:turned]]
    works = [
        lambda how=how, where=named if by_name else table, at=at: how(
            sessions[at % 2], where, list(KEYS[at::6]), 100 * at + 7
        )
        for at, (_, how, by_name) in enumerate(doing)
    ]
    ended = race(*works)
    assert [each.conflict for each in ended] == [None] * 6, [each.error for each in ended]
    assert {each.read_version for each in ended} == {1}
    assert [each.passed for each in ended] == [tuple(range(2, 2 + at)) for at in range(6)]
    assert [of_data(each.requests) for each in ended[1:]] == [[]] * 5
    rows = rows_of(table, 1)
    for at, (name, _, _) in enumerate(doing):
        rows = STATEMENTS[name][1](rows, list(KEYS[at::6]), 100 * at + 7)
        assert rows_of(table, 2 + at) == rows
    assert {r.k: r.v for r in tablefmt.spark.read(spark, table).collect()} == rows
    assert tablefmt.open(table).verify().ok


def test_three_concurrent_statements_by_arrow_each_rebase_onto_all_before(
    sessions: list[Any], table: str, use_backend: Callable[..., None]
) -> None:
    """CMT-6, CFL-10, CFL-17, CFL-18: every third row each."""
    use_backend("arrow", *sessions)
    works = [
        lambda how=how, at=at: how(sessions[at % 2], table, list(KEYS[at::3]), 100 * at + 7)
        for at, how in enumerate(VERBS.values())
    ]
    ended = race(*works)
    assert [each.conflict for each in ended] == [None] * 3, [each.error for each in ended]
    assert [each.passed for each in ended] == [(), (2,), (2, 3)]
    assert [of_data(each.requests) for each in ended[1:]] == [[]] * 2
    rows = rows_of(table, 1)
    for at, name in enumerate(VERBS):
        rows = STATEMENTS[name][1](rows, list(KEYS[at::3]), 100 * at + 7)
        assert rows_of(table, 2 + at) == rows


@pytest.mark.soak
@pytest.mark.parametrize("names", PAIRS)
def test_any_two_on_other_rows_of_one_file_both_commit(
    sessions: list[Any], table: str, named: str, names: tuple[str, str]
) -> None:
    """CFL-10, CFL-17, CFL-18: metadata alone decides."""
    changes = [TEXTS[name] for name in names]
    check_both_committed(table, names, both(sessions, named, changes, EVEN, ODD))


EVERYDAY = [("MERGE", "MERGE"), ("DELETE", "UPDATE"), ("UPDATE", "DELETE")]


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "names", [pytest.param(p, marks=() if p in EVERYDAY else pytest.mark.soak) for p in PAIRS]
)
def test_of_one_row_that_both_change_the_later_statement_of_sql_is_told(
    sessions: list[Any], table: str, named: str, names: tuple[str, str]
) -> None:
    """CFL-8, CFL-10: no file of it stays, and the first commit is complete."""
    before = everything(table)
    changes = [TEXTS[name] for name in names]
    ended = both(sessions, named, changes, [*EVEN, ODD[3]], ODD)
    check_later_was_refused(table, names, ended, before)


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", ["native", "arrow"])
@pytest.mark.parametrize("names", [("UPDATE", "MERGE"), ("MERGE", "UPDATE")])
def test_of_one_row_that_both_change_the_later_verb_is_told(
    sessions: list[Any],
    table: str,
    names: tuple[str, str],
    backend: str,
    use_backend: Callable[..., None],
) -> None:
    """CFL-8, CFL-10: no file of it stays, and the first commit is complete."""
    use_backend(backend, *sessions)
    before = everything(table)
    changes = [VERBS[name] for name in names]
    ended = both(sessions, table, changes, [*EVEN, ODD[3]], ODD)
    check_later_was_refused(table, names, ended, before)
