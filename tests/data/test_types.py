"""Values of every type and Arrow layout come back unchanged, and unsupported types are named."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tests.scheduling import examples

D = decimal.Decimal
UTC = datetime.timezone.utc
_numbers = itertools.count()

DAY = 86_400_000_000
MIN_US = -62_135_596_800_000_000
MAX_US = 253_402_300_799_999_999
INSTANTS = [MIN_US, -1, 0, 1, MAX_US, None, -DAY * 40_000 - 3]


def fresh() -> str:
    return f"memory://types-{next(_numbers)}"


def micros(kind: pa.DataType) -> pa.Array:
    return pa.array(INSTANTS, pa.int64()).view(kind)


def strings() -> list[str | None]:
    return ["", None, "a", "\u00e9", "e\u0301", "\0", "\n", "𝄞", "\U0010ffff", "x" * 70_000]


FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, None, 1.5, -(2.0**-140)]

EXACT: dict[str, pa.Array] = {
    "boolean": pa.array([True, False, None]),
    "byte": pa.array([-128, 127, None], pa.int8()),
    "short": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "integer": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "float": pa.array(FLOATS, pa.float32()),
    "double": pa.array([*FLOATS, 5e-324, 1.7976931348623157e308], pa.float64()),
    "string": pa.array(strings(), pa.string()),
    "binary": pa.array([b"", None, b"\0", b"\xff" * 40, bytes(range(256))], pa.binary()),
    "date": pa.array([-719_162, -1, 0, 2_932_896, None], pa.int32()).view(pa.date32()),
    "timestamp": micros(pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": micros(pa.timestamp("us")),
    "array": pa.array([[1, None], [], None, [2]], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array(
        [{"x": 1, "y": None}, None, {"x": None, "y": "z"}],
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
    ),
}

DEEP = pa.struct(
    [
        pa.field("m", pa.map_(pa.string(), pa.list_(pa.struct([("d", pa.decimal128(30, 3))])))),
        pa.field("l", pa.list_(pa.list_(pa.timestamp("us", tz="UTC")))),
    ]
)
EXACT["deep"] = pa.array(
    [
        None,
        {"m": None, "l": [[], None, [0, None]]},
        {"m": [("k", [{"d": D("1.500")}, None, {"d": None}]), ("e", []), ("n", None)], "l": []},
    ],
    DEEP,
)


def round_trip(uri: str, data: pa.Table, schema: Any = None, **options: Any) -> pa.Table:
    table = tablefmt.create(uri, data.schema if schema is None else schema, **options)
    table.append(data)
    return tablefmt.open(uri, **options).to_arrow()


def same_bits(left: pa.Array, right: pa.Array) -> bool:
    """Equal, NaN included, and the signs of zeros."""
    return repr(left.to_pylist()) == repr(right.to_pylist())


@pytest.mark.parametrize("name", EXACT)
def test_every_type_comes_back_as_given(name: str, tmp_path: Path) -> None:
    """SCH-5, DAT-1: values come back on a local disk and in memory."""
    data = pa.table({"c": EXACT[name]})
    for uri in (str(tmp_path / "table"), fresh()):
        got = round_trip(uri, data)
        assert got.schema.field("c").type == data.schema.field("c").type
        assert same_bits(got["c"], data["c"])


@pytest.mark.slow
def test_all_types_together_come_back_from_s3(s3_uri: str, s3_server: Any) -> None:
    """SCH-5: columns of different lengths are filled up with NULL."""
    longest = max(map(len, EXACT.values()))
    data = pa.table(
        {
            name: pa.concat_arrays([a, pa.nulls(longest - len(a), a.type)])
            for name, a in EXACT.items()
        }
    )
    got = round_trip(s3_uri, data, storage_options=s3_server.options)
    assert all(same_bits(got[name], data[name]) for name in EXACT)


def test_decimals_of_all_precisions_are_exact() -> None:
    """SCH-5: 1 to 38 digits, with scales 0, in the middle, and full."""
    columns = {}
    for precision in range(1, 39):
        for scale in {0, precision // 2, precision}:
            top = D((0, (9,) * precision, -scale))
            kind = pa.decimal128(precision, scale)
            columns[f"d{precision}_{scale}"] = pa.array(
                [top, top.copy_negate(), D(0).scaleb(-scale), None], kind
            )
    data = pa.table(columns)
    assert round_trip(fresh(), data).equals(data)


LAYOUTS = {
    "dictionary": (pa.array(["a", None, "b", "a"]).dictionary_encode(), pa.string()),
    "run ends": (
        pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([7, None], pa.int64())),
        pa.int64(),
    ),
    "large string": (pa.array(["a", None], pa.large_string()), pa.string()),
    "string view": (pa.array(["a", None, "x" * 40], pa.string_view()), pa.string()),
    "large binary": (pa.array([b"a", None], pa.large_binary()), pa.binary()),
    "binary view": (pa.array([b"a", None, b"x" * 40], pa.binary_view()), pa.binary()),
    "fixed binary": (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    "large list": (pa.array([[1], None, [2, 3]], pa.large_list(pa.int32())), pa.list_(pa.int32())),
    "fixed list": (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)), pa.list_(pa.int32())),
    "list view": (pa.array([[1, 2], None, [3, 4]], pa.list_view(pa.int32())), pa.list_(pa.int32())),
    "large list view": (
        pa.array([[1, 2], None, [3, 4]], pa.large_list_view(pa.int32())),
        pa.list_(pa.int64()),
    ),
    "dictionary in list in map": (
        pa.array(
            [[("a", ["x", None])], None, [("b", [])]],
            pa.map_(pa.string_view(), pa.large_list(pa.dictionary(pa.int8(), pa.string()))),
        ),
        pa.map_(pa.string(), pa.list_(pa.string())),
    ),
    "struct by name in list": (
        pa.array(
            [[{"B": 1, "a": 2}], None], pa.list_(pa.struct([("B", pa.int8()), ("a", pa.int8())]))
        ),
        pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])),
    ),
    "date64": (pa.array([86_400_000, None], pa.int64()).view(pa.date64()), pa.date32()),
    "seconds": (pa.array([-5, None], pa.timestamp("s")), pa.timestamp("us")),
    "milliseconds": (pa.array([-5, None], pa.timestamp("ms")), pa.timestamp("us")),
    "nanoseconds": (pa.array([-5000, None], pa.timestamp("ns")), pa.timestamp("us")),
    "another zone": (
        pa.array([-5, None], pa.timestamp("us", tz="Asia/Kolkata")),
        pa.timestamp("us", tz="UTC"),
    ),
    "decimal256": (pa.array([D("1.5"), None], pa.decimal256(38, 1)), pa.decimal128(38, 1)),
    "decimal32": (pa.array([D("1.5"), None], pa.decimal32(5, 1)), pa.decimal128(5, 1)),
    "long to byte": (pa.array([-128, 127, None]), pa.int8()),
    "long to decimal": (pa.array([-99, None]), pa.decimal128(3, 1)),
    "long to double": (pa.array([2**53, None]), pa.float64()),
    "double to float": (pa.array([0.5, math.nan, math.inf, None]), pa.float32()),
    "double to decimal": (pa.array([0.1, None]), pa.decimal128(3, 1)),
    "double to long": (pa.array([4.0, None]), pa.int64()),
    "decimal to double": (pa.array([D("0.1"), None]), pa.float64()),
    "decimal to int": (pa.array([D("4.0"), None]), pa.int32()),
    "no type": (pa.nulls(3), pa.list_(pa.struct([("a", pa.int64())]))),
    "no type in list": (pa.array([[], None, [None]]), pa.list_(pa.int64())),
}

CHANGED: dict[str, list[Any]] = {
    "another zone": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_995, UTC), None],
    "nanoseconds": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_995), None],
    "struct by name in list": [[{"a": 2, "b": 1, "c": None}], None],
    "double to decimal": [D("0.1"), None],
    "decimal to double": [0.1, None],
    "double to long": [4, None],
    "decimal to int": [4, None],
    "long to decimal": [D("-99.0"), None],
    "long to double": [2.0**53, None],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_written_as_the_tables_type(name: str) -> None:
    """SCH-5: values come back in the table's type, whole or sliced. Struct fields match by name."""
    data, kind = LAYOUTS[name]
    for start in (0, 1):
        values = data.slice(start)
        got = round_trip(fresh(), pa.table({"c": values}), pa.schema([("c", kind)]))
        assert got["c"].type == kind
        expected = CHANGED.get(name, data.to_pylist())[start:]
        # pyarrow 24 takes the zone from pytz where that is installed.
        shown = str(got["c"].to_pylist()).replace("<UTC>", "zoneinfo.utc")
        assert shown.replace("ZoneInfo(key='UTC')", "utc") == str(expected).replace(
            "datetime.timezone.utc", "zoneinfo.utc"
        )


