"""Length checks and padding for text of a declared length. Spec: SCH-10, DAT-14."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from tablefmt.model.schema import Field
from tablefmt.model.text_lengths import length_of, too_long


def fit_length(values: Any, column: Field) -> Any:
    """Return the values in the form of a column with a declared length; NULL stays NULL.

    Args:
        values: an array or a chunked array, of the column's type.
        column: a column with or without a declared length.

    Raises:
        ConstraintViolationError: a value is too long, not counting spaces at its end.
    """
    if column.text is None:
        return values
    padded, most = length_of(column.text)
    over = pc.greater(pc.utf8_length(values), most)
    if pc.any(over).as_py():
        left = pc.utf8_length(pc.utf8_rtrim(values, characters=" "))
        bad = pc.index(pc.greater(left, most), True).as_py()
        if bad >= 0:
            value = values[bad].as_py()
            raise too_long(column.name, column.text, len(value), value)
        values = pc.if_else(over, pc.utf8_slice_codeunits(values, 0, most), values)
    return pc.utf8_rpad(values, most, padding=" ") if padded else values
