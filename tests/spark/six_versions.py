"""One history of a table, which every way of writing makes and every way of reading returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

import tablefmt
import tablefmt.spark

DDL = "id BIGINT, p STRING"

VERSIONS = [
    [],
    [(1, "a"), (2, "b"), (3, "a")],
    [(1, "a"), (3, "a")],
    [(1, "c"), (3, "a")],
    [(1, "c"), (3, "m"), (4, "n")],
    [(7, "z")],
]
"""The rows of each version, by every writer."""

Change = tuple[int, str, str, int]

CHANGES: list[Change] = [
    (1, "a", "insert", 1),
    (2, "b", "insert", 1),
    (3, "a", "insert", 1),
    (2, "b", "delete", 2),
    (1, "a", "update_preimage", 3),
    (1, "c", "update_postimage", 3),
    (3, "a", "update_preimage", 4),
    (3, "m", "update_postimage", 4),
    (4, "n", "insert", 4),
    (1, "c", "delete", 5),
    (3, "m", "delete", 5),
    (4, "n", "delete", 5),
    (7, "z", "insert", 5),
]
"""The changes of each version, without its time."""

FEED = {"readChangeFeed": "true", "startingVersion": "1"}


def rows(*ids_and_names: tuple[int, str]) -> pa.Table:
    ids, names = zip(*ids_and_names, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": list(names)})


def found(frame: Any) -> list[tuple[Any, ...]]:
    columns = [name for name in frame.columns if name != "_commit_timestamp"]
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


def wanted(given: Any) -> list[Any]:
    return sorted(given, key=repr)


def wall(uri: str, version: int, zone: str) -> str:
    """The time of a version by a clock on the wall there."""
    when = tablefmt.open(uri).history()["timestamp"].to_pylist()[::-1][version]
    return str(when.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(" "))


def in_functions(spark: Any, target: str, uri: str) -> Iterator[Callable[[], Any]]:
    def frame(given: list[tuple[int, str]]) -> Any:
        return spark.createDataFrame(given, DDL)

    table = tablefmt.spark.open(spark, target)
    yield lambda: table.append(frame(VERSIONS[1]))
    yield lambda: table.delete("id = 2")
    yield lambda: table.update({"p": "'c'"}, "id = 1")
    merge = table.merge(frame([(3, "m"), (4, "n")]), "t.id = s.id")
    yield lambda: merge.when_matched_update_all().when_not_matched_insert_all().execute()
    yield lambda: table.overwrite(frame(VERSIONS[5]))


def make(uri: str) -> None:
    """Create the table at a path without Spark."""
    table = tablefmt.create(uri, DDL)
    table.append(rows(*VERSIONS[1]))
    table.delete("id = 2")
    table.update({"p": "'c'"}, "id = 1")
    merge = table.merge(rows((3, "m"), (4, "n")), "t.id = s.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.overwrite(rows(*VERSIONS[5]))
