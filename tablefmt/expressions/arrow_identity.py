"""Identity of pyarrow expressions, for the digest of a statement. Pure. Spec: CFL-23.

The text of an expression is not unique. It omits the middle of a long list and of long text in it.
A quote inside a text looks like its end.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import UnsupportedFeatureError

CALLS_MAX = 12
"""Maximum nested calls for Substrait, which doubles with every level (apache/arrow#48761)."""


def identity(expression: pc.Expression, schema: pa.Schema) -> bytes:
    """Return bytes that differ for different expressions.

    Args:
        expression: a condition.
        schema: the columns of the condition.

    Raises:
        UnsupportedFeatureError: it names columns by position, and Arrow cannot serialize it.
    """
    try:
        (pickled,) = expression.__reduce__()[1]
        return bytes(pickled)
    except pa.ArrowException:
        # Only Substrait supports a column by position.
        pass
    text = str(expression)
    try:
        if text.count("(") <= CALLS_MAX:
            return bytes(expression.to_substrait(schema, allow_arrow_extensions=True))
    except (pa.ArrowException, UnicodeError):
        # Substrait does not support all of Arrow's functions.
        pass
    if "\n" not in text:
        # The text is unique, because there is no list in it.
        return text.encode()
    raise UnsupportedFeatureError(
        "a pyarrow expression that names columns by position cannot be distinguished from similar "
        "ones; name the columns, or pass SQL text",
        ["where:expression-places"],
    )
