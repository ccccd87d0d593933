"""JVM callback handlers that read: for `spark.read`, and for table names in SQL.

Reads by name with options return the same rows as reads by path, or raise an error. Spec: TIM-6.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.generated_columns import check_conditions, generated_expressions
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.identity_columns import identity_texts
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.properties import USER_PREFIX, plain_properties
from tablefmt.model.times import Time, from_micros, show_time, to_micros
from tablefmt.operations.metadata_tables import metadata_name
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.backend_choice import spark_reads_files
from tablefmt.spark.backends.query_plans import live_partitions, sql_relation
from tablefmt.spark.columns.catalog_columns import changed_here, declared, different, shown
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.delta_settings import check_read_settings
from tablefmt.spark.entry.java_arguments import (
    CatalogTable,
    catalog_table,
    context_of,
    follow,
    is_view,
    java_columns,
    name_parts,
    path_of,
    place,
    session_of,
    storage_texts,
    version_or_tag,
)
from tablefmt.spark.entry.metadata_frames import metadata_at, metadata_frame
from tablefmt.spark.entry.pyspark_wrappers import SESSION_ZONE
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import DataFrame, JavaObject, Session, java_rows, java_session
from tablefmt.spark.spark_options import (
    OF_STREAMS,
    READ_OPTIONS,
    ReadOptions,
    option_key,
    parse_read_options,
    pop_option,
)
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.spark.statements.frame_reads import changes_frame
from tablefmt.store.location import is_same_place, open_store
from tablefmt.table import Table


def _load(session: JavaObject, given: str, columns: str | None) -> JavaObject:
    """Return a relation for `spark.read.format("tablefmt")`, at a fixed version.

    `columns` is the schema that the caller gave the reader, if any.
    """
    asked = json.loads(given)
    # A session without our Java classes adds this option.
    asked.pop(SESSION_ZONE, None)
    options = parse_read_options(asked, session_zone(session_of(session)))
    uri = path_of(options.path)
    metadata = metadata_at(uri, options.storage_options)
    found = None if metadata else in_catalog(session_of(session), uri)
    if found is not None:
        uri, storage, kind = found
        options = replace(options, storage_options=storage)
        metadata = None if kind is None else (uri, kind)
    if metadata is not None:
        rows = metadata_frame(session_of(session), *metadata, options)
        return _query(session_of(session), rows, columns)
    if options.changes is not None:
        return _row_changes(session, uri, options, columns)
    relation = _relation(session, uri, options.storage_options, options.version, options.timestamp)
    if columns is not None:
        ours, theirs = declared(relation.schema().json()), declared(columns)
        if ours != theirs:
            raise SchemaMismatchError(
                f"the reader has the schema {shown(theirs)}, and the table at {uri} has "
                f"{shown(ours)}; leave schema() out, and choose columns with select()",
                different(ours, theirs),
            )
    rows = relation.rows()
    if rows is not None:
        return java_classes.new_instance(session_of(session), "ChangesRelation", rows)
    return relation


def in_catalog(spark: Session, path: str) -> tuple[str, Mapping[str, Any], str | None] | None:
    """Return the table that a name stands for in place of a path, as in Iceberg's `load`.

    A table at the path is read instead. The last item is the kind of a metadata table.
    """
    from pyspark.errors import ParseException

    if "/" in path or "#" in path or _exists(path):
        return None
    try:
        words = tuple(name_parts(path))
    except ParseException:
        return None
    table = catalog_table(spark, ".".join(map(quote_name, words)))
    if table is not None:
        return table.uri, table.storage_options, None
    asked = metadata_name(words)
    if asked is None:
        return None
    table = catalog_table(spark, ".".join(map(quote_name, asked.table)))
    return None if table is None else (table.uri, table.storage_options, asked.kind)


def _row_changes(
    session: JavaObject, uri: str, options: ReadOptions, columns: str | None
) -> JavaObject:
    """Return a relation for the row changes of a range of versions."""
    spark = session_of(session)
    check_read_settings(spark)
    table = Table(open_context(open_store(uri, options.storage_options)))
    assert options.changes is not None
    frame = changes_frame(spark, table.changes(**options.changes))
    if not options.change_columns:
        frame = frame.drop(*CHANGE_COLUMNS.names)
    return _query(spark, frame, columns)


def _query(spark: Session, frame: DataFrame, columns: str | None) -> JavaObject:
    """Return a relation for a query, and check the schema that the caller gave."""
    if columns is not None and declared(columns) != declared(java_rows(frame).schema().json()):
        raise SchemaMismatchError(
            "the schema given to schema() differs from that of the rows; leave schema() out, and "
            "choose columns with select()",
            [],
        )
    return java_classes.new_instance(spark, "ChangesRelation", java_rows(frame))


def _open(
    session: JavaObject,
    name: str,
    uri: str,
    storage: str,
    columns: str | None,
    version: str | None,
    micros: int | None,
) -> JavaObject:
    """Return a relation for a table of the catalog, and check the catalog's columns.

    If this process changed the table's columns, update the catalog. Without `columns` the table is
    named by its path, and no catalog has it.
    """
    uri = place(uri)
    options = parse_read_options({**json.loads(storage), "path": uri}, None)
    at = None if micros is None else from_micros(micros)
    relation = _relation(session, uri, options.storage_options, version_or_tag(version), at)
    if columns is None:
        return relation
    ours, theirs = declared(relation.schema().json()), declared(columns)
    if version is None and micros is None and ours != theirs:
        head = open_context(open_store(uri, options.storage_options)).view.head
        now = head.metadata.schema
        if changed_here(
            head.table, lambda known: declared(json.dumps(to_spark_json(known))) == theirs, now
        ):
            follow(session_of(session), name, now)
            return relation
        raise SchemaMismatchError(
            f"Spark's catalog has other columns for {name} than the table at {uri}: "
            f"{shown(theirs)} instead of {shown(ours)}; "
            f"call tablefmt.spark.sync(spark, {name.replace('`', '')!r}) to update the catalog",
            different(ours, theirs),
        )
    return relation


def _relation(
    session: JavaObject,
    uri: str,
    storage: Mapping[str, Any],
    version: int | str | None,
    at: Time | None,
) -> JavaObject:
    spark = session_of(session)
    context = open_context(open_store(uri, storage))
    point = context.resolve_point(version, at)
    snapshot = context.view.snapshot(point)
    if version == 0:
        _check_creation(context, snapshot)
    asked = version is not None or at is not None
    texts = storage_texts(storage)
    relation = sql_relation(spark, context.store, snapshot, uri, texts, asked=asked)
    if relation.described() is None:
        metadata = context.view.metadata_at(point)
        relation.describe(json.dumps(_described(metadata)))
    return relation


def _check_creation(context: TableContext, snapshot: Snapshot) -> None:
    """Refuse to read a creation without rows: Delta's version 0 may have the first rows.

    Raises:
        InvalidArgumentError: later versions have rows.
    """
    if context.view.head.version > 0 and not snapshot.totals[0]:
        raise InvalidArgumentError(
            "version 0 of this table is its creation, and has no rows; the first write is version "
            "1. Version n of a Delta table that a DataFrame created is version n + 1 here. To read "
            "the empty version, call tablefmt.spark.read(spark, uri, version=0)"
        )


def _described(metadata: Metadata) -> dict[str, Any]:
    """Return what SHOW and DESCRIBE show of a table besides its columns."""
    checks = check_conditions(metadata)
    # INSERT may leave out both kinds of columns.
    generated = {**generated_expressions(metadata), **identity_texts(metadata)}
    comment = {} if metadata.comment is None else {"comment": metadata.comment}
    given = plain_properties(metadata).items()
    # In SQL, a name of the user's own has no prefix.
    properties = {**{name.removeprefix(USER_PREFIX): text for name, text in given}, **comment}
    return {
        "properties": properties,
        "constraints": checks,
        "generated": generated,
        "partitions": {f.name: str(f.type) for f in metadata.partition_fields},
        "lengths": {f.name: f.text for f in metadata.schema.fields if f.text is not None},
    }


def _partitions(session: JavaObject, uri: str, storage: str) -> str | None:
    """Return the partitions that have rows. See `live_partitions`."""
    context = context_of(uri, storage)
    snapshot = context.view.snapshot()
    if snapshot.metadata.is_evolved:
        raise UnsupportedFeatureError(
            "SHOW PARTITIONS needs one partitioning, and the table has files of several; use the "
            "metadata table partitions, as in SELECT * FROM t.partitions",
            ["sql:SHOW PARTITIONS"],
        )
    return live_partitions(snapshot.files, snapshot.schema, context.view.head.metadata.partition_by)


def _columns(session: JavaObject, uri: str, storage: str) -> JavaObject:
    """Return the current columns of a table."""
    schema = context_of(uri, storage).view.head.metadata.schema
    return java_columns(schema)


def _exists(path: str) -> bool:
    return open_context_if_exists(open_store(path)) is not None


def _reads_files(session: JavaObject, path: str, given: str) -> bool:
    """Return whether Spark itself reads and writes the data files of the table at `path`."""
    stored = {k: v for k, v in json.loads(given).items() if folded(k).startswith("storage")}
    storage = parse_read_options(stored, None).storage_options
    return spark_reads_files(session_of(session), open_store(path, storage))


VERBS: Mapping[str, Callable[..., Any]] = {
    "load": _load,
    "open": _open,
    "columns": _columns,
    "exists": _exists,
    "partitions": _partitions,
    "reads_files": _reads_files,
    "is_same_place": is_same_place,
}
"""Handlers by the name that Java uses."""


_OURS = frozenset(map(option_key, (*READ_OPTIONS, *OF_STREAMS)))
_SPARKS_OWN = frozenset({"versionasof", "timestampasof"})
"""Options that Spark itself applies or rejects in reads by name, in lower case."""


def _named(session: JavaObject, parts: str, within: str, given: str, streaming: bool) -> str | None:
    """Return how to run a read by name with options.

    Args:
        parts: the name, as JSON.
        within: catalog and database of the view that contains the name, as JSON. Empty: no view.
        given: the options, as JSON.
        streaming: True for `readStream`.

    Returns:
        JSON: `options` for Spark; or `load`, the options that read the changes by path, and
        `alias`, the whole name. None: the name is not a tablefmt table, or the read is a stream.

    Raises:
        InvalidRangeError, UnsupportedFeatureError: as `parse_read_options`. Also for the name of a
            view over a tablefmt table, and for an option that only the catalog may set.
    """
    spark, options = session_of(session), json.loads(given)
    words, outside = json.loads(parts), json.loads(within)
    name = ".".join(map(quote_name, [*outside, *words] if len(words) == 1 else words))
    found = catalog_table(spark, name)
    if found is None:
        _check_no_view(spark, name, options)
        return None
    if streaming:
        _check_place(found, ReadOptions(path=pop_option(options, "path")))
        return None
    asked = parse_read_options(options, session_zone(spark))
    _check_place(found, asked)
    if asked.changes is not None:
        place = {**storage_texts(found.storage_options), **options, "path": found.uri}
        return json.dumps({"load": place, "alias": name_parts(found.quoted)})
    point: dict[str, str] = {}
    if asked.version is not None:
        point["versionAsOf"] = str(asked.version)
    if asked.timestamp is not None:
        point["timestampAsOf"] = show_time(to_micros(asked.timestamp))
    return json.dumps({"options": point})


def _check_place(table: CatalogTable, asked: ReadOptions) -> None:
    if asked.path is not None or asked.storage_options:
        given = "path" if asked.path is not None else "storage"
        raise UnsupportedFeatureError(
            f"option {given} is not allowed in a read by name: the catalog has the location and "
            f'storage options of {table.quoted}; read it by path, format("tablefmt")'
            f".load({table.uri!r}), or give the options to CREATE TABLE",
            [f"option:{given}"],
        )


def _check_no_view(spark: Session, name: str, options: Mapping[str, str]) -> None:
    """Check that a view over a tablefmt table has no tablefmt options: Spark drops them there."""
    given = [each for each in options if option_key(each) in _OURS]
    if not given or not is_view(spark, name):
        return
    walker = java_classes.cached_in_jvm(
        spark, "SourceVersions", lambda: java_classes.new_instance(spark, "SourceVersions")
    )
    read = java_session(spark).table(name)
    if not walker.isOurs(read) or all(folded(each) in _SPARKS_OWN for each in given):
        return
    raise UnsupportedFeatureError(
        f"{name} is a view, and Spark does not pass options on to the tables of a view, so "
        f"{', '.join(sorted(given))} would have no effect. Give the options to the table "
        "itself, or write them into the view's query: SELECT … FROM t WITH (readChangeFeed "
        "'true', …)",
        [f"option:{each}" for each in given],
    )


def _unread(given: str) -> None:
    """Reject options of a scan by name that NamedReads.java did not handle.

    Without this check, the scan would ignore the options and return wrong rows.

    Args:
        given: the options of a scan, as JSON.
    """
    parse_read_options(json.loads(given), "UTC")
    others = [each for each in json.loads(given) if folded(each) not in _SPARKS_OWN]
    if others:
        raise UnsupportedFeatureError(
            f"{', '.join(sorted(others))} cannot be applied to a read by name here: the session is "
            "not registered, or the statement also names a version; call "
            "tablefmt.spark.register(spark) with that session, or read the table by its path",
            [f"option:{each}" for each in others],
        )


NAMED_READ_VERBS: Mapping[str, Callable[..., Any]] = {"named": _named, "options": _unread}
"""Handlers by the name that Java uses."""
