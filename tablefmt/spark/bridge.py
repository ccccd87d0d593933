"""What Spark's driver asks of Python: the verbs behind `format("tablefmt")` and SQL.

The Java classes beside this module decide nothing; each of their calls comes in here. What is a
Java map or array of text there comes as JSON text: one call into the JVM an element would be slow.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.model.ddl import schema_from, to_spark_json
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Schema
from tablefmt.operations.context import CommitOptions, TableContext
from tablefmt.operations.create import create
from tablefmt.operations.overwrite import overwrite
from tablefmt.spark import java
from tablefmt.spark.alter import alter_table, with_defaults
from tablefmt.spark.ansi import wrapped
from tablefmt.spark.evolution import made_here, widened_columns
from tablefmt.spark.failures import cause_of, hand_over
from tablefmt.spark.groups import live_partitions
from tablefmt.spark.opened import open_context, open_if_there
from tablefmt.spark.options import parse_options, parse_read_options
from tablefmt.spark.planes import plane_for
from tablefmt.spark.read import snapshot_files
from tablefmt.spark.refusals import REFUSALS
from tablefmt.spark.relation import kept_relation
from tablefmt.spark.sql_dml import change_rows, counts
from tablefmt.spark.write import write
from tablefmt.store.open import open_store

PARTITION_COLUMNS = "__partition_columns"
"""Spark's name for what `partitionBy` was given, a JSON array."""

OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
"""Spark's setting of what an overwrite replaces."""

_CATALOG_PROPERTIES = frozenset(
    {"provider", "location", "owner", "external", "comment", "is_managed_location", "collation"}
)
_FAILED = "\0tablefmt "
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

_log = logging.getLogger("tablefmt.spark")
_sessions: dict[str, Any] = {}


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
        ours, theirs = _shapes(relation.schema().json()), _shapes(columns)
        if ours != theirs:
            raise SchemaMismatchError(
                f"the reader was told {_shown(theirs)}, and the table at {uri} has {_shown(ours)}; "
                "leave schema() out, and choose columns with select()",
                _different(ours, theirs),
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
    ours, theirs = _shapes(relation.schema().json()), _shapes(columns)
    if version is None and micros is None and ours != theirs:
        head = open_context(open_store(uri, options.storage_options)).view.head
        now = head.metadata.schema
        if made_here(head.table, lambda known: _shapes_of(known) == theirs, now):
            follow(_session(session), name, now)
            return relation
        raise SchemaMismatchError(
            f"Spark's catalog has other columns for {name} than the table at {uri}: "
            f"{_shown(theirs)} against {_shown(ours)}; "
            f"tablefmt.spark.sync(spark, {name.replace('`', '')!r}) brings the catalog up to date",
            _different(ours, theirs),
        )
    return relation


_Shapes = list[tuple[str, str]]


def _shapes_of(schema: Schema) -> _Shapes:
    return _shapes(json.dumps(to_spark_json(schema)))


def _shapes(columns: str) -> _Shapes:
    """Names and types of columns; whether they may be NULL is not Spark's to keep."""
    return [(f["name"], _folded_type(f["type"])) for f in json.loads(columns)["fields"]]


def _different(ours: _Shapes, theirs: _Shapes) -> list[str]:
    """Columns of another name or type; all of them where only their order differs."""
    return sorted({n for n, _ in set(ours) ^ set(theirs)}) or [n for n, _ in theirs]


def _folded_type(given: Any) -> str:
    return json.dumps(_plain_type(given), sort_keys=True)


def _plain_type(given: Any) -> Any:
    """Spark's JSON form of a type, with neither nullability nor metadata."""
    if isinstance(given, list):
        return [_plain_type(item) for item in given]
    if not isinstance(given, dict):
        return given
    dropped = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {name: _plain_type(item) for name, item in given.items() if name not in dropped}


def _shown(columns: _Shapes) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns).replace('"', "")


def _relation(session: Any, uri: str, storage: Mapping[str, Any], version: Any, at: Any) -> Any:
    spark = _session(session)
    context = open_context(open_store(uri, storage))
    files = snapshot_files(context, version, at)
    texts = {
        f"storage.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in storage.items()
    }
    return kept_relation(spark, context.store, files, uri, texts)


