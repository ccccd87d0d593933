"""DELETE, UPDATE and `replaceWhere` by Spark: one pass over the affected files, one commit.

Only row positions and file metadata come to the driver. `replaceWhere` replaces the rows of a
condition by those of a DataFrame. If partition values decide the condition, `entry.dataframe_io`
overwrites by metadata. Otherwise Spark finds the rows, and the commit removes exactly these rows:
class UPDATE. Spec: DEL-1, ENT-9, CFL-1, CFL-3, MRG-6.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import ConstraintViolationError, UnsupportedFeatureError
from tablefmt.expressions.expression_analysis import analyze
from tablefmt.expressions.generated_columns import recomputed_columns
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.sql_parser import Relation
from tablefmt.model.identity_columns import refuse_set
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field
from tablefmt.operations.delete import delete_files
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import SCAN
from tablefmt.session.merge_pairs import positions_by_file
from tablefmt.session.row_changes import Changed, stage_changes
from tablefmt.session.statement_scope import AnalyzedCondition
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove
from tablefmt.spark.backends.backend_protocol import FILE, ROW, PositionedRows
from tablefmt.spark.backends.row_level_operations import (
    copy_rows_in_tasks,
    find_positions,
    rewrite,
    with_positions,
)
from tablefmt.spark.columns.projection import missing_columns, with_lengths
from tablefmt.spark.columns.row_conditions import (
    analyzed_text,
    check_by_row,
    check_deterministic,
    non_deterministic,
    session_zone,
)
from tablefmt.spark.columns.store_assignment import explained_by, spark_types, value_misfit
from tablefmt.spark.pyspark_objects import (
    Column,
    DataFrame,
    Session,
    functions_of,
    java_rows_if_any,
)
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.failures import marked, statement_errors
from tablefmt.spark.runtime.spark_jobs import job_description
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.spark.statements.execution import check_query, execute, with_query

_log = logging.getLogger("tablefmt.spark")


@dataclass(frozen=True, slots=True, eq=False)
class SparkCondition:
    """The condition of a DELETE or UPDATE."""

    target: AnalyzedCondition
    """Analysis of the condition."""
    column: Column | None
    """The condition as a Column. None: every row."""
    bind: Callable[[DataFrame], DataFrame] = lambda rows: rows
    """Gives the table's rows the column names that `column` and new values use."""


def delete_rows(
    context: TableContext, spark: Session, where: SparkCondition, options: WriteOptions
) -> Commit:
    """Delete the rows of a condition in one commit.

    Raises:
        ConstraintViolationError: the table is append-only. IdempotenceError: CFL-7.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError. Spark's own
        exceptions if the query fails.
    """

    def stage(txn: TransactionSnapshot) -> Staged:
        if where.target.decided_by_partitions(txn.metadata):
            return delete_files(txn, where.target)
        with under_ansi(spark, plain=where.target.exact) as ansi:
            return stage_delete(txn, ansi, where)

    text = _text(where.target.text)
    return execute(context, spark, "DELETE", stage, options, rows=None, text=text)


def update_rows(
    context: TableContext,
    spark: Session,
    where: SparkCondition,
    values: Sequence[tuple[Field, Column]],
    options: WriteOptions,
    texts: Sequence[str] = (),
    *,
    by_row: bool = True,
) -> Commit:
    """Update the rows of a condition in one commit.

    Args:
        context: the table.
        spark: the session.
        where: the rows.
        values: columns, each at most once, with their new values as Columns.
        options: the options of the commit and the files.
        texts: the text of the values, for the digest.
        by_row: True if every value is known to depend on a single row, as in a resolved statement.

    Raises:
        SchemaMismatchError, ConstraintViolationError: a new value does not fit.
        Other errors as `delete_rows`.
    """

    def stage(txn: TransactionSnapshot) -> Staged:
        with under_ansi(spark) as ansi:
            return stage_update(txn, ansi, where, values, options, by_row=by_row)

    text = _text(where.target.text, *texts)
    return execute(context, spark, "UPDATE", stage, options, rows=None, text=text)


def _text(*texts: str) -> Callable[[Metadata], tuple[str, ...]]:
    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        return texts

    return text


