"""Options of `df.write.insertInto`, which Spark drops unless a format was given too."""

from __future__ import annotations

import functools
from typing import Any

from tablefmt.spark.entry.callers import catalog_table


def install() -> None:
    """Have `insertInto` with options say that a table of ours is one. Once a process is enough."""
    from pyspark.sql import DataFrameWriter

    original = DataFrameWriter.insertInto
    if getattr(original, "tablefmt", False):
        return

    @functools.wraps(original)
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> None:
        if _has_options(self) and _is_ours(self._spark, tableName):
            self.format("tablefmt")
        original(self, tableName, overwrite)

    insert_into.tablefmt = True  # type: ignore[attr-defined]
    DataFrameWriter.insertInto = insert_into


def _has_options(writer: Any) -> bool:
    options = getattr(getattr(writer, "_jwrite", None), "extraOptions", None)
    return options is not None and not options().isEmpty()


def _is_ours(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        found = catalog_table(spark, name)
    except (Py4JError, PySparkException):
        found = None
    # Spark itself says what is wrong with a path.
    return found is not None or name.casefold().startswith("tablefmt.")
