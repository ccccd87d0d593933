"""Arrow backend: Arrow in Spark's Python workers reads and writes files; the driver commits.

It is used for Spark Connect, for stores without a Hadoop file system, and on request. For a read,
files are distributed over the workers, which return rows. For a write, Spark functions, which
Connect has too, convert a DataFrame to the table's columns. Then Spark passes its rows to the
workers. The driver, or the Connect client, makes the single commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablefmt.changes.change_reader import Answer
from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.expression_analysis import depends_on_zone
from tablefmt.expressions.generated_columns import check_conditions
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow, to_arrow
from tablefmt.model.identity_columns import identity_ids
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.session.identity_claims import worker_claims
from tablefmt.session.merge_pairs import UPDATED
from tablefmt.session.transaction_snapshot import TransactionFiles, joined
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.arrow.arrow_tasks import (
    ChangesTask,
    LocateTask,
    ReadTask,
    RewriteTask,
    WriteTask,
    groups_of,
    parts_of,
    unpacked,
)
from tablefmt.spark.backends.backend_protocol import (
    ACTION,
    FILE,
    ROW,
    ROW_COLUMNS,
    ChangeRange,
    Destination,
    PositionedRows,
    spark_fields,
)
from tablefmt.spark.backends.python_workers import described, for_workers, read_back
from tablefmt.spark.columns.projection import Columns, alignment, guard, misfit, missing_columns
from tablefmt.spark.columns.row_conditions import analyzed_text, session_zone
from tablefmt.spark.pyspark_objects import DataFrame, Session, functions_of
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.store.object_store import Store

Task = ReadTask | LocateTask | ChangesTask

_POSITIONS = pa.schema([pa.field(FILE, pa.int32(), False), pa.field(ROW, pa.int64(), False)])

_log = logging.getLogger(__name__)


def read_snapshot(spark: Session, store: Store, snapshot: Snapshot, *, asked: bool) -> DataFrame:
    """Return the rows of a version.

    Args:
        spark: a session, classic or Connect. Its workers need tablefmt and access to the store.
        store: the table's store. Its credentials are in no plan.
        snapshot: the version.
        asked: True if the user asked for this version, by number or time.
    """
    failures.install()
    files = snapshot.files
    groups = [(group,) for group in groups_of(snapshot.with_vectors(files))]
    _log.info(
        "arrow backend: version %d of %s, %d files in %d tasks",
        snapshot.version, store.uri, files.num_rows, len(groups),
    )  # fmt: skip
    # query_plans.py finds the label in plans.
    at = f"{'at' if asked else 'v'}{snapshot.version}"
    label = f"tablefmt_arrow_{snapshot.table_id}_{at}_{files.num_rows}_files"
    task, nothing = ReadTask(for_workers(store), snapshot.schema, snapshot.version), pa.schema([])
    return _frame(spark, task, snapshot.schema, groups, nothing, label)


def read_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Return the rows of a range with their change columns. Equal rows do not cancel."""
    failures.install()
    parts = [(part,) for part in parts_of([replace(each, cancels=False) for each in files])]
    label = f"tablefmt_arrow_changes_{of.first}_to_{of.last}"
    task = ChangesTask(Answer(for_workers(store), of.schema, of.schema.fields, CHANGE_COLUMNS))
    return _frame(spark, task, of.schema, parts, CHANGE_COLUMNS, label)


def read_positions(
    spark: Session, store: Store, files: pa.Table, table: Schema, columns: Schema
) -> DataFrame:
    """Return rows with FILE and ROW."""
    failures.install()
    groups, first = [], 0
    for group in groups_of(files):
        groups.append((group, first))
        first += group.num_rows
    label = f"tablefmt_arrow_positions_{files.num_rows}_files"
    task = LocateTask(for_workers(store), table, columns)
    return _frame(spark, task, columns, groups, _POSITIONS, label)


def _frame(
    spark: Session,
    task: Task,
    columns: Schema,
    groups: Sequence[tuple[Any, ...]],
    more: pa.Schema,
    label: str,
) -> DataFrame:
    """Return a DataFrame with one task per group. `task` reads `columns`, then `more`.

    EXPLAIN shows `label`.
    """
    from pyspark.sql.types import StructType

    fields = list(to_spark_json(columns)["fields"])
    if len(more):
        fields += to_spark_json(from_arrow(more))["fields"]
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    names = [field["name"] for field in fields]
    shape = pa.schema([*to_arrow(columns), *more])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                for batch_of_rows in task.batches(*groups[at]):
                    yield batch_of_rows.rename_columns(names).cast(shape)

    rows.__name__ = label
    count = len(groups)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(rows, schema)