@pytest.mark.parametrize("name", [n for n in LAYOUTS if "no type" not in n])
def test_a_schema_may_be_given_in_any_layout(name: str) -> None:
    """SCH-5: a table made from the layout's own schema takes the data too."""
    data, _ = LAYOUTS[name]
    got = round_trip(fresh(), pa.table({"c": data}))
    assert len(got["c"]) == len(data)
    assert got["c"].null_count == data.to_pylist().count(None)


REFUSED = {
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
    pa.uint64(): "decimal128(20, 0)",
    pa.float16(): "float32",
    pa.time32("s"): "int32",
    pa.time64("us"): "int64",
    pa.duration("us"): "int64",
    pa.month_day_nano_interval(): "struct",
    pa.null(): "the type the column will have",
    pa.decimal256(39, 2): "38 digits",
    pa.decimal128(5, -2): "a scale from 0",
    pa.uuid(): "fixed_size_binary[16]",
    pa.dense_union([pa.field("a", pa.int64())]): "struct",
}


@pytest.mark.parametrize("kind", REFUSED, ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_type_that_spark_lacks_is_refused_with_the_one_to_use(
    kind: pa.DataType, wrapped: bool
) -> None:
    """SCH-5: creating a table names the column, nested ones too."""
    schema = pa.schema([("c", pa.struct([("inner", pa.list_(kind))]) if wrapped else kind)])
    with pytest.raises(SchemaMismatchError) as caught:
        tablefmt.create(fresh(), schema)
    assert caught.value.columns == (["c.inner.element"] if wrapped else ["c"])
    assert REFUSED[kind] in str(caught.value)


def nested_lists(count: int) -> pa.DataType:
    kind = pa.int64()
    for _ in range(count):
        kind = pa.list_(kind)
    return kind


def nested_maps(count: int) -> pa.DataType:
    kind = pa.int64()
    for _ in range(count):
        kind = pa.map_(pa.string(), kind)
    return kind


@pytest.mark.parametrize("nested", [nested_lists, nested_maps])
def test_columns_are_as_deep_as_files_can_be_read(nested: Callable[[int], pa.DataType]) -> None:
    """SCH-5: written columns can be read. A table with too deep columns is refused."""
    table = tablefmt.create(fresh(), pa.schema([("x", pa.int64()), ("deep", nested(49))]))
    rows = pa.table({"x": [1, 2], "deep": pa.array([[], None], nested(49))})
    table.append(rows)
    assert table.to_arrow().to_pylist() == rows.to_pylist()
    with pytest.raises(SchemaMismatchError) as caught:
        tablefmt.create(fresh(), pa.schema([("deep", nested(50))]))
    assert caught.value.columns == ["deep"]
    with pytest.raises(SchemaMismatchError):
        table.append(pa.table({"y": pa.array([None], nested(50))}), merge_schema=True)


LOSSY = {
    "double to float": (pa.array([0.1]), pa.float32()),
    "double beyond float": (pa.array([1e300]), pa.float32()),
    "double to decimal": (pa.array([0.15]), pa.decimal128(5, 1)),
    "decimal to double": (pa.array([D("12345678901234567890.1")]), pa.float64()),
    "long to double": (pa.array([2**53 + 1]), pa.float64()),
    "long to int": (pa.array([2**31]), pa.int32()),
    "long to decimal": (pa.array([100]), pa.decimal128(3, 1)),
    "NaN to long": (pa.array([math.nan]), pa.int64()),
    "NaN to decimal": (pa.array([math.nan]), pa.decimal128(3, 1)),
    "decimal to decimal": (pa.array([D("1.55")]), pa.decimal128(5, 1)),
    "decimal to int": (pa.array([D("1.5")]), pa.int32()),
    "nanoseconds": (pa.array([1001], pa.timestamp("ns")), pa.timestamp("us")),
    "seconds": (pa.array([2**62], pa.timestamp("s")), pa.timestamp("us")),
    "date64": (pa.array([86_400_001], pa.int64()).view(pa.date64()), pa.date32()),
    "in a list": (pa.array([[1], [2**40]]), pa.list_(pa.int32())),
    "in a struct": (pa.array([{"x": 0.1}]), pa.struct([("x", pa.float32())])),
    "in a map": (pa.array([[("k", 0.1)]], pa.map_(pa.string(), pa.float64())),
                 pa.map_(pa.string(), pa.float32())),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSY)
def test_a_cast_that_would_lose_something_writes_nothing(name: str, tmp_path: Path) -> None:
    """SCH-5: the column is named, and no file is left."""
    values, kind = LOSSY[name]
    table = tablefmt.create(tmp_path / "t", pa.schema([("c", kind), ("k", pa.int64())]))
    good = pa.table({"c": pa.nulls(1, values.type), "k": [1]})
    reader = pa.RecordBatchReader.from_batches(
        good.schema,
        [*good.to_batches(), *pa.table({"c": values, "k": [2] * len(values)}).to_batches()],
    )
    with pytest.raises(SchemaMismatchError) as caught:
        table.append(reader)
    assert caught.value.columns == ["c"]
    assert "without loss" in str(caught.value)
    assert left_over(tmp_path) == []
    assert table.version == 0


def left_over(root: Path) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and "_log" not in p.parts]


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("Name", pa.string()),
        pa.field(
            "s", pa.struct([pa.field("must", pa.int64(), False), pa.field("may", pa.int64())])
        ),
        pa.field("l", pa.list_(pa.field("element", pa.int64(), False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int64(), False))),
    ]
)

