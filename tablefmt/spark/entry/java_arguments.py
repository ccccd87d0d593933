"""Convert arguments of JVM callbacks: sessions, rows, tables and columns, to Python objects."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema
from tablefmt.session.table_context import TableContext
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    JavaObject,
    Session,
    frame_from,
    java_class,
    java_session,
    session_from,
)
from tablefmt.spark.runtime.sql_text import parser
from tablefmt.spark.spark_options import parse_options
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store

_sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
"""PySpark's session objects by the JVM's session id. Users of a session keep its object alive."""


def remember(spark: Session) -> None:
    """Use this session object whenever the JVM names its session."""
    _sessions[java_session(spark).sessionUUID()] = spark


def session_of(given: JavaObject) -> Session:
    """Return PySpark's object for a session of the JVM."""
    key = given.sessionUUID()
    spark = _sessions.get(key)
    if spark is None:
        spark = _sessions[key] = session_from(given)
    return spark


def frame_of(session: JavaObject, data: JavaObject) -> DataFrame:
    """Return a DataFrame for a Dataset of the JVM."""
    return frame_from(data, session_of(session))


def store_of(uri: str, storage: str) -> Store:
    """Return the store of a table that the JVM names. `storage` has its options as JSON text."""
    return open_store(place(uri), parse_options(json.loads(storage)).storage_options)


def storage_texts(storage: Mapping[str, Any]) -> dict[str, str]:
    """Return storage options as data source options: `storage.<key>` with text values."""
    return {
        f"storage.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in storage.items()
    }


def context_of(uri: str, storage: str) -> TableContext:
    """Open a table that the JVM names, at its newest version."""
    return open_context(store_of(uri, storage))


def java_columns(schema: Schema) -> JavaObject:
    """Return the columns as a StructType of the JVM."""
    return java_classes.java_schema(json.dumps(to_spark_json(schema)))


def follow(spark: Session, name: str, schema: Schema) -> None:
    """Set the columns that Spark's catalog keeps of a table to those of the table.

    Does nothing for a table that is named by its path: no catalog has it.
    """
    identifier = _identifier(name)
    if "/" in identifier.table():
        return
    catalog = java_session(spark).sessionState().catalog()
    catalog.alterTableSchema(identifier, java_columns(schema))


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A tablefmt table that Spark's catalog has, or that is named by its path."""

    uri: str
    storage_options: Mapping[str, Any]
    quoted: str
    """Its name in SQL."""


def catalog_table(spark: Session, name: str) -> CatalogTable | None:
    """Return the tablefmt table with this name in SQL. None for other tables, views and no table.

    Args:
        spark: a classic session.
        name: a SQL name, with or without database and catalog, or `tablefmt` and a path.
    """
    state = java_session(spark).sessionState()
    words = name_parts(name)
    if len(words) == 2 and folded(words[0]) == "tablefmt" and "/" in words[1]:
        return CatalogTable(place(words[1]), {}, name)
    if not _in_session_catalog(state.catalogManager(), words):
        return None
    catalog, identifier = state.catalog(), _identifier(name)
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return None
    entry = catalog.getTableMetadata(identifier)
    provider = entry.provider()
    if not provider.isDefined() or folded(provider.get()) != "tablefmt":
        return None
    options = dict(
        java_class("scala.jdk.javaapi.CollectionConverters").asJava(entry.storage().properties())
    )
    for extra in ("path", "serialization.format"):
        options.pop(extra, None)
    uri = place(java_class("org.apache.hadoop.fs.Path")(entry.location()).toString())
    storage = parse_options(options).storage_options
    return CatalogTable(uri, storage, entry.identifier().quotedString())


@dataclass(frozen=True, slots=True)
class NewTable:
    """A name for a table that a statement makes."""

    words: Sequence[str]
    """Its database and name; `tablefmt` and the path of a table that is named by its path."""
    by_path: bool
    taken: bool
    """The catalog has a table or view of this name."""
    there: CatalogTable | None
    """The tablefmt table that the name stands for, if the catalog has it."""


def new_table(spark: Session, name: str) -> NewTable:
    """Return the table that a SQL name stands for, or will stand for.

    Raises:
        UnsupportedFeatureError: it is in another catalog than the session's own.
    """
    state, words = java_session(spark).sessionState(), name_parts(name)
    if len(words) == 2 and folded(words[0]) == "tablefmt" and "/" in words[1]:
        return NewTable(words, True, False, CatalogTable(place(words[1]), {}, name))
    if not _in_session_catalog(state.catalogManager(), words):
        raise UnsupportedFeatureError(
            f"{name} is in another catalog than the session's own; name a table of spark_catalog, "
            "or a path: tablefmt.`/path`",
            ["sql:catalog"],
        )
    catalog = state.catalog()
    space = words[-2] if len(words) > 1 else catalog.getCurrentDatabase()
    full = ".".join(map(quote_name, (space, words[-1])))
    taken = bool(catalog.tableExists(_identifier(full)))
    return NewTable((space, words[-1]), False, taken, catalog_table(spark, full))