def aligned(
    frame: DataFrame, metadata: Metadata, more: Sequence[Mapping[str, object]] = ()
) -> DataFrame:
    """Return the rows with the table's columns by logical name, and those of `more`.

    Generated columns that the rows lack are left out: the workers compute them.
    """
    missing = missing_columns(frame, metadata)
    schema = metadata.schema
    numbered = identity_ids(metadata)
    given = replace(
        schema,
        # The workers put numbers in place of NULL (IDN-3).
        fields=tuple(
            replace(f, nullable=True) if f.id in numbered else f
            for f in schema.fields
            if f.id not in missing
        ),
    )
    steps = alignment(frame, _with_logical_names(given), more)
    frame = _selected(frame, steps.choose)
    if steps.fit is not None:
        frame = _cast_to(frame, steps.fit)
    if steps.lengths is None:
        return frame
    failures.install()
    return _selected(frame, steps.lengths)


def _cast_to(frame: DataFrame, schema: dict[str, Any]) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    try:
        frame = frame.to(StructType.fromJson(schema))
        # Connect analyzes the query when it is asked for a schema that it cannot infer itself.
        frame.select("*").schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    return frame


def _selected(frame: DataFrame, steps: Columns) -> DataFrame:
    from pyspark.sql.types import StructType

    functions = functions_of(frame)
    columns = []
    for step in steps:
        if "source" in step:
            column = functions.col(quote_name(step["source"]))
        else:
            column = parsed(functions, step.get("value", "NULL"))
        if "type" in step:
            field = {**step, "nullable": True, "metadata": {}}
            kind = StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType
            column = column.cast(kind)
        columns.append(column.alias(step["name"]))
    return frame.select(*columns)


def _with_logical_names(schema: Schema) -> Schema:
    """Return the schema with logical names as physical names, at every level."""
    return Schema(tuple(map(_logical_field, schema.fields)), schema.last_id)


def _logical_field(field: Field) -> Field:
    return replace(field, physical=field.name, type=_logical_type(field.type))


def _logical_type(kind: Type) -> Type:
    if isinstance(kind, Struct):
        return Struct(tuple(map(_logical_field, kind.fields)))
    if isinstance(kind, Array):
        return replace(kind, element=_logical_type(kind.element))
    if isinstance(kind, Map):
        return replace(kind, key=_logical_type(kind.key), value=_logical_type(kind.value))
    return kind


def write_rows(frame: DataFrame, store: Store, to: Destination) -> AddedFiles | None:
    """Run the query, and write its rows to files. As `Backend`."""
    frame, metadata = _checked(aligned(frame, to.metadata), to.metadata)
    task = _task(store, to, metadata, frame.columns)
    if to.layout.shuffle_bytes is not None:
        names = [name for name in metadata.partition_names if name in frame.columns]
        frame = _repartitioned(frame, names)

    frame, names = _with_simple_names(frame)

    def write_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = (batch.rename_columns(names) for batch in batches)
        added = task.write(batches, context.partitionId() if context else 0)
        yield pa.RecordBatch.from_arrays([pa.array([described(added)], pa.binary())], ["files"])

    files = TransactionFiles(store, to.transaction)
    with files.removed_on_failure():
        answers = frame.mapInArrow(write_tablefmt_arrow, "files binary").collect()
    added = joined(read_back(bytes(answer[0])) for answer in answers)
    files.keep_only(added)
    return added


def rewrite_rows(
    frame: DataFrame, store: Store, to: Destination, names: Sequence[str]
) -> PositionedRows:
    """Write rows with positions. The positions are not written to files. As `Backend`."""
    shape = pa.schema([ROW_COLUMNS[name] for name in names])
    rows = aligned(frame, to.metadata, spark_fields(shape))
    checked, metadata = _checked(rows, to.metadata)
    action = ACTION if ACTION in names else None
    given = rows.columns[: len(rows.columns) - len(shape)]
    task = RewriteTask(_task(store, to, metadata, given), tuple(names), action, UPDATED)

    checked, given = _with_simple_names(checked)

    def rewrite_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = (batch.rename_columns(given) for batch in batches)
        added, positions = task.write(batches, context.partitionId() if context else 0)
        answer = [pa.array([body], pa.binary()) for body in (described(added), positions)]
        yield pa.RecordBatch.from_arrays(answer, ["files", "positions"])

    kinds = "files binary, positions binary"
    with TransactionFiles(store, to.transaction).removed_on_failure():
        answers = checked.mapInArrow(rewrite_tablefmt_arrow, kinds).collect()
    added = joined(read_back(bytes(answer[0])) for answer in answers)
    positions = [unpacked(bytes(answer[1])).cast(shape) for answer in answers if answer[1]]
    return PositionedRows(added, pa.concat_tables([shape.empty_table(), *positions]))


