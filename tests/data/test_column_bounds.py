"""Bounds from footers: exact, rounded outwards, or left out."""

from __future__ import annotations

import datetime
import decimal
import io
import math
import pathlib
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.data.column_bounds import (
    SCHEMAS_KEPT,
    FooterBounds,
    _decimal_converter,
    file_bounds,
    nan_counts,
    stats_columns,
    stats_problem,
)
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.schema import (
    PRIMITIVES,
    Array,
    Decimal,
    Field,
    Primitive,
    Schema,
    Struct,
    Type,
    primitive,
)

D = decimal.Decimal


def one(kind: Type, name: str = "c") -> Schema:
    return Schema((Field(7, name, name, kind),), 7)


def bounds(array: pa.Array, kind: Type, *, metadata: dict[bytes, bytes] | None = None, **how: Any):
    """(lower, upper, nulls) of a file with one column called c; absent ones are left out."""
    out = io.BytesIO()
    table = pa.Table.from_arrays(
        [array], schema=pa.schema([pa.field("c", array.type, True, metadata)])
    )
    pq.write_table(table, out, **how)
    schema = one(kind)
    found = file_bounds(pq.ParquetFile(out).metadata, schema.fields)
    orjson.dumps(found)
    several = FooterBounds(schema.fields)
    assert [several.of(pq.ParquetFile(out).metadata) for _ in range(2)] == [found] * 2
    return {name.removesuffix(".7"): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([2**63 - 1, -(2**63), None]), Primitive("long"),
         {"lower": -(2**63), "upper": 2**63 - 1, "nulls": 1}),
        (pa.array([-128, 5], pa.int8()), Primitive("byte"),
         {"lower": -128, "upper": 5, "nulls": 0}),
        (pa.array([-128, 5], pa.int8()), Primitive("long"),
         {"lower": -128, "upper": 5, "nulls": 0}),
        (pa.array([1, 200], pa.int32()), Primitive("byte"), {"nulls": 0}),
        (pa.array([1, 2**32 - 1], pa.uint32()), Primitive("integer"), {"nulls": 0}),
        (pa.array([b"m"]), Primitive("string"), {"nulls": 0}),
        (pa.array(["m"]), Primitive("binary"), {"nulls": 0}),
        (pa.array([b"m"], pa.binary(1)), Primitive("binary"), {"nulls": 0}),
        (pa.array([7], pa.int32()), Primitive("date"), {"nulls": 0}),
        (pa.array([7], pa.int64()), Primitive("boolean"), {"nulls": 0}),
        (pa.array([1.5]), Primitive("float"), {"nulls": 0}),
        (pa.array([True, False]), Primitive("boolean"),
         {"lower": False, "upper": True, "nulls": 0}),
        (pa.array([0.0, -0.0]), Primitive("double"), {"lower": -0.0, "upper": 0.0, "nulls": 0}),
        (pa.array([1.5, math.nan]), Primitive("double"), {"lower": 1.5, "upper": 1.5, "nulls": 0}),
        (pa.array([math.nan]), Primitive("double"), {"nulls": 0}),
        (pa.array([math.inf, -math.inf], pa.float32()), Primitive("float"),
         {"lower": "-Infinity", "upper": "Infinity", "nulls": 0}),
        (pa.array([D("1.50"), D("-2.25")], pa.decimal128(38, 18)), Decimal(38, 18),
         {"lower": "-2.250000000000000000", "upper": "1.500000000000000000", "nulls": 0}),
        (pa.array([D("1.5")], pa.decimal128(4, 1)), Decimal(10, 3),
         {"lower": "1.500", "upper": "1.500", "nulls": 0}),
        (pa.array([D("1.555")], pa.decimal128(4, 3)), Decimal(10, 2), {"nulls": 0}),
        (pa.array([D("99.9"), D("-99.9")], pa.decimal128(4, 1)), Decimal(3, 1),
         {"lower": "-99.9", "upper": "99.9", "nulls": 0}),
        (pa.array([D("100.0")], pa.decimal128(4, 1)), Decimal(3, 1), {"nulls": 0}),
        (pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]), Primitive("date"),
         {"lower": -719162, "upper": 2932896, "nulls": 0}),
        (pa.array([-1, 1], pa.timestamp("us", "UTC")), Primitive("timestamp"),
         {"lower": -1, "upper": 1, "nulls": 0}),
        (pa.array([-1, 1], pa.timestamp("ms")), Primitive("timestamp_ntz"),
         {"lower": -1000, "upper": 1000, "nulls": 0}),
        (pa.array([-1, 1001], pa.timestamp("ns")), Primitive("timestamp_ntz"),
         {"lower": -1, "upper": 2, "nulls": 0}),
        (pa.array([-1_000_000_001, 1_000_000_001], pa.timestamp("ns")),
         Primitive("timestamp_ntz"), {"lower": -1_000_001, "upper": 1_000_001, "nulls": 0}),
        (pa.array(["b", "a" * 40, "b" * 32 + "\U0010ffff"]), Primitive("string"),
         {"lower": "a" * 32, "upper": "b" * 31 + "c", "nulls": 0}),
        (pa.array(["\U0010ffff" * 33]), Primitive("string"),
         {"lower": "\U0010ffff" * 32, "nulls": 0}),
        (pa.array(["a" * 31 + "\ud7ff" * 2]), Primitive("string"),
         {"lower": "a" * 31 + "\ud7ff", "upper": "a" * 31 + "\ue000", "nulls": 0}),
        (pa.array([b"\xff" * 33]), Primitive("binary"), {"lower": "/" * 42 + "8=", "nulls": 0}),
        (pa.array([None, None], pa.string()), Primitive("string"), {"nulls": 2}),
        (pa.array([], pa.int64()), Primitive("long"), {"nulls": 0}),
        (pa.array(["1"]), Primitive("long"), {"nulls": 0}),
    ],
    ids=str,
)  # fmt: skip
def test_bounds_hold_all_values(array: pa.Array, kind: Type, expected: dict[str, Any]) -> None:
    """PRN-12, PRN-13; also with a row group for each row."""
    exact = {key: repr(value) for key, value in expected.items()}

    for how in ({}, {"row_group_size": 1} if len(array) else {}):
        found = bounds(array, kind, **how)  # type: ignore[arg-type]
        if "NaN" in str(array).replace("nan", "NaN") and how:
            exact = {"nulls": "0"}  # the row group of NaN alone has no bounds
        assert {key: repr(value) for key, value in found.items()} == exact


