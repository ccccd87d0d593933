"""Rows of a file are compared with the log's bounds, counts and partition. Spec: VAL-3, ADD-1."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.data.bound_checks import BoundCheck
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, Primitive, Schema, Transform

SCHEMA = Schema(
    (
        Field(1, "i", "c1", Primitive("integer")),
        Field(2, "s", "c2", Primitive("string")),
        Field(3, "d", "c3", Primitive("double")),
        Field(4, "t", "c4", Primitive("timestamp_ntz")),
    ),
    5,
)
NAN = float("nan")
FILE: dict[str, Any] = {
    "rows": 4, "lower.1": -2, "upper.1": 7, "nulls.1": 1, "lower.2": "b", "upper.2": "k",
    "nulls.2": 0, "lower.3": -1.0, "upper.3": 2.5, "nulls.3": 0, "nans.3": 2,
}  # fmt: skip
BATCHES = (
    {"c1": [7, None], "c2": ["b", "k"], "c3": [NAN, -1.0]},
    {"c1": [-2, 0], "c2": ["c", "d"], "c3": [2.5, NAN]},
)


def kind_of(name: str) -> pa.DataType:
    side, _, number = name.partition(".")
    if side in ("lower", "upper", "partition"):
        return arrow_type(SCHEMA.fields[int(number) - 1].type)
    return pa.int64()


def log_of(values: dict[str, Any]) -> pa.Table:
    """The one line that the log has of a file."""
    return pa.table({name: pa.array([value], kind_of(name)) for name, value in values.items()})


def said(values: dict[str, Any], batches: Any = BATCHES) -> str:
    """Return the problem that a check finds in all rows."""
    check = BoundCheck(log_of(values), SCHEMA)
    for batch in batches:
        check.see(pa.RecordBatch.from_pydict(dict(batch)))
    found = check.finish()
    assert found == check.problem
    return found


def test_true_bounds_and_counts_have_no_problem() -> None:
    """VAL-3: values at the bounds, counts over several batches, and columns without bounds."""
    assert said(FILE) == ""
    for name in FILE.keys() - {"rows"}:
        assert said({n: v for n, v in FILE.items() if n != name}) == "", name
        assert said(FILE | {name: None}) == "", name
    assert said({"rows": 4}) == ""


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        ({"lower.1": -1}, "it has a value of 'i' below the lower bound in the log"),
        ({"upper.1": 6}, "it has a value of 'i' above the upper bound in the log"),
        ({"lower.2": "bb"}, "it has a value of 's' below the lower bound in the log"),
        ({"upper.2": "jz"}, "it has a value of 's' above the upper bound in the log"),
        ({"lower.3": -0.5}, "it has a value of 'd' below the lower bound in the log"),
        ({"upper.3": 2.25}, "it has a value of 'd' above the upper bound in the log"),
        ({"nulls.1": 0}, "1 of its values of 'i' are NULL, but the log says 0"),
        ({"nulls.1": 4}, "1 of its values of 'i' are NULL, but the log says 4"),
        ({"nulls.2": 1}, "0 of its values of 's' are NULL, but the log says 1"),
        ({"nans.3": 0}, "2 of its values of 'd' are NaN, but the log says 0"),
        ({"nans.3": 4}, "2 of its values of 'd' are NaN, but the log says 4"),
        ({"lower.1": 0, "nulls.1": 0}, "it has a value of 'i' below the lower bound in the log"),
        ({"nulls.1": 0, "nans.3": 0}, "1 of its values of 'i' are NULL, but the log says 0"),
    ],
)
def test_the_first_contradiction_is_named(lie: dict[str, Any], expected: str) -> None:
    """VAL-3, ADD-1: also if the other bound of the column is not known."""
    assert said(FILE | lie) == expected
    (name, *_), one_side = lie, dict(FILE)
    for side, other in (("lower", "upper"), ("upper", "lower")):
        if name.startswith(side):
            one_side.pop(name.replace(side, other))
    assert said(one_side | lie) == expected


def test_a_column_may_have_a_count_alone() -> None:
    """ADD-1: NULL is not NaN, also in a batch of NULLs alone."""
    assert said({"rows": 4, "nans.3": 0}) == "2 of its values of 'd' are NaN, but the log says 0"
    assert said({"rows": 4, "nulls.1": 0}) == "1 of its values of 'i' are NULL, but the log says 0"
    nulls = [{"c3": pa.nulls(2, pa.float64())}, {"c3": [NAN]}]
    assert said({"rows": 3, "nans.3": 1, "nulls.3": 2}, nulls) == ""


@pytest.mark.parametrize(
    "ignored",
    [{"lower.1": 8, "upper.1": 7}, {"nulls.1": 5}, {"nulls.1": -1}, {"nans.3": 5}, {"nans.3": -1}],
)
def test_what_readers_ignore_is_no_contradiction(ignored: dict[str, Any]) -> None:
    """PRN-6: bounds that cross, and counts that cannot be."""
    assert said(FILE | ignored) == ""


def test_equal_bounds_are_no_crossed_bounds() -> None:
    """PRN-6: one value for all rows; another value contradicts it."""
    known = {"rows": 2, "lower.1": 3, "upper.1": 3}
    assert said(known, [{"c1": [3, 3]}]) == ""
    assert "above the upper bound" in said(known, [{"c1": [3, 4]}])


def test_a_column_that_the_file_lacks_hides_no_other() -> None:
    """VAL-3: its counts are not compared either."""
    assert said(FILE, [{"c3": [NAN, 1.0, 2.0, NAN]}]) == ""
    wrong = [{"c3": [NAN, 3.0]}, {"c3": [0.0, NAN]}]
    assert said(FILE, wrong) == "it has a value of 'd' above the upper bound in the log"


def test_values_of_another_type_are_compared_in_the_tables() -> None:
    """VAL-3: narrower integers, nanoseconds; a type that cannot be compared proves nothing."""
    assert (
        said({"rows": 2, "lower.1": 1, "upper.1": 5}, [{"c1": pa.array([1, 5], pa.int8())}]) == ""
    )
    short = [{"c1": pa.array([0, 5], pa.int8())}]
    assert "below the lower bound" in said({"rows": 2, "lower.1": 1, "upper.1": 5}, short)
    moment = datetime.datetime(2026, 1, 1, microsecond=7)
    nanos = pa.array([1_767_225_600_000_007_999], pa.timestamp("ns"))
    assert said({"rows": 1, "lower.4": moment, "upper.4": moment}, [{"c4": nanos}]) == ""
    later = moment + datetime.timedelta(microseconds=1)
    assert "below" in said({"rows": 1, "lower.4": later}, [{"c4": nanos}])
    assert said({"rows": 1, "lower.1": 1, "nulls.1": 1}, [{"c1": pa.array(["x"])}]) == ""


def test_a_contradiction_stays_the_first_one() -> None:
    """VAL-3: rows that come later change nothing."""
    check = BoundCheck(log_of(FILE), SCHEMA)
    check.see(pa.RecordBatch.from_pydict({"c1": [8], "c2": ["z"], "c3": [9.0]}))
    check.see(pa.RecordBatch.from_pydict({"c1": [-9], "c2": ["a"], "c3": [-9.0]}))
    assert check.finish() == "it has a value of 'i' above the upper bound in the log"


HIDDEN = replace(
    SCHEMA,
    hidden=(Field(9, "t_month", "h9", Primitive("integer"), transform=Transform("months", 4)),),
)
JANUARY, MARCH = datetime.datetime(2026, 1, 31), datetime.datetime(2026, 3, 1)


@pytest.mark.parametrize(
    ("month", "values", "expected"),
    [
        (672, [JANUARY, JANUARY], ""),
        (672, [JANUARY, MARCH], "months(t) is 672 in the log"),
        (672, [MARCH, JANUARY], "months(t) is 672 in the log"),
        (672, [JANUARY, None], "months(t) is 672 in the log"),
        (None, [None, None], ""),
        (None, [None, JANUARY], "months(t) is None in the log"),
        (672, [], ""),
    ],
)
def test_each_row_is_in_its_hidden_partition(
    month: int | None, values: list[Any], expected: str
) -> None:
    """HID-3: the transform of each row is the value in the log."""
    known = pa.table({"rows": [4], "partition.9": pa.array([month], pa.int32())})
    check = BoundCheck(known, HIDDEN)
    check.see(pa.RecordBatch.from_pydict({"c4": pa.array(values, pa.timestamp("us"))}))
    if expected:
        expected = f"it has a row of another partition: {expected} (HID-3)"
    assert check.finish() == expected


def test_rows_whose_partition_cannot_be_computed_prove_nothing() -> None:
    """HID-3: a file without the column, and values of another type."""
    known = pa.table({"rows": [4], "partition.9": pa.array([672], pa.int32())})
    for batch in ({"c1": [1]}, {"c4": ["no time"]}):
        check = BoundCheck(known, HIDDEN)
        check.see(pa.RecordBatch.from_pydict(batch))
        assert check.finish() == ""
    assert not BoundCheck(log_of({"rows": 4}), HIDDEN).finish()
