"""Ways in which Iceberg's readers find the columns of imported files (IMP-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.imports.column_lookup import column_lookup, holds_only
from tablefmt.model.arrow_types import FIELD_ID
from tablefmt.model.schema import Array, Field, Primitive, Schema, Struct

LONG, TEXT = Primitive("long"), Primitive("string")
SCHEMA = Schema(
    (
        Field(1, "a", "a", LONG),
        Field(2, "s", "s", Struct((Field(3, "x", "x", TEXT),))),
        Field(4, "l", "l", Array(LONG, True, 5)),
    ),
    9,
)


def numbered(name: str, kind: pa.DataType, number: int | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if number is None else {FIELD_ID: str(number)})


def file(
    a: int | None = 1,
    s: int | None = 2,
    x: int | None = 3,
    l: int | None = 4,  # noqa: E741
    e: int | None = 5,
    kind: pa.DataType | None = None,
    more: Sequence[pa.Field] = (),
) -> pa.Schema:
    """Return columns of a file: the ids of `a`, `s`, `s.x`, `l` and its elements."""
    return pa.schema(
        [
            numbered("a", kind or pa.int64(), a),
            numbered("s", pa.struct([numbered("x", pa.string(), x)]), s),
            numbered("l", pa.list_(numbered("element", pa.int64(), e)), l),
            *more,
        ]
    )


BARE: dict[str, Any] = dict.fromkeys("asxle")


@pytest.mark.parametrize(
    ("columns", "names", "known", "expected"),
    [
        (file(), {}, {}, "ids"),
        (file(kind=pa.int32()), {}, {}, "ids"),
        (file(more=[numbered("old", pa.int64(), 7)]), {}, {}, "ids"),
        (file(more=[numbered("later", pa.int64(), 10)]), {}, {}, None),
        (file(more=[numbered("again", pa.int64(), 1)]), {}, {}, None),
        (file(a=2, s=1), {}, {}, None),
        (file(x=6), {}, {}, None),
        (file(e=6), {}, {}, None),
        (file(e=None), {}, {}, None),
        (file(a=None), {}, {}, None),
        (file(**BARE), {}, {}, "names"),
        (file(**BARE, kind=pa.float64()), {}, {}, None),
        (file(**BARE, kind=pa.timestamp("ns")), {}, {}, None),
        (file(**BARE, more=[numbered("old", pa.int64(), None)]), {}, {}, "names"),
        (file(**BARE, more=[numbered("A", pa.int64(), None)]), {1: "A"}, {}, "names"),
        (file(**BARE), {1: None}, {}, None),
        (file(**BARE, more=[numbered("b", pa.int64(), None)]), {}, {1: ["b"]}, None),
        (pa.schema([numbered("a", pa.int64(), None)]), {}, {}, "names"),
    ],
)
def test_the_ways_to_find_columns(
    columns: pa.Schema,
    names: Mapping[int, str | None],
    known: Mapping[int, Sequence[str]],
    expected: str | None,
) -> None:
    assert column_lookup(SCHEMA, columns, names, known) == expected


@pytest.mark.parametrize(
    ("value", "bounds", "expected"),
    [
        (7, {"nulls.1": 0, "lower.1": 7, "upper.1": 7}, True),
        (7, {"nulls.1": 0, "lower.1": 7, "upper.1": 8}, False),
        (7, {"nulls.1": 1, "lower.1": 7, "upper.1": 7}, False),
        (7, {"lower.1": 7, "upper.1": 7}, False),
        (7, {}, False),
        (None, {"nulls.1": 3}, True),
        (None, {"nulls.1": 2, "lower.1": 7, "upper.1": 7}, False),
        (None, {}, False),
    ],
)
def test_a_column_of_one_value(value: Any, bounds: Mapping[str, Any], expected: bool) -> None:
    assert holds_only(value, bounds, SCHEMA.fields[0], 3) is expected


def test_a_float_may_hold_nan_beside_its_bounds() -> None:
    bounds = {"nulls.1": 0, "lower.1": 1.0, "upper.1": 1.0}
    assert not holds_only(1.0, bounds, Field(1, "f", "f", Primitive("double")), 3)
