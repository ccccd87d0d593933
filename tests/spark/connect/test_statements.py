"""Statements on a table as a whole over Spark Connect: unknown there, and what to call instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.entry.pyspark_wrappers import CALLS
from tests.spark.connect.conftest import new_session


@pytest.fixture
def session(connect_address: str) -> Iterator[Any]:
    session = new_session(connect_address)
    for _ in range(2):
        tablefmt.spark.register(session)
    yield session
    session.stop()


CASES: list[tuple[str, str, str, Callable[[Any], Any], int]] = [
    ("/* a */ OPTIMIZE {t} WHERE id > 1", "OPTIMIZE", "compact(", lambda t: t.compact(), 3),
    ("OPTIMIZE {t} ZORDER BY (id)", "OPTIMIZE", "cluster(", lambda t: t.cluster(["id"]), 3),
    ("CONVERT TO tablefmt delta.`/a`", "CONVERT", "import_table(", lambda t: t.to_df().count(), 2),
    ("VACUUM '/a'", "VACUUM", "vacuum(", lambda t: t.vacuum(dry_run=False), 2),
    ("VACUUM {t}", "VACUUM", "vacuum(", lambda t: t.vacuum(dry_run=False), 2),
    ("RESTORE t TO VERSION AS OF 1", "RESTORE", "restore(", lambda t: t.restore(version=1), 3),
    ("DESCRIBE HISTORY {t}", "HISTORY", "history(", lambda t: t.history().collect(), 2),
    ("DESCRIBE DETAIL {t}", "DETAIL", "properties", lambda t: t.table.properties, 2),
]


@pytest.mark.parametrize(("text", "verb", "named", "call", "version"), CASES)
def test_the_error_names_the_call_and_the_call_is_there(
    session: Any,
    tmp_path: Path,
    text: str,
    verb: str,
    named: str,
    call: Callable[[Any], Any],
    version: int,
) -> None:
    """The table is named by path and by name. The error has no traceback of Spark."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, {"id": [1, 2]})
    table.append({"id": [3]})
    before = table.refresh().version
    with pytest.raises(UnsupportedFeatureError, match=f"cannot run {verb} on") as seen:
        session.sql(text.format(t=f"tablefmt.`{uri}`"))
    assert seen.value.features == [f"sql:{verb}"]
    assert seen.value.__context__ is None
    assert named in CALLS[verb]
    assert CALLS[verb] in str(seen.value)
    assert table.refresh().version == before
    call(tablefmt.spark.open(session, uri))
    assert table.refresh().version - before == version - 2


def test_spark_statements_and_unknown_ones_are_unchanged(session: Any) -> None:
    """Arguments reach Spark, and its errors the caller."""
    from pyspark.errors import ParseException

    assert session.sql("SELECT :a + 1 AS b", args={"a": 2}).collect() == [(3,)]
    assert session.sql("SELECT * FROM {df}", df=session.range(2)).count() == 2
    for text in ("OPTIMIZE", "VACUUM t DRY", "SELECT (1"):
        with pytest.raises(ParseException):
            session.sql(text)
