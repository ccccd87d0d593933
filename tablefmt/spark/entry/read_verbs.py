"""Verbs that read: what `spark.read` and names in SQL stand for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import InvalidRangeError, SchemaMismatchError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.case_folding import folded
from tablefmt.model.entry import Metadata
from tablefmt.model.integers import number_in_text
from tablefmt.model.times import Time, from_micros
from tablefmt.spark.backends.choice import spark_reads_files
from tablefmt.spark.backends.sql_relation import live_partitions, sql_relation
from tablefmt.spark.columns.conditions import session_zone
from tablefmt.spark.columns.declared import declared, different, shown
from tablefmt.spark.columns.evolution import made_here
from tablefmt.spark.entry.callers import (
    context_of,
    follow,
    java_columns,
    path_of,
    place,
    session_of,
    storage_texts,
)
from tablefmt.spark.entry.stream_hints import SESSION_ZONE
from tablefmt.spark.jvm import loader
from tablefmt.spark.jvm.pyspark_parts import java_rows
from tablefmt.spark.options import ReadOptions, parse_read_options
from tablefmt.spark.runtime.frames import JavaObject
from tablefmt.spark.statements.changes import changes_frame
from tablefmt.spark.statements.open_logs import open_context, open_if_there
from tablefmt.store.open import open_store
from tablefmt.table import Table


def _load(session: JavaObject, given: str, columns: str | None) -> JavaObject:
    """A relation for `spark.read.format("tablefmt")`, pinned to a version.

    `columns` are those that the reader was told to expect, if any.
    """
    asked = json.loads(given)
    # Of a session without our classes.
    asked.pop(SESSION_ZONE, None)
    options = parse_read_options(asked, session_zone(session_of(session)))
    uri = path_of(options.path)
    if options.changes is not None:
        return _row_changes(session, uri, options, columns)
    relation = _relation(session, uri, options.storage_options, options.version, options.timestamp)
    if columns is not None:
        ours, theirs = declared(relation.schema().json()), declared(columns)
        if ours != theirs:
            raise SchemaMismatchError(
                f"the reader was told {shown(theirs)}, and the table at {uri} has {shown(ours)}; "
                "leave schema() out, and choose columns with select()",
                different(ours, theirs),
            )
    return relation


def _row_changes(
    session: JavaObject, uri: str, options: ReadOptions, columns: str | None
) -> JavaObject:
    """A relation for the row changes of a range."""
    spark = session_of(session)
    table = Table(open_context(open_store(uri, options.storage_options)))
    assert options.changes is not None
    frame = changes_frame(spark, table.changes(**options.changes))
    if columns is not None and declared(columns) != declared(java_rows(frame).schema().json()):
        raise SchemaMismatchError(
            "the reader was told other columns than those of the changes; leave schema() out, and "
            "choose columns with select()",
            [],
        )
    return loader.new_instance(spark, "ChangesRelation", java_rows(frame))


def _open(
    session: JavaObject,
    name: str,
    uri: str,
    storage: str,
    columns: str | None,
    version: str | None,
    micros: int | None,
) -> JavaObject:
    """A relation for a table of the catalog; its columns have to be those of the catalog.

    Where this process itself gave the table other ones, the catalog gets them now. No `columns`:
    the table is named by its path, and no catalog knows it.
    """
    uri = place(uri)
    options = parse_read_options({**json.loads(storage), "path": uri}, None)
    at = None if micros is None else from_micros(micros)
    relation = _relation(session, uri, options.storage_options, _version(version), at)
    if columns is None:
        return relation
    ours, theirs = declared(relation.schema().json()), declared(columns)
    if version is None and micros is None and ours != theirs:
        head = open_context(open_store(uri, options.storage_options)).view.head
        now = head.metadata.schema
        if made_here(
            head.table, lambda known: declared(json.dumps(to_spark_json(known))) == theirs, now
        ):
            follow(session_of(session), name, now)
            return relation
        raise SchemaMismatchError(
            f"Spark's catalog has other columns for {name} than the table at {uri}: "
            f"{shown(theirs)} against {shown(ours)}; "
            f"tablefmt.spark.sync(spark, {name.replace('`', '')!r}) brings the catalog up to date",
            different(ours, theirs),
        )
    return relation


def _relation(
    session: JavaObject,
    uri: str,
    storage: Mapping[str, Any],
    version: int | None,
    at: Time | None,
) -> JavaObject:
    spark = session_of(session)
    context = open_context(open_store(uri, storage))
    point = context.resolve_point(version, at)
    snapshot = context.view.snapshot(point)
    asked = version is not None or at is not None
    texts = storage_texts(storage)
    relation = sql_relation(spark, context.store, snapshot, uri, texts, asked=asked)
    if relation.described() is None:
        metadata = context.view.metadata_at(point)
        relation.describe(json.dumps(_described(metadata)))
    return relation


def _described(metadata: Metadata) -> dict[str, Any]:
    """What SHOW and DESCRIBE tell of a table besides its columns."""
    checks = {name: each.condition for name, each in metadata.constraints.items()}
    comment = {} if metadata.comment is None else {"comment": metadata.comment}
    return {"properties": {**metadata.properties, **comment}, "constraints": checks}


def _partitions(session: JavaObject, uri: str, storage: str) -> str | None:
    """The partitions that there are rows in: see `live_partitions`."""
    context = context_of(uri, storage)
    snapshot = context.view.snapshot()
    return live_partitions(snapshot.files, snapshot.schema, context.view.head.metadata.partition_by)


def _columns(session: JavaObject, uri: str, storage: str) -> JavaObject:
    """The columns that a table has now."""
    schema = context_of(uri, storage).view.head.metadata.schema
    return java_columns(session_of(session), schema)


def _exists(path: str) -> bool:
    return open_if_there(open_store(path)) is not None


def _reads_files(session: JavaObject, path: str, given: str) -> bool:
    """Whether Spark itself reads and writes the files of the table there."""
    stored = {k: v for k, v in json.loads(given).items() if folded(k).startswith("storage")}
    storage = parse_read_options(stored, None).storage_options
    return spark_reads_files(session_of(session), open_store(path, storage))


def _version(text: str | None) -> int | None:
    number = None if text is None else number_in_text(text)
    if number is None and text is not None:
        raise InvalidRangeError(f"VERSION AS OF {text!r}: a version is a whole number")
    return number


VERBS: Mapping[str, Callable[..., Any]] = {
    "load": _load,
    "open": _open,
    "columns": _columns,
    "exists": _exists,
    "partitions": _partitions,
    "reads_files": _reads_files,
}
"""By the names by which Java calls them."""
