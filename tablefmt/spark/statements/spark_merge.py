"""MERGE by Spark: store the source once, and read the table once.

A join finds the matching rows. It returns the position of the table row and the number of the
source row, along with the rows to write. Inserts use the source rows that did not match.
Before Spark runs an expression, it is checked: for nondeterministic functions, for functions over
several rows, and for reads of other versions of the table.

Spec: MRG-1 .. MRG-4, ENT-9, ADD-8, SQL-2, CFL-22.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.row_reader import read_files
from tablefmt.expressions.merge_statement import Action, Side
from tablefmt.model.content_hashes import KEYS_MAX
from tablefmt.model.log_entry import AddedFiles
from tablefmt.operations.merge import MergeResult, explanation, stage_merge_result
from tablefmt.session.commit_result import Commit
from tablefmt.session.merge_analysis import NAME, check_may_change, check_may_set
from tablefmt.session.merge_pairs import (
    KEYS_SHOWN,
    UPDATED,
    Pairs,
    key_hashes,
    must_not_change,
    several_changes,
)
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, joined
from tablefmt.snapshot.file_columns import added_table
from tablefmt.spark.backends.backend_protocol import ACTION, FILE, ROW, SOURCE, PositionedRows
from tablefmt.spark.backends.row_level_operations import copy_rows_in_tasks, rewrite
from tablefmt.spark.columns.row_conditions import check_by_row, check_deterministic
from tablefmt.spark.pyspark_objects import Column, DataFrame, Session, functions_of
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.spark_jobs import job_description, with_batch
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.spark.statements.dml import explaining_misfits, rows_with_positions
from tablefmt.spark.statements.execution import check_query, execute, rows_of, with_query
from tablefmt.spark.statements.merge_clauses import Merge, MergeColumns, SparkClause, plain
from tablefmt.spark.statements.source_rows import SourceRows, again_if_lost


class MergeChecks:
    """The checks of one MERGE."""

    def __init__(self, txn: TransactionSnapshot, merge: Merge, *, reads: bool) -> None:
        """Make the checks. `reads`: the source reads the table."""
        self.reads = reads
        """True if a query of the statement reads the table."""
        self._txn = txn
        self._merge = merge
        self._is_fixed = reads

    def check_versions(self, frame: DataFrame) -> None:
        """Check the versions of the table that the expressions over a frame read.

        Raises:
            OtherVersionRead: another version than the fixed one, and the source does not bind the
                statement to the fixed one.
            ConcurrentModificationException: CFL-22, the source does, and a commit between the two
                versions changed rows.
        """
        if not self._merge.may_query:
            return
        txn = self._txn
        if check_query(txn, frame, fixed=self._is_fixed, wrote=True):
            self.reads = True

    def deterministic(self, rows: DataFrame, first: Column, clauses: Sequence[SparkClause]) -> None:
        """Reject nondeterministic conditions of clauses. Raises InvalidPredicateError."""
        if self._merge.may_be_chance and any(c.condition is not None for c in clauses):
            sides = dict.fromkeys(_shown(clause.side) for clause in clauses)
            check_deterministic(rows, first, f"of WHEN {' or '.join(sides)}")

    def by_row(
        self,
        rows: DataFrame,
        conditions: Sequence[tuple[str, Column]],
        clauses: Sequence[SparkClause],
    ) -> None:
        """Reject expressions over several rows. Raises InvalidPredicateError.

        Args:
            rows: the DataFrame that the expressions are over.
            conditions: conditions with their names for messages.
            clauses: clauses with conditions and values.
        """
        # Spark has checked resolved statements. Text without calls always works on a single row.
        if not (self._merge.by_name and self._merge.may_query):
            return
        expressions = list(conditions)
        for clause in clauses:
            when = f"WHEN {_shown(clause.side)}"
            if clause.condition is not None:
                expressions.append((when, clause.condition))
            then = f"{when} THEN {clause.action.value.upper()}"
            expressions += [(f"{then} {field.name}", plain(v)) for field, v in clause.values]
        if expressions:
            check_by_row(rows, expressions)


def _shown(side: Side) -> str:
    return side.value.replace("_", " ").upper()


_CLAUSE = "__tablefmt_clause"
_log = logging.getLogger("tablefmt.spark")


def merge_rows(
    context: TableContext,
    spark: Session,
    merge_of: Callable[[TransactionSnapshot], Merge],
    options: WriteOptions,
) -> Commit:
    """Run a MERGE in one commit. Run it again if executors died with rows of its source.

    Raises:
        CommitRejectedError: executors died in every attempt. Other errors as `merge_once`.
    """
    return again_if_lost(NAME, lambda: merge_once(context, spark, merge_of, options))


def merge_once(
    context: TableContext,
    spark: Session,
    merge_of: Callable[[TransactionSnapshot], Merge],
    options: WriteOptions,
) -> Commit:
    """Run a MERGE in one commit.

    Args:
        context: the table.
        spark: the session.
        merge_of: returns the statement for the version that is read.
        options: the options of the commit and the files.

    Raises:
        MergeCardinalityError: several source rows would change one row of the table.
        ConstraintViolationError, SchemaMismatchError: a new row does not fit.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError. Spark's own
        exceptions if a query fails, among them those that `is_lost` recognizes. Only
        CommitUnknownError may leave files behind.
    """
    options = with_batch(options, spark)

    def stage(txn: TransactionSnapshot) -> Staged:
        with under_ansi(spark) as ansi:
            merge = merge_of(txn)
            # The source may be newer if an expression reads an older version.
            reads = check_query(txn, merge.origin or merge.source, fixed=True)
            return stage_merge(txn, ansi, merge, options, reads=reads)

    return execute(context, spark, NAME, stage, options, rows=rows_of(options))


def stage_merge(
    txn: TransactionSnapshot,
    spark: Session,
    merge: Merge,
    options: WriteOptions,
    *,
    reads: bool,
) -> Staged:
    """Stage the MERGE at the fixed version. The plan is empty if no row changes.

    Args:
        reads: the source reads the table.
    """
    check_may_change(txn.metadata, merge.analysis.clauses)
    check_may_set(txn.target, merge.analysis.clauses)

    def bound_source(rows: DataFrame) -> DataFrame:
        return merge.bind_source(moved(rows, spark))

    with SourceRows.stored(merge.source, bound_source, merge.analysis) as source:
        checks = MergeChecks(txn, merge, reads=reads)
        fields = {field.id: field for clause in merge.clauses for field, _ in clause.values}
        with explaining_misfits(fields.values()):
            staged = _Work(txn, spark, merge, options, source, checks).stage()
        return with_query(staged, txn) if checks.reads else staged


def explain(txn: TransactionSnapshot, merge: Merge) -> str:
    """Return how many files a MERGE would open, of how many, and why. Reads the source once."""

    def explained() -> str:
        with SourceRows.stored(merge.source, merge.bind_source, merge.analysis) as source:
            read_condition = merge.analysis.read_condition(source.values())
            return explanation(txn, read_condition, source.count)

    return again_if_lost(NAME, explained)


class _Work:
    """A MERGE that is running."""

    def __init__(
        self,
        txn: TransactionSnapshot,
        spark: Session,
        merge: Merge,
        options: WriteOptions,
        source: SourceRows,
        checks: MergeChecks,
    ) -> None:
        self.txn = txn
        self.spark = spark
        self.merge = merge
        self.options = options
        self.source = source
        self.checks = checks
        self.columns = MergeColumns(txn, merge, functions_of(source.rows))

    def stage(self) -> Staged:
        """Do the work, and return the plan to commit."""
        txn, analysis = self.txn, self.merge.analysis
        self.checks.by_row(self.source.rows, [], self.merge.of(Side.NOT_MATCHED))
        with job_description(self.spark, f"{NAME}: reading the source"):
            read_condition = analysis.read_condition(self.source.values())
            rows = self.source.count
        files = txn.snapshot.matching(read_condition.predicate)
        total = txn.snapshot.totals[0]
        _log.info("MERGE: %d source rows, %d of %d files opened", rows, files.num_rows, total)
        rewritten = self._find(files)
        pairs = self._checked(rewritten)
        inserted = self._insert(np.unique(pairs.source[pairs.source >= 0]))
        txn.files.keep_only(joined([rewritten.files, inserted]))
        result = MergeResult(
            read_condition=read_condition,
            files=files,
            pairs=pairs,
            source_rows=rows,
            keys=self.source.keys(analysis),
            updated_files=rewritten.files,
            inserted_files=inserted,
            inserted_hashes=self._hashes(inserted),
        )
        staged = stage_merge_result(txn, analysis, result, copy_rows_in_tasks(self.spark))
        _log.info("MERGE: %s", dict(staged.operation.metrics))
        return staged

    def _find(self, files: pa.Table) -> PositionedRows:
        """Find table rows that match a source row, or that a NOT MATCHED BY SOURCE clause changes.

        The same pass writes the new versions of updated rows.
        """
        merge = self.merge
        outer = merge.analysis.reads_all_targets
        names = [FILE, ROW, SOURCE, ACTION]
        if files.num_rows == 0 or (self.source.count == 0 and not outer):
            shape = pa.schema([(name, pa.int64()) for name in names])
            return PositionedRows(None, shape.empty_table())
        rows = rows_with_positions(self.spark, self.txn, files, merge.where)
        matched, by_source = merge.of(Side.MATCHED), merge.of(Side.NOT_MATCHED_BY_SOURCE)
        if merge.by_name:
            # With the source's columns in scope, a name of the table could mean a source column.
            self.checks.by_row(rows, [], by_source)
            by_source = tuple(clause.over(rows) for clause in by_source)
        source, clauses = self.source.for_join(), [*matched, *by_source]
        self.checks.by_row(rows.join(source), [("ON", merge.on)], matched)
        joined = rows.join(source, merge.on, "left" if outer else "inner")
        is_matched = source[SOURCE].isNotNull() if outer else None
        first = self.columns.first_clause(clauses, is_matched)
        self.checks.deterministic(joined, first, clauses)
        pairs = joined.select("*", first.alias(_CLAUSE))
        clause = self.columns.functions.col(_CLAUSE)
        if is_matched is not None:
            pairs = pairs.where(source[SOURCE].isNotNull() | (clause >= 0))
        action = self.columns.action(clauses, clause).alias(ACTION)
        step = f"{NAME}: finding matches in {files.num_rows} files"
        if not any(each.action is Action.UPDATE for each in clauses):
            pairs = pairs.select(FILE, ROW, SOURCE, action)
            self.checks.check_versions(pairs)
            with job_description(self.spark, step):
                return PositionedRows(None, pairs.toArrow())
        columns = self.columns.updated(pairs, rows, clauses, clause)
        if self.columns.always_updates:
            names.remove(ACTION)
        else:
            columns.append(action)
        frame = pairs.select(*columns, FILE, ROW, SOURCE)
        self.checks.check_versions(frame)
        with job_description(self.spark, f"{step} and writing new versions"):
            return rewrite(self.spark, self.txn, frame, names, self.options)

    def _checked(self, rewritten: PositionedRows) -> Pairs:
        """Return the pairs of table and source rows. Raises MergeCardinalityError (MRG-4)."""
        file, position, source = (rewritten.column(name) for name in (FILE, ROW, SOURCE))
        if ACTION in rewritten.positions.column_names:
            action = rewritten.column(ACTION)
        else:
            action = np.full(len(file), UPDATED, np.int64)
        pairs = Pairs(file, position, source, action)
        changed_twice = must_not_change(self.merge.analysis, pairs)
        if len(changed_twice):
            numbers = np.unique(source[changed_twice])[:KEYS_SHOWN]
            raise several_changes(len(changed_twice), self.source.named(numbers))
        return pairs

    def _insert(self, matched: NDArray[np.int64]) -> AddedFiles | None:
        """Write the rows that NOT MATCHED clauses insert.

        Args:
            matched: the numbers of the source rows that matched, ascending.
        """
        clauses = self.merge.of(Side.NOT_MATCHED)
        if not clauses or len(matched) == self.source.count:
            return None
        left = self.source.without(matched)
        clause = None
        if len(clauses) > 1 or clauses[0].condition is not None:
            first = self.columns.first_clause(clauses)
            self.checks.deterministic(left, first, clauses)
            left = left.select("*", first.alias(_CLAUSE))
            clause = self.columns.functions.col(_CLAUSE)
            left = left.where(clause >= 0)
        frame = left.select(*self.columns.inserted(left, clauses, clause))
        if self.source.is_small:
            frame = frame.coalesce(1)
        self.checks.check_versions(frame)
        rows = self.source.count - len(matched)
        with job_description(self.spark, f"{NAME}: inserting from {rows} unmatched source rows"):
            written = rewrite(self.spark, self.txn, frame, (), self.options, part="i")
        return written.files

    def _hashes(self, inserted: AddedFiles | None) -> NDArray[np.uint64] | None:
        """Return the hashes of the keys of all inserted rows. None: unknown."""
        fields = self.merge.analysis.key_fields
        if inserted is None or not fields or inserted.rows > KEYS_MAX:
            return None
        files = added_table(inserted, self.txn.target)
        batches = list(read_files(self.txn.store, files, self.txn.target.schema, fields))
        rows = pa.Table.from_batches(batches)
        return key_hashes([rows[field.name] for field in fields], fields)
