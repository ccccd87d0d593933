"""Read a table as a DataFrame at a fixed version, and write a DataFrame in one commit.

The code is the same for every execution backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import (
    CommitRejectedError,
    InvalidArgumentError,
    TableExistsError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.argument_names import check_names
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Schema, nullable
from tablefmt.model.times import Time
from tablefmt.operations.alter import add_features
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import Partitions, check_partitioning, create_by, definition
from tablefmt.operations.overwrite import (
    check_overwritable,
    overwrite_files,
    replaces_by_rows,
    stage_replace_partitions,
)
from tablefmt.operations.save_modes import TO_WRITE, Mode, known_mode
from tablefmt.session.commit_result import Commit
from tablefmt.session.metadata_changes import merged, redefined, replaced
from tablefmt.session.statement_scope import AnalyzedCondition
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import (
    TransactionSnapshot,
    check_may_remove,
)
from tablefmt.snapshot.head import Head
from tablefmt.spark.backends.backend_choice import backend_for
from tablefmt.spark.backends.backend_protocol import Destination, session_layout
from tablefmt.spark.columns.projection import check_frame, incoming, narrowed
from tablefmt.spark.columns.store_assignment import explained_by, value_misfit
from tablefmt.spark.entry.delta_settings import (
    check_replaced_columns,
    checks_replacement,
    default_properties,
    with_settings,
)
from tablefmt.spark.entry.matched_replacement import replace_matching, replace_unchecked
from tablefmt.spark.entry.spark_session import is_stopped
from tablefmt.spark.pyspark_objects import DataFrame, Session
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.spark_jobs import with_batch
from tablefmt.spark.spark_options import WriteKeywords, WriteOptions, parse_options
from tablefmt.spark.statements.dml import replaced_by, stage_replace_on_spark
from tablefmt.spark.statements.execution import (
    execute,
    open_context,
    open_context_if_exists,
    rows_of,
)
from tablefmt.spark.statements.frame_reads import read_at
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


@check_names
def read(
    spark: Session,
    uri: str,
    *,
    version: int | str | None = None,
    timestamp: Time | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the table as a DataFrame at a fixed version, scanned in Spark's tasks.

    The version stays fixed over Spark Connect too. There, `format("tablefmt")` without a version is
    analyzed again for every action (spec/decisions/0005).

    Args:
        spark: a session, classic or Connect.
        uri: the location of the table.
        version: the version to read. Default: the newest version.
        timestamp: a point in time instead: an aware datetime, or ISO text. Text without a zone is
            in the session's time zone. TIM-4, TIM-5.
        storage_options: as `tablefmt.open`.

    Raises:
        TableNotFoundError, CorruptTableError: as `tablefmt.open`.
        VersionNotFoundError, InvalidRangeError: no such version or time.
        UnsupportedFeatureError: the table needs a newer reader (ENT-7), or is at memory://, which
            Spark's workers cannot read.
        StoreError: an invalid address or option, or the store does not answer.
    """
    return read_at(spark, open_context(open_store(uri, storage_options)), version, timestamp)


