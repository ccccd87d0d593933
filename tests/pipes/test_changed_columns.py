"""Pipes with keys from sources whose columns change: the target equals the source, or an error."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
from tablefmt.errors import SchemaMismatchError
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import behind, memory, rows_by_id

Row = dict[str, Any]


def source(columns: str = "id BIGINT, v STRING, w STRING") -> Table:
    table = tablefmt.create(memory().uri, columns)
    names = table.schema.names[1:]
    table.append([{"id": n, **{name: f"{name}{n}" for name in names}} for n in (1, 2, 3)])
    return table


def target_of(table: Table, **how: Any) -> Table:
    """Return the target of a first run."""
    there = memory().uri
    tablefmt.pipe(table, **how).into(there, keys="id")
    return tablefmt.open(there)


def dropped_and_added(here: Table, there: Table) -> None:
    here.alter.drop_column("v")
    here.alter.add_column("v", "STRING")


def added_with_a_value(here: Table, there: Table) -> None:
    here.alter.add_column("n", "STRING", default="x")
    there.alter.add_column("n", "STRING")


def swapped(here: Table, there: Table) -> None:
    for old, new in (("v", "spare"), ("w", "v"), ("spare", "w")):
        here.alter.rename_column(old, new)


def renamed_and_replaced(here: Table, there: Table) -> None:
    here.alter.rename_column("v", "n")
    here.alter.add_column("v", "STRING")
    there.alter.add_column("n", "STRING")


def brought_back(here: Table, there: Table) -> None:
    version = here.refresh().version
    here.alter.drop_column("v")
    tablefmt.pipe(here).into(there, keys="id")
    there.alter.drop_column("v")
    there.alter.add_column("v", "STRING")
    here.restore(version=version)


def left_over(here: Table, there: Table) -> None:
    here.alter.drop_column("v")
    tablefmt.pipe(here).into(there, keys="id")
    here.alter.add_column("v", "STRING")


CASES: list[Callable[[Table, Table], None]] = [
    dropped_and_added,
    added_with_a_value,
    swapped,
    renamed_and_replaced,
    brought_back,
    left_over,
]


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_target_is_the_source_whatever_names_stand_for(
    case: Callable[[Table, Table], None], touched: bool
) -> None:
    """PIP-5: this holds also for rows that no commit of the source changed."""
    here = source()
    there = target_of(here)
    case(here, there)
    if touched:
        here.refresh().delete("id = 1")
        here.update({"w": "'new'"}, "id = 2")
        here.append({"id": [9]})
    run = tablefmt.pipe(here).into(there, keys="id")
    assert rows_by_id(there, here.refresh().schema.names) == rows_by_id(here)
    assert run.rows == (4 if touched else 3)
    assert tablefmt.pipe(here).into(there, keys="id").commit.no_op


def test_parts_of_structs_are_columns_too() -> None:
    """PIP-5."""
    here = tablefmt.create(
        memory().uri, "id BIGINT, s STRUCT<a: INT, b: ARRAY<STRUCT<c: INT, d: INT>>>"
    )
    here.append({"id": [1], "s": [{"a": 1, "b": [{"c": 2, "d": 3}]}]})
    there = target_of(here)
    for part in ("s.a", "s.b.element.c"):
        here.alter.drop_column(part)
        here.alter.add_column(part, "INT")
        run = tablefmt.pipe(here).into(there, keys="id")
        assert run.rows == 1
    assert here.refresh().to_arrow().to_pylist() == [
        {"id": 1, "s": {"b": [{"d": 3, "c": None}], "a": None}}
    ]
    assert there.refresh().to_arrow().to_pylist() == [
        {"id": 1, "s": {"a": None, "b": [{"c": None, "d": 3}]}}
    ]


@pytest.mark.parametrize("keys", [None, "id"])
def test_a_field_that_was_dropped_and_came_back_is_no_obstacle(keys: str | None) -> None:
    """PIP-4, INC-4: a pipe asks for rows of the two ends, and goes on."""
    here = tablefmt.create(memory().uri, "id BIGINT, s STRUCT<a: INT, b: INT>")
    here.append({"id": [1, 2], "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
    there = memory().uri
    tablefmt.pipe(here).into(there, keys=keys)
    here.alter.drop_column("s.b")
    here.restore(version=1)
    here.append({"id": [3], "s": [{"a": 5, "b": 6}]})
    run = tablefmt.pipe(here).into(there, keys=keys)
    assert run.rows == 1
    assert rows_by_id(tablefmt.open(there)) == rows_by_id(here)


def test_columns_that_were_widened() -> None:
    """PIP-5, SCH-9: rows of before come in the types of the end, and conditions are of those."""
    columns = "id BIGINT, p INT, v STRING"
    here = tablefmt.create(memory().uri, columns, partition_by=["v"])
    here.append({"id": [1, 2, 3, 4], "p": [1, 2, 2, None], "v": ["a", "b", "c", "d"]})
    there = target_of(here, where="p < 5")
    for table in (here, there):
        table.alter.widen_column("p", "BIGINT")
    here.alter.add_column("n", "STRING", default="x")
    there.alter.add_column("n", "STRING")
    here.refresh().append({"id": [5], "p": [2**40]})
    here.update({"p": f"{2**41}"}, "id = 2")
    tablefmt.pipe(here, where="p < 5").into(there, keys="id")
    assert rows_by_id(there) == [
        {"id": 1, "p": 1, "v": "a", "n": "x"},
        {"id": 3, "p": 2, "v": "c", "n": "x"},
    ]


CUT: list[tuple[str, str, Any, Any]] = [
    ("INT", "DOUBLE", 2.0, 0.5),
    ("INT", "BIGINT", 2, 2**40),
    ("DECIMAL(10, 1)", "DECIMAL(12, 3)", Decimal("2.500"), Decimal("2.505")),
    ("DATE", "TIMESTAMP_NTZ", datetime(2020, 1, 2), datetime(2020, 1, 2, 3)),
]
"""A type, a wider one, a value that both hold, and one that the first does not hold."""


@pytest.mark.parametrize(
    ("keys", "kind", "wider", "exact", "value"),
    # Without keys, no time goes into a date.
    [*((None, *case) for case in CUT[:3]), *(("id", *case) for case in CUT)],
)
def test_a_value_that_the_target_does_not_hold_is_refused(
    keys: str | None, kind: str, wider: str, exact: Any, value: Any
) -> None:
    """PIP-5, SCH-5: a MERGE alone would cut it to the column's type (SQL-3)."""
    here = tablefmt.create(memory().uri, f"id BIGINT, v {kind}")
    tablefmt.pipe(here).into(uri := memory().uri, keys=keys)
    here.alter.widen_column("v", wider)
    here.append([{"id": 1, "v": exact}])
    tablefmt.pipe(here).into(uri, keys=keys)
    copied = tablefmt.open(uri).to_arrow()["v"].cast(here.to_arrow()["v"].type)
    assert copied.to_pylist() == [exact]
    version = tablefmt.open(uri).version
    here.append([{"id": 2, "v": value}])
    with pytest.raises(SchemaMismatchError, match="'v'"):
        tablefmt.pipe(here).into(uri, keys=keys)
    assert tablefmt.open(uri).version == version
    tablefmt.open(uri).alter.widen_column("v", wider)
    tablefmt.pipe(here).into(uri, keys=keys)
    assert rows_by_id(tablefmt.open(uri)) == rows_by_id(here)


