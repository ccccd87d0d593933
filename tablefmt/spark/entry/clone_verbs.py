"""JVM callback handlers of CREATE TABLE … CLONE: see `expressions.table_statements`.

Spark's catalog gets the entry of the new table, or an error removes it again (SessionCatalog.java).
A table that is named by its path is in no catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import TableExistsError, TableNotFoundError, UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.table_statements import CloneRequest, TableStatement, read_statement
from tablefmt.imports.clone import clone, clone_roots
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.times import from_micros
from tablefmt.session.table_context import TableContext
from tablefmt.spark.entry.java_arguments import (
    CatalogTable,
    follow,
    java_columns,
    new_table,
    place,
    session_of,
    set_storage_option,
    storage_texts,
)
from tablefmt.spark.pyspark_objects import JavaObject, Session
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.import_roots import OPTION, roots_of
from tablefmt.store.location import is_same_place, open_store

_CREATE = "write CREATE OR REPLACE TABLE to create it"
_REPLACE = "Write CREATE OR REPLACE TABLE to replace it, or CREATE TABLE IF NOT EXISTS to keep it."

_NUMBERS = (
    "source_table_size",
    "source_num_of_files",
    "num_removed_files",
    "num_copied_files",
    "removed_files_size",
    "copied_files_size",
)

RESULT = pa.schema([(name, pa.int64()) for name in _NUMBERS])
"""Columns of the result, by Delta's names. A clone that was not needed has no row."""


def described_clone(spark: Session, asked: TableStatement, source: CatalogTable) -> dict[str, Any]:
    """Return what Java must know to add the new table to Spark's catalog; empty if it need not.

    Raises:
        TableNotFoundError: REPLACE TABLE of no table.
        UnsupportedFeatureError: the name is in another catalog; LOCATION of a path.
    """
    request = _request(asked)
    target = new_table(spark, request.target)
    if target.by_path and request.location is not None:
        raise UnsupportedFeatureError(
            f"{request.target} is a path, so the statement takes no LOCATION; leave it out",
            ["sql:location"],
        )
    if target.by_path or target.taken:
        return {}
    if not request.create:
        raise TableNotFoundError(request.target, _CREATE)
    context = open_context(open_store(source.uri, source.storage_options))
    version = context.resolve_point(**point_of(spark, asked))
    options = _storage(source.storage_options, context, version, request)
    properties = {f"option.{name}": text for name, text in storage_texts(options).items()}
    properties["provider"] = "tablefmt"
    if request.location is not None:
        properties["location"] = request.location
    columns = json.dumps(to_spark_json(context.view.metadata_at(version).schema))
    return {"entry": {"name": list(target.words), "columns": columns, "properties": properties}}


def _request(asked: TableStatement) -> CloneRequest:
    assert asked.clone is not None
    return asked.clone


def _storage(
    known: Mapping[str, Any], source: TableContext, version: int, request: CloneRequest
) -> dict[str, Any]:
    """Return the storage options of the new table. It may read the folders of a shallow clone."""
    options = dict(known)
    if request.shallow:
        roots = [*roots_of(options.get(OPTION, "")), *clone_roots(source, version)]
        if any("," in root for root in roots):
            raise UnsupportedFeatureError(
                f"one of the folders {roots!r:.500} has a comma, which Spark's catalog cannot keep "
                "in a list; make a deep clone",
                ["clone:comma"],
            )
        options[OPTION] = ",".join(dict.fromkeys(roots))
    return options


def _make(session: JavaObject, described: str, uri: str) -> JavaObject:
    """Make the table of an entry that Spark's catalog just got, and return its columns."""
    spark, given = session_of(session), json.loads(described)
    asked = read_statement(given["text"])
    assert asked is not None
    made = _made(spark, given, asked, place(uri), given["storage"])
    return java_columns(made.view.head.metadata.schema)


def _made(
    spark: Session,
    given: Mapping[str, Any],
    asked: TableStatement,
    uri: str,
    storage: Mapping[str, Any],
) -> TableContext:
    """Make the clone at a place, or replace the table there."""
    request = _request(asked)
    return clone(
        open_context(open_store(given["uri"], given["storage"])),
        open_store(uri, {name: value for name, value in storage.items() if name != OPTION}),
        shallow=request.shallow,
        replace=request.replace,
        properties=translate_properties(dict(request.properties)),
        **point_of(spark, asked),
    )


