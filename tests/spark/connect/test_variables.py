"""Names and values of a log with `${…}`, over Spark Connect: nothing is put in their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tests.spark.statements.test_variables import NAMES, ROWS, SECRET, poisoned
from tests.tables import sorted_rows


class Substitutes:
    """The setting of a session by which Spark replaces variables."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def off(self) -> None:
        self._session.conf.set("spark.sql.variable.substitute", "false")


@pytest.fixture
def substitutes(connect: Any) -> Iterator[Substitutes]:
    yield Substitutes(connect)
    connect.conf.unset("spark.sql.variable.substitute")


@pytest.mark.broken_tables
def test_no_statement_replaces_a_name_of_the_log(
    connect: Any, substitutes: Substitutes, tmp_path: Path
) -> None:
    """SEC-4, SCH-11: the server's parser would replace them, so statements need a setting."""
    table = poisoned(tmp_path / "t")
    opened = tablefmt.spark.open(connect, table.uri)
    first, second = NAMES

    def update() -> None:
        opened.update({first: "'x'"}, where=f"`{second}` = '${{env:HOME}}'")

    with pytest.raises(UnsupportedFeatureError, match=r"set spark\.sql\.variable\.substitute"):
        update()
    assert sorted_rows(table) == ROWS
    substitutes.off()
    update()
    assert sorted_rows(table) == [ROWS[0], (2, "x", "${env:HOME}"), ROWS[2]]
    source = connect.createDataFrame([(1, "y", "z"), (5, "v", "w")], ["id", *NAMES])
    merge = opened.merge(source, "s.id = t.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    opened.delete(f"`{first}` = 'e'")
    expected = [(1, "y", "z"), (2, "x", "${env:HOME}"), (5, "v", "w")]
    assert sorted_rows(table) == expected
    frame = connect.read.format("tablefmt").load(table.uri)
    shown = [tuple(row) for row in frame.collect()]
    assert sorted(shown) == expected
    assert SECRET not in repr(shown)
