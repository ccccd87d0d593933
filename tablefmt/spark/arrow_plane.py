"""Reads and writes where Spark cannot open the files itself: Arrow batches in Spark's workers.

For Spark Connect, and for stores that Hadoop has no file system for. Rows go through `mapInArrow`
on the workers; the driver, or the Connect client, plans, and makes the one commit.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.changes.plan import CHANGE_COLUMNS
from tablefmt.changes.read import Changes
from tablefmt.commit.environment import SYSTEM
from tablefmt.data.bounds import stats_columns
from tablefmt.data.selection import Condition, understood
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tablefmt.model.arrow_types import from_arrow, to_arrow
from tablefmt.model.ddl import schema_from, to_spark_json
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.model.shapes import nullable
from tablefmt.model.times import Time
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.context import Commit, TableContext, discard, writing
from tablefmt.operations.create import create, definition
from tablefmt.operations.overwrite import check_overwritable, overwrite_files
from tablefmt.snapshot.load import LogView
from tablefmt.spark import failures
from tablefmt.spark.align import Columns, alignment, misfit, narrowed
from tablefmt.spark.arrow_tasks import (
    ReadTask,
    WriteTask,
    check_shared,
    described,
    groups_of,
    merged,
    read_back,
    remove_losers,
)
from tablefmt.spark.native import Layout, layout
from tablefmt.spark.options import WriteOptions, parse_options
from tablefmt.store.open import open_store
from tablefmt.store.probe import ensure_safe
from tablefmt.store.protocol import Store

MODES = ("append", "overwrite", "error", "ignore")

_DOES_NOT_FIT = ("CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE")

_log = logging.getLogger(__name__)


def read_arrow(
    spark: Any,
    uri: str,
    version: int | None = None,
    timestamp: Time | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    where: Condition = None,
) -> Any:
    """The table as a DataFrame, scanned by Arrow in Spark's workers and pinned to one version.

    Args:
        spark: a session, classic or Connect. Its workers have to see the store, and have tablefmt.
        uri: where the table is.
        version: the ID version to read; by default the newest there is now.
        timestamp: or a point in time. TIM-4.
        storage_options: as `tablefmt.open`; in no plan.
        where: leaves out files without a row for which it holds; the rows are not filtered.

    Raises:
        As `tablefmt.spark.read`. UnsupportedFeatureError: memory://.
    """
    store = open_store(uri, storage_options)
    check_shared(store)
    return read_arrow_at(spark, TableContext(store, LogView.open(store)), version, timestamp, where)


def read_arrow_at(
    spark: Any,
    context: TableContext,
    version: int | None = None,
    timestamp: Time | None = None,
    where: Condition = None,
) -> Any:
    """The same on an open table."""
    check_shared(context.store)
    failures.install()
    snapshot = context.view.snapshot(context.resolve_point(version, timestamp))
    files = snapshot.matching(understood(where, snapshot.schema)[0])
    groups = [(group, ()) for group in groups_of(files)]
    _log.info(
        "Arrow plane: version %d of %s, %d of %d files in %d tasks",
        snapshot.version, context.store.uri, files.num_rows, snapshot.totals[0], len(groups),
    )  # fmt: skip
    label = f"tablefmt_arrow_v{snapshot.version}_{files.num_rows}_of_{snapshot.totals[0]}_files"
    return _frame(spark, ReadTask(context.store, snapshot.schema), groups, pa.schema([]), label)


def changes_arrow(spark: Any, changes: Changes) -> Any:
    """The rows of a range, each with its change columns; as `changes_dataframe`."""
    failures.install()
    store, snapshot = changes.view.store, changes.snapshot
    check_shared(store)
    groups = []
    for change in changes.file_changes:
        values = (change.change, change.version, change.timestamp)
        marks = tuple(pa.scalar(v, c.type) for v, c in zip(values, CHANGE_COLUMNS, strict=True))
        groups += [(group, marks) for group in groups_of(change.files)]
    label = f"tablefmt_arrow_changes_{changes.first_version}_to_{changes.last_version}"
    return _frame(spark, ReadTask(store, snapshot.schema), groups, CHANGE_COLUMNS, label)


def write_arrow(
    df: Any, uri: str, *, mode: str = "append", partition_by: Sequence[str] = (), **options: Any
) -> Commit:
    """Write the rows of `df` in one commit; the files are written by Arrow in Spark's workers.

    Arguments and errors: as `tablefmt.spark.write`, for classic and Connect sessions.
    """
    parsed = parse_options(options)
    mode = _mode(mode, parsed)
    store = open_store(uri, parsed.storage_options)
    check_shared(store)
    failures.install()
    context = TableContext(store, LogView.open(store)) if _is_there(store) else None
    if context is None:
        return _write_first(df, store, mode, partition_by, parsed)
    if mode == "error":
        raise TableExistsError(store.uri)
    if mode == "ignore":
        return context.no_op(context.environment.nonce(), NAME)
    check_partitioning(context.view.head.metadata, partition_by)
    if mode == "append":
        return append_arrow(context, df, parsed)
    return overwrite_arrow(context, df, parsed)


def append_arrow(context: TableContext, df: Any, options: WriteOptions) -> Commit:
    """Append to an open table. Raises as `write_arrow`."""
    head = context.begin()
    already = context.applied(options.commit, None, NAME)
    if already is not None:
        return already
    transaction = context.environment.nonce()
    added = files_arrow(
        df, context.store, transaction, head.metadata, layout(options.files, head.metadata, head)
    )
    return append_files(
        context, transaction, added, head.metadata, options.commit, read_version=head.version
    )


def overwrite_arrow(context: TableContext, df: Any, options: WriteOptions) -> Commit:
    """Overwrite all, the partitions of the new rows, or those of a condition on an open table."""
    head = context.begin()
    where, dynamic = options.replace_where, options.dynamic_partitions
    check_overwritable(head.metadata, where, dynamic)
    already = context.applied(options.commit, None, "OVERWRITE")
    if already is not None:
        return already
    transaction = context.environment.nonce()
    added = files_arrow(
        df, context.store, transaction, head.metadata, layout(options.files, head.metadata, head)
    )
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


def check_partitioning(there: Metadata, partition_by: Sequence[str]) -> None:
    """Refuse another partitioning than the table's. Raises SchemaMismatchError."""
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    known = there.partition_names
    if names and [n.casefold() for n in names] != [n.casefold() for n in known]:
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, known)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )


