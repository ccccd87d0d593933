"""The text of a Column: the same for one that is put together anew, so that a retry is known."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from tablefmt.model.case_folding import folded
from tablefmt.spark.jvm.pyspark_parts import active_jvm, java_column

if TYPE_CHECKING:
    from pyspark.sql import Column

_PLACE_IN_MEMORY = re.compile(r"@[0-9a-f]+\b")
_VARIABLE = re.compile(r"\b([xyz])_[0-9]+\b")
"""PySpark counts the variables of all lambdas of a process."""


def text_of(column: Column, names: Collection[str]) -> str:
    """What a Column says, for people and for the digest of a statement (CFL-23).

    Args:
        column: of a classic or a Connect session. One with a seed of its own, as `rand()` has, is
            another each time.
        names: columns of the table: what is called like one stays as it is, a variable too.
    """
    text = _plain(column)
    if "->" not in text and "lambdafunction(" not in folded(text):
        return text
    seen = {folded(name) for name in names}
    numbers: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        if match[0] in seen:
            return match[0]
        return f"<{match[1]}{numbers.setdefault(match[0], len(numbers) + 1)}>"

    return _VARIABLE.sub(renamed, text)


def _plain(column: Column) -> str:
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    java = java_column(column)
    if java is None or _PLACE_IN_MEMORY.search(text) is None:
        return text
    from py4j.protocol import Py4JError

    # Spark shows bytes, and functions of Python, by where they are; its SQL says what they are.
    classic = active_jvm().org.apache.spark.sql.classic
    converter = getattr(classic, "ColumnNodeToExpressionConverter$")
    try:
        return str(getattr(converter, "MODULE$").apply(java.node()).sql())
    except Py4JError:
        return text
