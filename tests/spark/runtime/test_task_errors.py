"""Errors of the tree that functions of users raise in Spark's workers."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
from tablefmt.errors import ConcurrentAppendException

CONFLICT = {
    "winner_version": 7,
    "winner_operation": "DELETE",
    "rule": "CFL-9",
    "evidence": {"files": ["a.parquet"]},
    "advice": "Read again.",
}


def test_a_task_returns_an_error_with_its_fields(spark: Any) -> None:
    """A function that catches an error gives it to the driver as a value."""

    def attempt(_: int) -> Exception:
        try:
            raise ConcurrentAppendException("a reason", **CONFLICT)  # type: ignore[arg-type]
        except tablefmt.errors.TablefmtError as error:
            return error

    wanted = ConcurrentAppendException("a reason", **CONFLICT)  # type: ignore[arg-type]
    [error] = spark.sparkContext.parallelize([1], 1).map(attempt).collect()
    assert (type(error), str(error)) == (ConcurrentAppendException, str(wanted))
    assert vars(error) == vars(wanted)


def test_a_udf_that_fails_names_the_error(spark: Any) -> None:
    """Spark carries the text of what its worker raised, and the name of its class."""
    from pyspark.sql.functions import udf

    opened = udf(lambda _: tablefmt.open("memory://no-such-table").version, "int")
    with pytest.raises(Exception, match=r"TableNotFoundError: no table at memory://no-such-table"):
        spark.range(1).select(opened("id")).collect()
