"""The order that a clustering gives rows: by a curve through columns, or by one after another.

What it goes by is learnt from a sample; from then on any rows can be placed, wherever they are.
Spec: CMP-5.
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
"""Rows that an order is learnt from, at most, about."""

_WALK = {ZORDER: z_order, HILBERT: hilbert}


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """How values of one column become coordinates: as many rows of the sample in every step."""

    bounds: pa.Array
    """Values, ascending and different."""
    codes: Codes
    """Of each the coordinate; values below all of them have 0."""

    def place(self, values: pa.Array) -> Codes:
        """The coordinates of values."""
        places = places_in(values, self.bounds)
        codes: Codes = np.append(self.codes, np.zeros(2, np.uint64))[places]
        return codes


def learn_axis(values: pa.Array, bits: int) -> Axis:
    """The axis that a sample, as of `sortable`, tells of."""
    ordered = values.take(pa.array(sort_places([values])))
    known = ordered.slice(ordered.null_count)
    if len(known) == 0:
        return Axis(known, np.zeros(0, np.uint64))
    encoded = known.dictionary_encode()
    firsts = np.unique(encoded.indices.to_numpy(), return_index=True)[1]
    # NULL and what is below all of the sample have the place before them all.
    share = (firsts + ordered.null_count + 1) / (len(ordered) + 1)
    codes = np.floor(share * ((1 << bits) - 1)).astype(np.uint64)
    kept = np.unique(codes, return_index=True)[1]
    return Axis(encoded.dictionary.take(pa.array(kept)), codes[kept])


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """Places rows, by a sample of them. A value that travels to other processes."""

    by: tuple[Field, ...]
    curve: str
    axes: tuple[Axis, ...]
    """None for a linear order."""
    splits: tuple[pa.Array, ...]
    """Where ranges begin, but for the first: values of what `keys` gives, sorted."""

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.splits[0]) + 1

    def keys(self, rows: Any) -> list[pa.Array]:
        """What rows, columns by physical name, are sorted by."""
        columns = key_columns(rows, self.by)
        if self.curve == LINEAR:
            return columns
        bits = axis_bits(len(self.by))
        placed = [axis.place(values) for axis, values in zip(self.axes, columns, strict=True)]
        return [pa.array(_WALK[self.curve](placed, bits))]

    def ranges(self, rows: Any) -> NDArray[np.int64]:
        """The number of the range that each row is in."""
        if len(self.splits[0]) == 0:
            return np.zeros(rows.num_rows, np.int64)
        return ranges_of(self.keys(rows), self.splits)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in order; those with equal keys as they came."""
        return rows.take(pa.array(sort_places(self.keys(rows))))


def learn_order(sample: pa.Table, by: Sequence[Field], curve: str, ranges: int) -> RowOrder:
    """The order that a sample tells of, in so many ranges that are about alike.

    Args:
        sample: rows, at least the columns of `by`, under their physical names.
        by: one flat column or more.
        curve: one of CURVES.
        ranges: from 1 on.
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
