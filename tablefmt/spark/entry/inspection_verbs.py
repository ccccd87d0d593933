"""JVM callback handlers for inspection in SQL: metadata tables, and the function `table_changes`.

A name such as `db.t.files` is a metadata table if `db.t` is a tablefmt table, and no table or view
has the whole name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.errors import (
    InvalidArgumentError,
    InvalidRangeError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.literals import in_session
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded
from tablefmt.model.tags import tags_of
from tablefmt.model.times import show_time
from tablefmt.operations.metadata_tables import MetadataName, metadata_name
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.java_arguments import (
    CatalogTable,
    catalog_table,
    is_taken,
    name_parts,
    place,
    session_of,
    storage_texts,
    version_or_tag,
)
from tablefmt.spark.entry.metadata_frames import metadata_at, metadata_frame
from tablefmt.spark.entry.spark_table import SparkTable
from tablefmt.spark.pyspark_objects import JavaObject, Session, java_rows
from tablefmt.spark.spark_options import parse_read_options
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.location import open_store
from tablefmt.table import Table

_BY_PATH = "table_changes_by_path"


def _metadata(
    session: JavaObject,
    parts: str,
    within: str,
    given: str,
    version: str | None,
    micros: int | None,
) -> JavaObject | None:
    """Return the rows of a metadata table as a Dataset. None: the name is not one.

    Args:
        session: the JVM's session.
        parts: the name, as JSON.
        within: catalog and database of the view that contains the name, as JSON. Empty: no view.
        given: options of the read, as JSON.
        version: the version or tag of VERSION AS OF.
        micros: the time of TIMESTAMP AS OF.
    """
    spark, words = session_of(session), tuple(json.loads(parts))
    reference = _reference(spark, words, json.loads(within))
    if reference is not None:
        table, tag = reference
        if version is not None or micros is not None or json.loads(given):
            raise InvalidRangeError(
                f"{words[-1]} names a version already; leave VERSION AS OF and options out"
            )
        return java_rows(SparkTable(spark, table).to_df(tag))
    asked = metadata_name(words)
    found = None if asked is None else _table_of(spark, words, asked, json.loads(within))
    if asked is None or found is None:
        return None
    options = parse_read_options(json.loads(given), session_zone(spark))
    if options.path is not None or options.storage_options:
        raise UnsupportedFeatureError(
            f"the catalog has the location and storage options of {found.quoted}; leave them out, "
            f'or read it by path: format("tablefmt").load({f"{found.uri}#{asked.kind}"!r})',
            ["option:path"],
        )
    if version is not None or micros is not None:
        if options.version is not None or options.timestamp is not None:
            raise InvalidRangeError("give the version in the statement or as an option, not both")
        options = replace(
            options,
            version=version_or_tag(version),
            timestamp=None if micros is None else show_time(micros),
        )
    options = replace(options, storage_options=found.storage_options)
    return java_rows(metadata_frame(spark, found.uri, asked.kind, options))


def _reference(
    spark: Session, words: tuple[str, ...], within: Sequence[str]
) -> tuple[Table, str] | None:
    """Return the table and the tag of a name such as t.tag_q1. None: it is no such name.

    Raises:
        UnsupportedFeatureError: a branch of a tablefmt table.
    """
    kind, mark, name = words[-1].partition("_")
    if folded(kind) not in ("tag", "branch") or not mark or len(words) < 2:
        return None
    found = None if is_taken(spark, words) else _named(spark, words[:-1], within)
    if found is None:
        return None
    if folded(kind) == "branch":
        raise UnsupportedFeatureError(
            f"{found.quoted} has no branch {name!r}: a table has one line of versions; for a "
            "trial, use CREATE TABLE … SHALLOW CLONE",
            ["sql:branch"],
        )
    return Table(open_context(open_store(found.uri, found.storage_options))), name


def _table_of(
    spark: Session, words: tuple[str, ...], asked: MetadataName, within: Sequence[str]
) -> CatalogTable | None:
    """Return the table of a metadata table. None if the name stands for something else."""
    if len(words) == 2 and folded(words[0]) == "tablefmt" and "/" in words[1]:
        found = metadata_at(place(words[1]), {})
        return None if found is None else CatalogTable(found[0], {}, f"tablefmt.{words[1]}")
    return None if is_taken(spark, words) else _named(spark, asked.table, within)


def _named(spark: Session, words: Sequence[str], within: Sequence[str]) -> CatalogTable | None:
    whole = [*within, *words] if len(words) == 1 else words
    return catalog_table(spark, ".".join(map(quote_name, whole)))


def _table_changes(
    session: JavaObject, function: str, within: str, arguments: str, known: bool
) -> str | None:
    """Return the options that read the changes of a call of `table_changes`, as JSON.

    Args:
        session: the JVM's session.
        function: the function: `table_changes`, or `table_changes_by_path`.
        within: catalog and database of the view with the call, as JSON. Empty: no view.
        arguments: the arguments, as JSON: kinds and texts.
        known: True if the session has another function of the name, for other formats.

    Returns:
        JSON with `load`, as of `named`. None: the call is not about a tablefmt table.

    Raises:
        InvalidArgumentError: no such tablefmt table, or a wrong number or type of arguments.
        InvalidRangeError: a text that is neither a time nor a tag.
    """
    spark, given = session_of(session), json.loads(arguments)
    found = _changed_table(spark, function, given, json.loads(within))
    if found is None and known:
        return None
    if found is None or len(given) not in (2, 3):
        raise InvalidArgumentError(_usage(function, given, found))
    zone = session_zone(spark)
    options = {**storage_texts(found.storage_options), "path": found.uri, "readChangeFeed": "true"}
    for end, value in zip(("starting", "ending"), given[1:], strict=False):
        name, text = _bound(function, found, value, zone)
        options[f"{end}{name}"] = text
    return json.dumps({"load": options})


def _changed_table(
    spark: Session, function: str, given: Sequence[Mapping[str, str]], within: Sequence[str]
) -> CatalogTable | None:
    from pyspark.errors import ParseException

    if not given or given[0]["kind"] != "text":
        return None
    name = given[0]["value"]
    by_path = "/" in name and not folded(name).startswith("tablefmt.")
    if function == _BY_PATH or by_path:
        there = open_context_if_exists(open_store(name)) is not None
        return CatalogTable(name, {}, f"tablefmt.{quote_name(name)}") if there else None
    try:
        words = name_parts(name)
    except ParseException:
        return None
    return _named(spark, words, within)


def _usage(function: str, given: Sequence[Mapping[str, str]], found: CatalogTable | None) -> str:
    what = "the path of a table" if function == _BY_PATH else "the name of a table in quotes"
    usage = f"{function} takes {what}, the first version or time, and optionally the last one"
    if found is not None:
        return f"{usage}; it has {len(given)} arguments"
    if given and given[0]["kind"] == "text":
        return f"{function}: there is no tablefmt table {given[0]['value']!r:.200}; {usage}"
    return f"{usage}, as constants"


def _bound(
    function: str, table: CatalogTable, given: Mapping[str, str], zone: str
) -> tuple[str, str]:
    """Return the name of an option without its first word, and its value."""
    kind, value = given["kind"], given["value"]
    if kind == "version":
        return "Version", value
    if kind == "micros":
        return "Timestamp", show_time(int(value))
    if kind != "text":
        raise InvalidArgumentError(
            f"{function} cannot begin or end at {'NULL' if kind == 'null' else f'a {value}'}; give "
            "a version as a whole number, a time, or text of a time"
        )
    try:
        return "Timestamp", str(in_session(value, zone))
    except InvalidRangeError as error:
        context = open_context_if_exists(open_store(table.uri, table.storage_options))
        if context is not None and value in tags_of(context.view.head.metadata):
            return "Version", value
        raise InvalidRangeError(
            f"{function}: {value!r:.100} is neither a time nor a tag of the table. Write a version "
            "number without quotes"
        ) from error


VERBS: Mapping[str, Callable[..., Any]] = {
    "metadata": _metadata,
    "table_changes": _table_changes,
}
"""Handlers by the name that Java uses."""
