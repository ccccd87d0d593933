"""Swapped arguments, arguments of a wrong type, and MERGEs without `execute`."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    InvalidPredicateError,
    SchemaMismatchError,
    TablefmtError,
    VersionNotFoundError,
)
from tests.places import ROOT

NUMBERS = itertools.count()


def new_table(columns: str) -> tablefmt.Table:
    """An empty table in memory."""
    return tablefmt.create(f"memory://wrong-arguments/{next(NUMBERS)}", columns)


Wrong = Callable[[tablefmt.Table], Any]
ROWS = {"id": [1]}

WRONG: dict[str, tuple[Wrong, type[TablefmtError], str]] = {
    "update": (
        lambda t: t.update("id = 2", {"id": "3"}),  # type: ignore[arg-type]
        InvalidPredicateError,
        "expected a dict of column -> SQL text, got str; the condition comes after it",
    ),
    "update list": (
        lambda t: t.update(["id"]),  # type: ignore[arg-type]
        InvalidPredicateError,
        "got list",
    ),
    "update where": (
        lambda t: t.update({"id": "3"}, {"id": 2}),
        InvalidPredicateError,
        "where=.* expected SQL text, .* got dict",
    ),
    "update value": (lambda t: t.update({"id": 3}), InvalidPredicateError, "'id': 3 .*SQL text"),
    "delete": (
        lambda t: t.delete({"id": 1}),
        InvalidPredicateError,
        "expected SQL text, .* got dict",
    ),
    "truncate": (lambda t: t.truncate(5), InvalidPredicateError, "got int"),
    "overwrite": (
        lambda t: t.overwrite("id = 1", ROWS),
        TablefmtError,
        "pass the rows before the condition|got dict",
    ),
    "append": (
        lambda t: t.append("id = 1"),
        SchemaMismatchError,
        "pass the rows before the condition",
    ),
    "merge": (
        lambda t: t.merge("s.id = t.id", ROWS).when_matched_delete().execute(),
        SchemaMismatchError,
        "expected rows first, then the condition",
    ),
    "merge on": (
        lambda t: t.merge(ROWS, ROWS).when_matched_delete().execute(),
        InvalidPredicateError,
        "ON is .* expected SQL text, got dict",
    ),
    "merge set": (
        lambda t: t.merge(ROWS, "s.id = t.id").when_matched_update("s.id > 1", {}).execute(),  # type: ignore[arg-type]
        InvalidPredicateError,
        "expected a dict of column -> SQL text, got str",
    ),
    "merge condition": (
        lambda t: t.merge(ROWS, "s.id = t.id").when_matched_delete({"id": "1"}).execute(),
        InvalidPredicateError,
        "WHEN MATCHED THEN DELETE is .* got dict",
    ),
    "restore": (
        lambda t: t.restore("2024-01-01"),
        VersionNotFoundError,
        r"'2024-01-01' \(not the name of a tag; pass a time as a timestamp",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_arguments_are_refused_with_what_was_expected(kind: str) -> None:
    """No row is written, and a transaction raises the same error."""
    call, error, said = WRONG[kind]
    table = new_table("id BIGINT")
    with pytest.raises(error, match=said):
        call(table)
    assert table.refresh().version == 0
    with pytest.raises(error, match=said):
        call(table.transaction())  # type: ignore[arg-type]


def test_a_condition_and_a_version_may_go_without_their_names() -> None:
    """The calls accept them by position, as other engines do."""
    table = new_table("id BIGINT")
    table.append({"id": [1, 2]})
    table.overwrite({"id": [5]}, "id < 10")
    assert table.refresh().to_arrow().to_pylist() == [{"id": 5}]
    table.restore(1)
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2]


def _warned(act: Callable[[], Any]) -> list[warnings.WarningMessage]:
    # Older objects need not be visited: those of a whole test run take a second.
    gc.freeze()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        act()
        gc.collect()
    gc.unfreeze()
    return [each for each in seen if "never executed" in str(each.message)]


@pytest.mark.slow
def test_a_merge_that_is_never_executed_warns_once_where_it_was_written() -> None:
    """The number of clauses makes no difference."""
    table = new_table("id BIGINT")

    def forget() -> None:
        table.merge(ROWS, "s.id = t.id").when_matched_delete().when_not_matched_insert_all()

    (warned,) = _warned(forget)
    assert warned.category is UserWarning
    assert (warned.filename, warned.lineno) == (__file__, forget.__code__.co_firstlineno + 1)
    assert len(_warned(lambda: table.transaction().merge(ROWS, "s.id = t.id"))) == 1


@pytest.mark.slow
def test_a_merge_that_is_executed_or_refused_does_not_warn() -> None:
    """A MERGE that is only explained does not warn either."""
    table = new_table("id BIGINT")

    def refused() -> None:
        with pytest.raises(TablefmtError):
            table.merge(ROWS, "s.x = t.id").when_matched_delete().execute()

    def done() -> None:
        begun = table.merge(ROWS, "s.id = t.id")
        begun.when_not_matched_insert_all().execute()

    assert _warned(refused) == []
    assert _warned(done) == []
    assert _warned(lambda: table.merge(ROWS, "s.id = t.id").when_matched_delete().explain()) == []


@pytest.mark.slow
def test_a_merge_that_is_pending_at_the_end_of_the_process_warns() -> None:
    """It is held by a name until then."""
    code = (
        "import tablefmt\n"
        "table = tablefmt.create('memory://pending', 'id BIGINT')\n"
        "merge = table.merge({'id': [1]}, 's.id = t.id').when_matched_delete()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0
    assert "<string>:3: UserWarning: this MERGE was never executed" in done.stderr


BIG = {"id": [1, 7], "n": [1_000, 1_000]}


@pytest.mark.parametrize(
    ("act", "column"),
    [
        (lambda t: t.merge(BIG, "s.id = t.id").when_matched_update({"n": "s.n"}), "n"),
        (lambda t: t.merge(BIG, "s.id = t.id").when_matched_update({"n": "s.n + 1"}), "n"),
        (lambda t: t.merge(BIG, "s.id = t.id").when_matched_update({"s.a": "s.n"}), "s.a"),
        (lambda t: t.merge(BIG, "s.id = t.id").when_matched_update({"d": "s.n"}), "d"),
        (
            lambda t: t.merge(BIG, "s.id = t.id").when_not_matched_insert(
                {"id": "s.id", "n": "s.n"}
            ),
            "n",
        ),
        (
            lambda t: t.merge({"id": [9]}, "s.id = t.id").when_not_matched_by_source_update(
                {"n": "id + 1000"}
            ),
            "n",
        ),
    ],
)
def test_a_value_too_large_for_its_column_is_refused_by_its_name(act: Any, column: str) -> None:
    """SQL-3: MERGE, UPDATE and pipes as an append."""
    table = new_table("id BIGINT, n TINYINT, d DECIMAL(4, 1), s STRUCT<a: TINYINT>")
    table.append({"id": [1], "n": [1]})
    with pytest.raises(SchemaMismatchError, match=f"column '{column}'") as caught:
        act(table).execute()
    assert caught.value.columns == [column]
    assert table.refresh().version == 1


def test_a_value_too_large_for_its_column_is_refused_by_pipes_and_update() -> None:
    """SQL-3, PIP-5: an expression without a result is no error of the column."""
    source, table = new_table("id BIGINT, n INT"), new_table("id BIGINT, n TINYINT")
    source.append(BIG)
    table.append({"id": [1], "n": [1]})
    for keys in (None, ["id"]):
        with pytest.raises(SchemaMismatchError, match="column 'n'"):
            tablefmt.pipe(source, name=str(keys)).into(table, keys=keys)
    with pytest.raises(SchemaMismatchError, match="column 'n'"):
        table.update({"n": "id + 1000"})
    with pytest.raises(InvalidPredicateError, match=r"(?i)overflow"):
        table.update({"id": "id + 9223372036854775807"})
    assert table.refresh().version == 1
