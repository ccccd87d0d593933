"""Writing a DataFrame as one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.bounds import stats_columns
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tablefmt.model.ddl import schema_from
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.shapes import nullable
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.context import Commit, TableContext
from tablefmt.operations.create import create, definition
from tablefmt.operations.overwrite import check_overwritable, overwrite_files
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.load import LogView
from tablefmt.spark.align import narrowed
from tablefmt.spark.native import layout, remove_folder, write_native
from tablefmt.spark.options import WriteOptions, parse_options
from tablefmt.spark.planes import plane_for
from tablefmt.store.open import open_store
from tablefmt.store.probe import ensure_safe
from tablefmt.store.protocol import Store

_DOES_NOT_FIT = ("CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE")

MODES = ("append", "overwrite", "error", "ignore")


def write(
    df: Any, uri: str, *, mode: str = "append", partition_by: Sequence[str] = (), **options: Any
) -> Commit:
    """Write the rows of `df` in one commit; the files are written by Spark itself.

    Args:
        df: a DataFrame of a classic session. Columns go by name (DAT-2), types by Spark's rules
            for INSERT.
        uri: where the table is; without one there, it is made with the columns of `df`.
        mode: append; overwrite; error (or errorifexists): only make a new table; ignore: do
            nothing if there is a table.
        partition_by: columns to partition a new table by. For a table that is there it has to be
            left out, or name the same.
        options: see `tablefmt.spark.options.OPTIONS`.

    Raises:
        TableExistsError: mode is error.
        SchemaMismatchError, ConstraintViolationError: the data does not fit.
        InvalidRangeError: a mode or an option's value that makes no sense.
        UnsupportedFeatureError: an unknown option, a Connect session, or a store that Spark cannot
            open yet.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
        Spark's own exceptions: the query behind `df` failed. Only CommitUnknownError leaves files.
    """
    parsed = parse_options(options)
    mode = _mode(mode, parsed)
    store = open_store(uri, parsed.storage_options)
    if plane_for(df.sparkSession, store).kind == "arrow":
        from tablefmt.spark.arrow_plane import write_arrow

        return write_arrow(df, uri, mode=mode, partition_by=partition_by, **options)
    context = open_if_there(store)
    if context is None:
        return _write_first(df, store, mode, partition_by, parsed)
    if mode == "error":
        raise TableExistsError(store.uri)
    if mode == "ignore":
        return context.no_op(context.environment.nonce(), NAME)
    _check_partitioning(context, partition_by)
    if mode == "append":
        return append_rows(context, df, parsed)
    return overwrite_rows(context, df, parsed)


def append_rows(context: TableContext, df: Any, options: WriteOptions) -> Commit:
    """Append to an open table. Raises as `write`."""
    head = context.begin()
    already = context.applied(options.commit, None, NAME)
    if already is not None:
        return already
    transaction = context.environment.nonce()
    added = _files(df, context.store, transaction, head.metadata, options, head)
    return append_files(
        context, transaction, added, head.metadata, options.commit, read_version=head.version
    )


def overwrite_rows(context: TableContext, df: Any, options: WriteOptions) -> Commit:
    """Overwrite the whole table, the partitions of the new rows, or those of a condition.

    Raises as `write`, and UnsupportedFeatureError for a condition that needs row values.
    """
    head = context.begin()
    where, dynamic = options.replace_where, options.dynamic_partitions
    check_overwritable(head.metadata, where, dynamic)
    already = context.applied(options.commit, None, "OVERWRITE")
    if already is not None:
        return already
    transaction = context.environment.nonce()
    added = _files(df, context.store, transaction, head.metadata, options, head)
    return overwrite_files(
        context,
        transaction,
        added,
        head.metadata,
        options.commit,
        read_version=head.version,
        where=where,
        dynamic_partitions=dynamic,
    )


def open_if_there(store: Store) -> TableContext | None:
    """The table at the root of a store, at its newest version; None if there is none."""
    try:
        return open_context(store)
    except TableNotFoundError:
        return None


def open_context(store: Store) -> TableContext:
    """The table at the root of a store, at its newest version. Raises TableNotFoundError."""
    return TableContext(store, LogView.open(store))


def _mode(mode: str, options: WriteOptions) -> str:
    folded = mode.casefold()
    folded = "error" if folded == "errorifexists" else folded
    if folded not in MODES:
        raise InvalidRangeError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    if folded != "overwrite" and (options.replace_where or options.dynamic_partitions):
        raise InvalidRangeError(
            f"replaceWhere and partitionOverwriteMode mean nothing with mode={mode!r}; "
            "use mode='overwrite'"
        )
    return folded


def _check_partitioning(context: TableContext, partition_by: Sequence[str]) -> None:
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    there = context.view.head.metadata.partition_names
    if names and [n.casefold() for n in names] != [n.casefold() for n in there]:
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, there)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )


def _files(
    df: Any,
    store: Store,
    transaction: str,
    metadata: Metadata,
    options: WriteOptions,
    head: Head | None,
) -> AddedFiles | None:
    from pyspark.errors import ArithmeticException

    stats = stats_columns(metadata.schema, metadata.properties.get("statsColumns"))
    session_rows = int(df.sparkSession.conf.get("spark.sql.files.maxRecordsPerFile", "0"))
    spread = layout(options.files, metadata, head, session_rows)
    try:
        return write_native(df, store, transaction, metadata, stats, spread)
    except ArithmeticException as error:
        # The query may overflow by itself, which is its own affair.
        columns = narrowed(df, metadata.schema)
        if not columns or not str(error.getCondition()).startswith(_DOES_NOT_FIT):
            raise
        raise SchemaMismatchError(
            f"a value does not fit its column: {str(error).splitlines()[0]} Columns that are cast: "
            f"{', '.join(map(repr, columns))}; nothing was written",
            columns,
        ) from None


def _write_first(
    df: Any, store: Store, mode: str, partition_by: Sequence[str], options: WriteOptions
) -> Commit:
    """The files come first: a query that fails leaves no table.

    As Spark's own CREATE TABLE AS, this makes every column nullable.
    """
    if options.replace_where:
        raise UnsupportedFeatureError(
            "replaceWhere needs a table that is there", ["option:replaceWhere"]
        )
    schema = nullable(schema_from(df.schema))
    metadata = definition(schema, partition_by, {})
    ensure_safe(store, SYSTEM.nonce(), SYSTEM.sleep)
    transaction = SYSTEM.nonce()
    added = _files(df, store, transaction, metadata, options, None)
    try:
        context = create(store, schema, partition_by=partition_by, exist_ok=mode == "append")
        if context.view.head.metadata != metadata:
            raise TableExistsError(store.uri, "made meanwhile, with other columns")
        # Who made it meanwhile may have been this very write.
        already = context.applied(options.commit, None, NAME)
        if already is not None:
            remove_folder(df.sparkSession, store, transaction)
            return already
    except Exception:
        remove_folder(df.sparkSession, store, transaction)
        raise
    return append_files(
        context,
        transaction,
        added,
        metadata,
        options.commit,
        read_version=context.view.head.version,
    )
