"""Verbs that say what a table is: CREATE, REPLACE and ALTER TABLE, and columns that INSERT adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.model.schema import Schema
from tablefmt.spark.columns.evolution import widened_columns
from tablefmt.spark.entry.callers import (
    context_of,
    java_columns,
    session_of,
    store_of,
)
from tablefmt.spark.entry.define import Statement, check_only_storage, define, like, replace_table
from tablefmt.spark.entry.delta_settings import default_properties
from tablefmt.spark.runtime.frames import JavaObject, Session
from tablefmt.spark.statements.alter import alter_table
from tablefmt.store.protocol import Store


def _define(session: JavaObject, uri: str, storage: str, text: str) -> JavaObject:
    """CREATE TABLE: the columns of the table that is there from now on."""
    return _as_defined(define, session, uri, storage, text)


def _replace(session: JavaObject, uri: str, storage: str, text: str) -> JavaObject:
    """REPLACE TABLE: the columns of the table from now on."""
    return _as_defined(replace_table, session, uri, storage, text)


def _as_defined(
    verb: Callable[[Session, Store, Statement], Schema],
    session: JavaObject,
    uri: str,
    storage: str,
    text: str,
) -> JavaObject:
    spark = session_of(session)
    options = json.loads(storage)
    check_only_storage(options)
    statement = Statement.read(text, options, default_properties(spark))
    return java_columns(spark, verb(spark, store_of(uri, storage), statement))


def _like(
    session: JavaObject, uri: str, storage: str, of: str, of_storage: str, text: str
) -> JavaObject:
    """CREATE TABLE LIKE another of ours: the columns of the new one."""
    statement = Statement.read(text, json.loads(storage))
    schema = like(store_of(uri, storage), context_of(of, of_storage), statement)
    return java_columns(session_of(session), schema)


def _alter(session: JavaObject, uri: str, storage: str, changes: str) -> JavaObject:
    """ALTER TABLE: the columns of the table from now on."""
    context = context_of(uri, storage)
    alter_table(session_of(session), context, json.loads(changes)["changes"])
    return java_columns(session_of(session), context.view.head.metadata.schema)


def _evolve(session: JavaObject, uri: str, storage: str, columns: str, how: str) -> str:
    """The columns that INSERT WITH SCHEMA EVOLUTION is to find in the table."""
    metadata = context_of(uri, storage).view.head.metadata
    return widened_columns(metadata, json.loads(columns), json.loads(how))


VERBS: Mapping[str, Callable[..., Any]] = {
    "define": _define,
    "replace": _replace,
    "like": _like,
    "alter": _alter,
    "evolve": _evolve,
}
"""By the names by which Java calls them."""
