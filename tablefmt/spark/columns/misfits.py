"""Values that Spark could not cast to the type of their column: which column it may have been.

Spark names the value and the type. Spec: SQL-3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.schema import Decimal, Field, Struct, Type
from tablefmt.spark.runtime.failures import DOES_NOT_FIT

_CAST = re.compile(
    r'\[CAST_OVERFLOW\] (The value .*? of the type "[^"]+") cannot be cast to "(\w+)"'
)
_DECIMAL = re.compile(
    r"\[NUMERIC_VALUE_OUT_OF_RANGE[.\w]*\]\s+(?:The )?(\S+) cannot be represented as "
    r"Decimal\((\d+), (\d+)\)"
)
_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def value_misfit(message: str, fields: Iterable[Field]) -> SchemaMismatchError | None:
    """Return the error of a value that does not fit its column; None for another failure.

    Args:
        message: what Spark says of the failure.
        fields: the columns that new values are cast for.
    """
    cast, decimal = _CAST.search(message), _DECIMAL.search(message)
    if cast is not None:
        value, wanted = cast[1][:1].lower() + cast[1][1:200], cast[2]
    elif decimal is not None:
        value, wanted = f"the value {decimal[1][:100]}", f"DECIMAL({decimal[2]},{decimal[3]})"
    elif any(condition in message for condition in DOES_NOT_FIT):
        value, wanted = message.splitlines()[0], ""
    else:
        return None
    names = [path for field in fields for path in _of_type(field, wanted, "")]
    where = "its column" if not names else f"column {names[0]!r}"
    if len(names) > 1:
        where = f"one of the columns {', '.join(map(repr, names))}"
    beyond = f"{value} is beyond {wanted}" if wanted else value
    return SchemaMismatchError(
        f"a value does not fit {where}: {beyond}; nothing was written", names
    )


def _of_type(field: Field, wanted: str, prefix: str) -> list[str]:
    """The paths of what has a type, by Spark's name of the type."""
    path = f"{prefix}{field.name}"
    if isinstance(field.type, Struct):
        parts = (_of_type(each, wanted, f"{path}.") for each in field.type.fields)
        return [found for part in parts for found in part]
    return [path] if _holds(field.type, wanted) else []


def _holds(kind: Type, wanted: str) -> bool:
    if isinstance(kind, Decimal):
        return wanted == f"DECIMAL({kind.precision},{kind.scale})"
    inner = [getattr(kind, name, None) for name in ("element", "key", "value")]
    return _NAMES.get(str(kind)) == wanted or any(
        part is not None and _holds(part, wanted) for part in inner
    )
