"""Reads and writes where Spark cannot open the files itself: Arrow batches in Spark's workers.

For Spark Connect, and for stores that Hadoop has no file system for. Rows go through `mapInArrow`
on the workers; the driver, or the Connect client, plans, and makes the one commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.changes.plan import CHANGE_COLUMNS
from tablefmt.changes.read import Changes
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow, to_arrow
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.session.context import writing
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.arrow.tasks import (
    LocateTask,
    ReadTask,
    RewriteTask,
    WriteTask,
    described,
    groups_of,
    merged,
    read_back,
    remove_losers,
    unpacked,
)
from tablefmt.spark.backends.base import Layout
from tablefmt.spark.columns.conditions import session_zone, target_of_text
from tablefmt.spark.columns.constraints import guard
from tablefmt.spark.columns.projection import Columns, alignment, misfit
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.frames import functions_of
from tablefmt.store.protocol import Store

_log = logging.getLogger(__name__)


def read_arrow(spark: Any, store: Store, snapshot: Snapshot, *, asked: bool = False) -> Any:
    """The rows of a version as a DataFrame, scanned by Arrow in Spark's workers.

    Args:
        spark: a session, classic or Connect. Its workers have to see the store, and have tablefmt.
        store: the table's. What it is opened with is in no plan.
        snapshot: the version.
        asked: somebody asked for this version, by number or time.
    """
    failures.install()
    files = snapshot.files
    groups = [(group, ()) for group in groups_of(snapshot.with_vectors(files))]
    _log.info(
        "Arrow plane: version %d of %s, %d files in %d tasks",
        snapshot.version, store.uri, files.num_rows, len(groups),
    )  # fmt: skip
    # source_versions.py finds it in plans.
    at = f"{'at' if asked else 'v'}{snapshot.version}"
    label = f"tablefmt_arrow_{snapshot.table_id}_{at}_{files.num_rows}_files"
    return _frame(spark, ReadTask(store, snapshot.schema), groups, pa.schema([]), label)


def changes_arrow(spark: Any, changes: Changes) -> Any:
    """The rows of a range, each with its change columns; as `changes_dataframe`."""
    failures.install()
    store, snapshot = changes.view.store, changes.snapshot
    groups = []
    for change in changes.file_changes:
        values = (change.change, change.version, change.timestamp)
        marks = tuple(pa.scalar(v, c.type) for v, c in zip(values, CHANGE_COLUMNS, strict=True))
        groups += [(group, marks) for group in groups_of(change.files)]
    label = f"tablefmt_arrow_changes_{changes.first_version}_to_{changes.last_version}"
    return _frame(spark, ReadTask(store, snapshot.schema), groups, CHANGE_COLUMNS, label)


def located_arrow(
    spark: Any, store: Store, files: pa.Table, table: Schema, wanted: Schema, more: pa.Schema
) -> Any:
    """Rows with their places, as `located`; `more` are the two columns of those."""
    failures.install()
    groups, first = [], 0
    for group in groups_of(files):
        groups.append((group, (first,)))
        first += group.num_rows
    label = f"tablefmt_arrow_located_{files.num_rows}_files"
    return _frame(spark, LocateTask(store, table, wanted), groups, more, label)


def _frame(
    spark: Any,
    task: ReadTask | LocateTask,
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
    df: Any,
    store: Store,
    transaction: str,
    metadata: Metadata,
    stats: Sequence[Field],
    spread: Layout,
) -> AddedFiles | None:
    """Run the query; its rows go to files under the transaction's folder, durably (ADD-5).

    Arguments, result and errors: as `write_native`.
    """
    frame, metadata = _checked(_aligned(df, metadata.schema), metadata)
    names = tuple(metadata.schema.names)
    task = WriteTask(
        store, transaction, metadata, tuple(stats), names, spread.compression, spread.rows_max
    )
    if spread.shuffle_bytes is not None:
        frame = _together(frame, metadata.partition_names)

    def write_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        added = task.write(batches, context.partitionId() if context else 0)
        yield pa.RecordBatch.from_arrays([pa.array([described(added)], pa.binary())], ["files"])

    with writing(store, transaction):
        done = frame.mapInArrow(write_tablefmt_arrow, "files binary").collect()
    added = merged(read_back(bytes(row[0])) for row in done)
    remove_losers(store, transaction, added)
    return added


def located_files_arrow(
    df: Any,
    store: Store,
    transaction: str,
    metadata: Metadata,
    stats: Sequence[Field],
    spread: Layout,
    more: Sequence[Mapping[str, Any]],
    shape: pa.Schema,
    action: tuple[str, int | None],
) -> tuple[AddedFiles | None, pa.Table]:
    """As `files_arrow`, of rows with places: columns that go into no file.

    Args:
        more: Spark's JSON forms of those columns.
        shape: the same as Arrow has them.
        action: one of them, and its value in the rows that are written; None: all are.

    Returns:
        The files, and the places of all rows.
    """
    frame, metadata = _checked(_aligned(df, metadata.schema, more), metadata)
    names = tuple(metadata.schema.names)
    rows = WriteTask(
        store, transaction, metadata, tuple(stats), names, spread.compression, spread.rows_max
    )
    name, written = action
    task = RewriteTask(
        rows,
        tuple(shape.names),
        None if written is None else name,
        -1 if written is None else written,
    )

    def rewrite_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        added, places = task.write(batches, context.partitionId() if context else 0)
        answer = [pa.array([body], pa.binary()) for body in (described(added), places)]
        yield pa.RecordBatch.from_arrays(answer, ["files", "places"])

    with writing(store, transaction):
        done = frame.mapInArrow(rewrite_tablefmt_arrow, "files binary, places binary").collect()
    added = merged(read_back(bytes(row[0])) for row in done)
    found = [unpacked(bytes(row[1])).cast(shape) for row in done if row[1]]
    return added, pa.concat_tables([shape.empty_table(), *found])


def _checked(frame: Any, metadata: Metadata) -> tuple[Any, Metadata]:
    """Rows that break a constraint fail in Spark itself; the workers are left nothing to check."""
    check = guard(metadata)
    if check is None:
        return frame, metadata
    failures.install()
    schema, zone = metadata.schema, session_zone(frame.sparkSession)
    conditions = [each.condition for each in metadata.constraints.values()]
    plain = all(target_of_text(text, schema, zone).exact for text in conditions)
    with under_ansi(frame.sparkSession, plain=plain) as ansi:
        return moved(frame, ansi).where(check), replace(metadata, constraints={})


def _together(frame: Any, names: Sequence[str]) -> Any:
    """Rows of one partition in one task, or in a few where adaptive execution sizes them."""
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true":
        return frame.hint("rebalance", *(quote_name(n) for n in names))
    return frame.repartition(*(quote_name(n) for n in names)) if names else frame


def _aligned(df: Any, schema: Schema, more: Sequence[Mapping[str, Any]] = ()) -> Any:
    """The rows with exactly the table's columns, by their logical names; and those of `more`."""
    steps = alignment(df, _as_named(schema), more)
    frame = _chosen(df, steps.choose)
    if steps.fit is not None:
        frame = _fitted(frame, steps.fit)
    if steps.lengths is None:
        return frame
    failures.install()
    return _chosen(frame, steps.lengths)


def _fitted(frame: Any, schema: dict[str, Any]) -> Any:
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    try:
        frame = frame.to(StructType.fromJson(schema))
        # Connect analyses when it is asked for a schema that it cannot know by itself.
        frame.select("*").schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    return frame


def _chosen(df: Any, columns: Columns) -> Any:
    from pyspark.sql.types import StructType

    functions = functions_of(df)
    chosen = []
    for wanted in columns:
        if "source" in wanted:
            column = functions.col(quote_name(wanted["source"]))
        else:
            column = functions.expr(wanted.get("value", "NULL"))
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
