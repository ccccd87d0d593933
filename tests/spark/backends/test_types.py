"""Values of every type come back unchanged, for each backend as the writer and the reader."""

from __future__ import annotations

import datetime as dt
import math
import os
from decimal import Context, Decimal
from typing import Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

import tablefmt
import tablefmt.spark
from tablefmt.spark.columns.projection import alignment
from tests.data.test_encodings import columns as encoded_columns
from tests.spark.looking import data_files, frame_from, rows_of
from tests.spec.published import DDL, parquet_type, parquet_types

UTC = dt.timezone.utc
EXACT = Context(prec=80)
INNER = pa.struct([("a b", pa.int32()), ("deep", pa.list_(pa.struct([("x.y", pa.string())])))])

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-(1 << 15), (1 << 15) - 1]),
    "integer": (pa.int32(), [-(1 << 31), (1 << 31) - 1]),
    "long": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "float": (pa.float32(), [math.nan, -0.0]),
    "double": (pa.float64(), [math.inf, 5e-324]),
    "string": (pa.string(), ["", "ß\0\U0001f600"]),
    "binary": (pa.binary(), [b"", b"\0\xff"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date_julian": (pa.date32(), [dt.date(1582, 10, 4), dt.date(1582, 10, 15)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1899, 12, 31, 23, 59, 59, 999999, UTC),
            # 01:30 New York time happens twice on this day; these are the two.
            dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        ],
    ),
    "timestamp_old": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1, 1, 2, tzinfo=UTC), dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC)],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        # There is no 02:30 in New York on this day.
        [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 3, 10, 2, 30)],
    ),
    "decimal_small": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01")]),
    "decimal_middle": (pa.decimal128(18, 18), [Decimal("-0." + "9" * 18), Decimal("0E-18")]),
    "decimal_large": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1")]),
    "array": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "map": (pa.map_(pa.string(), pa.float64()), [[], [("k", None), ("", 1.5)]]),
    "struct": (
        INNER,
        [{"a b": None, "deep": []}, {"a b": 1, "deep": [None, {"x.y": "z"}, {"x.y": None}]}],
    ),
}


@pytest.fixture(scope="module")
def given() -> pa.Table:
    """Both values of every type, and a row of NULL."""
    columns = {"id": pa.array([0, 1, 2])}
    columns.update({n: pa.array([*v, None], k) for n, (k, v) in COLUMNS.items()})
    return pa.table(columns)


def test_both_backends_read_what_spark_writes(spark: Any, uri: str, given: pa.Table) -> None:
    """DAT-1, DAT-4, DAT-7."""
    tablefmt.create(uri, given.schema)
    frame = frame_from(spark, given)
    commit = tablefmt.spark.write(frame, uri)
    assert commit.metrics["numOutputRows"] == 3
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(given)
    assert rows_of(tablefmt.spark.read(spark, uri), given.schema) == rows_of(given)


def test_spark_writes_the_parquet_types_that_are_published(spark: Any, uri: str) -> None:
    """DAT-15: the other backend writes the same types."""
    published = parquet_types()
    columns = ", ".join(f"`{kind}` {DDL.get(kind, kind)}" for kind in published)
    tablefmt.create(uri, f"`id` BIGINT, {columns}")
    tablefmt.spark.write(spark.range(1), uri)
    (file,) = data_files(uri)
    schema = pq.ParquetFile(file).schema
    written = [schema.column(i) for i in range(1, len(schema))]
    assert {column.name: parquet_type(column) for column in written} == published


def test_what_arrow_writes_spark_reads(spark: Any, uri: str, given: pa.Table) -> None:
    """DAT-4."""
    tablefmt.create(uri, given.schema).append(given)
    assert rows_of(tablefmt.spark.read(spark, uri), given.schema) == rows_of(given)


def test_spark_writes_zstd_micros_page_checksums_and_field_ids(
    spark: Any, uri: str, given: pa.Table
) -> None:
    """DAT-1, DAT-7: the file never has int96, for any session setting, and the setting stays."""
    key = "spark.sql.parquet.outputTimestampType"
    session = spark.newSession()
    session.conf.set(key, "INT96")
    tablefmt.spark.write(frame_from(session, given).coalesce(1), uri)
    assert session.conf.get(key) == "INT96"
    (path,) = data_files(uri)
    footer = pq.read_metadata(path)
    leaves = [footer.row_group(0).column(i) for i in range(footer.num_columns)]
    assert {leaf.compression for leaf in leaves} == {"ZSTD"}
    assert "INT96" not in {leaf.physical_type for leaf in leaves}
    ids = {f.name: f.metadata[b"PARQUET:field_id"] for f in footer.schema.to_arrow_schema()}
    assert ids["id"] == b"1"
    assert len(set(ids.values())) == len(given.schema)
    inner = footer.schema.to_arrow_schema().field("struct").type.field("a b")
    assert b"PARQUET:field_id" in inner.metadata


