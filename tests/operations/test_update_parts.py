"""Parts of structs in SET: beside a model in plain Python, and what is refused by name. SQL-5."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import (
    ConstraintViolationError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.model.log_entry import RowUpdate
from tablefmt.testing import reference_model
from tablefmt.testing.reference_model import Term, When, column, compared, constant
from tests.parts import DDL, Row, whole_columns
from tests.scheduling import examples
from tests.tables import rows_by_id

STRUCT = pa.struct(
    [
        ("a", pa.int32()),
        ("c", pa.struct([("d", pa.string()), ("e", pa.date32())])),
        ("b", pa.string()),
    ]
)
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("s", STRUCT)])

Value = tuple[str, Callable[[Row], Any]]
"""An expression over the old row, and its value."""

NUMBERS: list[Value] = [
    ("NULL", lambda r: None),
    ("v", lambda r: r["v"]),
    ("id + 3.5D", lambda r: int(r["id"] + 3.5)),
    ("s.a", lambda r: None if r["s"] is None else r["s"]["a"]),
]
TEXTS: list[Value] = [
    ("'x'", lambda r: "x"),
    ("concat('v', id)", lambda r: f"v{r['id']}"),
    ("v", lambda r: None if r["v"] is None else str(r["v"])),
    ("s.b", lambda r: None if r["s"] is None else r["s"]["b"]),
]
DAYS: list[Value] = [("DATE'2024-02-29'", lambda r: dt.date(2024, 2, 29))]
INNER: list[Value] = [
    ("NULL", lambda r: None),
    ("s.c", lambda r: None if r["s"] is None else r["s"]["c"]),
]

PARTS: dict[str, tuple[tuple[str, ...], list[Value]]] = {
    "s.a": (("s", "a"), NUMBERS),
    "`s`.B": (("s", "b"), TEXTS),
    "S.c.`d`": (("s", "c", "d"), TEXTS),
    "s.c.e": (("s", "c", "e"), DAYS),
    "s.c": (("s", "c"), INNER),
    "v": (("v",), NUMBERS),
}


@st.composite
def assignments(draw: st.DrawFn) -> dict[str, Value]:
    names = draw(st.sets(st.sampled_from(sorted(PARTS)), min_size=1))
    if "s.c" in names:
        names -= {"S.c.`d`", "s.c.e"}
    return {name: draw(st.sampled_from(PARTS[name][1])) for name in sorted(names)}


inner = st.none() | st.fixed_dictionaries(
    {"d": st.none() | st.just("d"), "e": st.none() | st.just(dt.date(2020, 1, 1))}
)
struct = st.none() | st.fixed_dictionaries(
    {"a": st.none() | st.integers(-5, 5), "c": inner, "b": st.none() | st.just("b")}
)
tables = st.lists(st.tuples(st.none() | st.integers(-9, 9), struct), min_size=4, max_size=8)


def new(ddl: str, rows: list[Row], shape: pa.Schema, **more: Any) -> tablefmt.Table:
    table = tablefmt.create(f"memory://parts/{uuid.uuid4().hex}", ddl, **more)
    table.append(pa.Table.from_pylist(rows, schema=shape))
    return table


def state(rows: list[Row]) -> reference_model.State:
    columns = tuple(reference_model.Column(name, "") for name in COLUMNS.names)
    return reference_model.State(
        columns, tuple(tuple(row[c.name] for c in columns) for row in rows)
    )


def rows_of(outcome: reference_model.Outcome) -> list[Row]:
    rows = map(outcome.state.named, outcome.state.rows)
    return sorted(rows, key=lambda row: row["id"])


def sets(values: dict[str, Value]) -> dict[str, Term]:
    """Return the values of the columns."""
    return whole_columns(
        {
            PARTS[name][0]: Term(text, lambda t, s, of=of: of(t))
            for name, (text, of) in values.items()
        }
    )


@examples(15)
@given(tables, assignments(), st.booleans())
def test_an_update_of_parts_keeps_the_others(
    given_rows: list[tuple[Any, Any]], values: dict[str, Value], every: bool
) -> None:
    """SQL-5: values come from the old row, all at once. A NULL struct becomes one of NULLs."""
    rows = [{"id": at, "v": v, "s": s} for at, (v, s) in enumerate(given_rows)]
    table = new(DDL, rows, COLUMNS)
    where = None if every else "id % 2 = 1"
    table.update({name: text for name, (text, _) in values.items()}, where)
    hit = Term("", lambda t, s: every or t["id"] % 2 == 1)
    assert rows_by_id(table) == rows_of(reference_model.updated(state(rows), sets(values), hit))
    assert table.verify(deep=True).findings == ()


X = column("x", "s")


@pytest.mark.slow
@examples(20)
@given(tables, assignments(), assignments())
def test_a_merge_sets_parts_of_matched_rows_and_of_the_others(
    given_rows: list[tuple[Any, Any]], matched: dict[str, Value], rest: dict[str, Value]
) -> None:
    """SQL-5, MRG-2; names of the table's may have its alias before them."""
    rows = [{"id": at, "v": v, "s": s} for at, (v, s) in enumerate(given_rows)]
    table = new(DDL, rows, COLUMNS)
    source = pa.table({"id": [1, 3, 100], "x": ["one", "three", "new"]})

    def said(values: dict[str, Value]) -> dict[str, str]:
        # Both sides have an id, and the source is called like the column s of the table.
        return {
            f"t.{name}": text.replace("id", "t.id").replace("s.", "t.s.")
            for name, (text, _) in values.items()
        }

    builder = table.merge(source, "t.id = q.id", source_alias="q")
    builder = builder.when_matched_update({"t.s.b": "q.x"}, "t.id = 3")
    builder = builder.when_matched_update(said(matched))
    builder = builder.when_not_matched_insert({"id": "q.id", "s": "NULL"})
    builder.when_not_matched_by_source_update(said(rest)).execute()
    same = compared(column("id"), "=", column("id", "s"))
    whens = [
        When("matched", compared(column("id"), "=", constant(3)), whole_columns({("s", "b"): X})),
        When("matched", None, sets(matched)),
        When("not_matched", None, {"id": column("id", "s"), "s": constant(None)}),
        When("not_matched_by_source", None, sets(rest)),
    ]
    expected = reference_model.merged(state(rows), source.to_pylist(), same, whens)
    assert rows_by_id(table) == rows_of(expected)


