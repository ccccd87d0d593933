"""`format("tablefmt")` and SQL for a session.

In one with a JVM at hand Spark asks classes of ours. A session without, or one whose Spark lacks a
class that this needs, gets the Python data source; either way a log line says which.
"""

from __future__ import annotations

import logging
import threading

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.spark.backends import choice
from tablefmt.spark.entry import bridge, callers, insert_options, statement_hints
from tablefmt.spark.entry.session import check_classic, is_connect
from tablefmt.spark.jvm import loader
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.frames import Session
from tablefmt.spark.statements.open_logs import open_context
from tablefmt.store.open import open_store

CATALOG = "spark.sql.catalog.spark_catalog"
_CATALOG_CLASS = "tablefmt.SessionCatalog"

_registering = threading.Lock()
_log = logging.getLogger("tablefmt.spark")


def register(spark: Session) -> None:
    """Make `format("tablefmt")` and SQL's `USING tablefmt` work in a session; once is enough.

    Sets `spark.sql.catalog.spark_catalog` of the session. If somebody else has set it (Delta,
    Iceberg), that catalog stays, and finds our tables through the session's own catalog below it.

    Raises:
        UnsupportedFeatureError: no Spark session that this can work with.
    """
    # Spark looks whether a source is there before it adds one: two at once would be one too many.
    with _registering:
        _register(spark)


def _register(spark: Session) -> None:
    from tablefmt.spark.entry import python_source

    failures.install()
    insert_options.install()
    if not is_connect(spark):
        check_classic(spark)
    without_jvm = choice.for_session(spark)
    if without_jvm is None:
        try:
            _register_classes(spark)
        except UnsupportedFeatureError as error:
            without_jvm = choice.fallback(str(error))
        else:
            python_source.register_source(spark, "tablefmt_arrow")
            return
    choice.check_asked(spark, without_jvm)
    statement_hints.install(spark)
    python_source.register_source(spark)
    level = logging.WARNING if without_jvm.lacking else logging.INFO
    _log.log(level, "arrow backend: rows go through Python, because %s", without_jvm.reason)


def _register_classes(spark: Session) -> None:
    if not loader.on_class_path(spark):
        raise UnsupportedFeatureError(
            "this JVM's class path cannot be added to, so format('tablefmt') cannot be found; use "
            "tablefmt.spark.read() and write()",
            ["spark:class-path"],
        )
    callers.remember(spark)
    loader.new_instance(spark, "Bridge").connect(loader.callback(spark, bridge.answer))
    loader.add_rule(spark, again=True)
    if spark.conf.get(CATALOG, "builtin") == "builtin":
        spark.conf.set(CATALOG, _CATALOG_CLASS)
    loader.stand_in(spark)
    loader.add_statements(spark)
    _log.info("tablefmt: Spark %s reads and writes the files itself", spark.version)


def sync(spark: Session, name: str) -> None:
    """Bring the columns that Spark's catalog keeps of a table up to those of the table itself.

    Args:
        spark: a registered session.
        name: of a table USING tablefmt, with or without its database.

    Raises:
        InvalidArgumentError: no such table in the catalog, or not one of tablefmt.
        TableNotFoundError: nothing is where the catalog says it is.
    """
    check_classic(spark)
    found = callers.catalog_table(spark, name)
    if found is None:
        raise InvalidArgumentError(f"Spark's catalog has no table {name} USING tablefmt")
    context = open_context(open_store(found.uri, found.storage_options))
    callers.follow(spark, found.quoted, context.view.head.metadata.schema)
