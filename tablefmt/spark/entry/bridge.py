"""What Spark's driver asks of Python: the verbs behind `format("tablefmt")` and SQL.

The Java classes beside this module decide nothing; each of their calls comes in here. What is a
Java map or array of text there comes as JSON text: one call into the JVM an element would be slow.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import traceback
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.operations.overwrite import overwrite
from tablefmt.session.context import CommitOptions, TableContext
from tablefmt.spark.backends.choice import spark_reads_files
from tablefmt.spark.backends.sql_relation import live_partitions, sql_relation
from tablefmt.spark.columns.declared import declared, different, shown
from tablefmt.spark.columns.evolution import made_here, widened_columns
from tablefmt.spark.entry.define import (
    Statement,
    create_rows,
    define,
    like,
    replace_rows,
    replace_table,
)
from tablefmt.spark.entry.refusals import REFUSALS
from tablefmt.spark.entry.write import write
from tablefmt.spark.jvm import loader
from tablefmt.spark.options import parse_options, parse_read_options
from tablefmt.spark.runtime.ansi import wrapped
from tablefmt.spark.runtime.failures import cause_of, hand_over
from tablefmt.spark.statements.alter import alter_table
from tablefmt.spark.statements.open_logs import open_context, open_if_there
from tablefmt.spark.statements.sql import change_rows, counts
from tablefmt.store.open import open_store

PARTITION_COLUMNS = "__partition_columns"
"""Spark's name for what `partitionBy` was given, a JSON array."""

OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
"""Spark's setting of what an overwrite replaces."""

_FAILED = "\0tablefmt "
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

_log = logging.getLogger("tablefmt.spark")
_sessions: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""PySpark's objects by the JVM's names: whoever works with a session has its object."""


def remember(spark: Any) -> None:
    """Use this session object whenever the JVM names its session."""
    _sessions[spark._jsparkSession.sessionUUID()] = spark


def answer(request: Any) -> Any:
    """Answer one call of Bridge.java. Errors go back as values: py4j would wrap them in text."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    verb, arguments = request[0], list(request[1])
    try:
        return VERBS[verb](*arguments)
    except TablefmtError as error:
        return _FAILED + hand_over(error)
    except Py4JJavaError as error:
        cause = cause_of(error.java_exception)
        return _FAILED + hand_over(cause) if isinstance(cause, TablefmtError) else cause
    except CapturedException as error:
        if error._origin is not None:
            return error._origin
        return _FAILED + str(error)
    except Exception as error:
        _log.debug("tablefmt failed in a callback", exc_info=True)
        return _FAILED + "".join(traceback.format_exception(error))


def _load(session: Any, given: Any, columns: str | None) -> Any:
    """A relation for `spark.read.format("tablefmt")`, pinned to a version.

    `columns` are those that the reader was told to expect, if any.
    """
    options = parse_read_options(json.loads(given))
    uri = _path(options.path)
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


def _open(
    session: Any,
    name: str,
    uri: str,
    storage: Any,
    columns: str | None,
    version: str | None,
    micros: int | None,
) -> Any:
    """A relation for a table of the catalog; its columns have to be those of the catalog.

    Where this process itself gave the table other ones, the catalog gets them now. No `columns`:
    the table is named by its path, and no catalog knows it.
    """
    uri = place(uri)
    options = parse_read_options({**json.loads(storage), "path": uri})
    at = None if micros is None else _EPOCH + dt.timedelta(microseconds=micros)
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
            follow(_session(session), name, now)
            return relation
        raise SchemaMismatchError(
            f"Spark's catalog has other columns for {name} than the table at {uri}: "
            f"{shown(theirs)} against {shown(ours)}; "
            f"tablefmt.spark.sync(spark, {name.replace('`', '')!r}) brings the catalog up to date",
            different(ours, theirs),
        )
    return relation


def _relation(session: Any, uri: str, storage: Mapping[str, Any], version: Any, at: Any) -> Any:
    spark = _session(session)
    context = open_context(open_store(uri, storage))
    point = context.resolve_point(version, at)
    snapshot = context.view.snapshot(point)
    asked = version is not None or at is not None
    texts = {
        f"storage.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in storage.items()
    }
    relation = sql_relation(spark, context.store, snapshot, uri, texts, asked=asked)
    if relation.described() is None:
        metadata = context.view.metadata_at(point)
        relation.describe(json.dumps(_described(metadata)))
    return relation


def _described(metadata: Metadata) -> dict[str, Any]:
    """What SHOW and DESCRIBE tell of a table besides its columns."""
    checks = {name: each.condition for name, each in metadata.constraints.items()}
    said = {} if metadata.comment is None else {"comment": metadata.comment}
    return {"properties": {**metadata.properties, **said}, "constraints": checks}