def set_storage_option(spark: Session, name: str, option: str, value: str) -> None:
    """Set a storage option in the entry that Spark's catalog has of a table."""
    catalog = java_session(spark).sessionState().catalog()
    entry = catalog.getTableMetadata(_identifier(name))
    storage = entry.storage()
    properties = storage.properties().updated(option, value)
    catalog.alterTable(_copy(entry, storage=_copy(storage, properties=properties)))


def _copy(of: JavaObject, **changed: JavaObject) -> JavaObject:
    """Return a copy of a Scala object with other values of some fields."""
    places = range(of.productArity())
    values = [changed.get(of.productElementName(at), of.productElement(at)) for at in places]
    return of.copy(*values)


def check_no_folder(name: str, table: CatalogTable) -> None:
    """Check that no local folder with this name is a table. Raises InvalidArgumentError."""
    folder = os.path.abspath(name)
    if folder != table.uri and open_context_if_exists(open_store(folder)) is not None:
        raise InvalidArgumentError(
            f"{name!r} is ambiguous: Spark's catalog has a table of that name at {table.uri}, and "
            f"the folder {folder} has one too; write {table.quoted!r} for the catalog's table, or "
            f"'./{name}' for the folder's"
        )


def is_view(spark: Session, name: str) -> bool:
    """Return whether a SQL name is a view: a temporary view, or one of the session catalog."""
    state = java_session(spark).sessionState()
    words = name_parts(name)
    if not _in_session_catalog(state.catalogManager(), words):
        return False
    catalog, identifier = state.catalog(), _identifier(name)
    if catalog.isTempView(identifier):
        return True
    if not catalog.tableExists(identifier):
        return False
    return bool(catalog.getTableMetadata(identifier).tableType().name() == "VIEW")


def is_taken(spark: Session, words: Sequence[str]) -> bool:
    """Return whether Spark finds a table or view by a name, or finds it in another catalog.

    Args:
        spark: a classic session.
        words: the parts of the name, at least two.
    """
    state = java_session(spark).sessionState()
    catalogs, catalog = state.catalogManager(), state.catalog()
    if len(words) > 2:
        return folded(words[0]) != "spark_catalog" and bool(catalogs.isCatalogRegistered(words[0]))
    if not _in_session_catalog(catalogs, words):
        return True
    identifier = _identifier(".".join(map(quote_name, words)))
    if catalog.isTempView(identifier):
        return True
    return bool(catalog.databaseExists(words[0]) and catalog.tableExists(identifier))


def version_or_tag(text: str | None) -> int | str | None:
    """Return the version of VERSION AS OF: a number, or the name of a tag (TAG-1)."""
    number = None if text is None else number_in_text(text)
    return text if number is None else number


def name_parts(name: str) -> list[str]:
    """Return the parts of a SQL name, without quotes."""
    parts = parser().parseMultipartIdentifier(name)
    return [parts.apply(at) for at in range(parts.size())]


def _in_session_catalog(catalogs: JavaObject, words: Sequence[str]) -> bool:
    """Return whether Spark resolves a name in the session catalog, not in an additional one."""
    if len(words) == 3:
        return folded(words[0]) == "spark_catalog"
    if len(words) == 2 and catalogs.isCatalogRegistered(words[0]):
        return False
    return len(words) < 3 and bool(catalogs.currentCatalog().name() == "spark_catalog")


def _identifier(name: str) -> JavaObject:
    """Return the identifier of a table in the session catalog. The name may include the catalog."""
    sql = parser()
    parts = sql.parseMultipartIdentifier(name)
    last = [quote_name(parts.apply(at)) for at in range(parts.size())][-2:]
    return sql.parseTableIdentifier(".".join(last))


def path_of(given: str | None) -> str:
    """Return the option `path`. Raises InvalidArgumentError if there is none."""
    if not given:
        raise InvalidArgumentError(
            "the path is missing; give it to load() or save(), or set option 'path'"
        )
    return given


def place(location: str) -> str:
    """Return a location of Spark's catalog as a path or URI.

    The catalog puts `file:` before a local path, and does not escape it.
    """
    if not location.startswith("file:"):
        return location
    return "/" + location.removeprefix("file:").lstrip("/")
