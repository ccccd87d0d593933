"""Curves through a grid: numbers for points, such that near numbers are near points. Pure.

Z-order puts the bits of the coordinates in turn. Hilbert's curve turns the grid as it goes, so that
two numbers in a row are always neighbours (J. Skilling, Programming the Hilbert curve, 2004).
Spec: CMP-5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]

CODE_BITS = 64
"""Of a number on a curve, for all coordinates together."""

AXIS_BITS = 16
"""Most bits of a coordinate: what a sample tells apart."""


def axis_bits(axes: int) -> int:
    """Bits of each of so many coordinates, up to CODE_BITS of them."""
    return min(AXIS_BITS, CODE_BITS // axes)


def z_order(axes: Sequence[Codes], bits: int) -> Codes:
    """The place on the Z-curve of points.

    Args:
        axes: the coordinates, each below 2 ** bits. len(axes) * bits is at most CODE_BITS.
        bits: of a coordinate.
    """
    codes = np.zeros(len(axes[0]), np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for axis in axes:
            codes = (codes << one) | ((axis >> np.uint64(bit)) & one)
    return codes


def hilbert(axes: Sequence[Codes], bits: int) -> Codes:
    """The place on Hilbert's curve of points. Arguments as of `z_order`."""
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
    """Turn the cubes of the next level as the bit says in which of them a point is."""
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
