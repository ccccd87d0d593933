"""Text of a log that Hadoop's settings carry to executors. Pure. Spec: SEC-4.

Spark tells its Parquet reader and writer the columns by a setting of Hadoop. Whoever reads a
setting there gets a system property, a variable of the environment or another setting in place of
`${…}`. A column of such a name is looked for, and written, under another one.
"""

from __future__ import annotations

import re
from typing import Any

from tablefmt.expressions.ddl import COMMENT
from tablefmt.model.schema import Schema, all_fields

_VARIABLE = re.compile(r"\$\{(?:env\.[^}$\s]*|[^}$\s:]*)\}")
"""What Hadoop may know. No setting and no property has a colon in its name, and text with a
variable that is not known stays as it is."""


def is_replaced(text: str) -> bool:
    """Whether Hadoop may put something else in place of a part of a text."""
    return _VARIABLE.search(text) is not None


def replaced_name(schema: Schema) -> str | None:
    """Return the first name of a column or field that stands in files, and that Hadoop may replace.

    None: there is none.
    """
    return next((f.physical for f in all_fields(schema) if is_replaced(f.physical)), None)


def without_variables(described: Any) -> Any:
    """Return Spark's JSON form of a type without comments that Hadoop may replace a part of."""
    if isinstance(described, list):
        return [without_variables(each) for each in described]
    if not isinstance(described, dict):
        return described
    return {
        name: without_variables(value)
        for name, value in described.items()
        if name != COMMENT or not isinstance(value, str) or not is_replaced(value)
    }
