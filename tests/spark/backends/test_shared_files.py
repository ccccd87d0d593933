"""Files out of which several commits took rows: scanned once, each row known by its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.native import native_backend as native_changes
from tests.spark.looking import rows_of

ENDS = [0, 1, 62, 63, 64, 65, 126, 127, 128, 191]
"""Positions at the ends of the words that tell rows apart, and of the file."""


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "_commit_version = 4": lambda r: r["_commit_version"] == 4,
    "_change_type = 'delete' AND v > 2": lambda r: r["_change_type"] == "delete" and r["v"] > 2,
    "id >= 62 AND id < 66": lambda r: 62 <= r["id"] < 66,
    "p = 'a' AND _commit_version > 4": lambda r: r["p"] == "a" and r["_commit_version"] > 4,
    "_commit_timestamp IS NULL": lambda _: False,
}


def changed(uri: str) -> tablefmt.Table:
    """Two files of 192 and of 64 rows; two updates and two deletes that touch both."""
    table = tablefmt.create(uri, "id BIGINT, p STRING, v INT", partition_by=["p"])
    for p, first, count in (("a", 0, 192), ("b\t", 1000, 64)):
        ids = list(range(first, first + count))
        table.append(pa.table({"id": ids, "p": [p] * count, "v": [i % 7 for i in ids]}))
    for ids in (ENDS[:3], ENDS[3:6]):
        table.update(
            {"v": "-v"}, f"id IN ({', '.join(map(str, [*ids, *(1000 + i for i in ids)]))})"
        )
    table.delete(f"id IN ({', '.join(map(str, ENDS[6:]))}, 1063)")
    table.delete("id % 5 = 2")
    return table


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("backend", "limits"),
    [
        ("native", {}),
        ("native", {"DELETED_TASK_BYTES": 0}),
        ("native", {"SHARED_ROWS": 0}),
        ("arrow", {}),
    ],
    ids=["", "broadcast", "apart", "arrow"],
)
def test_rows_of_one_file_go_to_the_commits_that_took_them(
    spark: Any,
    uri: str,
    backend: str,
    limits: dict[str, int],
    use_backend: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """INC-3, INC-5: each commit has its deletions, under any condition, in ANSI mode or not."""
    use_backend(backend)
    for name, value in limits.items():
        monkeypatch.setattr(native_changes, name, value)
    table = changed(uri)
    wanted = table.changes(after_version=2).to_arrow()
    frame = tablefmt.spark.open(spark, uri).changes(after_version=2)
    assert rows_of(frame, wanted.schema) == rows_of(wanted)
    if backend == "native":
        # Two files in four and three commits, or in one scan; those that updates made, as they
        # came, and three out of which a later delete took rows.
        assert planned_files(frame) == (7 if "SHARED_ROWS" in limits else 2) + 4 + 3
    for where, test in CONDITIONS.items():
        rows = [tuple(row.items()) for row in wanted.to_pylist() if test(row)]
        chosen = rows_of(frame.where(where), wanted.schema)
        assert chosen == sorted(map(repr, rows)), where


def planned_files(frame: Any) -> int:
    """Return the number of files of all scans of a query."""
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    scans = (leaves.apply(at).selectedPartitions() for at in range(leaves.size()))
    return sum(int(scan.totalNumberOfFiles()) for scan in scans)