ROWS: list[Row] = [
    {"id": 1, "v": 1, "s": {"a": 1, "c": None, "b": "x"}},
    {"id": 2, "v": 2, "s": None},
]


def test_the_conflict_rules_see_the_column_that_a_part_is_of() -> None:
    """ENT-9, CFL-17: field ids in the entry are those of columns."""
    table = new(DDL, ROWS, COLUMNS)
    table.update({"s.c.d": "'x'"}, "id = 1")
    update = table.context.view.entries_after(1)[0].entry.update
    column = table.context.view.head.metadata.schema.find("s")
    assert column is not None
    assert update == RowUpdate((column.id,))


def test_a_column_that_is_called_like_a_path_comes_first() -> None:
    """SQL-5: the path needs backticks then."""
    shape = pa.schema(
        [("id", pa.int64()), ("s.a", pa.int32()), ("s", pa.struct([("a", pa.int32())]))]
    )
    table = new("id BIGINT, `s.a` INT, s STRUCT<a: INT>", [{"id": 1, "s.a": 1, "s": None}], shape)
    table.update({"s.a": "5"})
    assert rows_by_id(table) == [{"id": 1, "s.a": 5, "s": None}]
    table.update({"`s`.`a`": "`s.a` + 1", "`s.a`": "7"})
    assert rows_by_id(table) == [{"id": 1, "s.a": 7, "s": {"a": 6}}]
    with pytest.raises(SchemaMismatchError, match=r"'s\.a' is set twice, as 's\.a' and"):
        table.update({"s.a": "1", "`s.a`": "2"})


def test_an_alias_names_the_table_before_it_names_a_column() -> None:
    """SQL-5: `t.a` resolves as in Spark if there is a column of either kind."""
    shape = pa.schema([("a", pa.int32()), ("t", pa.struct([("a", pa.int32()), ("b", pa.int32())]))])
    table = new("a INT, t STRUCT<a: INT, b: INT>", [{"a": 1, "t": None}], shape)
    source = pa.table({"k": pa.array([1], pa.int32())})
    merge = table.merge(source, "t.a = s.k")
    merge.when_matched_update({"t.a": "10", "t.b": "20", "t.t.a": "30"}).execute()
    assert table.to_arrow().to_pylist() == [{"a": 10, "t": {"a": 30, "b": 20}}]


