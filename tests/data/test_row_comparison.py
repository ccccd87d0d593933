"""Rows as bytes, and what is left of two multisets, against Python's own equality of rows."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.data.row_comparison import row_difference, row_hashes, row_keys
from tablefmt.data.spill_buffers import RangeSpill
from tablefmt.errors import StoreError

SCALARS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [0, 1, -1],
    pa.int64(): [0, 1, -(2**63)],
    pa.float32(): [0.0, -0.0, math.nan, 1.0],
    pa.float64(): [0.0, -0.0, math.nan, math.inf],
    pa.decimal128(10, 2): [decimal.Decimal("1.10"), decimal.Decimal("0.00")],
    pa.date32(): [dt.date(2020, 1, 1), dt.date(1969, 1, 1)],
    pa.timestamp("us"): [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(2020, 1, d, tzinfo=dt.timezone.utc) for d in (1, 2)],
    pa.string(): ["", "a", "ab", "b", "é"],
    pa.binary(): [b"", b"\0", b"\0\0"],
}
INT_LIST, TEXT_LIST = pa.list_(pa.int32()), pa.list_(pa.string())
NESTED = [
    *map(pa.list_, SCALARS),
    pa.struct([("a", pa.int64()), ("b", pa.string())]),
    pa.map_(pa.int64(), pa.string()),
    pa.list_(TEXT_LIST),
    pa.list_(pa.struct([("x", INT_LIST)])),
    pa.struct([("m", pa.map_(pa.int64(), pa.float64()))]),
    pa.map_(pa.string(), pa.struct([("l", TEXT_LIST)])),
]


def value(kind: pa.DataType, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, chance) for field in kind}
    if pa.types.is_map(kind):
        keys = chance.sample(SCALARS[kind.key_type], chance.randint(0, 2))
        return [(key, value(kind.item_type, chance)) for key in keys]
    if pa.types.is_list(kind):
        return [value(kind.value_type, chance) for _ in range(chance.randint(0, 2))]
    return chance.choice(SCALARS.get(kind, [0, 1]))


@pytest.mark.parametrize("kind", [*SCALARS, *NESTED], ids=str)
def test_keys_are_equal_exactly_where_rows_are(kind: pa.DataType) -> None:
    """INC-6: NaN equals itself, 0.0 does not equal -0.0; of a slice too."""
    chance = random.Random(7)
    values = [[value(kind, chance) for _ in range(200)] for _ in range(2)]
    for first in (0, 3):
        columns = [pa.array(each, kind).slice(first) for each in values]
        keys = row_keys(columns, 200 - first).to_pylist()
        hashes = row_hashes(columns, 200 - first).tolist()
        rows = [repr(row) for row in zip(*values, strict=True)][first:]
        assert len(set(zip(keys, rows, strict=True))) == len(set(keys)) == len(set(rows))
        assert len(set(zip(keys, hashes, strict=True))) == len(set(keys))


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.float64()))])


def batches(chance: random.Random, rows: int, size: int) -> list[pa.RecordBatch]:
    made = [
        {"a": chance.randint(0, 5), "b": chance.choice(["x", None]), "c": [chance.random() < 0.5]}
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(made, SCHEMA).to_batches(max_chunksize=size)


def counted(parts: list[pa.RecordBatch]) -> Counter[str]:
    return Counter(repr(row) for batch in parts for row in batch.to_pylist())


@pytest.mark.parametrize("limit", [1 << 30, 4000, 0])
@pytest.mark.parametrize(("first", "second"), [(200, 150), (0, 40), (40, 0), (0, 0), (1, 300)])
def test_what_is_left_is_the_difference_in_memory_and_on_disk(
    limit: int, first: int, second: int
) -> None:
    """INC-6: rows that went come before those that came."""
    chance = random.Random(first)
    went, came = batches(chance, first, 30), batches(chance, second, 70)
    left = list(row_difference(went, came, SCHEMA, [0, 1, 2], limit))
    assert [kind for kind, _ in left] == sorted(kind for kind, _ in left)
    assert all(batch.num_rows for _, batch in left)
    lost, won = ([b for kind, b in left if kind is wanted] for wanted in (False, True))
    assert counted(lost) == counted(went) - counted(came)
    assert counted(won) == counted(came) - counted(went)


def test_a_full_disk_is_an_error_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder of the buffer and the setting. No file stays there."""
    went, came = (batches(random.Random(1), 100, 10) for _ in range(2))
    if os.path.exists("/dev/full"):
        folders = tmp_path / "folders"
        folders.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folders))
        monkeypatch.setattr(RangeSpill, "_path", lambda *_: Path("/dev/full"))
        with pytest.raises(StoreError, match=r"No space left.*TMPDIR"):
            list(row_difference(went, came, SCHEMA, [0], 0))
        assert list(folders.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"nowhere.*TMPDIR"):
        list(row_difference(went, came, SCHEMA, [0], 0))


def test_rows_without_columns_are_counted() -> None:
    """INC-6: all are equal."""
    nothing = pa.schema([])
    went, came = (
        [pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))] for n in (5, 3)
    )
    for limit in (1 << 30, 0):
        left = [(kind, b.num_rows) for kind, b in row_difference(went, came, nothing, [], limit)]
        assert left == [(False, 2)]


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_rows_are_compared_by_some_columns(limit: int) -> None:
    """INC-6: the others come along as they are."""
    went = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [[1.0], None]}, SCHEMA).to_batches()
    came = pa.table({"a": [2, 3], "b": ["z", "w"], "c": [None, [3.0]]}, SCHEMA).to_batches()
    left = [(kind, b.to_pylist()) for kind, b in row_difference(went, came, SCHEMA, [0], limit)]
    assert left == [
        (False, [{"a": 1, "b": "x", "c": [1.0]}]),
        (True, [{"a": 3, "b": "w", "c": [3.0]}]),
    ]
