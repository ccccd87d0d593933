"""Rows for which a condition holds, replaced by those of a DataFrame (`replaceWhere`).

A condition that partition values decide is an overwrite by metadata, in write.py. Any other is
looked for by Spark, and what is taken out stays fixed: class UPDATE. Spec: CFL-3, MRG-6.
"""

from __future__ import annotations

import pyarrow.compute as pc

from tablefmt.commit.plan import Staged
from tablefmt.errors import ConstraintViolationError
from tablefmt.model.entry import Metadata
from tablefmt.session.change_plan import Changed, stage_changes
from tablefmt.session.condition import AnalyzedCondition
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.backends.base import FILE, ROW
from tablefmt.spark.backends.copy_on_write import copy_rows_in_tasks
from tablefmt.spark.backends.position_sets import find_positions
from tablefmt.spark.backends.rewrite import rewrite
from tablefmt.spark.columns.assignment import spark_types
from tablefmt.spark.columns.conditions import analyzed_text, session_zone
from tablefmt.spark.columns.projection import with_lengths
from tablefmt.spark.options import WriteOptions
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.failures import marked
from tablefmt.spark.runtime.frames import DataFrame, Session, functions_of
from tablefmt.spark.runtime.jobs import job_description
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.runtime.statement_errors import statement_errors
from tablefmt.spark.statements.dml import (
    SparkCondition,
    chosen,
    explaining_misfits,
    ids_of,
    rows_with_positions,
)

NAME = "OVERWRITE"


def replaced_by(
    where: str, metadata: Metadata, spark: Session
) -> tuple[str, AnalyzedCondition | None]:
    """The condition, read in the session's zone (SQL-4).

    Returns:
        Its text, in which times say their zone if it is understood as a whole; and what is
        understood of it, or None if partition values decide it.
    """
    target = analyzed_text(where, metadata.schema, session_zone(spark))
    if target.decided_by(frozenset(metadata.partition_by)):
        return target.text, None
    return (target.text if target.exact else where), target


def stage_replace(
    pinned: TransactionSnapshot,
    df: DataFrame,
    where: str,
    target: AnalyzedCondition,
    options: WriteOptions,
) -> Staged:
    """Do the work on the pinned version; new rows are written under `pinned.target`.

    Args:
        pinned: the version that the rows go from.
        df: the new rows.
        where: SQL text as of `replaced_by`: which rows go, and what every new row has to match.
        target: what is understood of it.
        options: of the files.

    Raises:
        ConstraintViolationError: a new row does not match. SchemaMismatchError: the rows do not
        fit. Spark's own exceptions if a query fails.
    """
    with under_ansi(df.sparkSession) as ansi:
        return _stage(pinned, moved(df, ansi), where, target, options)


def _stage(
    pinned: TransactionSnapshot,
    df: DataFrame,
    where: str,
    target: AnalyzedCondition,
    options: WriteOptions,
) -> Staged:
    spark, functions = df.sparkSession, functions_of(df)
    df, condition = with_lengths(df, pinned.target.schema, functions), parsed(functions, where)
    error = ConstraintViolationError(
        f"a new row does not match the condition {where[:200]}; nothing was written"
    )
    matching = functions.when(
        ~functions.coalesce(condition, functions.lit(False)),
        functions.raise_error(functions.lit(marked(error))),
    )
    # Not deterministic, so that no part of it runs where rows are dropped later.
    always = functions.monotonically_increasing_id() >= 0
    files = pinned.snapshot.matching(target.predicate)
    looked, rows = SparkCondition(target, condition), None
    if files.num_rows:
        with statement_errors():
            rows = chosen(rows_with_positions(spark, pinned, files, looked), looked)
    else:
        # Names are to be the table's, also where it has no rows.
        with statement_errors():
            spark.createDataFrame([], spark_types(pinned.target.schema.fields)).where(condition)
    with statement_errors():
        checked = df.where(matching.otherwise(always))
    with explaining_misfits(pinned.target.schema.fields):
        with job_description(spark, f"{NAME}: writing new rows"):
            written = rewrite(spark, pinned, checked, (), options, part="i")
        pinned.files.keep_winners(written.files)
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
        return stage_changes(pinned, NAME, changed, copy_rows_in_tasks(spark))
