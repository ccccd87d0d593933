"""JVM callback handlers that write: `df.write`, INSERT, TRUNCATE, DELETE, UPDATE, MERGE."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded
from tablefmt.operations.overwrite import PartitionValues, truncate
from tablefmt.operations.save_modes import Mode, known_mode
from tablefmt.session.commit_options import CommitOptions
from tablefmt.spark.entry.dataframe_io import write
from tablefmt.spark.entry.delta_settings import default_properties, with_commit_settings
from tablefmt.spark.entry.java_arguments import (
    context_of,
    follow,
    frame_of,
    path_of,
    place,
    session_of,
)
from tablefmt.spark.entry.table_definition import Statement, create_rows, replace_rows
from tablefmt.spark.pyspark_objects import DataFrame, JavaObject, Session
from tablefmt.spark.runtime.ansi import wrapped
from tablefmt.spark.spark_options import (
    check_not_clustered,
    option_key,
    parse_options,
    pop_option,
    pop_partition_by,
)
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.spark.statements.sql_commands import change_rows, counts
from tablefmt.store.location import open_store

OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
"""Spark's setting for the rows that an overwrite replaces: all, or those of its partitions."""


def _save(session: JavaObject, mode: str, given: str, data: JavaObject) -> None:
    """Run `df.write.format("tablefmt").save()`."""
    options = json.loads(given)
    check_not_clustered(options)
    by = pop_partition_by(options)
    uri = path_of(pop_option(options, "path"))
    if mode == "Overwrite":
        options.update(_overwrite_mode(session_of(session), uri, options))
    write(
        frame_of(session, data),
        uri,
        mode=known_mode(mode),
        partition_by=by,
        **options,
    )


def _overwrite_mode(spark: Session, uri: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the session's overwrite mode as options, unless the given options have one.

    As in Spark's own sources, the setting applies to partitioned tables only.
    """
    given_names = set(map(option_key, given))
    dynamic = folded(spark.conf.get(OVERWRITE_MODE, None) or "") == "dynamic"
    if not dynamic or given_names & {"replacewhere", "partitionoverwritemode"}:
        return {}
    context = open_context_if_exists(open_store(uri, parse_options(dict(given)).storage_options))
    partitioned = context is not None and context.view.head.metadata.partition_by
    return {"partitionOverwriteMode": "dynamic"} if partitioned else {}


GENERATED_OPTION = "tablefmt.generated"
"""Option with the generated columns that INSERT leaves out (GeneratedInserts.java)."""


def _without(frame: DataFrame, names: str | None) -> DataFrame:
    """Return the rows without columns that Spark added as NULL. The write computes them."""
    if names is None:
        return frame
    left_out = frozenset(names.split("\n"))
    return frame.select(*(quote_name(name) for name in frame.columns if name not in left_out))


def _insert(
    session: JavaObject,
    uri: str | None,
    storage: str | None,
    data: JavaObject,
    mode: Mode | Literal["overwrite as set"],
    where: str | None,
    options: str | None,
    partition_by: str,
    name: str | None = None,
) -> None:
    """Run INSERT into a table, or write the rows of CREATE TABLE AS SELECT.

    Args:
        mode: the mode of `write`, or "overwrite as set": the session's overwrite mode applies.
        where: the condition of the rows that an overwrite replaces. None: all rows.
        name: the catalog's name of a table that may get more columns.
    """
    if uri is None:
        raise UnsupportedFeatureError(
            "the target of the INSERT is not a tablefmt table; name a tablefmt table",
            ["spark:insert"],
        )
    uri = place(uri)
    given = {**json.loads(storage or "{}"), **json.loads(options or "{}")}
    frame = _without(frame_of(session, data), given.pop(GENERATED_OPTION, None))
    for option in ("versionAsOf", "timestampAsOf"):
        pop_option(given, option)
    _check_place(pop_option(given, "path"), uri)
    if where is not None:
        given["replaceWhere"] = where
    if mode == "overwrite as set":
        mode = "overwrite"
        given.update(_overwrite_mode(session_of(session), uri, given))
    write(frame, uri, mode=mode, partition_by=json.loads(partition_by), **given)
    if name is not None:
        context = open_context(open_store(uri, parse_options(given).storage_options))
        follow(session_of(session), name, context.view.head.metadata.schema)


def _check_place(given: str | None, uri: str) -> None:
    """Check that the option `path` is the table's own path. Raises UnsupportedFeatureError.

    A relative path is not checked: Spark resolves it against its warehouse, or elsewhere.
    """
    if given is None or not ("://" in given or place(given).startswith("/")):
        return
    if open_store(place(given)).identity == open_store(uri).identity:
        return
    raise UnsupportedFeatureError(
        f"option path is {given!r}, but the table of the catalog is at {uri}; leave the option "
        'out, or write by path: format("tablefmt").save(path)',
        ["option:path"],
    )


def _rows(
    session: JavaObject,
    uri: str,
    storage: str,
    data: JavaObject,
    verb: str,
    options: str,
    text: str,
) -> None:
    """Write the rows of CREATE or REPLACE TABLE AS SELECT, or of saveAsTable over a table."""
    uri, frame, stored = place(uri), frame_of(session, data), json.loads(storage)
    spark = session_of(session)
    given = {**stored, **json.loads(options)}
    pop_option(given, "path")
    defaults = {} if verb == "save" else default_properties(spark)
    statement = Statement.read(text, stored, defaults)
    if verb == "save":
        whole = _is_true(given)
        by = statement.partition_by if statement.partition_by or whole else None
        if not whole:
            given.update(_overwrite_mode(spark, uri, given))
        write(frame, uri, mode="overwrite", partition_by=by, **given)
        return
    parsed = parse_options(with_commit_settings(spark, given))
    store = open_store(uri, parsed.storage_options)
    (create_rows if verb == "create" else replace_rows)(frame, store, statement, parsed)


def _is_true(options: Mapping[str, Any]) -> bool:
    """Return whether the option `overwriteSchema` replaces the whole table."""
    return folded(str(pop_option(dict(options), "overwriteSchema"))) == "true"


def _truncate(session: JavaObject, uri: str, storage: str, partitions: str | None) -> None:
    """Remove the rows of partitions, which SQL text over partition values selects; None: all."""
    where = None if partitions is None else PartitionValues(partitions)
    truncate(context_of(uri, storage), CommitOptions(), where=where)


def _change(ansi: JavaObject, session: JavaObject, command: JavaObject) -> str:
    """Run DELETE, UPDATE or MERGE, and return the row counts as text.

    Args:
        ansi: the session to work in, which may be a copy.
        session: the session of the statement.
        command: the Java object of the command.
    """
    described = json.loads(command.described())
    spark = session_of(session)
    commit = with_commit_settings(spark, {})
    same = ansi.sessionUUID() == session.sessionUUID()
    # A copied session is not remembered: it ends with its statement.
    place_of = place(described["uri"])
    done = change_rows(spark if same else wrapped(ansi), command, place_of, commit)
    if done.columns is not None:
        follow(spark, described["name"], done.columns)
    return counts(done.commit, described["verb"])


VERBS: Mapping[str, Callable[..., Any]] = {
    "save": _save,
    "insert": _insert,
    "rows": _rows,
    "truncate": _truncate,
    "change": _change,
}
"""Handlers by the name that Java uses."""
