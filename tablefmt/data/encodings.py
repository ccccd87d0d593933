"""How the values of a column are best written down in Parquet, by a sample of them. Pure.

A dictionary is best where values come again. Where most are different it takes more room than they
do, and Arrow, which begins with one in any case, gives it up too late: just the columns that every
query reads, keys, amounts and times, would be slow. Spec: DAT-17.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

LEAST_ROWS = 4096
"""Files with fewer rows are written as Arrow does by itself: to look would take longer."""

SAMPLE_ROWS = 8192
"""Values looked at of each column, spread over the rows of one row group."""

DIFFERENT = 0.5
"""Of the sample: where more values are different, there is no dictionary."""

RUN_ROWS, BLOCK_ROWS = 4096, 32
"""Neighbours looked at, and how many of them DELTA_BINARY_PACKED gives one width."""

WORTH = 0.8
"""Of the bits of a plain value: what a difference takes at most where differences are written."""

DELTA, LENGTHS = "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY"


@dataclass(slots=True)
class Encodings:
    """What Arrow's writer is told of the leaves of columns, by their paths."""

    dictionaries: list[str] = field(default_factory=list)
    """With a dictionary, as long as that is small."""
    others: dict[str, str] = field(default_factory=dict)
    """Without one: Parquet's name of the encoding."""
    plain: list[str] = field(default_factory=list)
    """Without one, as they are."""


def choose_encodings(rows: pa.Table, group_rows: int) -> Encodings | None:
    """What suits these rows; None: whatever Arrow does by itself.

    Args:
        rows: of one file; columns by physical name, decimals up to 18 digits to be integers.
        group_rows: of a row group.
    """
    if rows.num_rows < LEAST_ROWS:
        return None
    group = rows.slice(0, group_rows)
    chosen = Encodings()
    for column in group.schema:
        # What has a dot in its name could be taken for a part of another column.
        if pa.types.is_nested(column.type) or "." in column.name:
            chosen.dictionaries += leaves(column.name, column.type)
        elif not _is_mostly_different(group[column.name]):
            chosen.dictionaries.append(column.name)
        elif (encoding := _encoding(group[column.name])) is not None:
            chosen.others[column.name] = encoding
        else:
            chosen.plain.append(column.name)
    return chosen


def leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of a column's Parquet columns."""
    if pa.types.is_struct(kind):
        for part in kind:
            yield from leaves(f"{path}.{part.name}", part.type)
    elif pa.types.is_map(kind):
        yield from leaves(f"{path}.key_value.key", kind.key_type)
        yield from leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _is_mostly_different(column: pa.ChunkedArray) -> bool:
    step = max(1, len(column) // SAMPLE_ROWS)
    sample = column.take(pa.array(np.arange(0, len(column), step))).drop_null()
    if pa.types.is_boolean(column.type) or len(sample) < SAMPLE_ROWS // 16:
        return False
    return bool(pc.count_distinct(sample).as_py() > DIFFERENT * len(sample))


def _encoding(column: pa.ChunkedArray) -> str | None:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return LENGTHS
    numbers = _integers(column.slice(0, RUN_ROWS).combine_chunks().drop_null())
    if numbers is None:
        return None
    return DELTA if difference_bits(numbers) <= WORTH * 8 * numbers.itemsize else None


def _integers(values: pa.Array) -> NDArray[np.signedinteger[Any]] | None:
    """The numbers that stand in the file for values, none of them NULL; None: no integers."""
    kind = values.type
    if pa.types.is_decimal128(kind):
        if kind.precision > 18:
            return None
        halves = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :]
        lower: NDArray[np.int64] = halves[: 2 * len(values) : 2]
        return lower if kind.precision > 9 else lower.astype(np.int32)
    if pa.types.is_timestamp(kind):
        kind, values = pa.int64(), values.view(pa.int64())
    elif pa.types.is_date32(kind):
        kind, values = pa.int32(), values.view(pa.int32())
    if not pa.types.is_integer(kind):
        return None
    numbers: NDArray[np.signedinteger[Any]] = values.cast(
        pa.int64() if kind.bit_width == 64 else pa.int32()
    ).to_numpy()
    return numbers


def difference_bits(numbers: NDArray[np.signedinteger[Any]]) -> float:
    """What a number takes if the differences of neighbours are written, on average."""
    with np.errstate(over="ignore"):
        differences = np.diff(numbers)
    whole = len(differences) // BLOCK_ROWS * BLOCK_ROWS
    if not whole:
        return float(8 * numbers.itemsize)
    blocks = differences[:whole].reshape(-1, BLOCK_ROWS)
    # They overflow as Parquet's do.
    spans = (blocks.max(axis=1) - blocks.min(axis=1)).view(f"u{numbers.itemsize}")
    return float(np.ceil(np.log2(spans.astype(np.float64) + 1)).mean())
