"""Row order of a clustering: along a curve through columns, or by one column after another. Pure.

The order is learnt from a sample. After that, it can place any rows in any process.

Columns are brought to a form that sorts as Spark orders them: NULL comes first, the two zeros are
equal, NaN is above all numbers, text sorts by bytes.

Space-filling curves map points of a grid to numbers so that close numbers are close points. Z-order
interleaves the bits of the coordinates. Hilbert's curve rotates the grid at each level, so
consecutive numbers are always adjacent points (J. Skilling, Programming the Hilbert curve, 2004).
Spec: CMP-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.model.schema import Field

Codes = NDArray[np.uint64]

CODE_BITS = 64
"""Bits of a number on a curve, for all coordinates together."""

AXIS_BITS = 16
"""Most bits of a coordinate: the resolution of a sample."""


def axis_bits(axes: int) -> int:
    """Return the bits of each of `axes` coordinates, up to CODE_BITS in total."""
    return min(AXIS_BITS, CODE_BITS // axes)


def z_order(axes: Sequence[Codes], bits: int) -> Codes:
    """Return the position of points on the Z-curve.

    Args:
        axes: the coordinates, each below 2 ** bits. len(axes) * bits is at most CODE_BITS.
        bits: bits of a coordinate.
    """
    codes = np.zeros(len(axes[0]), np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for axis in axes:
            codes = (codes << one) | ((axis >> np.uint64(bit)) & one)
    return codes


def hilbert(axes: Sequence[Codes], bits: int) -> Codes:
    """Return the position of points on Hilbert's curve. Arguments as for `z_order`."""
    turned = [axis.copy() for axis in axes]
    for bit in reversed(range(1, bits)):
        _turn(turned, bit)
    for at in range(1, len(turned)):
        turned[at] ^= turned[at - 1]
    flips = np.zeros(len(turned[0]), np.uint64)
    for bit in reversed(range(1, bits)):
        flips ^= np.where(_has(turned[-1], bit), _below(bit), np.uint64(0))
    return z_order([axis ^ flips for axis in turned], bits)


def _turn(axes: list[Codes], bit: int) -> None:
    """Rotate the cubes of the next level; the bit selects the cube that holds a point."""
    below = _below(bit)
    first = axes[0]
    for at, axis in enumerate(axes):
        has = _has(axis, bit)
        swapped = np.where(has, np.uint64(0), (first ^ axis) & below)
        if at:
            axes[at] = axis ^ swapped
        first = np.where(has, first ^ below, first ^ swapped)
        axes[0] = first


def _has(axis: Codes, bit: int) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = (axis >> np.uint64(bit)) & np.uint64(1) != 0
    return has


def _below(bit: int) -> np.uint64:
    below: np.uint64 = np.uint64((1 << bit) - 1)
    return below


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


ZORDER, HILBERT, LINEAR = "zorder", "hilbert", "linear"
Curve = Literal["zorder", "hilbert", "linear"]
CURVES = get_args(Curve)

SAMPLE_ROWS = 200_000
"""Approximate limit of the rows in a sample."""

_WALK = {ZORDER: z_order, HILBERT: hilbert}


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Mapping of one column's values to coordinates, with equally many sample rows in each step."""

    bounds: pa.Array
    """Distinct values, ascending."""
    codes: Codes
    """The coordinate of each bound. Values below all bounds have 0."""

    def place(self, values: pa.Array) -> Codes:
        """Return the coordinates of values."""
        places = places_in(values, self.bounds)
        codes: Codes = np.append(self.codes, np.zeros(2, np.uint64))[places]
        return codes


def learn_axis(values: pa.Array, bits: int) -> Axis:
    """Learn an axis from sample values, as `sortable` returns them."""
    ordered = values.take(pa.array(sort_places([values])))
    known = ordered.slice(ordered.null_count)
    if len(known) == 0:
        return Axis(known, np.zeros(0, np.uint64))
    encoded = known.dictionary_encode()
    firsts = np.unique(encoded.indices.to_numpy(), return_index=True)[1]
    # NULL and values below the whole sample have the first coordinate.
    share = (firsts + ordered.null_count + 1) / (len(ordered) + 1)
    codes = np.floor(share * ((1 << bits) - 1)).astype(np.uint64)
    kept = np.unique(codes, return_index=True)[1]
    return Axis(encoded.dictionary.take(pa.array(kept)), codes[kept])


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """Placement of rows, learnt from a sample. A value that can be sent to other processes."""

    by: tuple[Field, ...]
    curve: str
    axes: tuple[Axis, ...]
    """Empty for a linear order."""
    splits: tuple[pa.Array, ...]
    """Sorted keys at which the ranges begin, except the first range."""

    @property
    def count(self) -> int:
        """Number of ranges."""
        return len(self.splits[0]) + 1

    def keys(self, rows: Any) -> list[pa.Array]:
        """Return the sort keys of rows with columns by physical name."""
        columns = key_columns(rows, self.by)
        if self.curve == LINEAR:
            return columns
        bits = axis_bits(len(self.by))
        placed = [axis.place(values) for axis, values in zip(self.axes, columns, strict=True)]
        return [pa.array(_WALK[self.curve](placed, bits))]

    def ranges(self, rows: Any) -> NDArray[np.int64]:
        """Return the number of the range of each row."""
        if len(self.splits[0]) == 0:
            return np.zeros(rows.num_rows, np.int64)
        return ranges_of(self.keys(rows), self.splits)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return the rows in order. Rows with equal keys keep their order."""
        return rows.take(pa.array(sort_places(self.keys(rows))))


def learn_order(sample: pa.Table, by: Sequence[Field], curve: str, ranges: int) -> RowOrder:
    """Learn the order from a sample, with `ranges` ranges of about equal size.

    Args:
        sample: rows with at least the columns of `by`, by physical name.
        by: one or more flat columns.
        curve: one of CURVES.
        ranges: 1 or more.
    """
    fields = tuple(by)
    axes: tuple[Axis, ...] = ()
    if curve != LINEAR:
        bits = axis_bits(len(fields))
        axes = tuple(learn_axis(values, bits) for values in key_columns(sample, fields))
    plain = RowOrder(fields, curve, axes, ())
    keys = plain.keys(sample)
    places = sort_places(keys)
    at = np.arange(1, ranges) * len(places) // max(1, ranges)
    chosen = pa.array(places[at] if len(places) else places)
    return RowOrder(fields, curve, axes, tuple(key.take(chosen) for key in keys))