def _save(session: Any, mode: str, given: Any, data: Any) -> None:
    """`df.write.format("tablefmt").save()`."""
    options = json.loads(given)
    by_option = _pop(options, "partitionBy")
    columns = _pop(options, PARTITION_COLUMNS)
    _pop(options, "__clustering_columns")
    names = json.loads(columns) if columns else [n.strip() for n in (by_option or "").split(",")]
    by: list[str] | None = [name for name in names if name]
    uri = _path(_pop(options, "path"))
    if mode == "Overwrite":
        options.update(_as_set(_session(session), uri, options))
    write(
        _frame(session, data),
        uri,
        mode={"ErrorIfExists": "error"}.get(mode, mode.casefold()),
        partition_by=by,
        **options,
    )


def _as_set(spark: Any, uri: str, given: Mapping[str, Any]) -> dict[str, str]:
    """What the session says that an overwrite replaces, unless its options say it.

    Spark's own sources heed this setting too, for tables with partitions.
    """
    told = {name.casefold().replace("_", "") for name in given}
    dynamic = (spark.conf.get(OVERWRITE_MODE, None) or "").casefold() == "dynamic"
    if not dynamic or told & {"replacewhere", "partitionoverwritemode"}:
        return {}
    context = open_if_there(open_store(uri, parse_options(dict(given)).storage_options))
    partitioned = context is not None and context.view.head.metadata.partition_by
    return {"partitionOverwriteMode": "dynamic"} if partitioned else {}


def _insert(
    session: Any,
    uri: str | None,
    storage: Any,
    data: Any,
    mode: str,
    where: str | None,
    options: Any,
    partition_by: Any,
    name: str | None = None,
) -> None:
    """INSERT into a table, or the rows of CREATE TABLE AS SELECT.

    Args:
        mode: of `write`; "overwrite as set": whatever the session says an overwrite replaces.
        where: what an overwrite replaces; None: all.
        name: of a table that may get more columns, in the catalog.
    """
    if uri is None:
        raise UnsupportedFeatureError("this is no table that rows can go to", ["spark:insert"])
    uri = place(uri)
    given = {**json.loads(storage or "{}"), **json.loads(options or "{}")}
    for option in ("path", "versionAsOf", "timestampAsOf"):
        _pop(given, option)
    if where is not None:
        given["replaceWhere"] = where
    if mode == "overwrite as set":
        mode = "overwrite"
        given.update(_as_set(_session(session), uri, given))
    write(_frame(session, data), uri, mode=mode, partition_by=json.loads(partition_by), **given)
    if name is not None:
        context = open_context(open_store(uri, parse_options(given).storage_options))
        follow(_session(session), name, context.view.head.metadata.schema)


def _context(uri: str, storage: str) -> TableContext:
    """A table that the JVM names."""
    stored = parse_options(json.loads(storage)).storage_options
    return open_context(open_store(place(uri), stored))


def _evolve(session: Any, uri: str, storage: Any, columns: str, said: Any) -> str:
    """The columns that INSERT WITH SCHEMA EVOLUTION is to find in the table."""
    context = open_context(
        open_store(place(uri), parse_options(json.loads(storage)).storage_options)
    )
    return widened_columns(context.view.head.metadata, json.loads(columns), json.loads(said))


def _partitions(session: Any, uri: str, storage: Any) -> str | None:
    """The partitions that there are rows in: see `live_partitions`."""
    context = open_context(
        open_store(place(uri), parse_options(json.loads(storage)).storage_options)
    )
    snapshot = context.view.snapshot()
    return live_partitions(snapshot.files, snapshot.schema, context.view.head.metadata.partition_by)


def _define(session: Any, uri: str, storage: Any, said: str) -> Any:
    """CREATE TABLE: the columns of the table that is there from now on."""
    return _as_defined(define, session, uri, storage, said)


def _replace(session: Any, uri: str, storage: Any, said: str) -> Any:
    """REPLACE TABLE: the columns of the table from now on."""
    return _as_defined(replace_table, session, uri, storage, said)


def _as_defined(verb: Any, session: Any, uri: str, storage: Any, said: str) -> Any:
    spark, stored = _session(session), json.loads(storage)
    store = open_store(place(uri), parse_options(stored).storage_options)
    return _java_columns(spark, verb(spark, store, Statement.read(said, stored)))


def _java_columns(spark: Any, schema: Schema) -> Any:
    return loader.java_schema(spark, json.dumps(to_spark_json(schema)))


def _rows(
    session: Any, uri: str, storage: Any, data: Any, verb: str, options: Any, said: str
) -> None:
    """The rows of CREATE or REPLACE TABLE AS SELECT, or of saveAsTable over a table."""
    uri, frame, stored = place(uri), _frame(session, data), json.loads(storage)
    given = {**stored, **json.loads(options)}
    _pop(given, "path")
    statement = Statement.read(said, stored)
    if verb == "save":
        whole = _is_true(given)
        by = statement.partition_by if statement.partition_by or whole else None
        if not whole:
            given.update(_as_set(_session(session), uri, given))
        write(frame, uri, mode="overwrite", partition_by=by, **given)
        return
    parsed = parse_options(given)
    store = open_store(uri, parsed.storage_options)
    (create_rows if verb == "create" else replace_rows)(frame, store, statement, parsed)


