"""Wrap methods of PySpark that pass too little information on to tablefmt.

Writes by a table's name without a format get the table's own format. Spark would use
`spark.sql.sources.default` instead, mostly Parquet. Then `saveAsTable` replaces the table by a
Parquet table, a stream is rejected, and `insertInto` drops its options.

Spark does not tell a Python data source that it is read as a stream, and drops partition and
clustering columns of a written stream. Wrapped methods pass this information as options.

In sessions with a parser that cannot be extended, `spark.sql` names the method to call for
statements on a whole table.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.table_statements import read_statement
from tablefmt.model.name_matching import folded
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.catalog_locations import check_change, check_inspection
from tablefmt.spark.entry.java_arguments import catalog_table
from tablefmt.spark.entry.spark_session import is_connect
from tablefmt.spark.pyspark_objects import Session, java_reader, java_writer
from tablefmt.spark.spark_options import (
    CLUSTERING_COLUMNS,
    PARTITION_COLUMNS,
    TIMES,
    option_key,
)

_FORMAT_SET = "_tablefmt_format_set"
_FORMATS = "tablefmt_formats"
"""Mark of a method that is replaced for `format("tablefmt")` and our partitionings."""


def install_table_formats() -> None:
    """Make Spark's writers use the format of tablefmt tables. Call it once per process."""
    from pyspark.sql import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer in (DataFrameWriter, DataStreamWriter):
        _wrap(writer, "format", _noting_format, _FORMATS)
    _wrap(DataFrameWriter, "insertInto", _inserting, _FORMATS)
    _wrap(DataFrameWriter, "save", _to_path)
    _wrap(DataStreamWriter, "start", _to_partitioned_stream)
    # These see the format that the next ones set.
    _wrap(DataFrameWriter, "saveAsTable", _to_partitioned_table)
    _wrap(DataStreamWriter, "toTable", _to_partitioned_table)
    _wrap(DataFrameWriter, "saveAsTable", _to_named_table, _FORMATS)
    _wrap(DataStreamWriter, "toTable", _to_named_table, _FORMATS)
    for writer in (DataFrameWriter, DataStreamWriter):
        _wrap(writer, "partitionBy", _noting_partitions, _FORMATS)


def _wrap(kind: type, name: str, wrapped: Callable[[Any], Any], mark: str = "tablefmt") -> None:
    """Replace a method by what `wrapped` makes of it, once: an attribute of that name marks it."""
    original = getattr(kind, name)
    if getattr(original, mark, False):
        return
    method: Any = functools.wraps(original)(wrapped(original))
    setattr(method, mark, True)
    setattr(kind, name, method)


def _noting_format(original: Any) -> Any:
    def format_set(self: Any, source: str) -> Any:
        setattr(self, _FORMAT_SET, True)
        return original(self, source)

    return format_set


def _inserting(original: Any) -> Any:
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> None:
        if _has_options(self) and _is_our_table(self._spark, tableName):
            self.format("tablefmt")
        original(self, tableName, overwrite)

    return insert_into


def _to_named_table(original: Any) -> Any:
    def to_table(self: Any, *given: Any, **named: Any) -> Any:
        name = given[0] if given else named.get("name", named.get("tableName"))
        format = given[1] if len(given) > 1 else named.get("format")
        has_format = format is not None or getattr(self, _FORMAT_SET, False)
        if not has_format and isinstance(name, str) and _is_our_table(self._spark, name):
            self.format("tablefmt")
        return original(self, *given, **named)

    return to_table


_PARTITIONS = "_tablefmt_partitions"
_CALL = re.compile(r"\s*\w+\s*\(.*\)\s*", re.DOTALL)


def _noting_partitions(original: Any) -> Any:
    def partition_by(self: Any, *cols: Any) -> Any:
        setattr(self, _PARTITIONS, _names_in(cols))
        return original(self, *cols)

    return partition_by


def _names_in(cols: Sequence[Any]) -> list[Any]:
    one = len(cols) == 1 and isinstance(cols[0], list | tuple)
    return list(cols[0] if one else cols)


def _transforms(writer: Any, format: Any, given: Any) -> list[str]:
    """Return the partitioning of a write in our format, if it has transforms such as `days(ts)`.

    Spark takes each argument of `partitionBy` as the name of a column.
    """
    names = _names_in([given]) if given else getattr(writer, _PARTITIONS, [])
    hidden = any(isinstance(name, str) and _CALL.fullmatch(name) for name in names)
    return names if hidden and _is_our_format(format or _format_of_writer(writer)) else []


