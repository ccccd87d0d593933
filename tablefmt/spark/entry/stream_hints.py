"""What Spark keeps from a Python data source: that it is read as a stream, and what a stream that
is written was told of partitions and clusters. Options say it, by names that Spark has for such."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.case_folding import folded
from tablefmt.spark.columns.conditions import session_zone
from tablefmt.spark.entry.session import is_connect
from tablefmt.spark.jvm.pyspark_parts import java_reader, java_writer
from tablefmt.spark.options import CLUSTERING_COLUMNS, PARTITION_COLUMNS, TIMES, option_key
from tablefmt.spark.runtime.frames import Session

READ_STREAM = "__read_stream"
"""Given to what `readStream` loads. Spark hands names on in lower case."""


SESSION_ZONE = "__session_zone"
"""Given to what `read` and `readStream` load by a time: the session's time zone (TIM-5)."""

_TIMES = frozenset(map(option_key, TIMES))


def install(spark: Session) -> None:
    """Have `readStream` and `writeStream` of such sessions say it. Once a process is enough."""
    if is_connect(spark):
        from pyspark.sql.connect import readwriter as batches
        from pyspark.sql.connect.streaming import readwriter
    else:
        from pyspark.sql import readwriter as batches
        from pyspark.sql.streaming import readwriter
    _wrap(batches.DataFrameReader, "load", _zoned)
    _wrap(readwriter.DataStreamReader, "load", _loading)
    _wrap(readwriter.DataStreamWriter, "partitionBy", _telling(PARTITION_COLUMNS))
    _wrap(readwriter.DataStreamWriter, "clusterBy", _telling(CLUSTERING_COLUMNS))
    _wrap(readwriter.DataStreamWriter, "start", _start)
    _wrap(readwriter.DataStreamWriter, "toTable", _to_table)


def _wrap(kind: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    original = getattr(kind, name)
    if getattr(original, "tablefmt", False):
        return
    method: Any = functools.wraps(original)(wrapped(original))
    method.tablefmt = True
    setattr(kind, name, method)


def _loading(original: Any) -> Any:
    def load(self: Any, path: Any = None, format: Any = None, *given: Any, **named: Any) -> Any:
        # A classic reader does not show its format; others than ours do not look at the option.
        known = format or getattr(self, "_format", None)
        if known is None or _is_ours(known):
            self.option(READ_STREAM, True)
            _say_zone(self, named)
        return original(self, path, format, *given, **named)

    return load


def _zoned(original: Any) -> Any:
    def load(self: Any, path: Any = None, format: Any = None, *given: Any, **named: Any) -> Any:
        if _is_ours(format or _format_of(self)):
            _say_zone(self, named)
        return original(self, path, format, *given, **named)

    return load


def _format_of(reader: Any) -> Any:
    told = java_reader(reader)
    return getattr(reader, "_format", None) if told is None else told.source()


def _say_zone(reader: Any, named: Mapping[str, Any]) -> None:
    """Hand the session's time zone on, if there is a time among the options."""
    known = getattr(reader, "_options", None)
    # A classic reader does not show its options.
    if known is None or _TIMES.intersection(map(option_key, [*known, *named])):
        session = getattr(reader, "_client", None) or reader._spark
        reader.option(SESSION_ZONE, session_zone(session))


def _telling(option: str) -> Callable[[Any], Any]:
    def wrapped(original: Any) -> Any:
        def tell(self: Any, *cols: Any) -> Any:
            answer = original(self, *cols)
            names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
            self.option(option, json.dumps(list(names)))
            return answer

        return tell

    return wrapped


def _start(original: Any) -> Any:
    def start(self: Any, path: Any = None, format: Any = None, *given: Any, **named: Any) -> Any:
        described = getattr(self, "_write_proto", None)
        if described is not None and not _is_ours(format or described.format):
            # They may refuse options that they do not know.
            for option in (PARTITION_COLUMNS, CLUSTERING_COLUMNS):
                described.options.pop(option, None)
        return original(self, path, format, *given, **named)

    return start


def _to_table(original: Any) -> Any:
    def to_table(self: Any, tableName: str, format: Any = None, *given: Any, **named: Any) -> Any:
        known = format or getattr(getattr(self, "_write_proto", None), "format", None)
        if _is_ours(known) and java_writer(self) is None:
            raise UnsupportedFeatureError(
                "Spark hands nothing of a catalog's table on to a Python data source, so no batch "
                "would go there; give the path to start(), or use a classic session",
                ["spark:catalog-table"],
            )
        return original(self, tableName, format, *given, **named)

    return to_table


def _is_ours(format: Any) -> bool:
    return folded(str(format)) == "tablefmt"
