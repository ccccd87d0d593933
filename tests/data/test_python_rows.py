"""Dicts of columns, lists of dicts and frames as rows: what pyarrow makes of them, where it makes
no mistake; and an error that names the column, where it would.
"""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal as D
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.data.input_data import python_table
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.schema import Schema
from tablefmt.testing.random_conditions import schemas, to_array, values
from tests.scheduling import without_address

_numbers = itertools.count()
UTC = dt.timezone.utc

DDL = """id INT, s STRING, f FLOAT, g DOUBLE, d DATE, ts TIMESTAMP, n TIMESTAMP_NTZ,
dec DECIMAL(9, 2), x BINARY, b BOOLEAN, st STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>,
l ARRAY<DATE>"""


def made(ddl: str = DDL) -> tablefmt.Table:
    return tablefmt.create(f"memory://python-rows-{next(_numbers)}", ddl)


def appended(data: Any, ddl: str = DDL, **how: Any) -> list[dict[str, Any]]:
    """The rows that are in a table after it, without what is NULL."""
    table = made(ddl)
    table.append(data, **how)
    rows = table.to_arrow().to_pylist()
    return [{name: v for name, v in row.items() if v is not None} for row in rows]


MORNING = dt.datetime(2020, 1, 1, 5)

TAKEN: list[tuple[Any, Any]] = [
    ([{"id": 1}, {"s": "x", "id": 2}, {}], [{"id": 1}, {"id": 2, "s": "x"}, {}]),
    ([{}, {}], [{}, {}]),
    ([{"ID": 1}], [{"id": 1}]),
    ({"id": [1, 2], "s": ["a", None]}, [{"id": 1, "s": "a"}, {"id": 2}]),
    ({"id": range(2)}, [{"id": 0}, {"id": 1}]),
    ({"id": (1,), "g": (2,)}, [{"id": 1, "g": 2.0}]),
    ({"id": np.array([1]), "g": pd.Series([2]), "s": polars.Series(["x"])},
     [{"id": 1, "g": 2.0, "s": "x"}]),
    ({"id": pa.array([1]), "s": pa.chunked_array([["x"]])}, [{"id": 1, "s": "x"}]),
    ({"s": np.array(["a", None], dtype=object)}, [{"s": "a"}, {}]),
    ([{"id": 1.0}], [{"id": 1}]),
    ([{"id": np.int8(3), "g": np.float32(1.5)}], [{"id": 3, "g": 1.5}]),
    ([{"f": 0.1, "g": 0.1}], [{"f": float(np.float32(0.1)), "g": 0.1}]),
    ([{"dec": 1}, {"dec": D("1.5")}],
     [{"dec": D("1.00")}, {"dec": D("1.50")}]),
    ([{"d": MORNING.date()}], [{"d": MORNING.date()}]),
    ([{"ts": MORNING}, {"ts": MORNING.replace(tzinfo=UTC)}],
     [{"ts": MORNING.replace(tzinfo=UTC)}] * 2),
    ([{"n": MORNING}, {"n": pd.Timestamp(MORNING)}], [{"n": MORNING}] * 2),
    ([{"x": b"\xff", "b": True}], [{"x": b"\xff", "b": True}]),
    ([{"st": {"a": 1}}, {"st": {"b": "x"}}],
     [{"st": {"a": 1, "b": None}}, {"st": {"a": None, "b": "x"}}]),
    ([{"st": {"A": 2}}], [{"st": {"a": 2, "b": None}}]),
    ([{"dec": 2.25}], [{"dec": D("2.25")}]),
    ([{"m": {"k": 1}}, {"m": [("k", 2)]}], [{"m": [("k", 1)]}, {"m": [("k", 2)]}]),
    ([{"l": [MORNING.date(), None]}, {"l": []}], [{"l": [MORNING.date(), None]}, {"l": []}]),
    (polars.DataFrame({"id": [1], "s": ["x"]}), [{"id": 1, "s": "x"}]),
    (polars.LazyFrame({"id": [1], "s": ["x"]}), [{"id": 1, "s": "x"}]),
    (pa.record_batch({"id": [1]}), [{"id": 1}]),
    (pa.array([{"id": 1}, {"id": 2}]), [{"id": 1}, {"id": 2}]),
    (pa.chunked_array([pa.array([{"id": 1}])]), [{"id": 1}]),
    (pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int8()}),
                                       [pa.record_batch({"id": pa.array([1], pa.int8())})]),
     [{"id": 1}]),
    (pd.DataFrame({"id": [1, 2, 3]}).query("id > 1"), [{"id": 2}, {"id": 3}]),
    (pd.DataFrame({"id": [1], "s": ["a"]}).set_index("id"), [{"id": 1, "s": "a"}]),
    (pd.DataFrame({"id": [1], "s": ["a"], "g": [.5]}).set_index(["id", "s"]),
     [{"id": 1, "s": "a", "g": .5}]),
    (pd.DataFrame({"id": [1], "s": ["a"]}).set_index("id", drop=False), [{"id": 1, "s": "a"}]),
    (pd.DataFrame({"id": [1]}, index=["x"]), [{"id": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "rows"), TAKEN, ids=without_address)
def test_rows_become_the_tables_types(data: Any, rows: Any) -> None:
    assert appended(data) == rows


def test_a_relation_of_duckdb_is_rows() -> None:
    assert appended(duckdb.sql("SELECT 1 AS id, 'x' AS s")) == [{"id": 1, "s": "x"}]


REFUSED: list[tuple[Any, str]] = [
    ([{"zz": 1}], "columns that the table lacks: 'zz'"),
    ([{"zz": None}], "columns that the table lacks: 'zz'"),
    ([{"id": 1}, {"ID": 2}], "differ only in case"),
    ([1], "row 0 of the list: expected a dict by column name, got int"),
    ([{"id": 1}, (2,)], "row 1 of the list: expected a dict by column name, got tuple"),
    ([{1: 2}], "expected text"),
    ({1: [2]}, "expected text"),
    ({"id": [1], "s": ["a", "b"]}, "different lengths: 'id' 1, 's' 2"),
    ({"id": 1}, "column 'id': expected a list or an array, got int"),
    ({"s": "ab"}, "column 's': expected a list or an array, got str"),
    ([{"id": 1.5}], "does not fit int32 without loss"),
    ([{"id": 2**40}], "does not fit int32 without loss"),
    ([{"id": 2**70}], "the values of column 'id'"),
    ([{"id": True}], "column 'id': the table has integer, the data has boolean"),
    ([{"id": "1"}], "column 'id': the table has integer, the data has string"),
    ([{"id": 1}, {"id": "1"}], "the values of column 'id' have no common type"),
    ([{"s": 1}], "column 's': the table has string, the data has long"),
    ([{"s": b"a"}], "column 's': the table has string, the data has binary"),
    ([{"s": "a"}, {"s": b"a"}], "column 's' mixes text and bytes"),
    ([{"x": "a"}], "column 'x': the table has binary, the data has string"),
    ([{"f": 1e300}], "does not fit float without loss"),
    ([{"b": 1}], "column 'b': the table has boolean, the data has long"),
    ([{"d": MORNING}], "column 'd': the table has date, the data has timestamp_ntz"),
    ([{"d": MORNING.date()}, {"d": MORNING}], "column 'd' mixes a date and a time without a zone"),
    ([{"d": 1}], "column 'd': the table has date, the data has long"),
    ([{"ts": 1}], "column 'ts': the table has timestamp, the data has long"),
    ([{"n": MORNING.replace(tzinfo=UTC)}], "the table has timestamp_ntz, the data has timestamp"),
    ([{"n": MORNING}, {"n": MORNING.replace(tzinfo=UTC)}], "Convert all values to one kind"),
    ([{"n": pd.Timestamp(1)}], "microsecond precision"),
    ([{"ts": pd.Timestamp(1, tz="UTC")}], "microsecond precision"),
    ([{"dec": D("1.234")}], "does not fit decimal128(9, 2) without loss"),
    ([{"dec": D("NaN")}], "the values of column 'dec'"),
    ([{"st": {"a": 1, "zz": 2}}], "has fields in the data that the table lacks: ['zz']"),
    ([{"st": {"a": 1.5}}], "does not fit struct"),
    ([{"st": (1, "x")}], "column 'st'"),
    ([{"l": "ab"}], "column 'l'"),
    ([{"l": [MORNING]}], "column 'l.element': the table has date"),
    (pa.array([{"id": 1}, None]), "cannot read the"),
    (pa.array([1]), "cannot read the"),
    (iter([{"id": 1}]), "expected tabular data"),
    ("id", "expected tabular data"),
    (None, "expected tabular data"),
    (pd.DataFrame({"g": [0.5]}, index=pd.Index([7], name="zz")), "the table lacks: 'zz'"),
]


@pytest.mark.parametrize(("data", "text"), REFUSED, ids=without_address)
def test_what_would_be_changed_or_lost_is_refused(data: Any, text: str) -> None:
    table = made()
    with pytest.raises(SchemaMismatchError) as caught:
        table.append(data)
    assert text in str(caught.value)
    assert (table.refresh().version, table.count()) == (0, 0)


@pytest.mark.parametrize("data", [[], {}, (), {"id": []}], ids=str)
def test_no_rows_make_no_version(data: Any) -> None:
    """A NOT NULL column makes no difference, because no row lacks it."""
    table = made("id INT NOT NULL")
    assert table.append(data).no_op
    assert table.overwrite(data).no_op


def test_a_key_that_is_missing_is_the_default_or_null() -> None:
    """None is NULL; and NOT NULL columns are asked for."""
    table = made("a INT, b INT")
    table.alter.add_column("c", "STRING", default="z")
    table.append([{"a": 1}, {"a": 2, "c": None}, {"a": 3, "c": "y"}])
    table.append([{"a": 4}])
    assert [row["c"] for row in table.to_arrow().to_pylist()] == ["z", None, "y", "z"]

    needed = made("a INT, b INT NOT NULL")
    with pytest.raises(SchemaMismatchError, match="NOT NULL: 'b'"):
        needed.append([{"a": 1}])
    with pytest.raises(ConstraintViolationError, match="'b' is NOT NULL"):
        needed.append([{"a": 1, "b": 1}, {"a": 2}])


def test_other_columns_with_other_verbs() -> None:
    """merge_schema widens for what does not fit; overwrite_schema takes what the rows have."""
    table = made("a INT")
    table.append([{"a": 1, "new": 1.5}], merge_schema=True)
    table.append([{"a": 2}, {"a": 2**40}], merge_schema=True)
    assert table.schema == pa.schema({"a": pa.int64(), "new": pa.float64()})

    table.overwrite([{"q": 1}, {"q": 2}], overwrite_schema=True)
    merge = table.merge([{"q": 2, "w": "x"}, {"q": 5, "w": "y"}], "t.q = s.q")
    merge = merge.when_matched_update({"q": "s.q * 10"}).when_not_matched_insert({"q": "s.q"})
    merge.execute()
    with table.transaction() as txn:
        txn.append([{"q": 6}]).append({"q": [7], "r": ["x"]}, merge_schema=True)
        txn.append([{"r": "y"}])
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["q"] or 99)
    assert rows == [
        {"q": 1, "r": None}, {"q": 5, "r": None}, {"q": 6, "r": None}, {"q": 7, "r": "x"},
        {"q": 20, "r": None}, {"q": None, "r": "y"},
    ]  # fmt: skip


