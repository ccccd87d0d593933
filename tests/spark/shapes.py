"""Shapes of plans over tables of every kind, each beside plain Python.

A plan of a table with deleted rows, or of files with other columns, holds more than a plan of plain
files. A shuffle, a sort or a window sends it by another way than a count does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablefmt
import tablefmt.spark

Row = tuple[int, int, int, str]
Rows = dict[int, Row]
"""Rows by id: `id`, `p`, `n`, `s`."""

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("n", pa.int64()), ("s", pa.string())])
LARGE = 5_000_000_000
"""More than an INT holds."""


def made(ids: range, factor: int = 1) -> Rows:
    return {i: (i, i % 3, i * factor % 17 + (factor > 1) * LARGE, f"s{i % 11}") for i in ids}


def arrow(rows: Rows, schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = zip(*rows.values(), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def deleted(uri: str, partition_by: list[str]) -> Rows:
    """Return the rows of a table with deleted rows in two of three files, many and one."""
    table = tablefmt.create(uri, SCHEMA, partition_by=partition_by)
    rows = made(range(90))
    for first in (0, 30, 60):
        table.append(arrow({i: rows[i] for i in range(first, first + 30)}))
    table.delete("id < 60 AND n > 12")
    table.delete("id = 7")
    return {i: row for i, row in rows.items() if not ((i < 60 and row[2] > 12) or i == 7)}


def renamed(uri: str, partition_by: list[str]) -> Rows:
    """Return the rows of files from before and after a column changed, some deleted."""
    narrow = SCHEMA.set(2, pa.field("m", pa.int32()))
    table = tablefmt.create(uri, narrow, partition_by=partition_by)
    old, new = made(range(60)), made(range(60, 90), 3)
    table.append(arrow(old, narrow))
    table.delete("id % 10 = 4")
    table.alter.rename_column("m", "n")
    table.alter.widen_column("n", "bigint")
    table.append(arrow(new))
    table.delete("id = 71")
    return {i: row for i, row in (old | new).items() if i != 71 and (i >= 60 or i % 10 != 4)}


def restored(uri: str, partition_by: list[str]) -> Rows:
    """Return the rows of restored files, with their deleted rows and the columns of that time."""
    rows = deleted(uri, partition_by)
    table = tablefmt.open(uri)
    version = table.version
    table.alter.rename_column("n", "other")
    table.delete("id % 2 = 0")
    table.compact("major")
    table.restore(version=version)
    more = made(range(90, 96))
    table.append(arrow(more))
    return rows | more


HISTORIES: tuple[Callable[[str, list[str]], Rows], ...] = (deleted, renamed, restored)


class World:
    """A table `t`, what it has to hold, and a source `u` of changes."""

    def __init__(self, spark: Any, uri: str, rows: Rows) -> None:
        self.spark = spark
        self.uri = uri
        self.rows = rows
        self.first = tablefmt.open(uri).version
        tablefmt.spark.read(spark, uri).createOrReplaceTempView("shapes_t")

    def query(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def statement(self, text: str) -> None:
        self.spark.sql(text.replace("TARGET", f"tablefmt.`{self.uri}`"))

    def holds(self, expected: Rows) -> None:
        """Compare the whole table."""
        table = tablefmt.open(self.uri).to_arrow().select(SCHEMA.names)
        found = sorted(zip(*table.to_pydict().values(), strict=True))
        assert found == sorted(expected.values())


def groups(rows: Rows) -> dict[int, list[Row]]:
    found = defaultdict(list)
    for row in rows.values():
        found[row[1]].append(row)
    return found


def group_by(world: World) -> None:
    found = world.query(
        "SELECT p, count(*), sum(n), min(s), max(id) FROM shapes_t GROUP BY p ORDER BY p"
    )
    assert found == [
        (p, len(g), sum(r[2] for r in g), min(r[3] for r in g), max(r[0] for r in g))
        for p, g in sorted(groups(world.rows).items())
    ]


def distinct(world: World) -> None:
    found = world.query("SELECT DISTINCT p, s FROM shapes_t")
    assert len(found) == len(set(found))
    assert set(found) == {(row[1], row[3]) for row in world.rows.values()}


def sort(world: World) -> None:
    found = world.query("SELECT id, p, n, s FROM shapes_t ORDER BY s DESC, n, id")
    by_n = sorted(world.rows.values(), key=lambda row: (row[2], row[0]))
    assert found == sorted(by_n, key=lambda row: row[3], reverse=True)


def join(world: World) -> None:
    """Join two scans of the table by a shuffle."""
    found = world.query(
        "SELECT /*+ MERGE(b) */ a.id, b.id FROM shapes_t a JOIN shapes_t b "
        "ON a.n = b.n AND a.s = b.s WHERE a.id <> b.id"
    )
    rows = world.rows.values()
    expected = [(a[0], b[0]) for a in rows for b in rows if a[2:] == b[2:] and a[0] != b[0]]
    assert sorted(found) == sorted(expected)


def window(world: World) -> None:
    found = world.query(
        "SELECT id, row_number() OVER (PARTITION BY p ORDER BY n DESC, id), "
        "sum(n) OVER (PARTITION BY p ORDER BY n DESC, id) FROM shapes_t"
    )
    expected = []
    for group in groups(world.rows).values():
        total = 0
        for place, row in enumerate(sorted(group, key=lambda row: (-row[2], row[0])), 1):
            total += row[2]
            expected.append((row[0], place, total))
    assert sorted(found) == sorted(expected)


def insert(world: World) -> None:
    """Insert aggregates over groups of the table itself."""
    world.statement(
        "INSERT INTO TARGET SELECT 1000 + p, p, sum(n), max(s) FROM shapes_t GROUP BY p"
    )
    added = {
        1000 + p: (1000 + p, p, sum(r[2] for r in group), max(r[3] for r in group))
        for p, group in groups(world.rows).items()
    }
    world.holds(world.rows | added)


def delete(world: World) -> None:
    world.statement("DELETE FROM TARGET WHERE n IN (SELECT max(n) FROM shapes_t GROUP BY p)")
    gone = {max(row[2] for row in group) for group in groups(world.rows).values()}
    world.holds({i: row for i, row in world.rows.items() if row[2] not in gone})


def update(world: World) -> None:
    world.statement("UPDATE TARGET SET n = n + id, s = 'new' WHERE id % 4 = 1")
    world.holds(
        {
            i: (i, p, n + i, "new") if i % 4 == 1 else (i, p, n, s)
            for i, p, n, s in world.rows.values()
        }
    )


def merge(world: World) -> None:
    """Sources are groups of the table: updates, deletes and inserts."""
    world.statement(
        "MERGE INTO TARGET t USING (SELECT s, min(id) AS k, count(*) AS c FROM shapes_t GROUP BY s"
        " UNION ALL SELECT 'more', 2000L, 1L) u ON t.id = u.k "
        "WHEN MATCHED AND t.p = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = u.c "
        "WHEN NOT MATCHED THEN INSERT (id, p, n, s) VALUES (u.k, 9, u.c, u.s)"
    )
    by_text = defaultdict(list)
    for row in world.rows.values():
        by_text[row[3]].append(row[0])
    expected = dict(world.rows)
    for ids in by_text.values():
        i, p, _, s = expected.pop(min(ids))
        if p != 0:
            expected[i] = (i, p, len(ids), s)
    world.holds(expected | {2000: (2000, 9, 1, "more")})


def changes(world: World) -> None:
    """Groups of what an UPDATE and a DELETE changed."""
    table = tablefmt.open(world.uri)
    table.update({"s": "'new'"}, "id % 4 = 1")
    table.delete("id % 9 = 2")
    frame = tablefmt.spark.open(world.spark, world.uri).changes(after_version=world.first)
    found = frame.groupBy("_commit_version", "_change_type", "p").agg({"n": "sum", "s": "max"})
    expected: dict[Any, list[Any]] = defaultdict(lambda: [0, ""])

    def change(version: int, kind: str, p: int, n: int, s: str) -> None:
        entry = expected[(version, kind, p)]
        entry[:] = [entry[0] + n, max(entry[1], s)]

    for i, p, n, s in world.rows.values():
        if i % 4 == 1:
            change(world.first + 1, "update_preimage", p, n, s)
            change(world.first + 1, "update_postimage", p, n, "new")
        if i % 9 == 2:
            change(world.first + 2, "delete", p, n, "new" if i % 4 == 1 else s)
    rows = found.select("_commit_version", "_change_type", "p", "sum(n)", "max(s)").collect()
    assert sorted(map(tuple, rows)) == sorted((*key, *value) for key, value in expected.items())


SHAPES = (group_by, distinct, sort, join, window, insert, delete, update, merge, changes)
