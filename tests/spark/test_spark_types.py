"""Every type comes back as it went in, whichever plane wrote it and whichever reads it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.spark
from tests.spark.looking import data_files, frame_from, rows_of

UTC = dt.timezone.utc
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


def test_what_spark_writes_both_planes_read(spark: Any, uri: str, given: pa.Table) -> None:
    """DAT-1, DAT-4, DAT-7."""
    tablefmt.create(uri, given.schema)
    frame = frame_from(spark, given)
    commit = tablefmt.spark.write(frame, uri)
    assert commit.metrics["numOutputRows"] == 3
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(given)
    assert rows_of(tablefmt.spark.read(spark, uri), given.schema) == rows_of(given)


def test_what_arrow_writes_spark_reads(spark: Any, uri: str, given: pa.Table) -> None:
    """DAT-4."""
    tablefmt.create(uri, given.schema).append(given)
    assert rows_of(tablefmt.spark.read(spark, uri), given.schema) == rows_of(given)


def test_spark_writes_zstd_micros_page_checksums_and_field_ids(
    spark: Any, uri: str, given: pa.Table
) -> None:
    """DAT-1, DAT-7: never int96, whatever the session says, and the session is left alone."""
    key = "spark.sql.parquet.outputTimestampType"
    assert spark.conf.get(key) == "INT96"
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    assert spark.conf.get(key) == "INT96"
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


def test_types_that_a_table_cannot_hold_are_refused_by_name(spark: Any, uri: str) -> None:
    """SCH-5."""
    frame = spark.sql("select 1 as a, interval 1 day as b")
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(frame, uri)
    assert caught.value.columns == ["b"]
    assert not tablefmt.exists(uri)
