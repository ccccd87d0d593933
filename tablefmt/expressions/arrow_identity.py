"""What tells pyarrow expressions apart, for the digest of a statement. Pure. Spec: CFL-23.

Their own text does not: it leaves out the middle of a long list and of a long text in it, and a
quote inside a text looks like the end of it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import UnsupportedFeatureError

CALLS_MAX = 12
"""Substrait doubles with every level of calls (apache/arrow#48761)."""


def identity(expression: pc.Expression, schema: pa.Schema) -> bytes:
    """Bytes that are others for another expression.

    Args:
        expression: a condition.
        schema: the columns that it is over.

    Raises:
        UnsupportedFeatureError: it names columns by their places, and Arrow cannot write it down.
    """
    try:
        (pickled,) = expression.__reduce__()[1]
        return bytes(pickled)
    except pa.ArrowException:
        # A column by its place: only Substrait has those.
        pass
    text = str(expression)
    try:
        if text.count("(") <= CALLS_MAX:
            return bytes(expression.to_substrait(schema, allow_arrow_extensions=True))
    except (pa.ArrowException, UnicodeError):
        # It does not know all of Arrow's functions.
        pass
    if "\n" not in text:
        # There is no list in it.
        return text.encode()
    raise UnsupportedFeatureError(
        "a pyarrow expression that names columns by their places cannot be told from others like "
        "it; name the columns, or give SQL text",
        ["where:expression-places"],
    )