def test_what_changes_no_value_reads_no_more_than_before() -> None:
    """PIP-5: a name that is new on both sides, or was changed on both; a type that was widened."""
    here = source()
    there = target_of(here)
    here.alter.add_column("empty", "STRING")
    there.alter.add_column("EMPTY", "STRING")
    for table in (here, there):
        table.alter.rename_column("v", "x")
        table.alter.rename_column("w", "v")
        table.alter.rename_column("id", "key")
        table.alter.rename_column("key", "Id")
    here.append({"Id": [9]})
    one, two = CountingStore(here.context.store), CountingStore(there.context.store)
    old = there.refresh().scan().files()["path"].to_pylist()
    run = tablefmt.pipe(behind(here, one)).into(behind(there, two), keys="iD")
    assert run.rows == 1
    data = [[r for r in each.requests if r[1].startswith("data/")] for each in (one, two)]
    files = here.refresh().scan().files()
    newest = files.filter(pc.equal(files["rows"], 1))["path"].to_pylist()
    assert sorted({key for _, key in data[0]}) == newest
    assert [verb for verb, _ in data[1] if verb == "put"] == ["put"]
    assert not {key for _, key in data[1]}.intersection(old)
    names = ["Id", "x", "v"]
    both = [sorted(t.refresh().to_arrow(columns=names).to_pylist(), key=str) for t in (here, there)]
    assert both[0] == both[1]
    assert [row["Id"] for row in both[0]] == [1, 2, 3, 9]


