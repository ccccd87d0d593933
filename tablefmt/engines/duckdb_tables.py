"""Versions of tables as relations and views of DuckDB."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.data.arrow_results import missing_extra
from tablefmt.data.file_verification import KeepEnd, alike_files
from tablefmt.data.selection import Condition
from tablefmt.data.sql_evaluation import now_us
from tablefmt.engines.duckdb_query import LiveRows, condition_text, live_rows, quoted, text
from tablefmt.engines.table_argument import opened
from tablefmt.errors import (
    InvalidArgumentError,
    InvalidPredicateError,
    SchemaMismatchError,
)
from tablefmt.expressions.predicate import fields
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import translate_condition
from tablefmt.model.argument_names import check_names
from tablefmt.model.schema import Field
from tablefmt.model.times import Time
from tablefmt.printable import is_unicode
from tablefmt.session.table_scan import ReadableTable, Scan, explain_given_up_version
from tablefmt.store.fsspec_filesystem import SCHEME, StoreFiles, address_of, base_of, keep_end
from tablefmt.store.location import Uri
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    import duckdb

_BITS = "tablefmt_bits"
"""Name of the deleted rows in a relation's query."""


@check_names
def relation(
    uri: Uri | ReadableTable,
    *,
    connection: Any = None,
    version: int | str | None = None,
    timestamp: Time | None = None,
    storage_options: dict[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    where: Condition = None,
) -> duckdb.DuckDBPyRelation:
    """Return the live rows of one version as a DuckDBPyRelation, which reads them when it runs.

    A relation stays at its version. If that version expires and is vacuumed, DuckDB reports a
    missing file. `where` skips files by the log, and DuckDB filters the rest. Conditions added to
    the relation later are evaluated by DuckDB only.

    Args:
        uri: as for `tablefmt.open`; or an open table, for its version.
        connection: a DuckDB connection; None: the default one. Only it can use the relation.
        version: a whole number, or the name of a tag; None: the newest.
        timestamp: alternative to `version`: the time as of which to read (TIM-4).
        storage_options: as for `tablefmt.open`.
        columns: one or more names, in the order of the result; None: all.
        where: as for `Table.scan`, except pyarrow expressions that cannot become a predicate.

    Raises:
        CorruptDataError: DAT-5, ADD-7: a live file is missing, has another length or row count, or
            its footer bytes do not match the checksum.
        UnsupportedFeatureError: DuckDB is not installed, or would read a column inexactly; or the
            condition cannot be evaluated exactly.
        InvalidPredicateError, SchemaMismatchError: the condition or the columns do not fit.
        TableNotFoundError, VersionNotFoundError, InvalidRangeError: as `tablefmt.open` and
            `Table.scan`.
    """
    duckdb = _duckdb()
    connection = duckdb.default_connection() if connection is None else connection
    _check_connection(connection)
    table = opened(uri, storage_options)
    scan = table.scan(columns=columns, where=where, version=version, timestamp=timestamp)
    with explain_given_up_version(scan.store, scan.version):
        live, query = _query(connection, scan, where, _BITS)
    return _over(connection, query, live.deleted)


def connect() -> duckdb.DuckDBPyConnection:
    """Return a new connection to an empty database.

    Raises:
        UnsupportedFeatureError: DuckDB is not installed.
    """
    connection: duckdb.DuckDBPyConnection = _duckdb().connect()
    return connection


def _over(
    connection: duckdb.DuckDBPyConnection, query: str, tablefmt_deleted: pa.Table
) -> duckdb.DuckDBPyRelation:
    # DuckDB finds the deleted rows by the name of the argument, and keeps them alive.
    if tablefmt_deleted.num_rows:
        query = f"WITH {_BITS} AS MATERIALIZED ({_as_bits('tablefmt_deleted')}) {query}"
    return connection.sql(query)


def _as_bits(table: str) -> str:
    return f"SELECT branch, file, CAST(bits AS BIT) AS bits FROM {table}"


@check_names
def attach(
    connection: Any,
    name: str,
    uri: Uri | ReadableTable,
    *,
    version: int | str | None = None,
    timestamp: Time | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Create or replace a temporary view over the live rows of one version.

    The view stays at that version: attach again for a newer one. The view ends with the connection,
    and so does its temporary table of deleted rows, if there is one.

    Args:
        connection: a DuckDB connection.
        name: name of the view: one identifier with any characters. It hides a table of that name.
        uri: as for `relation`. All other arguments and errors are those of `relation` too.
        version: as for `relation`.
        timestamp: as for `relation`.
        storage_options: as for `relation`.
    """
    _duckdb()
    _check_connection(connection)
    _check_view(name)
    table = opened(uri, storage_options)
    scan = table.scan(version=version, timestamp=timestamp)
    # The table name differs from that of a view being replaced, which stays intact until then.
    # DuckDB's names ignore the case of ASCII letters.
    prefix = f"tablefmt:{name.encode().lower().hex()}:"
    deleted_name = f"{prefix}{uuid.uuid4().hex}"
    with explain_given_up_version(scan.store, scan.version):
        live, query = _query(connection, scan, None, f"temp.{quoted(deleted_name)}")
    if live.deleted.num_rows:
        _keep(connection, live.deleted, deleted_name)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS {query}")
    known = "SELECT table_name FROM duckdb_tables() WHERE temporary AND starts_with(table_name, "
    for (other,) in connection.execute(f"{known}{text(prefix)})").fetchall():
        if other != deleted_name:
            connection.execute(f"DROP TABLE temp.{quoted(other)}")


def _check_connection(given: Any) -> None:
    duckdb = _duckdb()
    if not isinstance(given, duckdb.DuckDBPyConnection) and given is not duckdb:
        raise InvalidArgumentError(
            f"expected a DuckDBPyConnection, got {type(given).__name__}. Pass duckdb.connect()."
        )


def _check_view(name: Any) -> None:
    if not isinstance(name, str) or not name or not is_unicode(name):
        raise InvalidArgumentError(f"view name {name!r:.100}: expected non-empty Unicode text")


def _keep(connection: duckdb.DuckDBPyConnection, deleted: pa.Table, name: str) -> None:
    arriving = f"{name}:arriving"
    connection.register(arriving, deleted)
    try:
        connection.execute(f"CREATE TEMP TABLE {quoted(name)} AS {_as_bits(quoted(arriving))}")
    finally:
        connection.unregister(arriving)


def _query(
    connection: duckdb.DuckDBPyConnection, scan: Scan, where: Condition, deleted_name: str
) -> tuple[LiveRows, str]:
    """Return the live rows of a scan, and the complete query over them."""
    if not scan.columns:
        raise SchemaMismatchError("a relation needs at least one column. Name one or more.", [])
    schema, store = scan.snapshot.schema, scan.store
    selection = scan.selection
    translated = None
    looked_at: list[Field] = []
    if where is not None and selection.exact and selection.predicate is not None:
        looked_at = [schema.by_id(i) for i in sorted(fields(selection.predicate))]
    elif isinstance(where, str):
        translated = translate_condition(where, (Relation(schema),), now_us())
        looked_at = [f for at, f in enumerate(schema.fields) if f"t{at}" in translated.columns]
    elif where is not None:
        raise InvalidPredicateError(
            "this condition cannot be translated for DuckDB. Pass SQL text."
        )
    columns = list({c.id: c for c in [*scan.columns, *looked_at]}.values())
    place = {c.id: f"c{at}" for at, c in enumerate(columns)}
    files = scan.snapshot.with_vectors(scan.survivors)
    address, keep = _reached(connection, store)
    groups = alike_files(store, files, columns, keep)
    live = live_rows(groups, columns, address, deleted_name)
    rows = f"(\n{live.sql}\n)"
    condition = ""
    if translated is not None:
        # These timestamps are UTC wall clock, as for the engine of UPDATE and MERGE.
        handles = [
            place[c.id]
            + (" AT TIME ZONE 'UTC'" if str(c.type) == "timestamp" else "")
            + f" AS t{schema.fields.index(c)}"
            for c in looked_at
        ]
        rows = f"(SELECT {', '.join(['*', *handles])} FROM {rows})"
        condition = f" WHERE {translated.sql}"
    elif selection.predicate is not None:
        condition = " WHERE " + condition_text(selection.predicate, lambda f: place[f.id])
    named = ", ".join(f"{place[c.id]} AS {quoted(c.name)}" for c in scan.columns)
    return live, f"SELECT {named} FROM {rows}{condition}"


def _reached(
    connection: duckdb.DuckDBPyConnection, store: Store
) -> tuple[Callable[[str, int], str], KeepEnd | None]:
    """Return the addresses of a table's files for DuckDB, and a receiver of fetched footer
    bytes.
    """
    traits = store.traits
    if traits.on_disk and not traits.imports:
        return lambda key, _: f"{traits.path}/{key}", None
    if SCHEME not in connection.list_filesystems():
        connection.register_filesystem(StoreFiles())
    base = base_of(store)
    return partial(address_of, base), lambda *end: keep_end(address_of(base, *end[:2]), end[2])


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise missing_extra("sql", error) from None
    return duckdb
