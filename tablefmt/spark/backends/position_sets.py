"""Where rows are: from the columns that `with_positions` adds to sets of positions by file id.

Spark counts or lists them; what comes to the driver is a bit or a pair of numbers a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.session.merge_pairs import positions_by_file
from tablefmt.spark.backends.base import FILE, ROW
from tablefmt.spark.runtime.frames import DataFrame
from tablefmt.spark.runtime.sql_text import selected

LISTED_MAX = 1 << 24
"""In files of up to so many rows together positions are listed, without a shuffle; in larger ones
they come as bits, 32,768 to a row."""

_BITS = 32768

_BUCKET, _MAP = "bucket", "bits"


def find_positions(rows: DataFrame, ids: NDArray[np.int64], count: int) -> dict[int, BitMap64]:
    """The places of the rows of a query. Runs it.

    Args:
        rows: a DataFrame with FILE and ROW; no row is there twice.
        ids: of the files, by FILE.
        count: rows of those files.
    """
    if count <= LISTED_MAX:
        pairs = rows.select(FILE, ROW).toArrow()
        return positions_by_file(_numbers(pairs, FILE), _numbers(pairs, ROW), ids)
    # Spark's functions count from 1.
    bits = selected(
        rows,
        FILE,
        f"bitmap_bucket_number({ROW} + 1) AS {_BUCKET}",
        f"bitmap_bit_position({ROW} + 1) AS {_MAP}",
    )
    grouped = bits.groupBy(FILE, _BUCKET).agg({_MAP: "bitmap_construct_agg"})
    return _from_bits(grouped.toDF(FILE, _BUCKET, _MAP).toArrow(), ids)


def _from_bits(bitmaps: pa.Table, ids: NDArray[np.int64]) -> dict[int, BitMap64]:
    result: dict[int, BitMap64] = {}
    columns = (bitmaps[name].to_pylist() for name in (FILE, _BUCKET, _MAP))
    for place, bucket, body in zip(*columns, strict=True):
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        positions = np.flatnonzero(bits).astype(np.uint64) + np.uint64((bucket - 1) * _BITS)
        result.setdefault(int(ids[place]), BitMap64()).update(BitMap64(positions))
    return result


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table[name].to_numpy().astype(np.int64)
    return numbers
