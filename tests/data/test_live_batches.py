"""Live rows by Arrow's scanner, with their positions, against a plain model."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from tablefmt.data.arrow_scanner import POSITION, keep_rows
from tablefmt.data.live_batches import live_batches, passing_batches
from tablefmt.model.positions import pack_positions


def written(folder: Path, chance: random.Random) -> list[list[int | None]]:
    """Write three files of one column, with several row groups each; return their values."""
    values: list[list[int | None]] = []
    for at in range(3):
        count = chance.randrange(1, 400)
        values.append([chance.choice([None, chance.randrange(100)]) for _ in range(count)])
        rows = pa.table({"v": pa.array(values[-1], pa.int64())})
        pq.write_table(rows, folder / f"{at}.parquet", row_group_size=50, write_page_checksum=True)
    return values


@pytest.mark.parametrize("seed", range(12))
def test_live_rows_have_their_positions(tmp_path: Path, seed: int) -> None:
    """DEL-1: with any share of deleted rows, any filter, and little memory."""
    chance = random.Random(seed)
    values = written(tmp_path, chance)
    files = ds.dataset([str(tmp_path / f"{at}.parquet") for at in range(3)])
    counts = [len(each) for each in values]
    deleted = [
        {at for at in range(count) if chance.random() < share}
        for count, share in zip(counts, chance.choices([0.0, 0.1, 0.9, 1.0], k=3), strict=True)
    ]
    vectors = [pack_positions(BitMap64(some)) if some else None for some in deleted]
    least = chance.choice([None, 0, 50, 100])
    pushed = None if least is None else pc.field("v") >= least
    most = chance.choice([None, 8 * 60])

    def passes(value: int | None) -> bool:
        return least is None or (value is not None and value >= least)

    found = [
        (place, position, value)
        for place, batch in live_batches(
            files, counts, [8] * 3, vectors, ["v"], pushed, most_bytes=most
        )
        for position, value in zip(*(batch[n].to_pylist() for n in (POSITION, "v")), strict=True)
    ]
    assert found == [
        (place, position, value)
        for place, of_file in enumerate(values)
        for position, value in enumerate(of_file)
        if position not in deleted[place] and passes(value)
    ]
    whole = passing_batches(files, counts, [8] * 3, ["v"], pushed, most_bytes=most)
    assert [v for batch in whole for v in batch["v"].to_pylist()] == [
        value for of_file in values for value in of_file if passes(value)
    ]


@pytest.mark.parametrize(("more", "message"), [(1, "fewer rows"), (-1, "more rows")])
def test_another_number_of_rows_is_an_error(tmp_path: Path, more: int, message: str) -> None:
    """DAT-5: rows are never assigned to positions of other rows."""
    values = written(tmp_path, random.Random(1))
    files = ds.dataset([str(tmp_path / f"{at}.parquet") for at in range(3)])
    counts = [len(each) for each in values]
    counts[1] += more
    with pytest.raises(ValueError, match=message):
        list(live_batches(files, counts, [8] * 3, [None] * 3, ["v"], None))


VALUES: dict[pa.DataType, Callable[[int], Any]] = {
    pa.null(): lambda n: None,
    pa.bool_(): lambda n: n % 3 == 0,
    pa.int8(): lambda n: n % 100,
    pa.int64(): lambda n: n << 40,
    pa.float64(): lambda n: n / 8,
    pa.date32(): lambda n: datetime.date(2000 + n % 30, 1, 1),
    pa.timestamp("us", "UTC"): lambda n: datetime.datetime.fromtimestamp(n, datetime.timezone.utc),
    pa.decimal128(15, 2): lambda n: Decimal(n) / 100,
    pa.string(): lambda n: "ä" * (n % 5),
    pa.large_string(): str,
    pa.binary(): lambda n: bytes(n % 4),
    pa.binary(4): lambda n: n.to_bytes(4, "big"),
    pa.list_(pa.int64()): lambda n: [n] * (n % 3),
    pa.struct([("a", pa.int64())]): lambda n: {"a": n},
    pa.dictionary(pa.int32(), pa.string()): lambda n: str(n % 7),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("nulls", ["none", "a bitmap, but none", "some"])
def test_kept_rows_are_those_of_a_plain_list(kind: pa.DataType, nulls: str) -> None:
    """DEL-1: with and without a validity bitmap, and from any row of an array on."""
    chance = random.Random(f"{kind} {nulls}")
    values = [VALUES[kind](n) for n in range(300)]
    if nulls == "some":
        values = [None if chance.random() < 0.2 else value for value in values]
    # A NULL outside of the slice leaves a bitmap, as Arrow's reader does.
    around = None if nulls == "a bitmap, but none" else VALUES[kind](0)
    column = pa.array([around, *values, around], kind).slice(1, 300)
    start = chance.randrange(20)
    for share in (0.0, 0.01, 0.5, 1.0):
        keep = np.array([chance.random() >= share for _ in range(300 - start)], bool)
        (found,) = keep_rows([column.slice(start)], keep)
        found.validate(full=True)
        assert found.type == kind
        expected = [value for value, kept in zip(values[start:], keep, strict=True) if kept]
        assert found.to_pylist() == expected
