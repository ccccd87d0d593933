"""CALL of Iceberg's procedures: arguments by position and by name, and what is no call."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.errors import InvalidArgumentError
from tablefmt.expressions.procedure_calls import PROCEDURES, REFUSED, read_call, sort_columns
from tablefmt.expressions.table_statements import read_statement


def test_every_refused_procedure_is_one() -> None:
    assert REFUSED.keys() <= PROCEDURES.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CALL spark_catalog.system.rollback_to_snapshot('db.t', 1)",
            ("rollback_to_snapshot", {"table": "db.t", "snapshot_id": 1}),
        ),
        (
            "call system.expire_snapshots('t', TIMESTAMP '2026-01-02 03:04:05', retain_last => 5)",
            (
                "expire_snapshots",
                {"table": "t", "older_than": "2026-01-02 03:04:05", "retain_last": 5},
            ),
        ),
        (
            "CALL `c`.SYSTEM.Rewrite_Data_Files(options => map('a', '1'), table => 'it\\'s', "
            "where => 'x = \"(\"') ;",
            (
                "rewrite_data_files",
                {"options": {"a": "1"}, "table": "it's", "where": 'x = "("'},
            ),
        ),
        (
            "CALL system.create_changelog_view(table => 't', "
            "identifier_columns => array('a', 'b'), net_changes => false, changelog_view => NULL)",
            (
                "create_changelog_view",
                {"table": "t", "identifier_columns": ["a", "b"], "net_changes": False},
            ),
        ),
    ],
)
def test_arguments_are_constants(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    statement = read_statement(text)
    assert statement is not None
    assert statement.call is not None
    assert (statement.call.name, dict(statement.call.arguments)) == expected
    assert statement.table == expected[1]["table"]


def test_the_table_of_a_trial_copy_is_its_source() -> None:
    found = read_call("snapshot", "'a', 'b'")
    assert found is not None
    assert found.table == "a"


@pytest.mark.parametrize(
    "text", ["CALL system.nothing('t')", "CALL other.rollback_to_snapshot('t', 1)", "CALL f('t')"]
)
def test_other_calls_are_sparks(text: str) -> None:
    assert read_statement(text) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("'t', snapshot => 1", "did you mean 'snapshot_id'"),
        ("'t', 1, 2", "has the arguments table, snapshot_id"),
        ("'t', 1 + 1", "expected a constant"),
        ("'t', -'a'", "expected a constant"),
        ("'t', table => 'u'", "table twice"),
        ("snapshot_id => 1, snapshot_id => 2", "snapshot_id twice"),
        ("'t', (SELECT 1)", "expected a constant"),
    ],
)
def test_wrong_arguments_are_named(arguments: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        read_call("rollback_to_snapshot", arguments)


def test_numbers_are_numbers_and_times_are_texts() -> None:
    found = read_call("rollback_to_snapshot", "'t', 5L")
    assert found is not None
    assert found.arguments == {"table": "t", "snapshot_id": 5}
    found = read_call("expire_snapshots", "'t', TIMESTAMP '2026-01-01 00:00:00', -2")
    assert found is not None
    assert found.arguments["older_than"] == "2026-01-01 00:00:00"
    assert found.arguments["retain_last"] == -2


def test_an_order_is_upwards_by_columns() -> None:
    assert sort_columns("a ASC NULLS FIRST, `b c`, d.e", "x") == (["a", "b c", "d.e"], False)
    assert sort_columns("zorder(a, b)", "x") == (["a", "b"], True)
    for text in ("a DESC", "a NULLS LAST", "bucket(4, a)", "1 +"):
        with pytest.raises(InvalidArgumentError, match="x"):
            sort_columns(text, "x")