MISMATCHES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "extra": ({"id": [1], "other": [1], "more": [2]}, ["other", "more"]),
    "missing": ({"Name": ["x"]}, ["id"]),
    "doubled": ({"id": [1], "name": ["x"], "NAME": ["y"]}, ["name", "NAME"]),
    "another type": ({"id": [1], "Name": [5]}, ["Name"]),
    "text for a number": ({"id": ["1"]}, ["id"]),
    "extra nested": ({"id": [1], "s": [{"must": 1, "other": 2}]}, ["s"]),
    "missing nested": ({"id": [1], "s": [{"may": 1}]}, ["s"]),
    "doubled nested": ({"id": [1], "s": [{"must": 1, "MUST": 2}]}, ["s"]),
    "list for a struct": ({"id": [1], "s": [[1]]}, ["s"]),
    "struct for a list": ({"id": [1], "l": [{"must": 1}]}, ["l"]),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_columns_that_do_not_fit_are_all_named(name: str, tmp_path: Path) -> None:
    """DAT-2."""
    given_, named = MISMATCHES[name]
    table = tablefmt.create(tmp_path / "t", SCHEMA)
    with pytest.raises(SchemaMismatchError) as caught:
        table.append(pa.table(given_))
    assert caught.value.columns == named
    assert left_over(tmp_path) == []


