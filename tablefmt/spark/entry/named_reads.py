"""Verbs of reads by name with options: the same rows as by path, or an error. Spec: TIM-6."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.case_folding import folded
from tablefmt.model.times import show_time, to_micros
from tablefmt.spark.columns.conditions import session_zone
from tablefmt.spark.entry.callers import (
    CatalogTable,
    catalog_table,
    is_view,
    name_parts,
    session_of,
    storage_texts,
)
from tablefmt.spark.jvm import loader
from tablefmt.spark.jvm.pyspark_parts import java_session
from tablefmt.spark.options import (
    OF_STREAMS,
    READ_OPTIONS,
    ReadOptions,
    option_key,
    parse_read_options,
    pop_option,
)
from tablefmt.spark.runtime.frames import JavaObject, Session

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
    walker = loader.kept(
        spark, "SourceVersions", lambda: loader.new_instance(spark, "SourceVersions")
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


VERBS: Mapping[str, Callable[..., Any]] = {"named": _named, "options": _unread}
"""By the names by which Java calls them."""