def stage_delete(txn: TransactionSnapshot, spark: Session, where: SparkCondition) -> Staged:
    """Stage the delete at the fixed version. The plan is empty if no row matches."""
    snapshot, target = txn.snapshot, where.target
    if target.decided_by_partitions(txn.metadata):
        return delete_files(txn, target)
    files = snapshot.matching(target.predicate)
    changed, reads = Changed(target=target, files=files), False
    if files.num_rows:
        rows = chosen(rows_with_positions(spark, txn, files, where), where)
        reads = not target.exact and check_query(txn, rows)
        count = int(pc.sum(files["rows"]).as_py())
        with (
            job_description(spark, f"DELETE: finding rows in {files.num_rows} files"),
            txn.measured.timed(SCAN),
        ):
            deleted = find_positions(rows, ids_of(files), count)
        _log.info("DELETE: %d rows of %d files", sum(map(len, deleted.values())), files.num_rows)
        changed = Changed(target=target, files=files, deleted=deleted)
    staged = stage_changes(txn, "DELETE", changed, copy_rows_in_tasks(spark))
    return with_query(staged, txn) if reads else staged


def stage_update(
    txn: TransactionSnapshot,
    spark: Session,
    where: SparkCondition,
    values: Sequence[tuple[Field, Column]],
    options: WriteOptions,
    *,
    by_row: bool = True,
) -> Staged:
    """Stage the update at the fixed version. The plan is empty if no row matches.

    Args:
        txn, spark, where, values, options: as in `update_rows`.
        by_row: True if every value is known to depend on a single row.
    """
    target, schema = where.target, txn.metadata.schema
    refuse_set(txn.metadata, [field for field, _ in values], "an UPDATE")
    files = txn.snapshot.matching(target.predicate)
    changed, reads = Changed(target=target, files=files), False
    if files.num_rows:
        rows = chosen(rows_with_positions(spark, txn, files, where), where)
        if not by_row:
            check_by_row(rows, [(f"SET {field.name}", value) for field, value in values])
        new = {field.id: value for field, value in values}
        # The backend computes these anew.
        left_out = recomputed_columns(txn.metadata, new)
        columns = [
            new[f.id].alias(f.name) if f.id in new else rows[quote_name(f.name)]
            for f in schema.fields
            if f.id not in left_out
        ]
        frame = rows.select(*columns, FILE, ROW)
        reads = check_query(txn, frame)
        fields = [field for field, _ in values]
        step = f"UPDATE: writing new versions of rows in {files.num_rows} files"
        with explaining_misfits(fields), job_description(spark, step):
            written = rewrite(spark, txn, frame, (FILE, ROW), options)
            txn.files.keep_only(written.files)
        _log.info("UPDATE: %d rows of %d files", written.positions.num_rows, files.num_rows)
        changed = Changed(
            target=target,
            files=files,
            updated=positions_of(written, files),
            updated_files=written.files,
            set_columns=tuple(sorted(new)),
        )
    staged = stage_changes(txn, "UPDATE", changed, copy_rows_in_tasks(spark))
    return with_query(staged, txn) if reads else staged


def rows_with_positions(
    spark: Session, txn: TransactionSnapshot, files: pa.Table, where: SparkCondition
) -> DataFrame:
    """Return the live rows of files with their positions, bound to the names of `where`."""
    snapshot = txn.snapshot
    vectors = snapshot.with_vectors(files)
    rows = with_positions(
        spark,
        txn.store,
        vectors,
        snapshot.schema,
        snapshot.partition_ids,
        version=txn.version,
    )
    return where.bind(rows)


def chosen(rows: DataFrame, where: SparkCondition) -> DataFrame:
    """Return the rows for which the condition is TRUE.

    Raises:
        InvalidPredicateError: the condition is not deterministic.
    """
    if where.column is None:
        return rows
    chosen_rows = rows.where(where.column)
    plan = java_rows_if_any(chosen_rows)
    if plan is None and not where.target.exact:
        check_deterministic(rows, where.column, where.target.text)
    elif plan is not None and not plan.queryExecution().analyzed().deterministic():
        raise non_deterministic(where.target.text)
    return chosen_rows


def ids_of(files: pa.Table) -> Any:
    """Return the ids of files as numbers."""
    return files["id"].to_numpy()


def positions_of(written: PositionedRows, files: pa.Table) -> Any:
    """Return the positions of all rows of a query, by file id."""
    return positions_by_file(written.column(FILE), written.column(ROW), np.asarray(ids_of(files)))


@contextmanager
def explaining_misfits(fields: Iterable[Field]) -> Iterator[None]:
    """Convert Spark's error for a value that does not fit its column to SchemaMismatchError.

    Args:
        fields: the columns that get new values.
    """
    with explained_by(lambda error: value_misfit(str(error), fields)):
        yield