NULLS: dict[str, tuple[str, pa.Array]] = {
    "column": ("id", pa.array([1, None])),
    "field": ("s", pa.array([{"must": None, "may": 1}, {"must": 1, "may": 1}])),
    "element": ("l", pa.array([[1], [2, None]])),
    "map value": (
        "m",
        pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int64())),
    ),
}


@pytest.mark.parametrize("name", NULLS)
def test_null_where_null_is_not_allowed_is_refused(name: str, tmp_path: Path) -> None:
    """DAT-3: columns, fields, elements and map values."""
    column, values = NULLS[name]
    table = tablefmt.create(tmp_path / "t", SCHEMA)
    data = pa.table({"id": pa.array([1, 2]), column: values} if column != "id" else {"id": values})
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        table.append(data)
    assert left_over(tmp_path) == []
    assert table.refresh().version == 0


def test_null_around_a_field_that_is_not_null_is_fine() -> None:
    """DAT-3: an absent struct has no field that could be NULL."""
    table = tablefmt.create(fresh(), SCHEMA)
    table.append(pa.table({"ID": [1, 2], "s": [None, {"must": 3, "may": None}], "l": [None, []]}))
    assert table.to_arrow().select(["id", "Name", "s", "l", "m"]).to_pylist() == [
        {"id": 1, "Name": None, "s": None, "l": None, "m": None},
        {"id": 2, "Name": None, "s": {"must": 3, "may": None}, "l": [], "m": None},
    ]


class Stream:
    """An object with only the Arrow stream protocol, as polars and DuckDB have it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


DATA = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]})


@pytest.mark.parametrize(
    "given_",
    [
        DATA,
        Stream(DATA),
        DATA.to_reader(max_chunksize=1),
        DATA.to_batches()[0],
        DATA.to_pandas(),
        DATA.to_pandas().set_index(pd.Index([9, 8, 7])),
        pa.concat_tables([DATA.slice(0, 1), DATA.slice(1)]),
    ],
    ids=["table", "stream", "reader", "batch", "pandas", "pandas index", "chunks"],
)
def test_anything_tabular_is_taken(given_: Any) -> None:
    """DAT-2: the Arrow stream protocol, or a pandas frame without its index."""
    table = tablefmt.create(fresh(), DATA.schema)
    table.append(given_)
    assert table.to_arrow().equals(DATA)


@pytest.mark.parametrize("given_", [{1, 2}, iter([{"id": 1}]), "text", 5, None, object()])
def test_what_is_not_tabular_is_refused(given_: Any) -> None:
    """DAT-2."""
    table = tablefmt.create(fresh(), DATA.schema)
    with pytest.raises(SchemaMismatchError, match="expected tabular data"):
        table.append(given_)


def test_a_source_that_fails_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-5: the caller sees its own error, and files written before it are removed."""
    monkeypatch.setattr("tablefmt.data.data_writer.FLUSH_BYTES", 1)
    table = tablefmt.create(tmp_path / "t", DATA.schema)
    seen: list[int] = []

    def batches() -> Any:
        yield from DATA.to_batches()
        seen.append(len(left_over(tmp_path)))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(DATA.schema, batches()))
    assert seen[0] >= 1
    assert left_over(tmp_path) == []
    assert table.refresh().version == 0


