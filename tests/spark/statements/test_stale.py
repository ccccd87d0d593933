"""Spark's writes by handles that do not know of schema changes, and during such changes.

Spec: CFL-5.
"""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import MetadataChangedException
from tablefmt.spark.backends.arrow.arrow_backend import ArrowBackend
from tablefmt.spark.backends.native.native_backend import NativeBackend
from tests.tables import swap_a_and_b


def test_a_stale_handle_writes_by_the_newest_schema(spark: Any, uri: str, backend: str) -> None:
    """CFL-5: names, defaults and new columns are those of now, for every verb."""
    made = tablefmt.create(uri, "a INT, b INT")
    stale = tablefmt.spark.open(spark, uri)
    swap_a_and_b(made)
    made.alter.add_column("c", "INT")
    made.alter.set_default("c", 7)
    frame = spark.sql("SELECT 1 AS a, 2 AS b")
    stale.append(frame)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [{"b": 2, "a": 1, "c": 7}]
    swap_a_and_b(made)
    stale.overwrite(frame)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [{"a": 1, "b": 2, "c": 7}]
    swap_a_and_b(made)
    stale.update({"a": "a + 10"}, "b = 1")
    assert tablefmt.open(uri).to_arrow().to_pylist() == [{"b": 1, "a": 12, "c": 7}]


def test_a_change_of_names_while_tasks_write_is_concurrent(
    spark: Any, uri: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFL-5: the read version of an append is known, so it fails.

    It rebases onto a change that it fits.
    """
    made = tablefmt.create(uri, "a INT, b INT")
    frame = spark.sql("SELECT 1 AS a, 2 AS b")
    kind = {"native": NativeBackend, "arrow": ArrowBackend}[backend]
    inner = kind.write_rows  # type: ignore[attr-defined]
    changes = [swap_a_and_b, lambda table: table.alter.add_column("c", "INT")]

    def produce(*arguments: Any) -> Any:
        found = inner(*arguments)
        changes.pop(0)(made)
        return found

    monkeypatch.setattr(kind, "write_rows", produce)
    with pytest.raises(MetadataChangedException, match="renamed"):
        tablefmt.spark.write(frame, uri)
    assert tablefmt.open(uri).scan().count() == 0
    commit_result = tablefmt.spark.write(frame, uri)
    assert commit_result.rebased_over == (made.version,)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [{"b": 2, "a": 1, "c": None}]
