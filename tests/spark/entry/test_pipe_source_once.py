"""A pipe with keys whose function gives other rows each time, and stored rows that are lost.

The target is what one reading gives. Spec: PIP-5, MRG-3.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitRejectedError
from tablefmt.spark.entry import spark_pipe as pipes
from tablefmt.spark.statements.merge_clauses import merge_of
from tests.spark.looking import everything, strays
from tests.spark.statements.readings import KEYS, Dropping, differing
from tests.tables import sorted_rows


@pytest.fixture
def run(spark: Any, uri: str, tmp_path: Path) -> Callable[[], Any]:
    """A second run: all keys go, and those come that `differing` gives."""
    source = tablefmt.create(f"{uri}-source", "id BIGINT, v STRING")
    source.append({"id": list(range(KEYS)), "v": ["old"] * KEYS})
    tablefmt.spark.pipe(spark, source).into(uri, keys="id")
    source.update({"v": "'new'"})
    asked = []

    def made(rows: Any) -> Any:
        asked.append(rows)
        if len(asked) == 2:
            return rows
        return differing(spark, tmp_path, waits=False).selectExpr("k AS id", "w AS v")

    return lambda: tablefmt.spark.pipe(spark, source, transform=made).into(uri, keys="id")


def test_rows_lost_after_their_keys_were_compared_are_read_again_as_a_whole(
    spark: Any, uri: str, run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has rows of a second reading, and deletes keys that were deleted at the first."""
    dropping, times = Dropping(spark), []

    def dropped(*given: Any) -> Any:
        if not times:
            assert dropping.drop(oldest=True)
        times.append(1)
        return merge_of(*given)

    monkeypatch.setattr(pipes, "merge_of", dropped)
    done = run()
    assert len(times) == 2
    assert sorted_rows(uri, "id", "v") == [
        *((i, "reading 1") for i in range(5, 10)),
        (1000, "reading 0"),
    ]
    assert done.rows == KEYS + 1


@pytest.mark.soak
def test_rows_lost_in_every_attempt_leave_target_and_cursor(
    spark: Any, uri: str, run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    dropping = Dropping(spark)

    def dropped(*given: Any) -> Any:
        assert dropping.drop()
        return merge_of(*given)

    monkeypatch.setattr(pipes, "merge_of", dropped)
    before, version = everything(uri), tablefmt.open(uri).version
    with pytest.raises(CommitRejectedError, match="died in 3 attempts of this pipe"):
        run()
    assert strays(uri, before) == []
    assert tablefmt.open(uri).version == version
