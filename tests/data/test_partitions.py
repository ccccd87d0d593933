"""Partition values of every kind, and overwriting by them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
)
from tests.scheduling import examples

D = decimal.Decimal
UTC = datetime.timezone.utc
_numbers = itertools.count()


def fresh() -> str:
    return f"memory://partitions-{next(_numbers)}"


NASTY = [
    None, "", " ", "/", "%", "%2F", "=", "a=b", "+", "..", ".", "a.", "null", "NULL",
    "__HIVE_DEFAULT_PARTITION__", "\u00e9", "e\u0301", "😀", "\n", "\r\n", "\0",
    "\\", "'", "\"", "a,b",
    "x" * 1_000, "y" * 10_000, "x" * 999 + "z", "\U0010ffff", "A", "a",
]  # fmt: skip

KINDS: dict[str, pa.Array] = {
    "string": pa.array(NASTY, pa.string()),
    "binary": pa.array([None, b"", b"\0", b"\xff\xfe", b"x" * 2_000], pa.binary()),
    "boolean": pa.array([True, False, None]),
    "byte": pa.array([-128, 127, 0, None], pa.int8()),
    "long": pa.array([-(2**63), 2**63 - 1, 0, None]),
    "date": pa.array([-719_162, -1, 0, 2_932_896, None], pa.int32()).view(pa.date32()),
    "timestamp": pa.array([-1, 0, 253_402_300_799_999_999, None], pa.int64()).view(
        pa.timestamp("us", tz="UTC")
    ),
    "timestamp_ntz": pa.array([-62_135_596_800_000_000, 5, None], pa.timestamp("us")),
    "decimal": pa.array([D("0.00"), D("-999.99"), D("0.10"), None], pa.decimal128(5, 2)),
    "wide decimal": pa.array([D("9" * 38), D("-" + "9" * 38), None], pa.decimal128(38, 0)),
    "float": pa.array([0.0, math.inf, -math.inf, math.nan, 1.5, None], pa.float32()),
    "double": pa.array([0.0, math.inf, -math.inf, math.nan, 5e-324, None], pa.float64()),
}


def shown(values: Any) -> list[str]:
    """Values that compare: NaN is one value."""
    return [repr(v) for v in values]


def by_file(table: tablefmt.Table) -> dict[str, int]:
    files = table.scan().files()
    values = [tuple(p.values()) for p in files["partition"].to_pylist()]
    assert len({repr(v) for v in values}) == len(values)
    return {repr(v): n for v, n in zip(values, files["rows"].to_pylist(), strict=True)}


@pytest.mark.parametrize("name", KINDS)
def test_every_partition_value_comes_back_exactly(name: str, tmp_path: Path) -> None:
    """VAL-2, KEY-3, ADD-4: `files`, the rows and a disk have the value, and no name has it."""
    values = KINDS[name]
    twice = pa.concat_arrays([values, values])
    data = pa.table({"p": twice, "v": list(range(len(twice)))})
    for uri in (str(tmp_path / "table"), fresh()):
        tablefmt.create(uri, data.schema, partition_by=["p"]).append(data)
        table = tablefmt.open(uri)
        assert by_file(table) == {repr((v,)): 2 for v in values.to_pylist()}
        assert shown(table.to_arrow().sort_by("v")["p"].to_pylist()) == shown(twice.to_pylist())
    files = [p.name for p in (tmp_path / "table" / "data").rglob("*.parquet")]
    assert sorted(files) == sorted(f"0-{i}.parquet" for i in range(len(values)))


def test_zeros_and_nans_are_one_partition_each() -> None:
    """VAL-2: negative zero is zero; the rows keep their signs."""
    data = pa.table({"p": [0.0, -0.0, math.nan, -math.nan], "v": [1, 2, 3, 4]})
    table = tablefmt.create(fresh(), data.schema, partition_by=["p"])
    table.append(data)
    assert by_file(table) == {"(0.0,)": 2, "(nan,)": 2}
    assert shown(table.to_arrow().sort_by("v")["p"].to_pylist()) == ["0.0", "-0.0", "nan", "nan"]


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "s": (pa.string(), st.none() | st.sampled_from(NASTY[:20]) | st.text(max_size=3)),
    "i": (pa.int64(), st.none() | st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])),
    "f": (pa.float64(), st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1.5])),
    "b": (pa.bool_(), st.none() | st.booleans()),
    "d": (pa.date32(), st.none() | st.dates()),
    "n": (pa.decimal128(6, 2), st.none() | st.decimals(-99, 99, places=2, allow_nan=False)),
    "x": (pa.binary(), st.none() | st.binary(max_size=2)),
}


def canonical(value: Any) -> str:
    return repr(value + 0.0 if isinstance(value, float) else value)


@pytest.mark.slow
@examples(40)
@given(
    st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True),
    st.data(),
)
@example(["s"], None)
def test_files_hold_exactly_the_rows_of_their_partition(columns: list[str], data: Any) -> None:
    """ADD-4, VAL-2: every row is in the file of its partition, for random columns."""
    if data is None:
        rows = [(value,) for value in NASTY]
    else:
        rows = data.draw(st.lists(st.tuples(*(VALUES[c][1] for c in columns)), max_size=25))
    arrays = {c: pa.array([r[i] for r in rows], VALUES[c][0]) for i, c in enumerate(columns)}
    given_ = pa.table({**arrays, "v": pa.array(range(len(rows)), pa.int64())})
    table = tablefmt.create(fresh(), given_.schema, partition_by=columns)
    table.append(given_)
    expected = Counter(tuple(map(canonical, row)) for row in rows)
    files = table.scan().files().to_pylist() if rows else []
    said = {tuple(canonical(f["partition"][c]) for c in columns): f["rows"] for f in files}
    assert said == expected
    assert len(files) == len(expected)
    assert shown(table.to_arrow().sort_by("v").to_pylist()) == shown(given_.to_pylist())


SALES = pa.table(
    {
        "land": ["DE", "DE", "FR", None, "FR"],
        "day": pa.array([1, 2, 1, 1, 2], pa.int32()),
        "v": [1, 2, 3, 4, 5],
    }
)


def sales(**more: Any) -> tablefmt.Table:
    table = tablefmt.create(fresh(), SALES.schema, partition_by=["land", "day"], **more)
    table.append(SALES)
    return table


def new(*rows: tuple[str | None, int, int | None]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SALES.schema, strict=True)]
    return pa.table(arrays, SALES.schema)


def left(table: tablefmt.Table, **at: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["v"], **at)["v"].to_pylist())


OVERWRITES: dict[str, tuple[pa.Table, dict[str, Any], list[int]]] = {
    "whole": (new(("IT", 9, 10)), {}, [10]),
    "whole by nothing": (new(), {}, []),
    "one column": (new(("DE", 9, 10)), {"where": "land = 'DE'"}, [3, 4, 5, 10]),
    "by nothing": (new(), {"where": "land = 'DE'"}, [3, 4, 5]),
    "both columns": (new(("DE", 1, 10)), {"where": "land = 'DE' and day = 1"}, [2, 3, 4, 5, 10]),
    "null": (new((None, 3, 10)), {"where": "land is null"}, [1, 2, 3, 5, 10]),
    "or": (new(), {"where": "land = 'DE' or day = 2"}, [3, 4]),
    "in": (new(), {"where": "LAND in ('DE', 'FR')"}, [4]),
    "not": (new(), {"where": "not (land = 'DE')"}, [1, 2, 4]),
    "nothing there": (new(("IT", 1, 10)), {"where": "land = 'IT'"}, [1, 2, 3, 4, 5, 10]),
    "true": (new(("DE", 1, 10)), {"where": "true"}, [10]),
    "dynamic": (new(("DE", 1, 10), (None, 1, 11)), {"dynamic_partitions": True}, [2, 3, 5, 10, 11]),
    "dynamic new": (new(("IT", 1, 10)), {"dynamic_partitions": True}, [1, 2, 3, 4, 5, 10]),
    "dynamic by nothing": (new(), {"dynamic_partitions": True}, [1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize("name", OVERWRITES)
def test_overwrite_replaces_what_is_in_scope_and_nothing_else(name: str) -> None:
    """CFL-3: the version before keeps its rows."""
    data, how, expected = OVERWRITES[name]
    table = sales()
    commit = table.overwrite(data, **how)
    assert left(table) == expected
    assert left(table, version=1) == [1, 2, 3, 4, 5]
    assert commit.no_op == (name == "dynamic by nothing")
    assert table.version == (1 if commit.no_op else 2)
    if not commit.no_op:
        gone = 5 - len([v for v in expected if v <= 5])
        assert commit.metrics["numDeletedRows"] == gone
        assert commit.metrics["numOutputRows"] == data.num_rows


@pytest.mark.parametrize(
    ("where", "expected"),
    [(None, []), ("day = 1", [2, 5]), ("land <=> null", [1, 2, 3, 5]), ("land = 'XX'", None)],
)
def test_truncate_removes_what_is_in_scope(where: str | None, expected: list[int] | None) -> None:
    """A truncate of nothing makes no version."""
    table = sales()
    commit = table.truncate(where)
    assert commit.no_op == (expected is None)
    assert left(table) == ([1, 2, 3, 4, 5] if expected is None else expected)
    assert left(table, version=1) == [1, 2, 3, 4, 5]


def test_rows_outside_the_condition_are_refused(tmp_path: Path) -> None:
    """NULL is outside too; nothing is written."""
    table = tablefmt.create(tmp_path / "t", SALES.schema, partition_by=["land", "day"])
    table.append(SALES)
    before = sorted((tmp_path / "t").rglob("*.parquet"))
    for row in (("FR", 1, 10), (None, 1, 10)):
        with pytest.raises(ConstraintViolationError, match="1 new rows do not match"):
            table.overwrite(new(("DE", 1, 9), row), where="land = 'DE'")
    assert sorted((tmp_path / "t").rglob("*.parquet")) == before
    assert (left(table), table.refresh().version) == ([1, 2, 3, 4, 5], 1)


@pytest.mark.parametrize(
    ("where", "stay"),
    [
        ("v = 1", [2, 3, 4, 5]),
        ("land = 'DE' AND v > 1", [1, 3, 4, 5]),
        (pc.field("v") == 1, [2, 3, 4, 5]),
        ("v % 2 = 1", [2, 4]),
    ],
    ids=str,
)
def test_rows_that_partition_values_do_not_decide_are_looked_at(
    where: Any, stay: list[int]
) -> None:
    """MRG-6: rows for which the condition is true are deleted, and the class is UPDATE."""
    table = sales()
    expected = [row for row in table.to_arrow().to_pylist() if row["v"] in stay]
    commit = table.truncate(where)
    assert commit.operation == "TRUNCATE"
    assert commit.metrics["numDeletedRows"] == 5 - len(stay)
    assert table.to_arrow().to_pylist() == expected
    assert table.truncate(where).no_op


def test_rows_replaced_by_their_values_have_to_match() -> None:
    """MRG-6: new rows too; a NULL is no match, and nothing is written then."""
    table = sales()
    table.overwrite(new(("IT", 7, 1), ("IT", 8, 1)), where="v + 0 = 1")
    assert left(table) == [1, 1, 2, 3, 4, 5]
    for where, row in (
        ("v = 1", ("IT", 7, 2)),
        ("v + 0 = 1", ("IT", 7, 2)),
        ("v = 1", ("IT", 7, None)),
    ):
        with pytest.raises(ConstraintViolationError, match="at least 1 new rows do not match"):
            table.overwrite(new(("IT", 7, 1), row), where=where)
    assert (left(table), table.refresh().version) == ([1, 1, 2, 3, 4, 5], 2)
    with table.transaction() as txn:
        txn.overwrite(new(("IT", 9, 1)), where="v = 1")
    assert left(table) == [1, 2, 3, 4, 5]


def test_conditions_that_make_no_sense_replace_nothing() -> None:
    """Two scopes at once, and what cannot be parsed."""
    table = sales()
    with pytest.raises(InvalidPredicateError, match="one of them"):
        table.overwrite(new(), where="day = 1", dynamic_partitions=True)
    with pytest.raises(InvalidPredicateError):
        table.overwrite(new(), where="day = = 1")
    assert (left(table), table.refresh().version) == ([1, 2, 3, 4, 5], 1)


def test_an_append_only_table_takes_appends_alone() -> None:
    """appendOnly refuses overwrite and truncate of any scope."""
    table = sales(properties={"appendOnly": "true"})
    for act in (
        lambda: table.overwrite(new(("DE", 1, 9))),
        lambda: table.overwrite(new(("DE", 1, 9)), dynamic_partitions=True),
        lambda: table.overwrite(new(("DE", 1, 9)), where="land = 'DE'"),
        lambda: table.truncate(),
        lambda: table.truncate("day = 1"),
    ):
        with pytest.raises(ConstraintViolationError, match="append-only"):
            act()
    table.append(new(("DE", 1, 9)))
    assert left(table) == [1, 2, 3, 4, 5, 9]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", KINDS)
def test_dynamic_overwrite_finds_partitions_of_every_kind(name: str) -> None:
    """VAL-2, CFL-3: each value replaces its own partition, NULL, NaN and "" included."""
    values = KINDS[name]
    data = pa.table({"p": values, "v": list(range(len(values)))})
    table = tablefmt.create(fresh(), data.schema, partition_by=["p"])
    table.append(data)
    for at in range(len(values)):
        table.overwrite(
            pa.table({"p": values.slice(at, 1), "v": [100 + at]}), dynamic_partitions=True
        )
        kept = [100 + i if i <= at else i for i in range(len(values))]
        assert sorted(table.to_arrow()["v"].to_pylist()) == sorted(kept)
