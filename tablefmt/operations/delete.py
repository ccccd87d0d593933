"""DELETE: remove the rows for which a condition is true (class UPDATE).

If partition values decide the condition, whole files are removed by metadata alone. Otherwise the
files that may hold matching rows are read. The entry has deleted positions or whole files.
Spec: DEL-1, CFL-1.
"""

from __future__ import annotations

import numpy as np

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.selection import Condition
from tablefmt.model.log_entry import Metadata, Operation, OperationClass
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.row_changes import Changed, select, stage_changes, target_rows
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import AnalyzedCondition, analyzed_condition, scope_of
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove, live_rows

NAME = "DELETE"


def delete(context: TableContext, where: Condition, options: CommitOptions) -> Commit:
    """Delete the rows for which the condition is true, in one commit; all rows for None.

    If no row matches and there is no application version, no version is made.

    Raises:
        ConstraintViolationError: the table is append-only.
        InvalidPredicateError, UnsupportedFeatureError: the condition.
        IdempotenceError: CFL-7.
        CorruptDataError: DAT-5.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    return autocommit(context, delete_statement(where), options)


def delete_statement(where: Condition) -> Statement:
    """Return the statement of a delete. None deletes all rows."""

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        return (analyzed_condition(where, metadata.schema).text,)

    return Statement(name=NAME, text=text, stage=lambda txn, _: stage_delete(txn, where))


def stage_delete(txn: TransactionSnapshot, where: Condition) -> Staged:
    """Stage the delete on the transaction snapshot. Without rows to delete, the work is empty.

    Raises: as `delete`, except for errors of the commit.
    """
    check_may_remove(txn.metadata)
    target = analyzed_condition(where, txn.metadata.schema)
    if target.decided_by_partitions(txn.metadata):
        return delete_files(txn, target)
    selected = select(txn, target)
    changed = Changed(target=target, files=selected.files, deleted=selected.rows)
    return stage_changes(txn, NAME, changed)


def delete_files(txn: TransactionSnapshot, target: AnalyzedCondition) -> Staged:
    """Stage the removal of whole files, chosen by partition values. No file is read."""
    over = target.over_partitions(txn.metadata)
    files = txn.snapshot.in_scope(over)
    rows = live_rows(files)
    return Staged(
        transaction=txn.transaction,
        operation=Operation(
            name=NAME,
            cls=OperationClass.UPDATE,
            parameters={"predicate": target.text},
            metrics={
                "numDeletedRows": rows,
                **target_rows(0, 0, rows, 0),
                **txn.measured.span_metrics(),
            },
        ),
        scope=scope_of(over, txn.metadata),
        predicate=target.text,
        written_under=txn.metadata,
        read_version=txn.version,
        reads=(target.read_nothing(),),
        removes=np.sort(files["id"].to_numpy()),
    )
