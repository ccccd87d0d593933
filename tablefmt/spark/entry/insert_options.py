"""Writes by a table's name that give no format: a table of ours takes its own.

Spark would take `spark.sql.sources.default` then, mostly Parquet: `saveAsTable` over the table puts
a Parquet table in its place, a stream is refused, and `insertInto` drops its options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tablefmt.model.case_folding import folded
from tablefmt.spark.entry.callers import catalog_table
from tablefmt.spark.jvm.pyspark_parts import java_writer

_TOLD = "_tablefmt_format_told"


def install() -> None:
    """Have Spark's writers take the format of a table of ours. Once a process is enough."""
    from pyspark.sql import DataFrameWriter
    from pyspark.sql.streaming import DataStreamWriter

    for writer in (DataFrameWriter, DataStreamWriter):
        _wrap(writer, "format", _noting)
    _wrap(DataFrameWriter, "insertInto", _inserting)
    _wrap(DataFrameWriter, "saveAsTable", _to_table)
    _wrap(DataStreamWriter, "toTable", _to_table)


def _wrap(kind: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    original = getattr(kind, name)
    if getattr(original, "tablefmt_formats", False):
        return
    method: Any = functools.wraps(original)(wrapped(original))
    method.tablefmt_formats = True
    setattr(kind, name, method)


def _noting(original: Any) -> Any:
    def told(self: Any, source: str) -> Any:
        setattr(self, _TOLD, True)
        return original(self, source)

    return told


def _inserting(original: Any) -> Any:
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> None:
        if _has_options(self) and _is_ours(self._spark, tableName):
            self.format("tablefmt")
        original(self, tableName, overwrite)

    return insert_into


def _to_table(original: Any) -> Any:
    def to_table(self: Any, *given: Any, **named: Any) -> Any:
        name = given[0] if given else named.get("name", named.get("tableName"))
        format = given[1] if len(given) > 1 else named.get("format")
        told = format is not None or getattr(self, _TOLD, False)
        if not told and isinstance(name, str) and _is_ours(self._spark, name):
            self.format("tablefmt")
        return original(self, *given, **named)

    return to_table


def _has_options(writer: Any) -> bool:
    options = getattr(java_writer(writer), "extraOptions", None)
    return options is not None and not options().isEmpty()


def _is_ours(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        found = catalog_table(spark, name)
    except (Py4JError, PySparkException):
        found = None
    # Spark itself says what is wrong with a path.
    return found is not None or folded(name).startswith("tablefmt.")
