"""Values of rows for people: in the messages and fields of errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def shown_value(value: pa.Scalar) -> Any:
    """A value as Python has it; as text where Python has none, as for days beyond the year 9999."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    try:
        return value.cast(pa.string()).as_py()
    except pa.ArrowException:
        return f"a value of type {value.type} that Python does not have"