def clone_result(spark: Session, given: Mapping[str, Any], asked: TableStatement) -> pa.Table:
    """Run a statement, unless its new entry of the catalog made the table. Return its result.

    Raises:
        TableExistsError: the name is taken.
        TableNotFoundError: REPLACE TABLE of no table.
        UnsupportedFeatureError: a table of another format, a view, or another LOCATION.
    """
    request = _request(asked)
    target = new_table(spark, request.target)
    there = target.there
    if there is None:
        if request.if_missing:
            return RESULT.empty_table()
        raise UnsupportedFeatureError(
            f"{request.target} is a view, or a table of another format; name another table, or "
            "drop it first",
            ["sql:clone"],
        )
    found = open_context_if_exists(open_store(there.uri, there.storage_options))
    if found is not None:
        if "entry" in given:
            return _row(found)
        if request.if_missing:
            return RESULT.empty_table()
        if not request.replace:
            raise TableExistsError(there.uri, advice=_REPLACE)
    elif not request.create:
        raise TableNotFoundError(there.uri, _CREATE)
    if request.location is not None and not is_same_place(request.location, there.uri):
        raise UnsupportedFeatureError(
            f"{request.target} is at {there.uri}, so it cannot get another LOCATION; leave it out, "
            "or drop the table first",
            ["sql:location"],
        )
    made = _made(spark, given, asked, there.uri, there.storage_options)
    if target.taken:
        _follow(spark, given, asked, there, made)
    return _row(made)


def _follow(
    spark: Session,
    given: Mapping[str, Any],
    asked: TableStatement,
    there: CatalogTable,
    made: TableContext,
) -> None:
    """Give the entry of a table that was replaced its new columns and folders."""
    follow(spark, there.quoted, made.view.head.metadata.schema)
    if _request(asked).shallow:
        source = open_context(open_store(given["uri"], given["storage"]))
        version = source.resolve_point(**point_of(spark, asked))
        options = _storage(there.storage_options, source, version, _request(asked))
        set_storage_option(spark, there.quoted, f"storage.{OPTION}", options[OPTION])
    spark.catalog.refreshTable(there.quoted)


def _row(made: TableContext) -> pa.Table:
    """Return the row of the result: Delta's metrics."""
    version = made.view.head.version
    entry = made.view.entries_after(version - 1, version)[-1].entry
    metrics = entry.operation.metrics
    files = made.view.snapshot(version).files_with({"path", "size"})
    # Copies are in the folder of their transaction. Files that were copied before are not.
    copies = files.filter(pc.match_substring(files["path"], entry.transaction))["size"]
    if entry.operation.parameters["isShallow"]:
        copies = copies[:0]
    values = {
        "source_table_size": metrics.get("numOutputBytes", 0),
        "source_num_of_files": metrics.get("numFiles", 0),
        "num_removed_files": metrics.get("numRemovedFiles", 0),
        "num_copied_files": len(copies),
        "removed_files_size": metrics.get("numRemovedBytes", 0),
        "copied_files_size": pc.sum(copies).as_py() or 0,
    }
    return pa.Table.from_pylist([values], RESULT)


def point_of(spark: Session, asked: TableStatement) -> dict[str, Any]:
    """Return the version that a statement names, as an argument: `version` or `timestamp`."""
    if asked.timestamp is None:
        version = asked.version if asked.tag is None else asked.tag
        return {} if version is None else {"version": version}
    # Spark evaluates its own literals, in the session's time zone.
    query = f"SELECT unix_micros(CAST({asked.timestamp} AS TIMESTAMP))"
    (micros,) = spark.sql(query).collect()[0]
    if micros is None:
        # With ANSI off, Spark returns NULL for an invalid time. Our parser raises the error.
        return {"timestamp": asked.timestamp.strip("'")}
    return {"timestamp": from_micros(micros)}


VERBS: Mapping[str, Callable[..., Any]] = {"clone": _make}
"""Handlers by the name that Java uses."""
