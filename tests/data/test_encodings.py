"""Encodings of values: the choice for some values, and that all values come back."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data.parquet_writer import (
    DELTA,
    LEAST_ROWS,
    LENGTHS,
    choose_encodings,
    difference_bits,
    leaves,
)

ROWS = 6000

INT64 = (-(2**63), 2**63 - 1)


def columns(seed: int) -> dict[str, tuple[pa.Array, str]]:
    """Columns of every kind, and how each is to be written."""
    made = random.Random(seed)
    some = [made.randrange(40) for _ in range(ROWS)]
    day = dt.datetime(2024, 2, 29, tzinfo=dt.timezone.utc)
    cents = [decimal.Decimal(made.randrange(10**7)).scaleb(-2) for _ in range(ROWS)]
    sparse = [made.randrange(10**9) if at % 3 else None for at in range(ROWS)]
    wide = decimal.Context(prec=38)
    return {
        "sorted": (pa.array(range(10**12, 10**12 + ROWS)), DELTA),
        "falling": (pa.array(range(ROWS, 0, -1), pa.int32()), DELTA),
        "ends": (pa.array([INT64[at % 2] + at * (-1) ** at for at in range(ROWS)]), ""),
        "noise": (pa.array([made.randrange(*INT64) for _ in range(ROWS)]), "PLAIN"),
        "few": (pa.array(some), "DICTIONARY"),
        "nulls": (pa.array([None] * ROWS, pa.int64()), "DICTIONARY"),
        "sparse": (pa.array(sparse), DELTA),
        "cents": (pa.array(cents, pa.decimal128(9, 2)), DELTA),
        "more cents": (pa.array(cents, pa.decimal128(18, 2)), DELTA),
        "wide": (
            pa.array([c.scaleb(20, wide) for c in cents], pa.decimal128(38, 2)),
            "PLAIN",
        ),
        "instant": (
            pa.array([day + dt.timedelta(microseconds=i * 997) for i in range(ROWS)]),
            DELTA,
        ),
        "date": (
            pa.array([day.date() + dt.timedelta(days=i % 90) for i in range(ROWS)]),
            "DICTIONARY",
        ),
        "days": (pa.array([day.date() - dt.timedelta(days=i) for i in range(ROWS)]), DELTA),
        "text": (pa.array([f"{at * 7919} é" if at % 5 else None for at in range(ROWS)]), LENGTHS),
        "bytes": (pa.array([bytes([at % 256, at // 256]) * 3 for at in range(ROWS)]), LENGTHS),
        "word": (pa.array([f"word {at}" for at in some]), "DICTIONARY"),
        "number": (pa.array([made.random() for _ in range(ROWS)]), "PLAIN"),
        "truth": (pa.array([at % 2 == 0 for at in range(ROWS)]), "PLAIN"),
        "a.b": (pa.array(range(ROWS)), "DICTIONARY"),
        "parts": (
            pa.array([{"x": at, "l": [f"{at}"], "m": [("k", at)]} for at in range(ROWS)],
                     pa.struct({"x": pa.int64(), "l": pa.list_(pa.string()),
                                "m": pa.map_(pa.string(), pa.int64())})),
            "DICTIONARY",
        ),
    }  # fmt: skip


def written_as(encodings: tuple[str, ...]) -> str:
    """The one that tells, of all that a chunk has."""
    for name in (DELTA, LENGTHS):
        if name in encodings:
            return name
    return "DICTIONARY" if "RLE_DICTIONARY" in encodings else "PLAIN"


def test_every_kind_of_column_is_written_as_suits_it_and_comes_back(tmp_path: Path) -> None:
    """DAT-17: rows by our reader, by Arrow's over the bare file, and by DuckDB's."""
    given = columns(7)
    rows = pa.table({name: values for name, (values, _) in given.items()})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    (path,) = table.scan().files()["path"].to_pylist()
    file = tmp_path / "t" / path
    group = pq.read_metadata(file).row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    told = {chunk.path_in_schema: written_as(chunk.encodings) for chunk in chunks}
    for name, (_, expected) in given.items():
        for leaf in leaves(name, rows.schema.field(name).type):
            if expected:
                assert told[leaf] == expected, leaf
    packed = {chunk.path_in_schema for chunk in chunks if chunk.compression == "UNCOMPRESSED"}
    assert packed == {name for name, way in told.items() if way == DELTA}
    assert table.to_arrow().equals(rows)
    assert pq.read_table(file).select(rows.column_names).cast(rows.schema).equals(rows)
    with duckdb.connect() as engine:
        engine.execute("SET timezone = 'UTC'")
        theirs = engine.sql(f"SELECT * FROM read_parquet('{file}')").to_arrow_table()
    flat = [name for name in rows.column_names if name not in ("parts", "instant")]
    assert theirs.select(flat).cast(rows.select(flat).schema).equals(rows.select(flat))
    assert theirs["instant"].cast(pa.int64()).equals(rows["instant"].cast(pa.int64()))
    assert table.verify(deep=True).ok


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_differences_that_overflow_come_back(kind: pa.DataType, tmp_path: Path) -> None:
    """DAT-17: encoding and decoding are correct, even if a writer would choose another encoding."""
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    numbers = [[low, high, 0, -1][at % 4] for at in range(ROWS)]
    rows = pa.table({"x": pa.array(numbers, kind)})
    bits = difference_bits(np.array(numbers, f"i{kind.bit_width // 8}"))
    assert 0 <= bits <= kind.bit_width
    pq.write_table(rows, tmp_path / "x", use_dictionary=False, column_encoding={"x": DELTA})
    assert pq.read_table(tmp_path / "x").equals(rows)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (range(1000), 0),
        ([at * 1000 for at in range(1000)], 0),
        ([at % 2 for at in range(1000)], 2),
        ([0] * 10, 64),
    ],
)
def test_bits_of_differences(numbers: Any, expected: float) -> None:
    assert round(difference_bits(np.array(numbers, np.int64))) == expected


def test_few_rows_are_not_looked_at() -> None:
    assert choose_encodings(pa.table({"x": range(LEAST_ROWS - 1)}), 1 << 17) is None