def commit_first(
    store: Store,
    schema: Schema,
    partition_by: Sequence[str],
    transaction: str,
    added: AddedFiles | None,
    options: WriteOptions,
    *,
    exist_ok: bool,
) -> Commit:
    """Make a table, and commit files that were written before it was there.

    Raises:
        TableExistsError: another one was made meanwhile; the files are removed.
        As `append_files`.
    """
    metadata = definition(schema, partition_by, {})
    try:
        context = create(store, schema, partition_by=partition_by, exist_ok=exist_ok)
        if context.view.head.metadata != metadata:
            raise TableExistsError(store.uri, "made meanwhile, with other columns")
        # Who made it meanwhile may have been this very write.
        already = context.applied(options.commit, None, NAME)
    except Exception:
        discard(store, transaction)
        raise
    if already is not None:
        discard(store, transaction)
        return already
    version = context.view.head.version
    return append_files(context, transaction, added, metadata, options.commit, read_version=version)


def _write_first(
    df: Any, store: Store, mode: str, partition_by: Sequence[str], options: WriteOptions
) -> Commit:
    """The files come first: a query that fails leaves no table."""
    if options.replace_where:
        raise UnsupportedFeatureError(
            "replaceWhere needs a table that is there", ["option:replaceWhere"]
        )
    schema = nullable(schema_from(df.schema))
    metadata = definition(schema, partition_by, {})
    ensure_safe(store, SYSTEM.nonce(), SYSTEM.sleep)
    transaction = SYSTEM.nonce()
    added = files_arrow(df, store, transaction, metadata, layout(options.files, metadata, None))
    exist_ok = mode == "append"
    return commit_first(store, schema, partition_by, transaction, added, options, exist_ok=exist_ok)


def _is_there(store: Store) -> bool:
    try:
        LogView.open(store)
    except TableNotFoundError:
        return False
    return True


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