def test_hidden_columns_have_ids_of_their_own_and_files_say_what_they_were_written_under(
    spark: Any, uri: str
) -> None:
    """DAT-11, SCH-4, ADD-9: this holds for files of an UPDATE by Spark.

    The log has the versions.
    """
    table = tablefmt.spark.create(spark, uri, "id BIGINT, l ARRAY<INT>")
    tablefmt.spark.write(spark.range(4).selectExpr("id", "array(1) AS l"), uri)
    table.alter.add_column("b", "INT", default=1)
    table.update({"b": "id"}, "id = 2")
    files = tablefmt.open(uri).context.view.snapshot().files.to_pylist()
    assert {(file["id"] > 1, file["written"]) for file in files} >= {(True, 2)}
    assert {file["written"] for file in files} == {0, 2}
    newest = pq.read_schema(os.path.join(uri, files[-1]["path"]))
    ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in newest}
    hidden = {"__tablefmt_file": 2147483001, "__tablefmt_row": 2147483002}
    assert ids == {"id": 1, "l": 2, "b": 4, **hidden}


def test_the_schema_has_logical_names_types_and_nullability(spark: Any, uri: str) -> None:
    ddl = (
        "id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, `b.c`: ARRAY<STRING>>, "
        "m MAP<STRING, DECIMAL(38,3)>, n TIMESTAMP_NTZ, t TIMESTAMP"
    )
    tablefmt.create(uri, ddl)
    from pyspark.sql.types import StructType

    assert tablefmt.spark.read(spark, uri).schema == StructType.fromDDL(ddl)


def test_columns_of_any_name_come_back_and_can_be_asked_for(spark: Any, uri: str) -> None:
    names = ["a.b", "a b", "a`b", "ä;{}()=", "__p", "Select", "x\ty", "'", '"']
    given = pa.table({n: [i, i + 10] for i, n in enumerate(names)})
    tablefmt.create(uri, given.schema, partition_by=["a.b"])
    tablefmt.spark.write(frame_from(spark, given), uri)
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(given)
    frame = tablefmt.spark.read(spark, uri)
    assert rows_of(frame) == rows_of(given)
    for i, name in enumerate(names):
        quoted = "`" + name.replace("`", "``") + "`"
        assert rows_of(frame.where(f"{quoted} = {i}")) == rows_of(given.slice(0, 1))


REFUSED = [
    ("interval '1' day", "b"),
    ("interval '1' month", "b"),
    ("make_interval(1, 1)", "b"),
    ("null", "b"),
    ("time'12:00:00'", "b"),
    ("'a' collate UTF8_LCASE", "b"),
    ("array(interval '1' day)", "b.element"),
    ("map('k', interval '1' day)", "b.value"),
    ("named_struct('x', null)", "b.x"),
]


@pytest.mark.parametrize(("expression", "column"), REFUSED, ids=[e for e, _ in REFUSED])
def test_types_that_a_table_cannot_hold_are_refused_by_name(
    spark: Any, uri: str, expression: str, column: str
) -> None:
    """SCH-5."""
    from pyspark.errors import AnalysisException

    try:
        frame = spark.sql(f"select 1 as a, {expression} as b")
    except AnalysisException as error:
        pytest.skip(f"this Spark has no such type: {str(error).splitlines()[0]}")
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(frame, uri)
    assert caught.value.columns == [column]
    assert not tablefmt.exists(uri)


def test_user_defined_types_are_refused_by_name(spark: Any, uri: str) -> None:
    """SCH-5."""
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(1, Vectors.dense([1.0]))], ["a", "b"])
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(frame, uri)
    assert caught.value.columns == ["b"]


def test_null_and_empty_arrays_of_no_type_fit_any_column(spark: Any, uri: str) -> None:
    """DAT-2: the casts are those of Spark's INSERT."""
    tablefmt.create(uri, "a INT, b ARRAY<INT>, c STRUCT<x: DATE>")
    tablefmt.spark.write(spark.sql("select 1 a, null b, named_struct('x', null) c"), uri)
    tablefmt.spark.write(spark.sql("select 2 a, array() b, null c"), uri)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [
        {"a": 1, "b": None, "c": {"x": None}},
        {"a": 2, "b": [], "c": None},
    ]
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(spark.sql("select 1 a, interval '1' day b"), uri)
    assert caught.value.columns == ["b"]
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(spark.sql("select 1 a, named_struct('x', null, 'y', null) c"), uri)
    assert caught.value.columns == ["c.y"]