def _save(session: Any, mode: str, given: Any, data: Any) -> None:
    """`df.write.format("tablefmt").save()`."""
    options = json.loads(given)
    by_option = _pop(options, "partitionBy")
    columns = _pop(options, PARTITION_COLUMNS)
    _pop(options, "__clustering_columns")
    names = json.loads(columns) if columns else [n.strip() for n in (by_option or "").split(",")]
    uri = _path(_pop(options, "path"))
    if mode == "Overwrite":
        options.update(_as_set(_session(session), uri, options))
    write(
        _frame(session, data),
        uri,
        mode={"ErrorIfExists": "error"}.get(mode, mode.casefold()),
        partition_by=[name for name in names if name],
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


def _define(
    session: Any, uri: str, storage: Any, columns: str, partition_by: Any, given: Any
) -> Any:
    """CREATE TABLE: the columns of the table that is there from now on."""
    stored, uri = json.loads(storage), place(uri)
    store = open_store(uri, parse_options(stored).storage_options)
    described = json.loads(columns)
    wanted = schema_from(described) if described["fields"] else None
    if wanted is not None:
        wanted = with_defaults(_session(session), described, wanted)
    names = json.loads(partition_by)
    context = open_if_there(store)
    if context is None and wanted is None:
        context = open_context(store)
    elif context is None:
        context = create(
            store, wanted, partition_by=names, properties=_properties(json.loads(given), stored)
        )
    metadata = context.view.head.metadata
    if wanted is not None:
        _check_same(wanted, metadata.schema, uri)
    if names and names != list(metadata.partition_names):
        raise SchemaMismatchError(
            f"the table at {uri} is partitioned by {list(metadata.partition_names)}, not by "
            f"{names}; leave PARTITIONED BY out",
            names,
        )
    return java.java_schema(_session(session), json.dumps(to_spark_json(metadata.schema)))


def _check_same(wanted: Schema, there: Schema, uri: str) -> None:
    ours, theirs = _declared(there), _declared(wanted)
    if ours != theirs:
        raise SchemaMismatchError(
            f"there is a table at {uri} with other columns: {_shown(ours)}, not {_shown(theirs)}; "
            "leave the columns out of CREATE TABLE to take it as it is",
            _different(ours, theirs),
        )


def _declared(schema: Schema) -> _Shapes:
    found = _shapes(json.dumps(to_spark_json(schema)))
    pairs = zip(found, schema.fields, strict=True)
    return [(name, field.text or kind) for (name, kind), field in pairs]


def _properties(given: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Table properties of CREATE TABLE, without what Spark adds of its own."""
    return {
        name: value
        for name, value in given.items()
        if name not in _CATALOG_PROPERTIES
        and name not in options
        and name != "path"
        and not name.startswith("option.")
    }


def _alter(session: Any, uri: str, storage: Any, changes: Any) -> Any:
    """ALTER TABLE: the columns of the table from now on."""
    context = _context(uri, storage)
    alter_table(_session(session), context, json.loads(changes)["changes"])
    schema = context.view.head.metadata.schema
    return java.java_schema(_session(session), json.dumps(to_spark_json(schema)))


def _exists(path: str) -> bool:
    return open_if_there(open_store(path)) is not None


def _truncate(session: Any, uri: str, storage: Any, where: str | None) -> None:
    context = _context(uri, storage)
    overwrite(context, None, CommitOptions(), where=where)


def _native(session: Any, path: str, given: Any) -> bool:
    """Whether Spark itself reads and writes the files of the table there."""
    stored = {k: v for k, v in json.loads(given).items() if k.casefold().startswith("storage")}
    storage = parse_read_options(stored).storage_options
    return plane_for(_session(session), open_store(path, storage)).kind == "native"


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
    columns = java.java_schema(spark, json.dumps(to_spark_json(schema)))
    spark._jsparkSession.sessionState().catalog().alterTableSchema(identifier, columns)


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
    "alter": _alter,
    "evolve": _evolve,
    "exists": _exists,
    "partitions": _partitions,
    "truncate": _truncate,
    "native": _native,
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
    if key not in _sessions:
        _sessions[key] = SparkSession(SparkContext._active_spark_context, given)
    return _sessions[key]


def _frame(session: Any, data: Any) -> Any:
    from pyspark.sql import DataFrame

    return DataFrame(data, _session(session))