@check_names
def write(
    df: DataFrame,
    uri: str,
    *,
    mode: Mode = "append",
    partition_by: Partitions = None,
    **options: Unpack[WriteKeywords],
) -> Commit:
    """Write the rows of `df` in one commit. Spark's tasks write the files.

    Args:
        df: a DataFrame of a classic or Connect session. Columns match by name (DAT-2). Types follow
            Spark's rules for INSERT.
        uri: the location of the table. A missing table is created with the columns of `df`.
        mode: append; overwrite; error (or errorifexists): fail if the table exists; ignore: do
            nothing if the table exists.
        partition_by: partition columns of a new table. For an existing table, leave it out or give
            the same columns. With overwriteSchema, give other columns, or `[]` for none.
        options: those of `tablefmt.spark.spark_options.OPTIONS`, and `**{"storage.<key>": …}`.

    Raises:
        TableExistsError: mode is error, and the table exists.
        SchemaMismatchError, ConstraintViolationError: the data does not fit the table.
        InvalidArgumentError: an invalid mode or option value.
        InvalidPredicateError: replaceWhere.
        UnsupportedFeatureError: an unknown option, a table that needs a newer writer (ENT-7),
            memory://. UnsafeStoreError: STO-12. StoreError, CorruptTableError: as `tablefmt.open`.
        CommitRejectedError, ConcurrentModificationException: as every commit.
        CommitUnknownError: may leave files behind, as may tasks that Spark has not yet stopped. No
            log entry names these files. No other error leaves files.
        Exception: Spark's own, for the query behind `df`.
    """
    check_frame(df)
    spark = df.sparkSession
    parsed = parse_options(with_settings(spark, options))
    mode = _mode(mode, parsed)
    store = open_store(uri, parsed.storage_options)
    failures.install()
    context = open_context_if_exists(store)
    if context is None:
        # As in Spark's own CREATE TABLE AS, every column is nullable.
        columns = nullable(schema_from(df.schema))
        metadata = definition(columns, partition_by or (), default_properties(spark))
        return write_first(df, store, metadata, parsed, exist_ok=mode == "append")[1]
    if mode == "error":
        raise TableExistsError(store.uri, advice=TO_WRITE)
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
        options: the options of the write.
        refresh: True starts from the newest version in the log. False starts from the newest known
            version, or from the one that the rows were read at.

    Raises as `write`.
    """
    check_frame(df)
    options = with_batch(options, df.sparkSession)

    def stage(txn: TransactionSnapshot) -> Staged:
        txn.target = _evolved(txn.metadata, df, options)
        return append_files(
            txn.transaction,
            _txn_files(df, txn, options),
            txn.metadata,
            read_version=txn.version,
            evolved=txn.evolved,
        )

    spark, rows = df.sparkSession, rows_of(options, df)
    return execute(context, spark, NAME, stage, options, rows=rows, refresh=refresh)


def evolved(
    metadata: Metadata, rows: Schema, options: WriteOptions, partition_by: Partitions = None
) -> Metadata:
    """Return the table's metadata after rows with these columns are written with these options.

    Raises:
        SchemaMismatchError: SCH-2, or partition columns that do not exist.
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
    """Overwrite the whole table, the partitions of the new rows, or the rows of a condition.

    Args:
        context: the table.
        df: the new rows.
        options: the options of the write. They select the rows to replace.
        partition_by: new partition columns, with overwriteSchema. None: unchanged.
        name: the name of the operation.
        wanted: a new definition that replaces the table's whole metadata, for REPLACE TABLE AS.
        refresh: as in `append_rows`. Use False only if the rows were read from no table.

    Raises as `write`.
    """
    check_frame(df)
    spark = df.sparkSession
    if options.replace_where is not None and not checks_replacement(spark):
        return replace_unchecked(context, df, options, options.replace_where)
    if options.replace_using or options.replace_on:
        return replace_matching(context, df, options)
    options = with_batch(options, spark)
    dynamic = options.dynamic_partitions
    if wanted is None and options.overwrite_schema:
        add_features(context, _evolved(context.view.head.metadata, df, options, partition_by))

    def text(metadata: Metadata) -> tuple[str, ...]:
        where, by_rows = _where(options, metadata, spark)
        if by_rows is None and not (dynamic and replaces_by_rows(metadata)):
            check_overwritable(metadata, where, dynamic)
        else:
            check_may_remove(metadata)
        return ()

    def stage(txn: TransactionSnapshot) -> Staged:
        where, by_rows = _where(options, txn.metadata, spark)
        if wanted is not None:
            txn.target = redefined(txn.counted_metadata, wanted)
        else:
            txn.target = _evolved(txn.metadata, df, options, partition_by)
        if where is not None and by_rows is not None:
            with explained_by(lambda error: _explained(error, df, txn.target)):
                return stage_replace_on_spark(txn, df, where, by_rows, options)
        if dynamic and replaces_by_rows(txn.metadata):
            return stage_replace_partitions(txn, _txn_files(df, txn, options), name)
        return overwrite_files(
            txn.transaction,
            _txn_files(df, txn, options),
            txn.metadata,
            read_version=txn.version,
            where=where,
            dynamic_partitions=dynamic,
            name=name,
            evolved=txn.evolved,
        )

    rows = rows_of(options, df)
    return execute(context, spark, name, stage, options, rows=rows, text=text, refresh=refresh)


