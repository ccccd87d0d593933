"""Register `format("tablefmt")` and SQL in a session, and answer the JVM's callbacks.

A session with a JVM gets the Java classes. A session without a JVM, or with a Spark that lacks a
required class, gets the Python data source. A log line names the choice and its reason.

The Java classes decide nothing. Each of their calls arrives here and goes to a handler, also when
they only need an error raised. Maps and arrays of text travel as JSON text: one call into the JVM
per element would be slow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import (
    InvalidArgumentError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.spark.backends import backend_choice
from tablefmt.spark.columns.row_conditions import several_rows_error
from tablefmt.spark.entry import (
    clone_verbs,
    inspection_verbs,
    java_arguments,
    pyspark_wrappers,
    read_verbs,
    statement_verbs,
    stream_verbs,
    table_definition,
    write_verbs,
)
from tablefmt.spark.entry.spark_session import check_classic, is_connect
from tablefmt.spark.jvm import callbacks, java_classes
from tablefmt.spark.pyspark_objects import JavaObject, Session
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.ansi import lenient
from tablefmt.spark.runtime.failures import answered
from tablefmt.spark.statements.execution import open_context
from tablefmt.store.location import open_store


def _changed(name: str) -> None:
    raise SchemaMismatchError(
        f"the type of column {name!r} changed after the statement was analyzed, because another "
        "writer altered the table; run the statement again",
        [name],
    )


def _twice(name: str) -> None:
    raise SchemaMismatchError(f"column {name!r} is set twice", [name])


def _misfit(name: str, kind: str, given: str) -> None:
    raise SchemaMismatchError(
        f"column {name!r} is {kind}, and {given} cannot be stored there; cast it first", [name]
    )


def _refuse(what: str, instead: str | None = None) -> None:
    end = "yet on tablefmt tables" if instead is None else f"on tablefmt tables; {instead}"
    raise UnsupportedFeatureError(f"{what} is not supported {end}", [f"sql:{what}"])


def _view(table: str | None) -> None:
    what = "DELETE, UPDATE or MERGE of a view"
    there = "the table's own name, from CREATE TABLE … OPTIONS (path '…')"
    # A catalog that does not delegate to ours makes a catalog table look like a view.
    other = (
        ". If it is a table, spark.sql.catalog.spark_catalog of the session names a catalog that "
        "does not delegate to Spark's own: use tablefmt.spark.open(spark, path), or a session "
        "without that setting"
    )
    raise UnsupportedFeatureError(
        f"{what} is not supported yet on tablefmt tables; use {table or there}, with the table's "
        "own column names, and put the view's condition into the statement"
        f"{'' if table else other}",
        [f"sql:{what}"],
    )


def _foreign(name: str) -> None:
    raise UnsupportedFeatureError(
        f"{name} is not a table USING tablefmt, so it was not replaced: Spark would drop it before "
        "the new rows are written; use another name, or DROP it first",
        ["sql:REPLACE TABLE of another format"],
    )


def _queried(condition: str) -> None:
    raise InvalidPredicateError(
        f"CHECK ({condition}): a constraint is checked row by row and must not contain a subquery"
    )


def _rowwise(clause: str, text: str) -> None:
    raise several_rows_error(clause, text)


def _lenient() -> None:
    raise lenient("DELETE, UPDATE or MERGE")


def _unguarded() -> None:
    raise UnsupportedFeatureError(
        "the table has deleted rows, and the session that runs the query cannot filter them out; "
        "call tablefmt.spark.register(spark) with that session first",
        ["spark:unregistered"],
    )


REFUSALS: Mapping[str, Callable[..., Any]] = {
    "changed": _changed,
    "twice": _twice,
    "misfit": _misfit,
    "refuse": _refuse,
    "view": _view,
    "foreign": _foreign,
    "queried": _queried,
    "rowwise": _rowwise,
    "lenient": _lenient,
    "unguarded": _unguarded,
}


VERBS: Mapping[str, Callable[..., Any]] = {
    **read_verbs.VERBS,
    **read_verbs.NAMED_READ_VERBS,
    **inspection_verbs.VERBS,
    **write_verbs.VERBS,
    **table_definition.VERBS,
    **statement_verbs.VERBS,
    **clone_verbs.VERBS,
    **stream_verbs.SINK_VERBS,
    **stream_verbs.VERBS,
    **REFUSALS,
}


def answer(request: JavaObject) -> Any:
    """Answer one call of Bridge.java.

    Errors go back as values, because py4j would wrap a raised error in text.
    """
    verb, arguments = request[0], list(request[1])
    return answered(_dispatch, verb, arguments)


def _dispatch(verb: str, arguments: list[Any]) -> Any:
    callbacks.check_request(verb, arguments)
    answer = VERBS[verb](*arguments)
    callbacks.check_answer(verb, answer)
    return answer


CATALOG = "spark.sql.catalog.spark_catalog"
_CATALOG_CLASS = "tablefmt.SessionCatalog"

_registering = threading.Lock()
_log = logging.getLogger("tablefmt.spark")


def register(spark: Session) -> None:
    """Make `format("tablefmt")` and SQL's `USING tablefmt` work in a session. Call it once.

    Sets `spark.sql.catalog.spark_catalog` of the session. If that setting already names another
    catalog (Delta, Iceberg), it stays, and finds tablefmt tables through the session catalog that
    it wraps.

    Raises:
        UnsupportedFeatureError: the session is not supported.
    """
    # Spark checks that a source is absent before adding it: two threads at once would add it twice.
    with _registering:
        _register(spark)


def _register(spark: Session) -> None:
    from tablefmt.spark.entry import python_source

    failures.install()
    pyspark_wrappers.install_table_formats()
    if not is_connect(spark):
        check_classic(spark)
    without_jvm = backend_choice.for_session(spark)
    if without_jvm is None:
        try:
            _register_classes(spark)
        except UnsupportedFeatureError as error:
            without_jvm = backend_choice.fallback(str(error))
        else:
            python_source.register_source(spark, "tablefmt_arrow")
            return
    backend_choice.check_asked(spark, without_jvm)
    pyspark_wrappers.install_statement_hints(spark)
    python_source.register_source(spark)
    level = logging.WARNING if without_jvm.lacking else logging.INFO
    _log.log(level, "arrow backend: rows go through Python, because %s", without_jvm.reason)


def _register_classes(spark: Session) -> None:
    if not java_classes.on_class_path(spark):
        raise UnsupportedFeatureError(
            "this JVM accepts no additions to its class path, so format('tablefmt') cannot be "
            "registered; use tablefmt.spark.read() and write()",
            ["spark:class-path"],
        )
    java_arguments.remember(spark)
    java_classes.new_instance(spark, "Bridge").connect(java_classes.callback(spark, answer))
    java_classes.add_rule(spark, again=True)
    if spark.conf.get(CATALOG, "builtin") == "builtin":
        spark.conf.set(CATALOG, _CATALOG_CLASS)
    java_classes.install_catalog(spark)
    java_classes.add_statements(spark)
    _log.info("tablefmt: Spark %s reads and writes the data files itself", spark.version)


def sync(spark: Session, name: str) -> None:
    """Update the columns that Spark's catalog keeps of a table to the table's current columns.

    Args:
        spark: a registered session.
        name: a table USING tablefmt, with or without its database.

    Raises:
        InvalidArgumentError: the catalog has no tablefmt table of that name.
        TableNotFoundError: there is no table at the location in the catalog.
    """
    check_classic(spark)
    found = java_arguments.catalog_table(spark, name)
    if found is None:
        raise InvalidArgumentError(
            f"Spark's catalog has no table {name} USING tablefmt; check the name with SHOW TABLES"
        )
    context = open_context(open_store(found.uri, found.storage_options))
    java_arguments.follow(spark, found.quoted, context.view.head.metadata.schema)
