"""Equal column expressions have equal text, even if they were built separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import IdempotenceError
from tablefmt.spark.columns.row_conditions import text_of


@pytest.fixture
def table(spark: Any, uri: str) -> Any:
    tablefmt.create(uri, "id BIGINT, b BINARY, a ARRAY<INT>, n INT, s STRING").append(
        {"id": [1, 2], "b": [b"\0z", b"q"], "a": [[1], [2]], "n": [1, 1], "s": ["a", "b"]}
    )
    return tablefmt.spark.open(spark, uri)


def columns() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return by name a condition, and another one with a difference that text may hide."""
    from pyspark.sql import functions as F

    def longer(kept: str) -> Any:
        return F.udf(lambda text: text > kept, "boolean")

    return {
        "bytes": (lambda: F.col("b") == b"\0z", lambda: F.col("b") == b"\0y"),
        "bytearrays in a list": (
            lambda: F.col("b").isin([bytearray(b"a"), b"\0z"]),
            lambda: F.col("b").isin([b"a", b"\0x"]),
        ),
        "a lambda": (
            lambda: F.exists("a", lambda each: each == F.col("n")),
            lambda: F.exists("a", lambda each: each == F.col("id")),
        ),
        "lambdas in lambdas": (
            lambda: F.exists("a", lambda i: F.exists("a", lambda j: (i == j) & (i == 1))),
            lambda: F.exists("a", lambda i: F.exists("a", lambda j: (i == j) & (j == 1))),
        ),
        "a function of Python": (lambda: longer("a")("s"), lambda: longer("a")("id")),
    }


NAMES = [
    "bytes",
    "bytearrays in a list",
    "a lambda",
    "lambdas in lambdas",
    "a function of Python",
]


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_retry_is_known_and_another_condition_is_too(table: Any, name: str) -> None:
    """Columns as a condition and as a new value. Each change is applied once."""
    from pyspark.sql import functions as F

    same, other = columns()[name]
    first = table.delete(same(), txnAppId="delete", txnVersion=1)
    again = table.delete(same(), txnAppId="delete", txnVersion=1)
    assert (again.already_applied, again.version) == (True, first.version)
    with pytest.raises(IdempotenceError):
        table.delete(other(), txnAppId="delete", txnVersion=1)

    def value(condition: Callable[[], Any]) -> Any:
        return F.when(condition(), 7).otherwise(8)

    table.update({"n": value(same)}, "id = 2", txnAppId="update", txnVersion=1)
    again = table.update({"n": value(same)}, "id = 2", txnAppId="update", txnVersion=1)
    assert again.already_applied
    with pytest.raises(IdempotenceError):
        table.update({"n": value(other)}, "id = 2", txnAppId="update", txnVersion=1)
    assert table.table.refresh().version == first.version + 1


def test_history_says_what_the_condition_was(spark: Any, table: Any) -> None:
    """The text does not show where Python or Java kept the value."""
    from pyspark.sql import functions as F

    table.delete((F.col("b") == b"\0z") & F.exists("a", lambda each: each > 0))
    (row,) = tablefmt.open(table.table.uri).history(1).to_pylist()
    said = dict(row["operationParameters"])["predicate"]
    assert "X'007A'" in said
    assert "<x1>" in said
    assert "Column" not in said


def test_a_column_that_is_called_as_a_variable_is_kept(spark: Any) -> None:
    """Only what is no column of the table is a variable."""
    from pyspark.sql import functions as F

    kept = text_of(F.transform("a", lambda each: each + F.col("y_7")), ["a", "y_7"])
    assert kept == "transform(a, <x1> -> +(<x1>, y_7))"
    assert text_of(F.col("x_1") > 1, []) == ">(x_1, 1)"
