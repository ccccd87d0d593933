"""Verbs of streams: what `spark.readStream` stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import SchemaMismatchError, TableReplacedError, UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.schema_views import nullable
from tablefmt.snapshot.load import LogView
from tablefmt.spark.columns.conditions import session_zone
from tablefmt.spark.columns.declared import declared, different, shown
from tablefmt.spark.entry.callers import path_of, place, session_of
from tablefmt.spark.entry.stream_hints import READ_STREAM, SESSION_ZONE
from tablefmt.spark.runtime.frames import JavaObject
from tablefmt.spark.statements.open_logs import open_context
from tablefmt.spark.streams.source_classic import java_stream
from tablefmt.spark.streams.source_columns import stream_columns
from tablefmt.spark.streams.source_options import StreamOptions, parse_stream_options
from tablefmt.store.open import open_store


def _stream_columns(session: JavaObject, given: str, columns: str | None) -> str:
    """The columns of a stream that is loaded, as JSON text, behind a line that says of when."""
    options, view = _opened(session, given)
    head = view.head
    table = nullable(head.metadata.schema)
    described = json.dumps(stream_columns(table, options))
    if columns is not None:
        # A catalog knows those of the table.
        ours, theirs = declared(json.dumps(to_spark_json(table))), declared(columns)
        if theirs not in (ours, declared(described)):
            raise SchemaMismatchError(
                f"the stream was told {shown(theirs)}, and the table has {shown(ours)}; leave "
                "schema() out, and choose columns with select()",
                different(ours, theirs),
            )
    return f"{head.table}:{head.version}\n{described}"


def _stream(session: JavaObject, given: str, loaded: str | None) -> JavaObject:
    """A source for a query over a stream that was loaded."""
    if loaded is None:
        raise UnsupportedFeatureError(
            "Spark has made another relation of the stream than the one that was loaded; load the "
            'stream by its path: spark.readStream.format("tablefmt").load(path)',
            ["spark:stream"],
        )
    options, view = _opened(session, given)
    table, _, version = loaded.rpartition(":")
    if view.head.table != table:
        raise TableReplacedError(
            "another table is there now than when the stream was loaded", rule="STR-5"
        )
    return java_stream(session_of(session), view, options, int(version))


def _opened(session: JavaObject, given: str) -> tuple[StreamOptions, LogView]:
    asked = json.loads(given)
    # Of Hive's catalog, beside the options of the storage; and of a session without our classes.
    for name in ("serialization.format", READ_STREAM, SESSION_ZONE):
        asked.pop(name, None)
    options = parse_stream_options(asked, session_zone(session_of(session)))
    uri = place(path_of(options.path))
    return options, open_context(open_store(uri, options.storage_options)).view


VERBS: Mapping[str, Callable[..., Any]] = {
    "stream_columns": _stream_columns,
    "stream": _stream,
}
"""By the names by which Java calls them."""
