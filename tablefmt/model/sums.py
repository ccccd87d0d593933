"""Overflow-safe sums of 64-bit numbers. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOW = (1 << 32) - 1


def exact_sum(values: NDArray[np.int64]) -> int:
    """Return the sum of up to 2**31 integers of 64 bits. numpy's own sum wraps around beyond 2**63.

    A wrapped sum of stored numbers could match a wrong value in the log.
    """
    if not len(values):
        return 0
    if max(int(values.max()), -int(values.min())) * len(values) < 1 << 63:
        return int(values.sum())
    high, low = np.sum(values >> 32), np.sum(values & _LOW)
    return (int(high) << 32) + int(low)