def test_columns_of_the_tables_own_types_are_written_as_they_are(spark: Any, uri: str) -> None:
    """No cast, no copy of a nested value: this is what keeps small writes cheap."""
    tablefmt.create(uri, "id BIGINT NOT NULL, a ARRAY<BIGINT>, s STRUCT<x: INT>")
    frame = spark.sql("select 1L id, array(1L, 2L) a, named_struct('x', 1) s")
    steps = alignment(frame, tablefmt.open(uri).context.view.head.metadata.schema)
    assert (steps.fit, steps.rename) == (None, None)
    assert ["type" in column for column in steps.choose] == [False, False, True]


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        end = 1 << (kind.bit_width - 1)
        return st.integers(-end, end - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if pa.types.is_decimal(kind):
        end = 10**kind.precision - 1
        return st.integers(-end, end).map(lambda i: Decimal(i).scaleb(-kind.scale, EXACT))
    if pa.types.is_date(kind):
        return st.dates()
    if pa.types.is_timestamp(kind):
        times = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29))
        return times if kind.tz is None else times.map(lambda t: t.replace(tzinfo=UTC))
    if pa.types.is_binary(kind):
        return st.binary(max_size=20)
    if pa.types.is_string(kind):
        return st.text(st.characters(codec="utf-8"), max_size=20)
    if pa.types.is_list(kind):
        return st.lists(st.none() | _values(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        values = st.dictionaries(_values(kind.key_type), st.none() | _values(kind.item_type))
        return values.map(lambda found: list(found.items()))
    return st.fixed_dictionaries({f.name: st.none() | _values(f.type) for f in kind})


FLAT = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
     pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
     pa.decimal128(9, 2), pa.decimal128(18, 0), pa.decimal128(38, 37)]
)  # fmt: skip
KEYS = st.sampled_from([pa.int32(), pa.string(), pa.date32()])
ANY = st.recursive(
    FLAT,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.builds(pa.map_, KEYS, inner),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f {i}", kind) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(ANY, min_size=1, max_size=4))
    rows = draw(st.integers(1, 5))
    columns = {"id": pa.array(range(rows), pa.int64())}
    for at, kind in enumerate(kinds):
        values = st.lists(st.none() | _values(kind), min_size=rows, max_size=rows)
        columns[f"c{at}"] = pa.array(draw(values), kind)
    return pa.table(columns)


@hypothesis.settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@hypothesis.given(rows=tables(), partitioned=st.booleans())
def test_any_rows_of_any_types_come_back_from_each_backend(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, rows: pa.Table, partitioned: bool
) -> None:
    """DAT-1, DAT-4, DAT-7, VAL-2: Spark to Arrow, Spark to Spark, Arrow to Spark."""
    uri = str(tmp_path_factory.mktemp("any") / "table")
    flat = [f.name for f in rows.schema if f.name != "id" and not pa.types.is_nested(f.type)]
    table = tablefmt.create(uri, rows.schema, partition_by=flat[:1] if partitioned else [])
    wanted = rows_of(rows)
    tablefmt.spark.write(frame_from(spark, rows), uri)
    assert rows_of(table.refresh().to_arrow(), rows.schema) == wanted
    assert rows_of(tablefmt.spark.read(spark, uri), rows.schema) == wanted
    table.overwrite(rows)
    assert rows_of(tablefmt.spark.read(spark, uri), rows.schema) == wanted


@pytest.mark.share(2)
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_values_come_back_from_every_encoding(spark: Any, uri: str, vectorized: str) -> None:
    """DAT-17: files of the Arrow backend, read with both readers, and with conditions."""
    rows = pa.table({name: values for name, (values, _) in encoded_columns(7).items()})
    tablefmt.create(uri, rows.schema).append(rows)
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        frame = tablefmt.spark.read(spark, uri)
        assert rows_of(frame, rows.schema) == rows_of(rows)
        some = frame.where("`cents` > 50000 AND `text` IS NOT NULL AND `days` < DATE '2020-01-01'")
        model = [
            row
            for row in rows.to_pylist()
            if row["cents"] > 50000
            and row["text"] is not None
            and row["days"] < dt.date(2020, 1, 1)
        ]
        assert model
        assert rows_of(some, rows.schema) == sorted(repr(tuple(row.items())) for row in model)
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