def _with_simple_names(frame: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return the rows with names that PySpark can resolve, and the original names.

    PySpark resolves columns by their names without quotes, so dots and backticks would fail.
    """
    names = list(frame.columns)
    if not any(mark in name for name in names for mark in ".`"):
        return frame, names
    return frame.toDF(*(f"c{at}" for at in range(len(names)))), names


def _task(store: Store, to: Destination, metadata: Metadata, names: Sequence[str]) -> WriteTask:
    return WriteTask(
        for_workers(store),
        to.transaction,
        metadata,
        to.stats,
        tuple(names),
        to.layout.compression,
        to.layout.rows_max,
        worker_claims(for_workers(store), metadata),
        to.updates,
    )


def _checked(frame: DataFrame, metadata: Metadata) -> tuple[DataFrame, Metadata]:
    """Make Spark check constraints, and return metadata with those that the workers check.

    These are of generated columns, in UTC (GEN-3), and CHECKs over columns that the rows lack.
    """
    spark = frame.sparkSession
    schema, zone = metadata.schema, session_zone(spark)
    missing = missing_columns(frame, metadata) | identity_ids(metadata)
    checks = {name: metadata.constraints[name] for name in check_conditions(metadata)}
    later = {name for name, each in checks.items() if missing & set(each.columns)}
    for name in later:
        text = checks[name].condition
        if zone != "UTC" and _may_depend_on_zone(text, schema):
            raise UnsupportedFeatureError(
                f"CHECK constraint {name!r} ({text[:200]}) depends on the session's time zone and "
                "on a generated or identity column; set spark.sql.session.timeZone to UTC, "
                "or give the column",
                ["sql:check"],
            )
    kept = {n: each for n, each in metadata.constraints.items() if n in later or n not in checks}
    own = replace(metadata, constraints={n: e for n, e in checks.items() if n not in later})
    left = replace(metadata, constraints=kept)
    check = guard(own)
    if check is None:
        return frame, left
    failures.install()
    conditions = [each.condition for each in own.constraints.values()]
    plain = all(analyzed_text(text, schema, zone).exact for text in conditions)
    with under_ansi(spark, plain=plain) as ansi:
        return moved(frame, ansi).where(parsed(functions_of(frame), check)), left


def _may_depend_on_zone(text: str, schema: Schema) -> bool:
    try:
        return depends_on_zone(text, schema)
    except (InvalidPredicateError, UnsupportedFeatureError):
        return True


def _repartitioned(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Bring rows of a partition to one task, or to a few if adaptive execution is on."""
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true":
        return frame.hint("rebalance", *(quote_name(n) for n in names))
    return frame.repartition(*(quote_name(n) for n in names)) if names else frame


@dataclass(frozen=True, slots=True)
class ArrowBackend:
    """The Arrow `Backend`, which describes the methods."""

    spark: Session
    """A classic or Connect session."""
    store: Store

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """Implement `Backend.read_snapshot`."""
        return read_snapshot(self.spark, self.store, snapshot, asked=asked)

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """Implement `Backend.read_changes`."""
        return read_changes(self.spark, self.store, of, files)

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """Implement `Backend.read_positions`."""
        return read_positions(self.spark, self.store, files, schema, columns)

    def write_rows(self, frame: DataFrame, to: Destination) -> AddedFiles | None:
        """Implement `Backend.write_rows`."""
        return write_rows(frame, self.store, to)

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> PositionedRows:
        """Implement `Backend.rewrite_rows`. `part` is not needed: file names are unique."""
        return rewrite_rows(frame, self.store, to, names)

    def files_of(self, transaction: str) -> TransactionFiles:
        """Implement `Backend.files_of`."""
        return TransactionFiles(self.store, transaction)