@pytest.mark.parametrize("case", [dropped_and_added, swapped, renamed_and_replaced])
@pytest.mark.parametrize(
    "how",
    [{"where": "v <> 'v2'"}, {"transform": lambda piece: piece}, {}],
    ids=["condition", "function", "key"],
)
def test_where_the_keys_of_before_are_not_known_it_is_refused(
    how: dict[str, Any], case: Callable[[Table, Table], None]
) -> None:
    """PIP-5: a row cannot be deleted if its key column is another column now."""
    here, keys = source(), "id" if how else "v"
    there = memory().uri
    tablefmt.pipe(here, **how).into(there, keys=keys)
    target = tablefmt.open(there)
    before = rows_by_id(target)
    case(here, target)
    version = target.refresh().version
    with pytest.raises(SchemaMismatchError, match="another name") as caught:
        tablefmt.pipe(here, **how).into(there, keys=keys)
    assert "v" in caught.value.columns
    assert target.refresh().version == version
    assert rows_by_id(target, ["id", "v", "w"]) == before


def test_with_a_value_that_all_rows_get_conditions_and_functions_go_on() -> None:
    """PIP-5: rows that leave go, rows that stay have the value."""
    here = source()

    def chosen(piece: pa.Table) -> pa.Table:
        return piece.select([n for n in piece.column_names if n != "w"])

    there = target_of(here, where="id < 3", transform=chosen)
    added_with_a_value(here, there)
    here.refresh().delete("id = 1")
    tablefmt.pipe(here, where="id < 3", transform=chosen).into(there, keys="id")
    assert rows_by_id(there) == [{"id": 2, "v": "v2", "n": "x"}]


def test_rows_of_others_stay() -> None:
    """PIP-5: only rows that the source had are deleted."""
    here = source()
    there = target_of(here)
    there.append({"id": [50], "v": ["other"], "w": ["other"]})
    dropped_and_added(here, there)
    here.delete("id = 2")
    tablefmt.pipe(here).into(there, keys="id")
    other = {"id": 50, "v": "other", "w": "other"}
    assert rows_by_id(there) == [*rows_by_id(here), other]


def changed(here: Table, there: Table, chance: random.Random, fresh: Any) -> None:
    """A commit of the source; some that alter it have one of the target."""
    names = here.refresh().schema.names[1:]
    free = [name for name in "abcd" if name not in names]
    kind = chance.randrange(10)
    number = next(fresh)
    if kind < 3:
        here.append([{"id": number, **{name: f"{name}{number}" for name in names}}])
    elif kind == 3 and names:
        here.update({chance.choice(names): f"'u{number}'"}, f"id % 3 = {chance.randrange(3)}")
    elif kind == 4:
        here.delete(f"id % 4 = {chance.randrange(4)}")
    elif kind == 5 and names:
        here.alter.drop_column(chance.choice(names))
    elif kind == 6 and free:
        default = chance.choice([None, f"d{number}"])
        here.alter.add_column(chance.choice(free), "STRING", default=default)
    elif kind == 7 and names and free:
        old, new = chance.choice(names), chance.choice(free)
        here.alter.rename_column(old, new)
        known = there.refresh().schema.names
        if chance.random() < 0.5 and old in known and new not in known:
            there.alter.rename_column(old, new)
    elif kind == 8:
        here.restore(version=chance.randrange(max(1, here.version - 6), here.version + 1))
    elif kind == 9:
        here.compact()


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(n, marks=pytest.mark.soak) for n in range(10, 150))]
)
def test_random_histories_of_columns(seed: int) -> None:
    """PIP-5: after every run the target has the rows of the source, in the source's columns."""
    chance, fresh = random.Random(seed), itertools.count(10)
    here = source("id BIGINT, a STRING, b STRING")
    there = target_of(here)
    for _ in range(8):
        for _ in range(chance.randrange(1, 5)):
            changed(here, there, chance, fresh)
        known = there.refresh().schema.names
        for name in here.refresh().schema.names:
            if name not in known:
                there.alter.add_column(name, "STRING")
        tablefmt.pipe(here).into(there, keys="id")
        assert rows_by_id(there, here.schema.names) == rows_by_id(here)