def _is_true(options: Mapping[str, Any]) -> bool:
    """Whether the whole table is to be another."""
    found = _pop(dict(options), "overwriteSchema") or _pop(dict(options), "overwrite_schema")
    return str(found).casefold() == "true"


def _columns(session: Any, uri: str, storage: Any) -> Any:
    """The columns that a table has now."""
    store = open_store(place(uri), parse_options(json.loads(storage)).storage_options)
    return _java_columns(_session(session), open_context(store).view.head.metadata.schema)


def _like(session: Any, uri: str, storage: Any, of: str, of_storage: Any, said: str) -> Any:
    """CREATE TABLE LIKE another of ours: the columns of the new one."""
    spark, stored = _session(session), json.loads(storage)
    source = open_store(place(of), parse_options(json.loads(of_storage)).storage_options)
    store = open_store(place(uri), parse_options(stored).storage_options)
    statement = Statement.read(said, stored)
    return _java_columns(spark, like(store, open_context(source), statement))


def _alter(session: Any, uri: str, storage: Any, changes: Any) -> Any:
    """ALTER TABLE: the columns of the table from now on."""
    context = _context(uri, storage)
    alter_table(_session(session), context, json.loads(changes)["changes"])
    return _java_columns(_session(session), context.view.head.metadata.schema)


def _exists(path: str) -> bool:
    return open_if_there(open_store(path)) is not None


def _truncate(session: Any, uri: str, storage: Any, where: str | None) -> None:
    context = _context(uri, storage)
    overwrite(context, None, CommitOptions(), where=where)


def _reads_files(session: Any, path: str, given: Any) -> bool:
    """Whether Spark itself reads and writes the files of the table there."""
    stored = {k: v for k, v in json.loads(given).items() if k.casefold().startswith("storage")}
    storage = parse_read_options(stored).storage_options
    return spark_reads_files(_session(session), open_store(path, storage))


def _change(ansi: Any, session: Any, command: Any) -> str:
    """DELETE, UPDATE or MERGE: the numbers of rows that it gives back, as text.

    Args:
        ansi: the session to work in, which may be a copy.
        session: that of the statement.
        command: the Java object.
    """
    said = json.loads(command.described())
    spark = _session(session)
    same = ansi.sessionUUID() == session.sessionUUID()
    # A copy is not remembered: it lives as long as its statement.
    done = change_rows(spark if same else wrapped(ansi), command, place(said["uri"]))
    if done.columns is not None:
        follow(spark, said["name"], done.columns)
    return counts(done.commit, said["verb"])


def follow(spark: Any, name: str, schema: Schema) -> None:
    """The columns that Spark's catalog keeps of a table become those of the table.

    A table that is named by its path is in no catalog.
    """
    identifier = _identifier(spark, name)
    if "/" in identifier.table():
        return
    catalog = spark._jsparkSession.sessionState().catalog()
    catalog.alterTableSchema(identifier, _java_columns(spark, schema))


def _identifier(spark: Any, name: str) -> Any:
    """Of a table of the session catalog, with that catalog's name before it or not."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    parts = parser.parseMultipartIdentifier(name)
    last = [quote_name(parts.apply(at)) for at in range(parts.size())][-2:]
    return parser.parseTableIdentifier(".".join(last))


def _options(given: Any) -> None:
    parse_read_options(json.loads(given))


VERBS: Mapping[str, Callable[..., Any]] = {
    "load": _load,
    "open": _open,
    "save": _save,
    "insert": _insert,
    "define": _define,
    "replace": _replace,
    "rows": _rows,
    "columns": _columns,
    "like": _like,
    "alter": _alter,
    "evolve": _evolve,
    "exists": _exists,
    "partitions": _partitions,
    "truncate": _truncate,
    "reads_files": _reads_files,
    "change": _change,
    **REFUSALS,
    "options": _options,
}


def _pop(options: dict[str, Any], name: str) -> Any:
    for written in list(options):
        if written.casefold() == name.casefold():
            return options.pop(written)
    return None


def _path(given: str | None) -> str:
    if not given:
        raise InvalidRangeError("there is no path; give one to load() or save(), or option 'path'")
    return given


def place(location: str) -> str:
    """Spark's catalog has `file:` before a local path, and escapes nothing in it."""
    if not location.startswith("file:"):
        return location
    return "/" + location.removeprefix("file:").lstrip("/")


def _version(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise InvalidRangeError(f"VERSION AS OF {text!r}: a version is a whole number") from None


def _session(given: Any) -> Any:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    key = given.sessionUUID()
    spark = _sessions.get(key)
    if spark is None:
        spark = _sessions[key] = SparkSession(SparkContext._active_spark_context, given)
    return spark


def _frame(session: Any, data: Any) -> Any:
    from pyspark.sql import DataFrame

    return DataFrame(data, _session(session))
