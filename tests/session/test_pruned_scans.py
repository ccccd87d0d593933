"""Random conditions on whole tables: a scan has the rows that an evaluator finds one by one.

Files are old and new: columns were renamed, widened and added, rows deleted, and partitions hidden.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    to_sql,
)
from tablefmt.model.schema import Field
from tablefmt.operations.create import create
from tablefmt.table import Table
from tablefmt.testing.random_conditions import evaluate
from tests.tables import memory

DDL = """i INT, f FLOAT, d DOUBLE, s STRING, y BINARY, day DATE, ts TIMESTAMP, m DECIMAL(10, 2),
b BOOLEAN"""
FORMER = {"d é`": "d", "s2": "s"}
"""The columns whose values a renamed and an added one have."""
PARTITIONS = [
    [],
    ["s"],
    ["bucket(3, i)"],
    ["days(ts)"],
    ["months(day)", "b"],
    ["truncate(3, s)"],
    ["m"],
]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
NAN, LONG = math.nan, "x" * 40
POOLS: dict[str, list[Any]] = {
    "i": [-(2**31), -7, -1, 0, 1, 2, 3, 100, 2**31 - 1],
    "f": [NAN, -math.inf, -1.5, -0.0, 0.0, 1.0, 3.25, math.inf],
    "d": [NAN, -math.inf, -1.5, -0.0, 0.0, 1.1, 5.0, 1e300, math.inf],
    "s": [
        "",
        "a",
        "ab",
        "abc",
        LONG,
        LONG + "y",
        LONG + "\U0010ffff",
        "\U0010ffff" * 40,
        "a%_\\",
        "é",
    ],
    "y": [b"", b"\0", b"a", b"\xff" * 40, b"x" * 40, b"x" * 40 + b"\1"],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "ts": [EPOCH + dt.timedelta(microseconds=n) for n in (-86_400_000_001, -1, 0, 1, 10**15 + 7)],
    "m": [Decimal("-99999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.10"), Decimal(7)],
    "b": [False, True],
}
PATTERNS = ["%", "a%", "_", "ab%", "%b", LONG + "%", "x" * 31 + "%", "a\\%\\_%", "%\U0010ffff"]
EACH = 100
"""Conditions of a table."""


def stored(value: Any) -> Any:
    """Return a value as conditions hold it."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


def new_rows(chance: random.Random, table: Table) -> pa.Table:
    """Return rows of a few values for each column, so that files differ in their bounds."""
    schema = table.schema
    columns = {}
    count = chance.randint(1, 8)
    for name in schema.names:
        pool = POOLS[FORMER.get(name, name)]
        some = [*chance.sample(pool, min(len(pool), 2)), *[None] * (chance.random() < 0.5)]
        columns[name] = pa.array(
            [chance.choice(some) for _ in range(count)], schema.field(name).type
        )
    return pa.table(columns)


def any_table(chance: random.Random) -> Table:
    """Make a table whose files were written before and after changes of its columns."""
    mode = chance.choice(["merge-on-read", "copy-on-write"])
    context = create(
        memory(), DDL, partition_by=chance.choice(PARTITIONS), properties={"deleteMode": mode}
    )
    table = Table(context)
    for _ in range(chance.randint(1, 3)):
        table.append(new_rows(chance, table))
    hidden = " ".join(context.view.head.metadata.properties) + str(table.partition_by)
    changes: list[Any] = [
        lambda: table.alter.rename_column("d", "d é`"),
        lambda: table.alter.widen_column("f", "DOUBLE"),
        lambda: table.alter.add_column("s2", "STRING", default="'ab'"),
        lambda: table.delete(f"i < {chance.choice(POOLS['i'])}"),
        table.compact,
    ]
    if "i)" not in hidden:
        changes.append(lambda: table.alter.widen_column("i", "BIGINT"))
    for change in chance.sample(changes, chance.randint(0, len(changes))):
        change()
        table.refresh()
        if chance.random() < 0.7:
            table.append(new_rows(chance, table))
    return table.refresh()


def leaf(chance: random.Random, fields: list[Field], known: dict[int, list[Any]]) -> Predicate:
    """Return one comparison, membership, range or check."""
    field = chance.choice(fields)
    values = known[field.id]

    def value() -> Any:
        return chance.choice(values)

    kind = chance.choice(["compare"] * 3 + ["in", "between", "null", "like", "nan"])
    if kind == "in":
        return In(field, tuple(chance.choice([*values, None]) for _ in range(chance.randint(1, 4))))
    if kind == "between":
        return And((Comparison(field, ">=", value()), Comparison(field, "<=", value())))
    if kind == "null":
        return IsNull(field)
    if kind == "like" and str(field.type) == "string":
        return Like(field, chance.choice(PATTERNS))
    if kind == "nan" and str(field.type) in ("float", "double"):
        return IsNaN(field)
    return Comparison(field, chance.choice(("=", "!=", "<", "<=", ">", ">=", "<=>")), value())


def condition(chance: random.Random, fields: list[Field], known: dict[int, list[Any]]) -> Predicate:
    """Return a tree of up to six conditions."""
    parts: list[Predicate] = [leaf(chance, fields, known) for _ in range(chance.randint(1, 6))]
    while len(parts) > 1:
        two = chance.sample(range(len(parts)), 2)
        both = tuple(parts[at] for at in two)
        parts = [part for at, part in enumerate(parts) if at not in two]
        parts.append(And(both) if chance.random() < 0.7 else Or(both))
        if chance.random() < 0.3:
            parts[-1] = Not(parts[-1])
    return parts[0]


def key(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


@pytest.mark.share(67)
@pytest.mark.parametrize("seed", range(200))
def test_a_scan_has_the_rows_of_a_plain_evaluator(seed: int) -> None:
    """PRN-1, PRN-2, HID-2: 20,000 random conditions on 200 tables."""
    chance = random.Random(seed)
    table = any_table(chance)
    fields = list(table.context.view.snapshot().schema.fields)
    rows = table.to_arrow().to_pylist()
    by_id = [{field.id: stored(row[field.name]) for field in fields} for row in rows]
    known = {f.id: list(map(stored, POOLS[FORMER.get(f.name, f.name)])) for f in fields}
    total = len(table.scan().files())
    left_out = 0
    for _ in range(EACH):
        asked = condition(chance, fields, known)
        where = to_sql(asked)
        expected = Counter(
            key(row) for row, own in zip(rows, by_id, strict=True) if evaluate(asked, own) is True
        )
        scan = table.scan(where=where)
        found = Counter(map(key, scan.to_arrow().to_pylist()))
        assert found == expected, f"seed {seed}: {where}"
        left_out += total - len(scan.files())
    assert left_out > 0 or total < 2