def test_no_rows_make_no_version() -> None:
    """A batch without rows is nothing to add."""
    table = tablefmt.create(fresh(), DATA.schema)
    commit = table.append(DATA.slice(0, 0))
    assert (commit.no_op, commit.version, table.version) == (True, 0, 0)


def test_a_large_source_becomes_several_files_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DAT-6: a stream, and one huge batch, are written piece by piece, each by its partitions."""
    monkeypatch.setattr("tablefmt.data.data_writer.FLUSH_BYTES", 400_000)
    rows = pa.table({"k": [0, 1] * 100_000, "v": list(range(200_000))})
    pulled = 0

    def batches() -> Any:
        nonlocal pulled
        for batch in rows.to_batches(max_chunksize=10_000):
            pulled += 1
            yield batch

    stream = pa.RecordBatchReader.from_batches(rows.schema, batches())
    for source, count in ((rows, 16), (stream, 20)):
        table = tablefmt.create(fresh(), rows.schema, partition_by=["k"])
        table.append(source)
        files = table.scan().files()
        assert files.num_rows == count
        assert max(files["rows"].to_pylist()) <= 15_000
        assert table.to_arrow().sort_by("v").equals(rows)
    assert pulled == 20


KINDS = st.sampled_from(
    [pa.int32(), pa.string(), pa.float64(), pa.timestamp("us", tz="UTC"), pa.decimal128(10, 2)]
)
TYPES = st.recursive(
    KINDS,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda t: pa.map_(pa.string(), t)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])
        ),
    ),
    max_leaves=5,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        pairs = st.dictionaries(st.text(max_size=3), values_of(kind.item_type), max_size=3)
        return st.none() | pairs.map(lambda d: list(d.items()))
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return st.none() | st.fixed_dictionaries({f.name: values_of(f.type) for f in fields})
    if pa.types.is_timestamp(kind):
        return st.none() | st.datetimes(timezones=st.just(UTC))
    if pa.types.is_decimal(kind):
        return st.none() | st.decimals(-(10**7), 10**7, places=2, allow_nan=False)
    plain = {
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.string(): st.text(max_size=5),
        pa.float64(): st.floats(allow_nan=False),
    }
    return st.none() | plain[kind]


@examples(30)
@given(data=st.data(), kind=TYPES)
def test_any_nested_values_come_back(data: st.DataObject, kind: pa.DataType) -> None:
    """SCH-5: random types with up to several levels."""
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=8))
    table = pa.table({"c": pa.array(values, kind)})
    assert round_trip(fresh(), table).equals(table)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"id": [1, "x", 2.5]}),
        pd.DataFrame([[1, 2]], columns=["id", "id"]),
        pd.Series([1, 2]),
        pa.chunked_array([[1, 2]]),
        [1, 2],
    ],
    ids=["mixed", "doubled", "series", "column", "list"],
)
def test_what_is_no_table_is_refused_as_such(data: Any) -> None:
    """DAT-2: never by an error of Arrow's or pandas' own."""
    table = tablefmt.create(f"memory://no-table/{uuid.uuid4()}", "id BIGINT")
    with pytest.raises(SchemaMismatchError):
        table.append(data)
    assert table.version == 0


def test_data_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    """SCH-5: Arrow takes text that is not UTF-8, and places beyond a dictionary, unseen."""
    offsets, body = np.array([0, 1, 3], np.int32), b"a\xff\xfe"
    text = pa.StringArray.from_buffers(2, pa.py_buffer(offsets.tobytes()), pa.py_buffer(body))
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False)
    inside = pa.StructArray.from_arrays([text], ["x"])
    table = tablefmt.create(tmp_path / "t", "s STRING, v STRUCT<x: STRING>")
    for unsound in ({"s": text}, {"s": beyond}, {"v": inside}):
        with pytest.raises(SchemaMismatchError, match="invalid Arrow data"):
            table.append(pa.table(unsound))
    table.append(pa.table({"s": text.slice(0, 1)}))
    assert table.refresh().to_arrow().to_pylist() == [{"s": "a", "v": None}]
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