def _format_of_writer(writer: Any) -> Any:
    java = java_writer(writer)
    described = getattr(writer, "_write", None) or getattr(writer, "_write_proto", None)
    known = getattr(described, "source", None) or getattr(described, "format", None)
    return known if java is None else java.source()


def _to_path(original: Any) -> Any:
    def save(
        self: Any,
        path: Any = None,
        format: Any = None,
        mode: Any = None,
        partitionBy: Any = None,
        **named: Any,
    ) -> Any:
        names = _transforms(self, format, partitionBy)
        if names and java_writer(self) is None:
            partitionBy = None
            self.partitionBy().option(PARTITION_COLUMNS, json.dumps(names))
        elif names:
            partitionBy = [quote_name(name) for name in names]
        return original(self, path, format, mode, partitionBy, **named)

    return save


def _to_partitioned_stream(original: Any) -> Any:
    def start(
        self: Any,
        path: Any = None,
        format: Any = None,
        outputMode: Any = None,
        partitionBy: Any = None,
        **named: Any,
    ) -> Any:
        names = _transforms(self, format, partitionBy)
        if names:
            partitionBy = None
            self.partitionBy().option(PARTITION_COLUMNS, json.dumps(names))
        return original(self, path, format, outputMode, partitionBy, **named)

    return start


def _to_partitioned_table(original: Any) -> Any:
    def to_table(self: Any, *given: Any, **named: Any) -> Any:
        format = given[1] if len(given) > 1 else named.get("format")
        names = _transforms(self, format, given[3] if len(given) > 3 else named.get("partitionBy"))
        if names:
            listed = ", ".join(names)
            raise UnsupportedFeatureError(
                f"partitionBy({listed!r}): Spark takes the words as names of columns if the table "
                f"has a name. Create the table with CREATE TABLE … PARTITIONED BY ({listed}), or "
                "with df.writeTo(name).partitionedBy(…), and leave partitionBy out here",
                ["spark:partitionBy"],
            )
        return original(self, *given, **named)

    return to_table


def _has_options(writer: Any) -> bool:
    options = getattr(java_writer(writer), "extraOptions", None)
    return options is not None and not options().isEmpty()


def _is_our_table(spark: Session, name: str) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        found = catalog_table(spark, name)
    except (Py4JError, PySparkException):
        found = None
    # For a path, Spark itself reports what is wrong.
    return found is not None or folded(name).startswith("tablefmt.")


READ_STREAM = "__read_stream"
"""Option that `readStream` adds. Spark passes option names on in lower case."""


SESSION_ZONE = "__session_zone"
"""Option with the session's time zone, added to reads with an option that is a time (TIM-5)."""

_TIMES = frozenset(map(option_key, TIMES))


def install_stream_hints(spark: Session) -> None:
    """Make `readStream` and `writeStream` pass the options that sources need. Once per process."""
    of_kind = "pyspark.sql.connect" if is_connect(spark) else "pyspark.sql"
    batches = importlib.import_module(f"{of_kind}.readwriter")
    streams = importlib.import_module(f"{of_kind}.streaming.readwriter")
    _wrap(batches.DataFrameReader, "load", _zoned)
    _wrap(batches.DataFrameWriter, "partitionBy", _noting_partitions, _FORMATS)
    _wrap(batches.DataFrameWriter, "save", _to_path)
    _wrap(streams.DataStreamReader, "load", _loading)
    _wrap(streams.DataStreamWriter, "partitionBy", _passing_columns(PARTITION_COLUMNS))
    _wrap(streams.DataStreamWriter, "clusterBy", _passing_columns(CLUSTERING_COLUMNS))
    _wrap(streams.DataStreamWriter, "start", _start)
    _wrap(streams.DataStreamWriter, "toTable", _to_table)


def _loading(original: Any) -> Any:
    def load(self: Any, path: Any = None, format: Any = None, *given: Any, **named: Any) -> Any:
        # A classic reader does not show its format. Other formats ignore the option.
        known = format or getattr(self, "_format", None)
        if known is None or _is_our_format(known):
            self.option(READ_STREAM, True)
            _pass_zone(self, named)
        return original(self, path, format, *given, **named)

    return load


def _zoned(original: Any) -> Any:
    def load(self: Any, path: Any = None, format: Any = None, *given: Any, **named: Any) -> Any:
        if _is_our_format(format or _format_of(self)):
            _pass_zone(self, named)
        return original(self, path, format, *given, **named)

    return load


