"""What calls from the JVM name: sessions, rows, tables and columns, as Python has them."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidArgumentError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema
from tablefmt.session.table_context import TableContext
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    JavaObject,
    Session,
    frame_from,
    has_jvm,
    java_session,
    jvm_of,
    session_from,
)
from tablefmt.spark.runtime.sql_text import parser_of
from tablefmt.spark.spark_options import parse_options
from tablefmt.spark.statements.execution import open_context, open_if_there
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store

_sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
"""PySpark's objects by the JVM's names: whoever works with a session has its object."""


def remember(spark: Session) -> None:
    """Use this session object whenever the JVM names its session."""
    _sessions[java_session(spark).sessionUUID()] = spark


def session_of(given: JavaObject) -> Session:
    """PySpark's object of a session of the JVM."""
    key = given.sessionUUID()
    spark = _sessions.get(key)
    if spark is None:
        spark = _sessions[key] = session_from(given)
    return spark


def frame_of(session: JavaObject, data: JavaObject) -> DataFrame:
    """A Dataset of the JVM, in a session."""
    return frame_from(data, session_of(session))


def store_of(uri: str, storage: str) -> Store:
    """The store of a table that the JVM names, with the options of its storage as JSON text."""
    return open_store(place(uri), parse_options(json.loads(storage)).storage_options)


def storage_texts(storage: Mapping[str, Any]) -> dict[str, str]:
    """Storage options as options of a data source: text by `storage.<key>`."""
    return {
        f"storage.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in storage.items()
    }


def context_of(uri: str, storage: str) -> TableContext:
    """A table that the JVM names, at its newest version."""
    return open_context(store_of(uri, storage))


def java_columns(spark: Session, schema: Schema) -> JavaObject:
    """The columns as a StructType of the JVM."""
    return java_classes.java_schema(spark, json.dumps(to_spark_json(schema)))


def follow(spark: Session, name: str, schema: Schema) -> None:
    """The columns that Spark's catalog keeps of a table become those of the table.

    A table that is named by its path is in no catalog.
    """
    identifier = _identifier(spark, name)
    if "/" in identifier.table():
        return
    catalog = java_session(spark).sessionState().catalog()
    catalog.alterTableSchema(identifier, java_columns(spark, schema))


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of ours that Spark's catalog knows, or that is named by its path."""

    uri: str
    storage_options: Mapping[str, Any]
    quoted: str
    """Its name in SQL."""


def catalog_table(spark: Session, name: str) -> CatalogTable | None:
    """The table of ours that SQL calls so; None: another's, a view, or nothing.

    Args:
        spark: a classic session.
        name: as SQL has it: with its database and catalog or not, or `tablefmt` and a path.
    """
    state = java_session(spark).sessionState()
    words = name_parts(spark, name)
    if len(words) == 2 and folded(words[0]) == "tablefmt" and "/" in words[1]:
        return CatalogTable(place(words[1]), {}, name)
    if not _in_session_catalog(state.catalogManager(), words):
        return None
    catalog, identifier = state.catalog(), _identifier(spark, name)
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return None
    entry = catalog.getTableMetadata(identifier)
    provider = entry.provider()
    if not provider.isDefined() or folded(provider.get()) != "tablefmt":
        return None
    options = dict(
        jvm_of(spark).scala.jdk.javaapi.CollectionConverters.asJava(entry.storage().properties())
    )
    for extra in ("path", "serialization.format"):
        options.pop(extra, None)
    uri = place(jvm_of(spark).org.apache.hadoop.fs.Path(entry.location()).toString())
    storage = parse_options(options).storage_options
    return CatalogTable(uri, storage, entry.identifier().quotedString())


def catalog_table_or_none(spark: Session, given: object) -> CatalogTable | None:
    """The table of ours that text names in a classic session; None for what is a place."""
    from pyspark.errors import ParseException

    if not isinstance(given, str) or not has_jvm(spark):
        return None
    if "/" in given and not folded(given).startswith("tablefmt.`"):
        return None
    try:
        return catalog_table(spark, given)
    except ParseException:
        # Of a folder's name that SQL would want in backticks.
        return None


def check_no_folder(name: str, table: CatalogTable) -> None:
    """Refuse a name that a table in a local folder has too. Raises InvalidArgumentError."""
    folder = os.path.abspath(name)
    if folder != table.uri and open_if_there(open_store(folder)) is not None:
        raise InvalidArgumentError(
            f"{name!r} is a table of Spark's catalog at {table.uri}, and the folder {folder} is a "
            f"table too; write {table.quoted!r} for the one, and './{name}' for the other"
        )


def is_view(spark: Session, name: str) -> bool:
    """Return whether SQL calls a view so: a temporary one, or one of the session's catalog."""
    state = java_session(spark).sessionState()
    words = name_parts(spark, name)
    if not _in_session_catalog(state.catalogManager(), words):
        return False
    catalog, identifier = state.catalog(), _identifier(spark, name)
    if catalog.isTempView(identifier):
        return True
    if not catalog.tableExists(identifier):
        return False
    return bool(catalog.getTableMetadata(identifier).tableType().name() == "VIEW")


def name_parts(spark: Session, name: str) -> list[str]:
    """The parts of a name in SQL, without quotes."""
    parts = parser_of(jvm_of(spark)).parseMultipartIdentifier(name)
    return [parts.apply(at) for at in range(parts.size())]


def _in_session_catalog(catalogs: JavaObject, words: Sequence[str]) -> bool:
    """Whether Spark would look for a name there, and not in a catalog that somebody added."""
    if len(words) == 3:
        return folded(words[0]) == "spark_catalog"
    if len(words) == 2 and catalogs.isCatalogRegistered(words[0]):
        return False
    return len(words) < 3 and bool(catalogs.currentCatalog().name() == "spark_catalog")


def _identifier(spark: Session, name: str) -> JavaObject:
    """Of a table of the session catalog, with that catalog's name before it or not."""
    parser = parser_of(jvm_of(spark))
    parts = parser.parseMultipartIdentifier(name)
    last = [quote_name(parts.apply(at)) for at in range(parts.size())][-2:]
    return parser.parseTableIdentifier(".".join(last))


def path_of(given: str | None) -> str:
    """The option `path`. Raises InvalidArgumentError: there is none."""
    if not given:
        raise InvalidArgumentError(
            "there is no path; give one to load() or save(), or option 'path'"
        )
    return given


def place(location: str) -> str:
    """Spark's catalog has `file:` before a local path, and escapes nothing in it."""
    if not location.startswith("file:"):
        return location
    return "/" + location.removeprefix("file:").lstrip("/")
