"""Batches that may follow the last one of a table. Without Spark."""

from __future__ import annotations

import pytest

from tablefmt.errors import ConcurrentTransactionException, TableReplacedError
from tablefmt.spark.streams.stream_sink import Applied, Batch, check_follows

HERE, OTHER = "a" * 32, "b" * 32


def follows(number: int, last: int | None, begun: str | None = HERE) -> None:
    """Batch `number`, of a table that knows batches up to `last`, in version 7."""
    batch = Batch(number=number, query="q", run="r")
    known = None if last is None else Applied(number=last, version=7)
    check_follows("memory://t", batch, known, HERE, begun)


@pytest.mark.parametrize(("number", "last"), [(0, None), (0, 0), (1, 0), (5, 5), (6, 5)])
def test_the_next_one_and_the_last_one_again(number: int, last: int | None) -> None:
    """STR-14."""
    follows(number, last)
    follows(number, last, begun=None)


@pytest.mark.parametrize(("number", "last"), [(1, None), (2, 0), (7, 5)])
def test_none_that_leaves_one_out(number: int, last: int | None) -> None:
    """STR-14: rows of a batch would be missing."""
    with pytest.raises(TableReplacedError, match=f"batch {number} is to be written"):
        follows(number, last)


@pytest.mark.parametrize(("number", "last"), [(0, 1), (4, 5), (0, 50)])
def test_none_before_the_last(number: int, last: int) -> None:
    """STR-14: a new checkpoint with an old id would skip all its rows."""
    with pytest.raises(ConcurrentTransactionException, match="a new txnAppId") as caught:
        follows(number, last)
    assert caught.value.winner_version == 7


def test_none_into_another_table() -> None:
    """STR-14: the one that the query found was dropped."""
    with pytest.raises(TableReplacedError, match="was replaced after"):
        follows(6, 5, begun=OTHER)
