"""Writing a DataFrame as one commit, whoever writes its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablefmt.commit.environment import SYSTEM
from tablefmt.errors import (
    CommitRejectedError,
    InvalidRangeError,
    TableExistsError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.fingerprints import without_run
from tablefmt.model.schema import Schema
from tablefmt.model.schema_views import nullable
from tablefmt.operations import first_rows
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import definition, prepare
from tablefmt.operations.first_rows import Partitions, check_partitioning
from tablefmt.operations.overwrite import check_overwritable, overwrite_files
from tablefmt.operations.write import known_mode
from tablefmt.session.context import TableContext
from tablefmt.session.files import TransactionFiles
from tablefmt.session.measurements import Measured
from tablefmt.session.metadata_changes import merged, redefined, replaced
from tablefmt.session.receipt import Commit
from tablefmt.session.staging import commit_staged
from tablefmt.snapshot.head import Head
from tablefmt.spark.backends.base import Destination
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.backends.layout import session_layout
from tablefmt.spark.columns.misfits import value_misfit
from tablefmt.spark.columns.projection import check_frame, incoming, narrowed
from tablefmt.spark.entry.delta_settings import default_properties, with_settings
from tablefmt.spark.entry.session import is_stopped
from tablefmt.spark.options import WriteKeywords, WriteOptions, parse_options
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.frames import DataFrame
from tablefmt.spark.runtime.stream_batches import with_batch
from tablefmt.spark.statements.open_logs import open_if_there
from tablefmt.spark.statements.replace import replace_rows, replaced_by
from tablefmt.spark.statements.source_versions import pin_query, with_query
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


def write(
    df: DataFrame,
    uri: str,
    *,
    mode: str = "append",
    partition_by: Partitions = None,
    **options: Unpack[WriteKeywords],
) -> Commit:
    """Write the rows of `df` in one commit; the files are written in Spark's tasks.

    Args:
        df: a DataFrame, of a classic session or a Connect one. Columns go by name (DAT-2), types by
            Spark's rules for INSERT.
        uri: where the table is; without one there, it is made with the columns of `df`.
        mode: append; overwrite; error (or errorifexists): only make a new table; ignore: do
            nothing if there is a table.
        partition_by: columns to partition a new table by. For a table that is there it has to be
            left out, or name the same; with overwriteSchema it names others, or `[]` for none.
        options: those of `tablefmt.spark.options.OPTIONS`, and `**{"storage.<key>": …}`.

    Raises:
        TableExistsError: mode is error.
        SchemaMismatchError, ConstraintViolationError: the data does not fit.
        InvalidRangeError: a mode or an option's value that makes no sense.
        InvalidPredicateError: replaceWhere.
        UnsupportedFeatureError: an unknown option, a table that needs a newer writer (ENT-7),
            memory://. UnsafeStoreError: STO-12. StoreError, CorruptTableError: as `tablefmt.open`.
        CommitRejectedError, ConcurrentModificationException: as every commit.
        CommitUnknownError: it alone leaves files, and tasks that Spark had not stopped yet: no
            entry names those.
        Exception: Spark's own, of the query behind `df`.
    """
    check_frame(df)
    spark = df.sparkSession
    parsed = parse_options(with_settings(spark, options))
    mode = _mode(mode, parsed)
    store = open_store(uri, parsed.storage_options)
    failures.install()
    context = open_if_there(store)
    if context is None:
        # As Spark's own CREATE TABLE AS, this makes every column nullable.
        columns = nullable(schema_from(df.schema))
        metadata = definition(columns, partition_by or (), default_properties(spark))
        return write_first(df, store, metadata, parsed, exist_ok=mode == "append")[1]
    if mode == "error":
        raise TableExistsError(store.uri)
    if mode == "ignore":
        return context.no_op(context.environment.nonce(), NAME)
    if not parsed.overwrite_schema:
        check_partitioning(context.view.head.metadata, partition_by)
    if mode == "append":
        return append_rows(context, df, parsed)
    return overwrite_rows(context, df, parsed, partition_by)


def append_rows(
    context: TableContext, df: DataFrame, options: WriteOptions, *, refresh: bool = True
) -> Commit:
    """Append to an open table.

    Args:
        context: the table.
        df: the rows.
        options: of the write.
        refresh: begin from the newest version that there is, not from the newest that is known,
            or that the rows were read of.

    Raises as `write`.
    """
    check_frame(df)
    options = with_batch(options, df.sparkSession)
    head = context.begin(refresh=refresh)
    already = context.applied(options.commit, without_run(options.digest), NAME)
    if already is not None:
        return already
    transaction = context.environment.nonce()
    read = pin_query(context, df)
    if read is not None and read.version > head.version:
        head = context.begin()
    metadata = _evolved(head.metadata, df, options)
    added = _files(df, context.store, transaction, metadata, options, head)
    under = head if read is None else read
    staged = append_files(
        transaction, added, under.metadata, read_version=under.version, evolved=metadata
    )
    if read is not None:
        staged = with_query(staged, read)
    return commit_staged(context, staged, options.commit, options.digest)


def evolved(
    metadata: Metadata, rows: Schema, options: WriteOptions, partition_by: Partitions = None
) -> Metadata:
    """The table's metadata once rows with these columns are written, as the options say.

    Raises:
        SchemaMismatchError: SCH-2; partition columns that are not there.
    """
    if options.overwrite_schema:
        return replaced(metadata, nullable(rows), partition_by)
    return merged(metadata, rows) if options.merge_schema else metadata


def _evolved(
    metadata: Metadata, df: DataFrame, options: WriteOptions, partition_by: Partitions = None
) -> Metadata:
    if options.overwrite_schema:
        return evolved(metadata, schema_from(df.schema), options, partition_by)
    if options.merge_schema:
        return evolved(metadata, incoming(df, metadata.schema), options)
    return metadata


def overwrite_rows(
    context: TableContext,
    df: DataFrame,
    options: WriteOptions,
    partition_by: Partitions = None,
    *,
    name: str = "OVERWRITE",
    wanted: Metadata | None = None,
    refresh: bool = True,
) -> Commit:
    """Overwrite the whole table, the partitions of the new rows, or those of a condition.

    Args:
        context: the table.
        df: the new rows.
        options: what is overwritten, among others.
        partition_by: with overwriteSchema, what to partition by from then on; None: as before.
        name: of the operation.
        wanted: another definition of the table, in place of all that it has: REPLACE TABLE AS.
        refresh: as of `append_rows`; False is for rows that were read of no table.

    Raises as `write`.
    """
    check_frame(df)
    options = with_batch(options, df.sparkSession)
    head = context.begin(refresh=refresh)
    where, dynamic = options.replace_where, options.dynamic_partitions
    rows = None
    if where is not None:
        where, rows = replaced_by(where, head.metadata, df.sparkSession)
    if where is not None and rows is not None:
        metadata = _evolved(head.metadata, df, options, partition_by)
        try:
            return replace_rows(context, df, where, rows, metadata, options)
        except TablefmtError:
            raise
        except Exception as error:
            raise _explained(error, df, metadata) or error from None
    check_overwritable(head.metadata, where, dynamic)
    already = context.applied(options.commit, without_run(options.digest), name)
    if already is not None:
        return already
    if wanted is not None:
        metadata = redefined(head.metadata, wanted)
    else:
        metadata = _evolved(head.metadata, df, options, partition_by)
    return _overwrite(context, df, options, head, metadata, where, name)


def _overwrite(
    context: TableContext,
    df: DataFrame,
    options: WriteOptions,
    head: Head,
    metadata: Metadata,
    where: str | None,
    name: str,
) -> Commit:
    """Where partition values decide what goes; the rows are written under `metadata`."""
    transaction = context.environment.nonce()
    read = pin_query(context, df)
    added = _files(df, context.store, transaction, metadata, options, head)
    under = head if read is None else read
    with TransactionFiles(context.store, transaction).removed_on_failure():
        staged = overwrite_files(
            transaction,
            added,
            under.metadata,
            read_version=under.version,
            where=where,
            dynamic_partitions=options.dynamic_partitions,
            name=name,
            evolved=metadata,
        )
    if read is not None:
        staged = with_query(staged, read)
    return commit_staged(context, staged, options.commit, options.digest)


def _mode(mode: str, options: WriteOptions) -> str:
    folded = known_mode(mode)
    if folded != "overwrite" and options.overwrite_schema:
        raise InvalidRangeError(
            f"overwriteSchema means nothing with mode={mode!r}; use mode='overwrite', or "
            "mergeSchema"
        )
    if folded != "overwrite" and (options.replace_where or options.dynamic_partitions):
        raise InvalidRangeError(
            f"replaceWhere and partitionOverwriteMode mean nothing with mode={mode!r}; "
            "use mode='overwrite'"
        )
    return folded


def _files(
    df: DataFrame,
    store: Store,
    transaction: str,
    metadata: Metadata,
    options: WriteOptions,
    head: Head | None,
) -> AddedFiles | None:
    """Run the query and write its rows."""
    spark = df.sparkSession
    backend = backend_for(spark, store)
    layout = session_layout(spark, options.files, metadata, head)
    try:
        return backend.write_rows(df, Destination(transaction, metadata, layout))
    except TablefmtError:
        raise
    except Exception as error:
        explained = _explained(error, df, metadata)
        if explained is None:
            raise
        raise explained from None


def _explained(error: Exception, df: DataFrame, metadata: Metadata) -> TablefmtError | None:
    """What a failure of Spark's means for the write; None: it is the query's own affair."""
    if is_stopped(df.sparkSession):
        return CommitRejectedError("the Spark session was stopped while its tasks were writing")
    # The query may overflow by itself.
    fields = narrowed(df, metadata.schema)
    return value_misfit(str(error), fields) if fields else None


def write_first(
    df: DataFrame, store: Store, metadata: Metadata, options: WriteOptions, *, exist_ok: bool
) -> tuple[TableContext, Commit]:
    """Make a table with rows. The files come first: a query that fails leaves no table.

    Returns:
        The table, and the commit of the rows.

    Raises:
        TableExistsError: another one was made meanwhile. As `write`.
    """
    options = with_batch(options, df.sparkSession)
    measured = Measured.start(SYSTEM.monotonic, store)
    prepare_first(store, options)
    transaction = SYSTEM.nonce()
    added = _files(df, store, transaction, metadata, options, None)
    return commit_first(
        store, metadata, transaction, added, options, exist_ok=exist_ok, measured=measured
    )


def prepare_first(store: Store, options: WriteOptions) -> None:
    """Before the files of a table that is not there yet are written.

    Raises:
        UnsupportedFeatureError: replaceWhere. ForeignTableError, UnsafeStoreError.
    """
    if options.replace_where:
        raise UnsupportedFeatureError(
            "replaceWhere needs a table that is there", ["option:replaceWhere"]
        )
    prepare(store)


def commit_first(
    store: Store,
    metadata: Metadata,
    transaction: str,
    added: AddedFiles | None,
    options: WriteOptions,
    *,
    exist_ok: bool,
    measured: Measured | None = None,
) -> tuple[TableContext, Commit]:
    """Make a table, and commit files that were written before it was there. Both.

    Raises:
        TableExistsError: another one was made meanwhile; the files are removed.
        As `append_files`.
    """
    return first_rows.commit_first(
        store,
        metadata,
        transaction,
        added,
        options.commit,
        exist_ok=exist_ok,
        measured=measured,
        digest=options.digest,
    )
