"""Sums of 64-bit numbers that cannot overflow. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOW = (1 << 32) - 1


def exact_sum(values: NDArray[np.int64]) -> int:
    """The sum of up to 2**31 integers of 64 bits; numpy's own wraps around beyond 2**63.

    Whoever adds up numbers out of a store must not take a sum that wrapped for the one that the
    log says.
    """
    if not len(values):
        return 0
    if max(int(values.max()), -int(values.min())) * len(values) < 1 << 63:
        return int(values.sum())
    high, low = np.sum(values >> 32), np.sum(values & _LOW)
    return (int(high) << 32) + int(low)
