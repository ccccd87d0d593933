"""Tables whose partitioning changes: at random, with plain rows beside them, and in fixed steps."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tablefmt
from tablefmt.operations.create import create
from tablefmt.store.object_store import Store
from tablefmt.table import Table

UTC = dt.timezone.utc
COLUMNS = "id BIGINT, region STRING, ts TIMESTAMP, x DOUBLE"
Row = dict[str, Any]
Test = Callable[[Row], bool]

PARTITIONINGS: tuple[list[str], ...] = (
    [],
    ["region"],
    ["region", "days(ts)"],
    ["days(ts)"],
    ["bucket(3, id)"],
    ["bucket(2, id)", "region"],
    ["truncate(1, region)", "x"],
)
DAYS = [dt.datetime(2026, 1, day, 12, tzinfo=UTC) for day in range(1, 5)]
REGIONS = (None, "", "EU", "US", "EUROPA")
NUMBERS = (None, 0.0, 1.5, float("nan"))


def row(number: int, dice: random.Random) -> Row:
    when = dt.datetime(2026, 1, 1 + dice.randrange(4), dice.randrange(24), tzinfo=UTC)
    return {
        "id": number,
        "region": dice.choice(REGIONS),
        "ts": None if dice.random() < 0.1 else when,
        "x": dice.choice(NUMBERS),
    }


def counted(rows: list[Row]) -> Counter[str]:
    """Return how often each row is there. NaN equals NaN."""
    return Counter(
        repr((r["id"], r["region"], r["ts"] and r["ts"].timestamp(), r["x"])) for r in rows
    )


def conditions(dice: random.Random) -> tuple[str, Test]:
    """Return a condition in SQL, and what it selects of plain rows."""
    region, day, number = dice.choice(("EU", "US", "")), dice.randrange(1, 5), dice.randrange(40)
    when = dt.datetime(2026, 1, day, tzinfo=UTC)
    parts: list[tuple[str, Test]] = [
        (f"region = '{region}'", lambda r: r["region"] == region),
        ("region IS NULL", lambda r: r["region"] is None),
        (f"region > '{region}'", lambda r: r["region"] is not None and r["region"] > region),
        (
            f"ts >= TIMESTAMP '2026-01-0{day} 00:00:00+00:00'",
            lambda r: r["ts"] is not None and r["ts"] >= when,
        ),
        ("ts IS NULL", lambda r: r["ts"] is None),
        (f"id = {number}", lambda r: r["id"] == number),
        ("x = 0", lambda r: r["x"] == 0),
        ("isnan(x)", lambda r: r["x"] is not None and r["x"] != r["x"]),
        ("region LIKE 'EU%'", lambda r: r["region"] is not None and r["region"].startswith("EU")),
    ]
    one, other = dice.choice(parts), dice.choice(parts)
    how = dice.choice(("one", "and", "or"))
    if how == "one":
        return one
    if how == "and":
        return f"({one[0]}) AND ({other[0]})", lambda r: one[1](r) and other[1](r)
    return f"({one[0]}) OR ({other[0]})", lambda r: one[1](r) or other[1](r)


def partition_of(names: list[str], each: Row) -> tuple[Any, ...]:
    """Return the current partition of a row, from the definition of the transforms."""
    values: list[Any] = []
    for name in names:
        if name == "days(ts)":
            values.append(None if each["ts"] is None else each["ts"].date())
        elif name.startswith("bucket"):
            from pyiceberg import transforms, types

            count = int(name[len("bucket(")])
            bucket = transforms.BucketTransform(count).transform(types.LongType())
            values.append(bucket(each["id"]))
        elif name.startswith("truncate"):
            values.append(None if each["region"] is None else each["region"][:1])
        else:
            value = each[name]
            values.append("NaN" if value is not None and value != value else value)
    return tuple(values)


class Model:
    """A table, and plain rows that shall equal it."""

    def __init__(self, seed: int, where: str, **properties: str) -> None:
        self.dice = random.Random(seed)
        self.names: list[str] = list(self.dice.choice(PARTITIONINGS))
        self.table = tablefmt.create(where, COLUMNS, partition_by=self.names, properties=properties)
        self.rows: list[Row] = []
        self.next = 0
        self.versions: dict[int, tuple[list[str], list[Row]]] = {0: (self.names, [])}

    def fresh(self, count: int) -> list[Row]:
        made = [row(self.next + at, self.dice) for at in range(count)]
        self.next += count
        return made

    def append(self) -> None:
        rows = self.fresh(self.dice.randrange(1, 9))
        self.table.append(rows)
        self.rows = [*self.rows, *rows]

    def alter(self) -> None:
        names = list(self.dice.choice(PARTITIONINGS))
        self.table.alter.set_partitioning(names)
        if sorted(names) != sorted(self.names):
            self.names = list(self.table.partition_by)
            assert sorted(self.names) == sorted(names)

    def delete(self) -> None:
        where, test = conditions(self.dice)
        self.table.delete(where)
        self.rows = [r for r in self.rows if not test(r)]

    def update(self) -> None:
        where, test = conditions(self.dice)
        self.table.update({"region": "'US'"}, where)
        self.rows = [{**r, "region": "US"} if test(r) else r for r in self.rows]

    def replace(self) -> None:
        where, test = conditions(self.dice)
        rows = [r for r in self.fresh(6) if test(r)]
        self.table.overwrite(pa.Table.from_pylist(rows, self.table.schema), where=where)
        self.rows = [*(r for r in self.rows if not test(r)), *rows]

    def replace_partitions(self) -> None:
        rows = self.fresh(2)
        self.table.overwrite(rows, dynamic_partitions=True)
        gone = {partition_of(self.names, r) for r in rows}
        left = [r for r in self.rows if partition_of(self.names, r) not in gone]
        self.rows = [*(left if self.names else []), *rows]

    def compact(self) -> None:
        self.table.compact(self.dice.choice(("minor", "major")))

    def cluster(self) -> None:
        self.table.cluster("id")

    def repartition(self) -> None:
        self.table.repartition()
        assert not self.table.context.view.head.metadata.is_evolved

    def restore(self) -> None:
        version = self.dice.choice(sorted(self.versions))
        self.table.restore(version=version)
        self.names, self.rows = self.versions[version]

    def checkpoint(self) -> None:
        self.table.checkpoint()
        self.table = tablefmt.open(self.table.uri)

    def clone(self) -> None:
        uri = f"memory://evolved-{uuid.uuid4().hex}"
        self.table.clone(uri, shallow=False)
        assert counted(tablefmt.open(uri).to_arrow().to_pylist()) == counted(self.rows)

    def step(self) -> None:
        actions = (
            [self.append] * 4 + [self.alter] * 3 + [self.delete, self.update, self.replace]
            + [self.replace_partitions] * 2
            + [self.compact, self.cluster, self.repartition, self.restore, self.checkpoint]
            + [self.clone]
        )  # fmt: skip
        self.dice.choice(actions)()
        self.versions[self.table.version] = (self.names, self.rows)

    def check(self) -> None:
        """Compare whole rows, by conditions, at every version, and as changes."""
        assert counted(self.table.to_arrow().to_pylist()) == counted(self.rows)
        assert sorted(self.table.partition_by) == sorted(self.names)
        for _ in range(4):
            where, test = conditions(self.dice)
            found = self.table.to_arrow(where=where).to_pylist()
            assert counted(found) == counted([r for r in self.rows if test(r)]), where
            assert self.table.count(where=where) == len(found), where
        listed = self.table.scan().partitions()
        assert sum(listed["rows"].to_pylist()) == len(self.rows)


def plain(numbers: range, region: str | None = "EU", day: int = 0) -> list[Row]:
    return [{"id": n, "region": region, "ts": DAYS[day], "x": 1.0} for n in numbers]


def evolving(store: Store, **properties: str) -> Table:
    """A table by region, then by region and day, then by day."""
    table = Table(create(store, COLUMNS, partition_by=["region"], properties=properties))
    table.append([*plain(range(3)), *plain(range(3, 6), "US", 1), *plain(range(6, 7), None, 2)])
    table.alter.set_partitioning(["region", "days(ts)"])
    table.append([*plain(range(10, 12)), *plain(range(12, 14), "US", 1)])
    table.delete("id IN (1, 11)")
    table.alter.set_partitioning("days(ts)")
    table.append([*plain(range(20, 22)), *plain(range(22, 24), "US", 1)])
    return table


def later(table: Table) -> Table:
    """Change the table of `evolving` in every way that a copy must follow."""
    table.update({"x": "7"}, "id IN (2, 10, 21)")
    table.delete("id % 4 = 0")
    table.alter.rename_column("region", "area")
    for start in (30, 34):
        table.append([{"id": start + n, "area": "EU", "ts": DAYS[3], "x": 2.0} for n in range(4)])
    table.compact("major")
    table.restore(version=5)
    table.overwrite(plain(range(40, 42), "US", 1), where="region = 'US'")
    table.alter.set_partitioning(["region"])
    table.append(plain(range(50, 52), "FR", 3))
    table.repartition()
    table.alter.set_partitioning([])
    table.append(plain(range(60, 62), "", 0))
    table.alter.set_partitioning(["days(ts)"])
    table.delete("region = ''")
    return table