NAME = "OVERWRITE"


def replaced_by(
    where: str, metadata: Metadata, spark: Session
) -> tuple[str, AnalyzedCondition | None]:
    """Return the condition in the session's time zone (SQL-4), and its analysis.

    Returns:
        The text, and the analysis or None if partition values decide the condition. Times in the
        text include their zone if the analysis covers the whole condition.
    """
    target = analyzed_text(where, metadata.schema, session_zone(spark))
    if target.decided_by_partitions(metadata):
        return target.text, None
    return (target.text if target.exact else where), target


def stage_replace_on_spark(
    txn: TransactionSnapshot,
    df: DataFrame,
    where: str,
    target: AnalyzedCondition,
    options: WriteOptions,
) -> Staged:
    """Stage the replacement at the fixed version. New rows are written under `txn.target`.

    Args:
        txn: the version with the rows to replace.
        df: the new rows.
        where: SQL text from `replaced_by`. It selects the rows to replace, and must be TRUE for
            every new row.
        target: the analysis of `where`.
        options: the options of the files.

    Raises:
        ConstraintViolationError: a new row does not match. SchemaMismatchError: the rows do not
        fit. Spark's own exceptions if a query fails.
    """
    with under_ansi(df.sparkSession) as ansi:
        return _stage(txn, moved(df, ansi), where, target, options)


def _check_given(df: DataFrame, metadata: Metadata, where: str) -> None:
    """Refuse a condition on generated columns that new rows lack: the write computes them later.

    Raises:
        UnsupportedFeatureError: names the column.
    """
    missing = missing_columns(df, metadata)
    used = analyze(where, Relation(metadata.schema)).columns[0] & missing if missing else ()
    for number in used:
        name = metadata.schema.by_id(number).name
        raise UnsupportedFeatureError(
            f"the condition {where[:200]} uses the generated column {name!r}, which the new rows "
            "lack; add the column to the rows, or use a condition on its sources",
            ["overwrite:generated-column"],
        )


def _stage(
    txn: TransactionSnapshot,
    df: DataFrame,
    where: str,
    target: AnalyzedCondition,
    options: WriteOptions,
) -> Staged:
    """Stage the replacement under ANSI rules. Arguments and errors as `stage_replace_on_spark`."""
    spark, functions = df.sparkSession, functions_of(df)
    _check_given(df, txn.target, where)
    df, condition = with_lengths(df, txn.target.schema, functions), parsed(functions, where)
    error = ConstraintViolationError(
        f"a new row does not match the condition {where[:200]}; nothing was written"
    )
    matching = functions.when(
        ~functions.coalesce(condition, functions.lit(False)),
        functions.raise_error(functions.lit(marked(error))),
    )
    # Nondeterministic, so that Spark does not push parts of it below a step that drops rows.
    always = functions.monotonically_increasing_id() >= 0
    files = txn.snapshot.matching(target.predicate)
    replaced_rows, rows = SparkCondition(target, condition), None
    if files.num_rows:
        with statement_errors():
            rows = chosen(rows_with_positions(spark, txn, files, replaced_rows), replaced_rows)
    else:
        # Spark resolves the condition here: its names must be the table's, also without rows.
        with statement_errors():
            spark.createDataFrame([], spark_types(txn.target.schema.fields)).where(condition)
    with statement_errors():
        checked = df.where(matching.otherwise(always))
    reads = False
    if not target.exact:
        # The session adds the read of the rows themselves, at the transaction's version.
        fixed = check_query(txn, df, fixed=True)
        for query in [checked] if rows is None else [checked, rows]:
            reads = check_query(txn, query, fixed=fixed) or reads
    with explaining_misfits(txn.target.schema.fields):
        with job_description(spark, f"{NAME}: writing new rows"):
            written = rewrite(spark, txn, checked, (), options, part="i")
        txn.files.keep_only(written.files)
        replaced = {}
        if rows is not None:
            count = int(pc.sum(files["rows"]).as_py())
            with job_description(spark, f"{NAME}: finding rows in {files.num_rows} files"):
                replaced = find_positions(rows.select(FILE, ROW), ids_of(files), count)
        changed = Changed(
            target=target,
            files=files,
            deleted=replaced,
            inserted_files=written.files,
            parameters={"mode": "Overwrite"},
        )
        staged = stage_changes(txn, NAME, changed, copy_rows_in_tasks(spark))
    return with_query(staged, txn) if reads else staged