def _frame(
    spark: Any,
    task: ReadTask,
    groups: Sequence[tuple[pa.Table, Sequence[Any]]],
    more: pa.Schema,
    label: str,
) -> Any:
    """A DataFrame with a task for every group; `label` is what EXPLAIN shows."""
    from pyspark.sql.types import StructType

    fields = list(to_spark_json(task.schema)["fields"])
    if len(more):
        fields += to_spark_json(from_arrow(more))["fields"]
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    names = [field["name"] for field in fields]
    wanted = pa.schema([*to_arrow(task.schema), *more])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                files, marks = groups[at]
                for found in task.batches(files, marks):
                    yield found.rename_columns(names).cast(wanted)

    rows.__name__ = label
    count = len(groups)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(rows, schema)


def files_arrow(
    df: Any, store: Store, transaction: str, metadata: Metadata, spread: Layout
) -> AddedFiles | None:
    """Run the query; its rows go to files under the transaction's folder, durably (ADD-5).

    The counterpart of `write_native`. Raises as it does; nothing stays then.
    """
    frame = _aligned(df, metadata.schema)
    stats = tuple(stats_columns(metadata.schema, metadata.properties.get("statsColumns")))
    names = tuple(metadata.schema.names)
    task = WriteTask(
        store, transaction, metadata, stats, names, spread.compression, spread.rows_max
    )
    if spread.shuffle_bytes is not None:
        frame = _together(frame, metadata.partition_names)

    def write_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        added = task.write(batches, context.partitionId() if context else 0)
        yield pa.RecordBatch.from_arrays([pa.array([described(added)], pa.binary())], ["files"])

    with writing(store, transaction):
        done = _collected(frame.mapInArrow(write_tablefmt_arrow, "files binary"), df, metadata)
    added = merged(read_back(bytes(row[0])) for row in done)
    remove_losers(store, transaction, added)
    return added


def _together(frame: Any, names: Sequence[str]) -> Any:
    """Rows of one partition in one task, or in a few where adaptive execution sizes them."""
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true":
        return frame.hint("rebalance", *(quote_name(n) for n in names))
    return frame.repartition(*(quote_name(n) for n in names)) if names else frame


def _collected(messages: Any, df: Any, metadata: Metadata) -> list[Any]:
    """What the tasks say; a value that a cast refuses is an error of ours."""
    from pyspark.errors import PySparkException

    try:
        rows: list[Any] = messages.collect()
        return rows
    except PySparkException as error:
        text = str(error)
        columns = narrowed(df, metadata.schema)
        if not columns or not any(condition in text for condition in _DOES_NOT_FIT):
            raise
        raise SchemaMismatchError(
            f"a value does not fit its column: {text.splitlines()[0]} Columns that are cast: "
            f"{', '.join(map(repr, columns))}; nothing was written",
            columns,
        ) from None


def _aligned(df: Any, schema: Schema) -> Any:
    """The rows with exactly the table's columns, by their logical names."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    steps = alignment(df, _as_named(schema))
    frame = _chosen(df, steps.choose)
    if steps.fit is None:
        return frame
    try:
        frame = frame.to(StructType.fromJson(steps.fit))
        # Connect analyses when it is asked for a schema that it cannot know by itself.
        frame.select("*").schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    return frame


def _chosen(df: Any, columns: Columns) -> Any:
    from pyspark.sql.types import StructType

    # One process may have sessions of both kinds; the plain module serves one of them.
    connect = type(df).__module__.startswith("pyspark.sql.connect")
    functions = importlib.import_module(f"pyspark.sql{'.connect' if connect else ''}.functions")
    chosen = []
    for wanted in columns:
        source = wanted.get("source")
        column = functions.lit(None) if source is None else functions.col(quote_name(source))
        if "type" in wanted:
            field = {**wanted, "nullable": True, "metadata": {}}
            kind = StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType
            column = column.cast(kind)
        chosen.append(column.alias(wanted["name"]))
    return df.select(*chosen)


def _as_named(schema: Schema) -> Schema:
    """The schema with logical names for physical ones, at every level."""
    return Schema(tuple(map(_field_as_named, schema.fields)), schema.last_id)


def _field_as_named(field: Field) -> Field:
    return replace(field, physical=field.name, type=_type_as_named(field.type))


def _type_as_named(kind: Type) -> Type:
    if isinstance(kind, Struct):
        return Struct(tuple(map(_field_as_named, kind.fields)))
    if isinstance(kind, Array):
        return replace(kind, element=_type_as_named(kind.element))
    if isinstance(kind, Map):
        return replace(kind, key=_type_as_named(kind.key), value=_type_as_named(kind.value))
    return kind