@pytest.mark.parametrize(("value", "known"), [("9.99", True), ("10.00", False)])
def test_a_decimal_beyond_the_columns_type_has_no_bounds(value: str, known: bool) -> None:
    """PRN-12: a file may have more digits than the column."""
    for number in (D(value), -D(value)):
        found = bounds(pa.array([number], pa.decimal128(9, 2)), Decimal(3, 2))
        assert ("lower" in found, "upper" in found, found["nulls"]) == (known, known, 0)


def test_nulls_are_counted_behind_a_row_group_without_bounds() -> None:
    """PRN-12: the first group's bounds do not fit the column's type."""
    array = pa.array([D("10.00"), None, D("1.00")], pa.decimal128(9, 2))
    assert bounds(array, Decimal(3, 2), row_group_size=1) == {"nulls": 1}
    assert bounds(array, Decimal(3, 2), row_group_size=2) == {"nulls": 1}
    array = pa.array([None, D("1.00"), None], pa.decimal128(9, 2))
    found = bounds(array, Decimal(3, 2), row_group_size=1)
    assert found == {"lower": "1.00", "upper": "1.00", "nulls": 2}


@pytest.mark.parametrize("kind", ["float", "double"])
def test_only_zero_has_another_sign(kind: str) -> None:
    """PRN-13: numbers beside zero are bounds as they are."""
    of = {"float": pa.float32(), "double": pa.float64()}[kind]
    for low, high in ((-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (-2.0, -1.0)):
        found = bounds(pa.array([low, high], of), Primitive(kind))
        assert found == {"lower": low, "upper": high, "nulls": 0}


@pytest.mark.parametrize("as_integer", [True, False])
@pytest.mark.parametrize(("precision", "scale"), [(9, 2), (18, 4), (38, 18)])
def test_decimals_of_every_physical_type_are_exact(
    precision: int, scale: int, as_integer: bool
) -> None:
    """PRN-12: INT32, INT64 and FIXED_LEN_BYTE_ARRAY."""
    end = D(10**precision - 1).scaleb(-scale, decimal.Context(prec=50))
    low = end.copy_negate()
    array = pa.array([end, low, D(0)], pa.decimal128(precision, scale))

    found = bounds(array, Decimal(precision, scale), store_decimal_as_integer=as_integer)

    assert found == {"lower": f"{low:f}", "upper": f"{end:f}", "nulls": 0}


@pytest.mark.parametrize(("raw", "value"), [(b"\xff\x85", "-1.23"), (b"\x7b", "1.23")])
def test_a_decimal_of_any_length_is_exact(raw: bytes, value: str) -> None:
    """PRN-12: BYTE_ARRAY, which Arrow does not write. Its bytes are big-endian."""
    column = SimpleNamespace(scale=2)
    for physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        convert = _decimal_converter(Decimal(9, 4), column, physical, "Decimal(precision=9)")
        assert convert is not None
        assert str(convert(raw, False)) == f"{value}00"
    assert _decimal_converter(Decimal(9, 4), column, "DOUBLE", "Decimal(precision=9)") is None


def test_a_wider_type_has_the_bounds_of_older_files() -> None:
    """PRN-12, SCH-9: a file of FLOAT after the column became DOUBLE; never the other way round."""
    narrow = pa.array([1.5, -2.5], pa.float32())
    assert bounds(narrow, Primitive("double")) == {"lower": -2.5, "upper": 1.5, "nulls": 0}
    assert bounds(narrow.cast(pa.float64()), Primitive("float")) == {"nulls": 0}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_times_of_day_are_no_bounds_of_timestamps(kind: str) -> None:
    """PRN-12: they have the same unit and the same physical type."""
    assert bounds(pa.array([1, 2], pa.time64("us")), Primitive(kind)) == {"nulls": 0}
    several = pa.array([1, None, 2, None], pa.time64("us"))
    assert bounds(several, Primitive(kind), row_group_size=1) == {"nulls": 2}


def test_int96_has_no_bounds() -> None:
    """PRN-12: its order in footers was never defined."""
    array = pa.array([1, 2], pa.timestamp("us"))

    found = bounds(array, Primitive("timestamp"), use_deprecated_int96_timestamps=True)

    assert "lower" not in found
    assert "upper" not in found


def test_footers_without_statistics_say_nothing() -> None:
    """PRN-12."""
    assert bounds(pa.array([1, 2]), Primitive("long"), write_statistics=False) == {}


def test_a_column_goes_by_its_physical_name_and_one_with_another_id_proves_nothing() -> None:
    """PRN-14, DAT-4: bounds belong to the column that is read.

    `c` and `d` carry each other's ids.
    """
    fields = [("c", 8), ("d", 7), ("f", 10)]
    schema = pa.schema(
        [pa.field(n, pa.int64(), metadata={b"PARQUET:field_id": b"%d" % i}) for n, i in fields]
    )
    out = io.BytesIO()
    values = [pa.array([1]), pa.array([2]), pa.array([3])]
    pq.write_table(pa.Table.from_arrays(values, schema=schema), out)
    metadata = pq.ParquetFile(out).metadata
    columns = (
        Field(7, "c", "c", Primitive("long")),
        Field(8, "d", "d", Primitive("long")),
        Field(9, "e", "e", Primitive("long")),
        Field(10, "called f no more", "f", Primitive("long")),
    )

    found = file_bounds(metadata, columns)

    assert found == {"nulls.10": 0, "lower.10": 3, "upper.10": 3}


def test_columns_behind_nested_ones_are_found_by_leaf() -> None:
    """PRN-14: structs, lists and maps take several leaves, or one; names may hold dots."""
    table = pa.table(
        {
            "s": pa.array([{"x": 1, "y": {"z": 2}}]),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "l": pa.array([[5]]),
            "s.x": pa.array([42]),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    field = Field(4, "s.x", "s.x", Primitive("long"))

    found = file_bounds(pq.ParquetFile(out).metadata, [field])

    assert found == {"nulls.4": 0, "lower.4": 42, "upper.4": 42}


def test_stats_columns_are_the_first_flat_ones_or_those_named() -> None:
    """PRN-11."""
    many = [Field(i, f"c{i}", f"c{i}", Primitive("long")) for i in range(1, 40)]
    inner = Field(50, "x", "x", Primitive("long"))
    nested = [Field(40, "s", "s", Struct((inner,))), Field(41, "l", "l", Array(Primitive("long")))]
    odd = Field(42, "a,`b", "a,`b", Primitive("long"))
    schema = Schema((*nested, *many, odd), 50)

    assert stats_columns(schema) == many[:32]
    assert stats_columns(schema, "") == []
    assert stats_columns(schema, " C3 , c1,`c39`") == [many[0], many[2], many[38]]
    assert stats_columns(schema, "`a,``b`, c2") == [many[1], odd]
    for wrong in ("nope", "s", "c1,l"):
        with pytest.raises(SchemaMismatchError) as caught:
            stats_columns(schema, wrong)
        assert caught.value.columns == [wrong.split(",")[-1]]
        said = "does not exist" if wrong == "nope" else "is nested and has no bounds"
        assert said in str(caught.value)
        assert str(stats_problem(schema, {"statsColumns": wrong})) == str(caught.value)
    assert stats_problem(schema, {"statsColumns": "c1"}) is None
    assert stats_problem(schema, {}) is None


def test_nan_counts_are_of_float_columns_alone() -> None:
    """PRN-7."""
    fields = [
        Field(1, "x", "p", Primitive("double")),
        Field(2, "y", "q", Primitive("float")),
        Field(3, "n", "n", Primitive("long")),
        Field(4, "gone", "gone", Primitive("double")),
    ]
    table = pa.table(
        {
            "p": pa.array([math.nan, None, 1.0, math.nan]),
            "q": pa.array([None] * 4, pa.float32()),
            "n": pa.array([1, 2, 3, 4]),
        }
    )

    assert nan_counts(table, fields) == {1: 2, 2: 0}

    # Bytes under a NULL are no value. Chunks may be slices of larger ones.
    hidden = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.array([1.0, math.nan, math.nan]).buffers()[1]]
    )
    chunks = pa.chunked_array([hidden, hidden.slice(0, 2), pa.array([math.nan, 0.0]).slice(1)])
    assert nan_counts(pa.table({"p": chunks}), fields) == {1: 1}
    assert nan_counts(pa.table({"p": chunks.slice(0, 2)}), fields) == {1: 0}


MR = pathlib.Path(__file__).parent / "parquet_mr"


def mr_bounds(name: str, columns: dict[str, Type]) -> dict[str, tuple[Any, Any, Any]]:
    fields = [Field(i, n, n, kind) for i, (n, kind) in enumerate(columns.items(), 1)]
    metadata = pq.ParquetFile(MR / f"{name}.parquet").metadata
    found = file_bounds(metadata, fields)
    sides = ("lower", "upper", "nulls")
    return {f.name: tuple(found.get(f"{side}.{f.id}") for side in sides) for f in fields}


def test_footers_of_parquet_mr_are_read_exactly() -> None:
    """PRN-12, PRN-13: every type as Spark writes it. make.py has the rows."""
    names = ("bo", "y", "sh", "i", "l", "f", "d", "s", "b", "dt", "ts", "tn")
    columns: dict[str, Type] = {
        n: Primitive(p) for n, p in zip(names, PRIMITIVES[:12], strict=True)
    }
    columns |= {"m5": Decimal(5, 2), "m18": Decimal(18, 4), "m38": Decimal(38, 18)}
    columns |= {"nan": Primitive("double"), "long": Primitive("string")}

    assert mr_bounds("micros", columns) == {
        "bo": (False, True, 1),
        "y": (-128, 127, 1),
        "sh": (-(2**15), 2**15 - 1, 1),
        "i": (-(2**31), 2**31 - 1, 1),
        "l": (-(2**63), 2**63 - 1, 1),
        "f": (-1.5, 1.5, 1),
        "d": (-2.5, 2.5, 1),
        "s": ("a", "é", 1),
        "b": ("AA==", "/w==", 1),
        "dt": (-719162, 2932896, 1),
        "ts": (-1, 1577836800123456, 1),
        "tn": (-14831769600000000, 253402300799999999, 1),
        "m5": ("-123.45", "123.45", 1),
        "m18": ("-12345678901234.5678", "12345678901234.5678", 1),
        "m38": (
            "-12345678901234567890.123456789012345678",
            "12345678901234567890.123456789012345678",
            1,
        ),
        "nan": (None, None, 1),
        "long": ("a" * 32, "b" * 31 + "c", 1),
    }
    assert repr(mr_bounds("micros", {"zero": Primitive("double")})["zero"]) == "(-0.0, 0.0, 1)"


def test_other_timestamp_units_of_parquet_mr() -> None:
    """PRN-12."""
    kind: dict[str, Type] = {"ts": Primitive("timestamp")}

    assert mr_bounds("millis", kind) == {"ts": (-1000, 1577836800123000, 1)}
    assert mr_bounds("int96", kind) == {"ts": (None, None, 1)}


def test_bounds_of_many_files_are_those_of_each_alone() -> None:
    """PRN-12: conversions are kept for one Parquet schema, and no longer for another one."""
    days = pa.array([1, 2], pa.date32())
    times = pa.array([10**15, 2 * 10**15], pa.timestamp("us", "UTC"))
    price = pa.array([decimal.Decimal("1.5"), None], pa.decimal128(5, 2))
    forms: list[tuple[pa.Table, dict[str, Any]]] = [
        (pa.table({"a": pa.array([1, 2], pa.int32()), "b": price}), {}),
        (pa.table({"a": pa.array([3, 4], pa.int64()), "b": price}), {}),
        (pa.table({"a": [5, 6], "b": price}), {"store_decimal_as_integer": True}),
        (pa.table({"b": price, "a": [7, 8]}), {}),
        (pa.table({"a": times}), {}),
        (pa.table({"a": times}), {"use_deprecated_int96_timestamps": True}),
        (pa.table({"a": times.cast(pa.timestamp("ms", "UTC"))}), {}),
        (pa.table({"a": days}), {}),
        (pa.table({"a": ["x", "y"]}), {}),
        *((pa.table({f"c{at}": [at], "a": [at]}), {}) for at in range(SCHEMAS_KEPT)),
    ]
    footers = []
    for rows, how in forms * 2:
        sink = io.BytesIO()
        pq.write_table(rows, sink, **how)
        footers.append(pq.read_metadata(io.BytesIO(sink.getvalue())))
    for kind in ("long", "timestamp", "date", "string"):
        of_kind = Field(1, "a", "a", primitive(kind))
        schema = Schema((of_kind, Field(2, "b", "b", primitive("decimal(6,2)"))), 2)
        several = FooterBounds(schema.fields)
        found = [several.of(each) for each in footers]
        assert found == [file_bounds(each, schema.fields) for each in footers]
        assert {"lower.1", "lower.2"} <= set().union(*found)
