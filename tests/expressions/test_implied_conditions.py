"""Conditions on generated columns that follow from their sources: true of each row, and pruning."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import ConcurrentAppendException
from tablefmt.expressions import implied_conditions
from tablefmt.expressions.generated_columns import generated_columns
from tablefmt.expressions.implied_conditions import implied
from tablefmt.expressions.predicate import (
    Comparison,
    In,
    IsNull,
    all_of,
    any_of,
    to_arrow_expression,
    to_sql,
)
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.log_entry import PredicateScope
from tablefmt.operations.create import create, definition
from tablefmt.table import Table
from tests.scheduling import examples
from tests.tables import handle, memory

UTC = dt.timezone.utc
DDL = (
    "ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, s STRING, i INT, l BIGINT, "
    "same STRING GENERATED ALWAYS AS (s), day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), "
    "day_n DATE GENERATED ALWAYS AS (to_date(n)), day_d DATE GENERATED ALWAYS AS (date(d)), "
    "year_t INT GENERATED ALWAYS AS (year(ts)), year_d BIGINT GENERATED ALWAYS AS (year(d)), "
    "start STRING GENERATED ALWAYS AS (substring(s, 1, 2)), "
    "first STRING GENERATED ALWAYS AS (left(s, 1)), "
    "tens BIGINT GENERATED ALWAYS AS (i DIV 10), sevens BIGINT GENERATED ALWAYS AS (l DIV 7)"
)
METADATA = definition(DDL, (), {})
FIELDS = {field.name: field for field in METADATA.schema.fields}


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (
            "ts >= '2026-01-05 12:00:00'",
            "`ts` >= TIMESTAMP '2026-01-05 12:00:00.000000Z' AND `day` >= DATE '2026-01-05' "
            "AND `year_t` >= 2026",
        ),
        ("i < 25", "`i` < 25 AND `tens` <= 2"),
        ("i > -25 OR l = 6", "(`i` > -25 AND `tens` >= -2) OR (`l` = 6 AND `sevens` = 0)"),
        ("NOT (i >= 30)", "`i` < 30 AND `tens` <= 3"),
        ("l IN (6, 7, 8, NULL)", "`l` IN (6, 7, 8, NULL) AND `sevens` IN (0, 1)"),
        ("d IS NULL", "`d` IS NULL AND `day_d` IS NULL AND `year_d` IS NULL"),
        ("i <=> 25", "`i` <=> 25 AND `tens` = 2"),
        ("i != 25", "`i` != 25"),
        ("i NOT IN (25)", "NOT (`i` IN (25))"),
        ("i IS NOT NULL", "NOT (`i` IS NULL)"),
        ("s LIKE 'ab%'", "`s` LIKE 'ab%'"),
        ("day = '2026-01-05'", "`day` = DATE '2026-01-05'"),
        ("TRUE", "TRUE"),
    ],
)
def test_what_follows_is_added_beside_each_leaf(condition: str, wanted: str) -> None:
    """GEN-6"""
    found = to_sql(implied(parse_predicate(condition, METADATA.schema), METADATA))
    assert found.replace("(", "").replace(")", "") == wanted.replace("(", "").replace(")", "")


@pytest.mark.parametrize(
    "expression",
    [
        "s STRING, g INT GENERATED ALWAYS AS (length(s))",
        "s STRING, g DATE GENERATED ALWAYS AS (CAST(s AS DATE))",
        "s STRING, g STRING GENERATED ALWAYS AS (substring(s, 2, 3))",
        "s STRING, g STRING GENERATED ALWAYS AS (substring(s, 1))",
        "s STRING, n INT, g STRING GENERATED ALWAYS AS (left(s, n))",
        "s STRING, g STRING GENERATED ALWAYS AS (upper(s))",
        "s INT, g INT GENERATED ALWAYS AS (s % 10)",
        "s INT, g BIGINT GENERATED ALWAYS AS (s DIV -10)",
        "s INT, g BIGINT GENERATED ALWAYS AS (s DIV 0)",
        "s INT, g BIGINT GENERATED ALWAYS AS (100 DIV s)",
        "s DATE, g INT GENERATED ALWAYS AS (month(s))",
        "s INT, n INT, g INT GENERATED ALWAYS AS (s + n)",
        "s STRUCT<t: DATE>, g INT GENERATED ALWAYS AS (year(s.t))",
        "s INT, g INT GENERATED ALWAYS AS (1)",
        "s TIMESTAMP, g INT GENERATED ALWAYS AS (hour(s))",
    ],
)
def test_nothing_follows_from_other_expressions(expression: str) -> None:
    """GEN-6: the same object comes back."""
    metadata = definition(expression, (), {})
    predicate = parse_predicate("s IS NULL", metadata.schema)
    assert implied(predicate, metadata) is predicate


def test_each_expression_of_the_table_is_tested_here() -> None:
    rules = [
        rule
        for column in generated_columns(METADATA)
        for rule in implied_conditions._rule(column, METADATA)
    ]
    assert [rule.column.name for rule in rules] == [
        *("same", "day", "day_n", "day_d", "year_t", "year_d"),
        *("start", "first", "tens", "sevens"),
    ]


MICROS = st.one_of(
    st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    st.integers(-3, 3).map(lambda day: day * 86_400_000_000),
    st.integers(-200_000_000_000, 200_000_000_000),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "ts": MICROS,
    "n": MICROS,
    "d": st.one_of(st.integers(-719_162, 2_932_896), st.integers(-400, 400)),
    "s": st.text("aAb\u00e9\uffff\U0001f600", max_size=3),
    "i": st.one_of(st.integers(-25, 25), st.integers(-(1 << 31), (1 << 31) - 1)),
    "l": st.one_of(st.integers(-25, 25), st.integers(-(1 << 63), (1 << 63) - 1)),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | some for name, some in VALUES.items()}),
    min_size=1,
    max_size=8,
)
LEAVES = st.one_of(
    *(
        st.tuples(st.just(name), st.sampled_from(("=", "<=>", "<", "<=", ">", ">=", "!=")), some)
        for name, some in VALUES.items()
    ),
    *(
        st.tuples(st.just(name), st.just("IN"), st.tuples(some, some))
        for name, some in VALUES.items()
    ),
    *(st.tuples(st.just(name), st.just("IS NULL"), st.none()) for name in VALUES),
)
TREES = st.recursive(
    LEAVES.map(lambda leaf: _leaf(*leaf)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: all_of(two)),
        st.tuples(inner, inner).map(lambda two: any_of(two)),
    ),
    max_leaves=3,
)


def _leaf(name: str, op: str, value: Any) -> Any:
    field = FIELDS[name]
    if op == "IS NULL":
        return IsNull(field)
    if op == "IN":
        return In(field, value)
    return Comparison(field, op, value)


@pytest.mark.slow
@examples(20)
@given(rows=ROWS, predicate=TREES)
def test_it_selects_the_same_rows_that_writers_make(rows: list[Any], predicate: Any) -> None:
    """GEN-6: rows as written; values near midnight, before 1970, any text."""
    columns = {}
    for name in VALUES:
        kind = arrow_type(FIELDS[name].type)
        plain = {"ts": pa.int64(), "n": pa.int64(), "d": pa.int32()}.get(name, kind)
        columns[name] = pa.array([row[name] for row in rows], plain).cast(kind)
    table = Table(create(memory(), DDL))
    table.append(pa.table(columns))
    written = table.to_arrow()
    more = implied(predicate, METADATA)
    wanted, found = (
        written.filter(to_arrow_expression(each, METADATA.schema)) for each in (predicate, more)
    )
    assert found.equals(wanted)


def partitioned(**properties: str) -> Table:
    """A table by day without bounds: 10 partitions with a file each."""
    ddl = "id BIGINT, ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))"
    properties = {"statsColumns": "id", **properties}
    table = Table(create(memory(), ddl, ["day"], properties))
    times = [dt.datetime(2026, 1, 1 + at, 12, tzinfo=UTC) for at in range(10)]
    table.append({"id": list(range(10)), "ts": times})
    return table


def days_read(table: Table, where: str) -> list[int]:
    files = table.scan(where=where).partitions().to_pylist()
    return sorted(each["partition"]["day"].day for each in files)


def test_a_scan_opens_the_partitions_that_may_match() -> None:
    """GEN-6: without bounds of the source."""
    table = partitioned()
    assert days_read(table, "ts >= '2026-01-08 23:00:00'") == [8, 9, 10]
    assert days_read(table, "ts < '2026-01-03' AND id >= 0") == [1, 2, 3]
    assert days_read(table, "ts = '2026-01-03 12:00:00' OR ts IN ('2026-01-05 00:00:00')") == [3, 5]
    assert days_read(table, "ts IS NULL") == []
    assert len(days_read(table, "ts != '2026-01-03 12:00:00'")) == 10
    assert table.count(where="ts >= '2026-01-08 12:00:00'") == 3
    explained = table.scan(where="ts >= '2026-01-08 23:00:00'")
    assert explained.count() == 2


def test_conflict_rules_see_the_partitions() -> None:
    """GEN-6, CFL-8, CFL-19: other days do not conflict; the scope of the entry is by day."""
    table = partitioned(isolationLevel="Serializable")
    late = table.transaction().delete("ts >= '2026-01-08 00:00:00'")
    other = handle(table.context.store)
    other.append({"id": [50], "ts": [dt.datetime(2026, 1, 2, tzinfo=UTC)]})
    done = late.commit()
    assert done.rebased_over is not None
    scope = table.refresh().context.view.entries_after(done.version - 1)[0].entry.basis.scope
    assert scope == PredicateScope("`day` >= DATE '2026-01-08'")
    late = table.transaction().delete("ts >= '2026-01-05 00:00:00'")
    other.append({"id": [51], "ts": [dt.datetime(2026, 1, 9, tzinfo=UTC)]})
    with pytest.raises(ConcurrentAppendException):
        late.commit()
