"""Choice of the Parquet encoding of a column, from a sample of its values. Pure.

A dictionary suits repeated values. For mostly distinct values it is larger than the values, and
Arrow, which always begins with one, drops it too late. Keys, amounts and times, which every query
reads, would then be slow. Spec: DAT-17.
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
"""Files with fewer rows keep Arrow's defaults, because sampling would take longer."""

SAMPLE_ROWS = 8192
"""Sampled values of each column, spread over the rows of one row group."""

DIFFERENT = 0.5
"""Share of the sample: with more distinct values, the column gets no dictionary."""

RUN_ROWS, BLOCK_ROWS = 4096, 32
"""Consecutive rows in the sample, and rows for which DELTA_BINARY_PACKED uses one bit width."""

WORTH = 0.8
"""Share of a plain value's bits: differences are written only if they need at most this much."""

DELTA, LENGTHS = "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY"


@dataclass(slots=True)
class Encodings:
    """Arrow writer settings for the leaf columns, by their paths."""

    dictionaries: list[str] = field(default_factory=list)
    """Columns with a dictionary, as long as it is small."""
    others: dict[str, str] = field(default_factory=dict)
    """Columns with another encoding: Parquet's name of the encoding."""
    plain: list[str] = field(default_factory=list)
    """Columns with plain encoding."""


def choose_encodings(rows: pa.Table, group_rows: int) -> Encodings | None:
    """Return the encodings for these rows; None for Arrow's defaults.

    Args:
        rows: rows of one file; columns by physical name. Decimals up to 18 digits become integers.
        group_rows: rows of a row group.
    """
    if rows.num_rows < LEAST_ROWS:
        return None
    group = rows.slice(0, group_rows)
    chosen = Encodings()
    for column in group.schema:
        # Arrow could read a dot in a name as a path into another column.
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
    """Yield the paths of a column's Parquet columns."""
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
    """Return the integers that Parquet stores for the values, without NULL; None if not
    integers.
    """
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
    """Return the average bits per number if differences of consecutive numbers are written."""
    with np.errstate(over="ignore"):
        differences = np.diff(numbers)
    whole = len(differences) // BLOCK_ROWS * BLOCK_ROWS
    if not whole:
        return float(8 * numbers.itemsize)
    blocks = differences[:whole].reshape(-1, BLOCK_ROWS)
    # The subtraction overflows in the same way as Parquet's.
    spans = (blocks.max(axis=1) - blocks.min(axis=1)).view(f"u{numbers.itemsize}")
    return float(np.ceil(np.log2(spans.astype(np.float64) + 1)).mean())
