"""Partition transforms have Iceberg's values, and refuse what has none."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import transforms, types

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.partition_transforms import TRANSFORMS, parsed_transform

SCHEMA = schema_from(
    "i INT, l BIGINT, s STRING, b BINARY, c DECIMAL(20,3), d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, "
    "x DOUBLE, flag BOOLEAN, `bucket(4, i)` INT, a STRUCT<y: INT>"
)
ICEBERG = {
    "i": types.IntegerType(),
    "l": types.LongType(),
    "s": types.StringType(),
    "b": types.BinaryType(),
    "c": types.DecimalType(20, 3),
    "d": types.DateType(),
    "t": types.TimestamptzType(),
    "n": types.TimestampType(),
}
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-99, 99),
    "l": st.integers(-(1 << 62), (1 << 62) - 1) | st.integers(-99, 99),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    "b": st.binary(max_size=9),
    "c": st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    "d": st.integers(-719_162, 2_932_896),
    "t": MICROS,
    "n": MICROS,
}
CASES = [
    (f"{kind}({name})" if not rule.takes_number else f"{kind}(7, {name})", kind, name)
    for kind, rule in TRANSFORMS.items()
    for name in VALUES
    if str(SCHEMA.find(name).type).partition("(")[0] in rule.types
]
THEIRS = {
    "years": transforms.YearTransform(),
    "months": transforms.MonthTransform(),
    "days": transforms.DayTransform(),
    "hours": transforms.HourTransform(),
    "bucket": transforms.BucketTransform(7),
    "truncate": transforms.TruncateTransform(7),
}
EPOCH = dt.date(1970, 1, 1)


@pytest.mark.parametrize(("text", "kind", "name"), CASES, ids=[case[0] for case in CASES])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_values_are_icebergs(text: str, kind: str, name: str, data: Any) -> None:
    values = data.draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=6))
    transform = parsed_transform(text, SCHEMA)
    assert transform is not None
    target = arrow_type(transform.column.type)
    plain = {"d": pa.int32(), "t": pa.int64(), "n": pa.int64()}.get(name, target)
    column = pa.concat_arrays([pa.nulls(2, plain), pa.array(values, plain)]).slice(2)
    if kind == "truncate" and name in "i":
        values = [v for v in values if v is None or v > -(1 << 31) + 7]
        column = pa.array(values, plain)
    theirs = THEIRS[kind].transform(ICEBERG[name])
    wanted = [None if v is None else theirs(v) for v in values]
    found = transform.values(column.view(target) if plain != target else column)
    assert found.type == arrow_type(transform.type)
    assert (found.view(pa.int32()) if kind == "days" else found).to_pylist() == wanted


def test_examples_of_icebergs_specification() -> None:
    """The hash of Appendix B, by buckets beyond every value."""
    for text, value, hashed in (
        ("i", 34, 2017239379),
        ("l", 34, 2017239379),
        ("c", Decimal("14.200"), None),
        ("d", dt.date(2017, 11, 16), -653330422),
        ("s", "iceberg", 1210000089),
        ("b", bytes([0, 1, 2, 3]), -188683207),
    ):
        transform = parsed_transform(f"bucket(2147483647, {text})", SCHEMA)
        assert transform is not None
        (found,) = transform.values(
            pa.array([value], arrow_type(transform.column.type))
        ).to_pylist()
        if hashed is not None:
            assert found == (hashed & 0x7FFFFFFF) % 2147483647


@pytest.mark.parametrize(
    ("text", "shown", "iceberg", "name"),
    [
        ("days(t)", "days(t)", "day", "t_day"),
        (" DAY ( `t` ) ", "days(t)", "day", "t_day"),
        ("date(t)", "days(t)", "day", "t_day"),
        ("bucket(16, i)", "bucket(16, i)", "bucket[16]", "i_bucket"),
        ("bucket(i, 16)", "bucket(16, i)", "bucket[16]", "i_bucket"),
        ("truncate(s, 4)", "truncate(4, s)", "truncate[4]", "s_trunc"),
    ],
)
def test_names(text: str, shown: str, iceberg: str, name: str) -> None:
    transform = parsed_transform(text, SCHEMA)
    assert (str(transform), transform and transform.iceberg, transform and transform.name) == (
        shown,
        iceberg,
        name,
    )


def test_a_column_comes_first() -> None:
    assert parsed_transform("s", SCHEMA) is None
    assert parsed_transform("bucket(4, i)", SCHEMA) is None
    assert parsed_transform("nothing", SCHEMA) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("day_of(t)", "no transform 'day_of'"),
        ("days(s)", "days takes date, timestamp, timestamp_ntz, and column 's' is string"),
        ("hours(d)", "column 'd' is date"),
        ("bucket(0, i)", "0 is not a number from 1"),
        ("bucket(-1, i)", "-1 is not a number from 1"),
        ("bucket(99999999999, i)", "is not a number from 1"),
        ("bucket(i)", "expected a number and a column"),
        ("bucket(4)", "expected a number and a column"),
        ("bucket(4, x)", "column 'x' is double"),
        ("truncate(4, flag)", "column 'flag' is boolean"),
        ("days(t, n)", "expected one column"),
        ("days()", "no such column"),
        ("days(nothing)", "no such column"),
        ("days(a.y)", "a.y is inside a column"),
    ],
)
def test_wrong_transforms_are_refused(text: str, words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        parsed_transform(text, SCHEMA)