def test_not_null_holds_inside_a_struct_that_was_null() -> None:
    """DAT-3: a field that was never there has no value to keep."""
    shape = pa.schema(
        [("id", pa.int64()), ("s", pa.struct([("a", pa.int32()), ("b", pa.int32())]))]
    )
    rows = [{"id": 1, "s": {"a": 1, "b": 2}}, {"id": 2, "s": None}]
    table = new("id BIGINT, s STRUCT<a: INT NOT NULL, b: INT>", rows, shape)  # type: ignore[arg-type]
    source = pa.table({"id": [2]})
    for change in (
        lambda: table.update({"s.b": "7"}),
        lambda: table.update({"s.a": "nullif(s.a, 1)"}, "id = 1"),
        lambda: table.merge(source, "t.id = s.id").when_matched_update({"s.b": "1"}).execute(),
    ):
        with pytest.raises(ConstraintViolationError, match=r"s\.a is NOT NULL"):
            change()
    assert rows_by_id(table) == rows
    table.update({"s.b": "7"}, "id = 1")
    table.update({"s.a": "8"}, "id = 2")
    assert rows_by_id(table) == [
        {"id": 1, "s": {"a": 1, "b": 7}},
        {"id": 2, "s": {"a": 8, "b": None}},
    ]


WRONG: list[tuple[dict[str, str], type[TablefmtError], str]] = [
    ({"s.a": "1", "s": "NULL"}, SchemaMismatchError, "'s.a' is set twice"),
    ({"s": "NULL", "s.c.d": "'x'"}, SchemaMismatchError, "'s.c.d' is set twice"),
    ({"s.c.d": "'x'", "s.c": "NULL"}, SchemaMismatchError, "'s.c.d' is set twice"),
    ({"s.a": "1", "S.A": "2"}, SchemaMismatchError, "'s.a' is set twice"),
    ({"s.a": "'x'"}, SchemaMismatchError, "'s.a' of type integer does not accept"),
    ({"s.c": "v"}, SchemaMismatchError, "'s.c': the table has struct"),
    ({"s.q": "1"}, SchemaMismatchError, "'s' has no field 'q'; there are 'a', 'c', 'b'"),
    ({"s.a.x": "1"}, SchemaMismatchError, "'s.a' is integer and has no fields"),
    ({"v.x": "1"}, SchemaMismatchError, "no column 'v.x'"),
    ({"s.": "1"}, SchemaMismatchError, "no column 's.'"),
    ({"s.a": "id * 3000000000"}, SchemaMismatchError, "column 's.a'"),
    ({"l.element.x": "1"}, UnsupportedFeatureError, "inside 'l', which is array"),
    ({"m.value": "1"}, UnsupportedFeatureError, "inside 'm', which is map"),
]


@pytest.mark.parametrize(("values", "error", "said"), WRONG, ids=str)
def test_a_wrong_part_changes_nothing(
    values: dict[str, str], error: type[TablefmtError], said: str
) -> None:
    """SQL-5."""
    ddl = DDL + ", l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>"
    table = new(ddl, ROWS, COLUMNS)
    before = rows_by_id(table)
    with pytest.raises(error, match=said):
        table.update(values)
    merge = table.merge(pa.table({"k": [1]}), "t.id = q.k", source_alias="q")
    with pytest.raises(error, match=said):
        merge.when_matched_update(values).execute()
    assert (rows_by_id(table), table.version) == (before, 1)


def test_an_insert_names_whole_columns() -> None:
    """SQL-5: a part in INSERT is refused, as in Spark."""
    table = new(DDL, ROWS, COLUMNS)
    merge = table.merge(pa.table({"k": [9]}), "t.id = q.k", source_alias="q")
    with pytest.raises(UnsupportedFeatureError, match="INSERT sets only a part of column 's'"):
        merge.when_not_matched_insert({"id": "q.k", "s.a": "1"}).execute()
    assert table.refresh().version == 1


def test_parts_that_come_with_the_source_are_set_in_the_same_merge() -> None:
    """MRG-1, SQL-5: merge_schema makes the field; rows there were have NULL in it."""
    table = new(DDL, ROWS, COLUMNS)
    source = pa.table(
        {"id": [1, 2], "s": [{"n": "n1", "b": "b1"}, {"n": "n2", "b": None}], "w": [0.5, 1.5]}
    )
    merge = table.merge(source, "t.id = q.id", source_alias="q", merge_schema=True)
    merge = merge.when_matched_update_all("q.id > 5")
    merge.when_matched_update({"s.n": "q.s.n", "w": "q.w"}).execute()
    first = {"a": 1, "c": None, "b": "x", "n": "n1"}
    second = {"a": None, "c": None, "b": None, "n": "n2"}
    assert rows_by_id(table) == [
        {"id": 1, "v": 1, "s": first, "w": 0.5},
        {"id": 2, "v": 2, "s": second, "w": 1.5},
    ]
    assert table.version == 2