def test_rows_are_applied_once_by_their_content() -> None:
    """CFL-7: the digest is of the values in the table's types."""
    table = made("a INT")
    assert not table.append([{"a": 1}], application=("p", 1)).already_applied
    assert table.append({"a": [1]}, application=("p", 1)).already_applied
    assert table.append(pa.table({"a": [1]}), application=("p", 1)).already_applied
    with pytest.raises(tablefmt.errors.IdempotenceError):
        table.append([{"a": 2}], application=("p", 1))


def test_rows_are_typed_anew_under_a_newer_schema() -> None:
    """CFL-5: a handle that does not know of a widened column writes values of the new type."""
    table = made("a INT")
    stale = tablefmt.open(table.uri)
    table.alter.widen_column("a", "BIGINT")
    stale.append([{"a": 2**40}])
    assert stale.to_arrow().to_pylist() == [{"a": 2**40}]


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    """Rows of Python values, as Arrow itself gives them for columns of a schema."""
    schema = draw(schemas())

    def as_python(kind: Any) -> Any:
        def convert(value: Any) -> Any:
            try:
                return to_array([value], kind)[0].as_py()
            except (ValueError, OverflowError):
                return None

        return convert

    row = st.fixed_dictionaries(
        {},
        optional={f.name: st.none() | values(f.type).map(as_python(f.type)) for f in schema.fields},
    )
    return schema, draw(st.lists(row, max_size=6))


@given(typed_rows())
def test_values_of_the_columns_are_what_pyarrow_makes_of_them(case: Any) -> None:
    """The result equals `from_pylist` with a schema of all keys."""
    schema, rows = case
    names = list(dict.fromkeys(name for row in rows for name in row))
    expected = pa.Table.from_pylist(rows, to_arrow(schema)) if rows else None

    table = python_table(rows, schema)

    assert table.num_rows == len(rows)
    assert expected is None or table.column_names == names
    if expected is not None:
        for name in names:
            # NaN is not equal to itself.
            assert table.schema.field(name).type == expected.schema.field(name).type
            assert repr(table[name].to_pylist()) == repr(expected[name].to_pylist())
