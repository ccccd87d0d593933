"""Row order of a clustering: along a curve through columns, or by one column after another.

The order is learnt from a sample. After that, it can place any rows in any process. Spec: CMP-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.curves import Codes, axis_bits, hilbert, z_order
from tablefmt.data.sort_keys import key_columns, places_in, ranges_of, sort_places
from tablefmt.model.schema import Field

ZORDER, HILBERT, LINEAR = "zorder", "hilbert", "linear"
CURVES = (ZORDER, HILBERT, LINEAR)

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