def _format_of(reader: Any) -> Any:
    java = java_reader(reader)
    return getattr(reader, "_format", None) if java is None else java.source()


def _pass_zone(reader: Any, named: Mapping[str, Any]) -> None:
    """Pass the session's time zone on if an option is a time."""
    known = getattr(reader, "_options", None)
    # A classic reader does not show its options.
    if known is None or _TIMES.intersection(map(option_key, [*known, *named])):
        session = getattr(reader, "_client", None) or reader._spark
        reader.option(SESSION_ZONE, session_zone(session))


def _passing_columns(option: str) -> Callable[[Any], Any]:
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
        if described is not None and not _is_our_format(format or described.format):
            # Other formats may reject options that they do not know.
            for option in (PARTITION_COLUMNS, CLUSTERING_COLUMNS):
                described.options.pop(option, None)
        return original(self, path, format, *given, **named)

    return start


def _to_table(original: Any) -> Any:
    def to_table(self: Any, tableName: str, format: Any = None, *given: Any, **named: Any) -> Any:
        known = format or getattr(getattr(self, "_write_proto", None), "format", None)
        if _is_our_format(known) and java_writer(self) is None:
            raise UnsupportedFeatureError(
                "toTable() does not work for tablefmt in this session: Spark passes neither path "
                "nor options of a catalog table on to a Python data source; pass the path to "
                "start(), or use a classic session",
                ["spark:catalog-table"],
            )
        return original(self, tableName, format, *given, **named)

    return to_table


def _is_our_format(format: Any) -> bool:
    return folded(str(format)) == "tablefmt"


CALLS: Mapping[str, str] = {
    "HISTORY": "tablefmt.spark.open(spark, uri).history()",
    "DETAIL": "tablefmt.open(uri), which has version, schema and properties, or on the command "
    "line `tablefmt describe URI`",
    "OPTIMIZE": "tablefmt.spark.open(spark, uri).compact(where=…), or cluster(columns, where=…) "
    "for ZORDER BY",
    "VACUUM": "tablefmt.spark.open(spark, uri).vacuum(retention=…, dry_run=False)",
    "CONVERT": "tablefmt.spark.import_table(spark, uri, format)",
    "CLONE": "tablefmt.spark.open(spark, uri).clone(into, shallow=…)",
    "SYNC": "tablefmt.spark.open(spark, uri).alter.sync_identity(column)",
    "PARTITION": "tablefmt.spark.open(spark, uri).alter.set_partitioning(fields)",
    "RESTORE": "tablefmt.spark.open(spark, uri).restore(version=…), or timestamp=…",
    "REORG": 'tablefmt.spark.open(spark, uri).compact("major")',
    "CALL": "the method of tablefmt.spark.open(spark, uri) that does the same: restore, vacuum, "
    "compact, cluster, changes or clone",
    "TAG": "tablefmt.spark.open(spark, uri).alter.set_tag(name, version=…), or drop_tag(name)",
    "WRITE": "tablefmt.spark.open(spark, uri).alter.set_clustering(columns)",
}
"""Method to call instead of a statement, by verb of a `TableStatement`."""


def install_statement_hints(spark: Session) -> None:
    """Make `spark.sql` of a session name the method to call for statements that Spark cannot parse.

    Statements that the session's Spark can parse behave as before.
    """
    original = spark.sql
    if getattr(original, "tablefmt", False):
        return

    @functools.wraps(original)
    def sql(sqlQuery: str, *arguments: Any, **named: Any) -> Any:
        from pyspark.errors import AnalysisException

        check_change(original, sqlQuery)
        try:
            return original(sqlQuery, *arguments, **named)
        except AnalysisException as error:
            asked, problem = read_statement(sqlQuery), error
            if asked is not None and not _is_unknown(error, asked.verb):
                raise
        if asked is None:
            check_inspection(original, problem)
            raise problem
        if asked.refused is not None:
            raise problem
        raise UnsupportedFeatureError(
            f"this session's Spark cannot run {asked.verb} on a table; for a tablefmt table, "
            f"call {CALLS[asked.verb]}",
            [f"sql:{asked.verb}"],
        )

    sql.tablefmt = True  # type: ignore[attr-defined]
    spark.sql = sql  # type: ignore[method-assign]


def _is_unknown(error: Exception, verb: str) -> bool:
    """Return whether Spark rejected the syntax, not the table."""
    from pyspark.errors import ParseException

    # Spark parses DESCRIBE HISTORY t as column t of a table HISTORY.
    return isinstance(error, ParseException) or f"`{verb}`" in str(error).upper()
