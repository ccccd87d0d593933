"""Row values as shown to people in error messages and error fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def shown_value(value: pa.Scalar) -> Any:
    """Return a value as its Python object, or as text where Python has none (days beyond the year
    9999).
    """
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    try:
        return value.cast(pa.string()).as_py()
    except pa.ArrowException:
        return f"a value of type {value.type} that Python cannot represent"
