"""Space-filling curves: map points of a grid to numbers so that close numbers are close points.
Pure.

Z-order interleaves the bits of the coordinates. Hilbert's curve rotates the grid at each level, so
consecutive numbers are always adjacent points (J. Skilling, Programming the Hilbert curve, 2004).
Spec: CMP-5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
