"""Verbs that read: what `spark.read` and names in SQL stand for.

Reads by name with options give the same rows as by path, or an error. Spec: TIM-6.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import InvalidRangeError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.times import Time, from_micros, show_time, to_micros
from tablefmt.spark.backends.backend_choice import spark_reads_files
from tablefmt.spark.backends.query_plans import live_partitions, sql_relation
from tablefmt.spark.columns.catalog_columns import declared, different, made_here, shown
from tablefmt.spark.columns.row_conditions import session_zone
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
)
from tablefmt.spark.entry.pyspark_wrappers import SESSION_ZONE
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import JavaObject, Session, java_rows, java_session
from tablefmt.spark.spark_options import (
    OF_STREAMS,
    READ_OPTIONS,
    ReadOptions,
    option_key,
    parse_read_options,
    pop_option,
)
from tablefmt.spark.statements.execution import open_context, open_if_there
from tablefmt.spark.statements.frame_reads import changes_frame
from tablefmt.store.location import open_store
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


_OURS = frozenset(map(option_key, (*READ_OPTIONS, *OF_STREAMS)))
_SPARKS_OWN = frozenset({"versionasof", "timestampasof"})
"""Options that Spark itself obeys or refuses, whatever it reads by name; in lower case."""


def _named(session: JavaObject, parts: str, within: str, given: str, streaming: bool) -> str | None:
    """Return what a read by name with options stands for.

    Args:
        parts: the name, as JSON.
        within: catalog and database of the view whose text names it, as JSON; none: no view does.
        given: the options, as JSON.
        streaming: for `readStream`.

    Returns:
        JSON: `options` for Spark; or `load`, the options by which the changes are read by path,
        and `alias`, the whole name. None: the name is not of a table of ours, or of a stream.

    Raises:
        InvalidRangeError, UnsupportedFeatureError: as `parse_read_options`; or the name is that of
        a view over a table of ours; or the catalog says what an option says.
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
        return json.dumps({"load": place, "alias": name_parts(spark, found.quoted)})
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
            f"option {given}: the catalog says where {table.quoted} is and how its storage is "
            f'reached; read it by its path, format("tablefmt").load({table.uri!r}), or give the '
            "options to CREATE TABLE",
            [f"option:{given}"],
        )


def _check_no_view(spark: Session, name: str, options: Mapping[str, str]) -> None:
    """Refuse options of ours for a view over a table of ours: Spark gives views none."""
    given = [each for each in options if option_key(each) in _OURS]
    if not given or not is_view(spark, name):
        return
    walker = java_classes.kept(
        spark, "SourceVersions", lambda: java_classes.new_instance(spark, "SourceVersions")
    )
    read = java_session(spark).table(name)
    if not walker.isOurs(read) or all(folded(each) in _SPARKS_OWN for each in given):
        return
    raise UnsupportedFeatureError(
        f"{name} is a view, and Spark does not hand options on to what a view reads, so "
        f"{', '.join(sorted(given))} would change nothing; give the options to the table itself, "
        "or write them into the view's query: SELECT … FROM t WITH (readChangeFeed 'true', …)",
        [f"option:{each}" for each in given],
    )


def _unread(given: str) -> None:
    """Refuse what reached a scan by name without NamedReads.java: no row may be the wrong one.

    Args:
        given: the options of a scan, as JSON.
    """
    parse_read_options(json.loads(given), "UTC")
    others = [each for each in json.loads(given) if folded(each) not in _SPARKS_OWN]
    if others:
        raise UnsupportedFeatureError(
            f"{', '.join(sorted(others))} cannot be obeyed here by a table's name: the session "
            "that reads it is not registered, or the statement gives a version as well; call "
            "tablefmt.spark.register(spark) with that session, or read the table by its path",
            [f"option:{each}" for each in others],
        )


NAMED_READ_VERBS: Mapping[str, Callable[..., Any]] = {"named": _named, "options": _unread}
"""By the names by which Java calls them."""
