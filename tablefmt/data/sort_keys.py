"""Values of any flat column in a form that sorts as Spark orders them. Pure.

NULL comes first, the two zeros are equal, NaN is above all numbers, text sorts by bytes. Spec:
CMP-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.model.schema import Field

Places = NDArray[np.int64]


def sortable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values that Arrow sorts in this order: integers if possible."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    numbers = _numbers(values)
    return values if numbers is None else pa.array(numbers, pa.int64(), mask=nulls)


def _numbers(values: pa.Array) -> NDArray[np.int64] | None:
    """Return integers in the order of the values, arbitrary for NULL; None if not applicable."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _of_floats(values.cast(pa.float64()))
    if pa.types.is_decimal128(kind):
        if kind.precision > 18:
            return None
        halves = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :]
        lower: NDArray[np.int64] = halves[: 2 * len(values) : 2]
        return lower
    if pa.types.is_timestamp(kind):
        values = values.view(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    if not pa.types.is_integer(values.type):
        return None
    numbers: NDArray[np.int64] = values.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _of_floats(values: pa.Array) -> NDArray[np.int64]:
    """Return the bits of floats, flipped so that they ascend with the values."""
    floats = values.fill_null(0.0).to_numpy() + 0.0
    floats = np.where(np.isnan(floats), np.nan, floats)
    bits = floats.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def sort_places(keys: Sequence[pa.Array]) -> Places:
    """Return the positions of rows in sort order of their `sortable` columns.

    The sort is stable.
    """
    columns = []
    for key in keys:
        # Arrow's own placement of NULL differs between versions, so sort by a validity column.
        columns += [key.is_valid().cast(pa.int8()), key] if key.null_count else [key]
    names = [str(at) for at in range(len(columns))]
    table = pa.Table.from_arrays(columns, names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    places: Places = order.to_numpy().astype(np.int64)
    return places


def ranges_of(keys: Sequence[pa.Array], splits: Sequence[pa.Array]) -> Places:
    """Return for each row the number of splits that are not above it.

    Args:
        keys: the rows' columns, as `sortable` returns them.
        splits: values of the same columns, sorted.
    """
    count = len(splits[0])
    both = [pa.concat_arrays([s, k]) for s, k in zip(splits, keys, strict=True)]
    places = sort_places(both)
    # Among equal values, splits sort first, because they come first in the input.
    is_split = places < count
    ranges = np.empty(len(keys[0]), np.int64)
    ranges[places[~is_split] - count] = np.cumsum(is_split)[~is_split]
    return ranges


def places_in(values: pa.Array, bounds: pa.Array) -> Places:
    """Return the index of the last bound not above each value: -1 below all of them, -2 for NULL.

    Args:
        values: as `sortable` returns them.
        bounds: distinct values of the same type, ascending, without NULL.
    """
    if pa.types.is_integer(values.type):
        numbers = values.fill_null(0).to_numpy() if values.null_count else values.to_numpy()
        found = np.searchsorted(bounds.to_numpy(), numbers, "right") - 1
    else:
        coded = values.dictionary_encode()
        of_values = ranges_of([coded.dictionary], [bounds]) - 1
        indices = coded.indices.fill_null(0).to_numpy()
        found = of_values[indices] if len(of_values) else np.full(len(values), -2)
    if values.null_count:
        found = np.where(values.is_null().to_numpy(zero_copy_only=False), -2, found)
    placed: Places = found.astype(np.int64)
    return placed


def key_columns(rows: Any, by: Sequence[Field]) -> list[pa.Array]:
    """Return the key columns of rows, which have physical names."""
    return [sortable(rows.column(field.physical)) for field in by]