def _where(
    options: WriteOptions, metadata: Metadata, spark: Session
) -> tuple[str | None, AnalyzedCondition | None]:
    """Return replaceWhere as `replaced_by` does.

    Raises:
        UnsupportedFeatureError: the session does not allow a condition on rows.
    """
    given = options.replace_where
    if given is None:
        return None, None
    where, by_rows = replaced_by(given, metadata, spark)
    if by_rows is not None:
        check_replaced_columns(spark, given)
    return where, by_rows


def _mode(mode: str, options: WriteOptions) -> Mode:
    folded = known_mode(mode)
    if folded != "overwrite" and options.overwrite_schema:
        raise InvalidArgumentError(
            f"overwriteSchema has no effect with mode={mode!r}; use mode='overwrite', or "
            "mergeSchema"
        )
    if folded != "overwrite" and options.part:
        raise InvalidArgumentError(
            f"{options.part} has no effect with mode={mode!r}; use mode='overwrite'"
        )
    return folded


def _txn_files(df: DataFrame, txn: TransactionSnapshot, options: WriteOptions) -> AddedFiles | None:
    head, target = txn.view.head, txn.target
    return _files(df, txn.store, txn.transaction, target, options, head)


def _files(
    df: DataFrame,
    store: Store,
    transaction: str,
    metadata: Metadata,
    options: WriteOptions,
    head: Head | None,
) -> AddedFiles | None:
    """Run the query and write its rows to files."""
    spark = df.sparkSession
    backend = backend_for(spark, store)
    layout = session_layout(spark, options.files, metadata, head)
    with explained_by(lambda error: _explained(error, df, metadata)):
        return backend.write_rows(df, Destination(transaction, metadata, layout))


def _explained(error: Exception, df: DataFrame, metadata: Metadata) -> TablefmtError | None:
    """Return the error that a failure of Spark means for a write. None: the query itself failed."""
    if is_stopped(df.sparkSession):
        return CommitRejectedError("the Spark session was stopped while its tasks were writing")
    # The query itself may overflow, too.
    fields = narrowed(df, metadata.schema)
    return value_misfit(str(error), fields) if fields else None


def write_first(
    df: DataFrame, store: Store, metadata: Metadata, options: WriteOptions, *, exist_ok: bool
) -> tuple[TableContext, Commit]:
    """Create a table with rows. Files are written first, so a failed query leaves no table.

    Returns:
        The table, and the commit of the rows.

    Raises:
        TableExistsError: another writer created the table meanwhile. Other errors as `write`.
    """
    options = with_batch(options, df.sparkSession)
    check_first(options)

    def files(transaction: str) -> AddedFiles | None:
        return _files(df, store, transaction, metadata, options, None)

    return create_by(
        store, metadata, files, options.commit, exist_ok=exist_ok, digest=options.digest
    )


def check_first(options: WriteOptions) -> None:
    """Check that a write which creates the table has no options that need an existing table.

    Raises:
        UnsupportedFeatureError: replaceWhere, replaceUsing, replaceOn.
    """
    if options.part and not options.dynamic_partitions:
        raise UnsupportedFeatureError(
            f"{options.part} needs an existing table; leave it out, or create the table first",
            [f"option:{options.part}"],
        )
