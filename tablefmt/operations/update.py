"""UPDATE: new values for the rows for which a condition is true (class UPDATE).

Spec: DEL-1, ENT-9, SQL-3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.assigned_values import computed, new_values
from tablefmt.data.generated_values import GeneratedValues, by_name
from tablefmt.data.row_reader import answer_schema
from tablefmt.data.selection import Condition
from tablefmt.data.sql_evaluation import LazyEngine, now_us
from tablefmt.expressions.generated_columns import recomputed_columns
from tablefmt.expressions.set_assignments import Expression, assigned
from tablefmt.expressions.sql_parser import Relation
from tablefmt.model.argument_checks import check_set
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.identity_columns import refuse_set
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.row_changes import (
    Change,
    Changed,
    change_rows,
    select_and_read,
    stage_changes,
)
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import analyzed_condition
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove

NAME = "UPDATE"

UPDATE_CALL = """update({"price": "price * 2"}, "id = 1")"""
"""Example of a call in an error message."""


def update(
    context: TableContext,
    values: Mapping[str, Expression],
    where: Condition,
    options: CommitOptions,
) -> Commit:
    """Update the rows for which the condition is true, in one commit; all rows for None.

    If no row matches and there is no application version, no version is made.

    Args:
        context: the table.
        values: SQL text by column. All of them use the values of the old row.
        where: selects the rows.
        options: of the commit.

    Raises:
        ConstraintViolationError: the table is append-only, or a new row breaks NOT NULL or a CHECK.
        InvalidPredicateError, UnsupportedFeatureError: the condition or a value.
        SchemaMismatchError: a column does not exist, or cannot store a value.
        IdempotenceError: CFL-7.
        CorruptDataError: DAT-5.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    return autocommit(context, update_statement(values, where), options)


def update_statement(values: Mapping[str, Expression], where: Condition) -> Statement:
    """Return the statement of an update. Arguments as in `update`.

    Raises:
        InvalidPredicateError: `values` is not a mapping.
    """
    check_set(values, UPDATE_CALL)

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        condition = analyzed_condition(where, metadata.schema).text
        return condition, *set_fingerprint(values)

    return Statement(name=NAME, text=text, stage=lambda txn, _: stage_set(txn, values, where))


def set_fingerprint(values: Mapping[str, Expression]) -> tuple[str, ...]:
    """Return the text of SET for the digest of the statement, on every engine."""
    # Only text is an expression. Some values of other types cannot be printed.
    texts = {n: v if isinstance(v, str) else type(v).__name__ for n, v in values.items()}
    return tuple(f"{name}\0{text}" for name, text in texts.items())


def stage_set(
    txn: TransactionSnapshot, values: Mapping[str, Expression], where: Condition
) -> Staged:
    """Stage the update on the transaction snapshot. Without rows to update, the work is empty.

    Raises: as `update`, except for errors of the commit.
    """
    schema = txn.metadata.schema
    relation = Relation(schema)
    values_set = new_values(assigned(values, schema), (relation,), now_us())
    refuse_set(txn.metadata, [value.field for value in values_set], "an UPDATE")
    engine = LazyEngine()

    handles = {relation.handle(at): column for at, column in enumerate(schema.fields)}
    set_ids = {value.field.id for value in values_set}
    used = frozenset[str]().union(*(value.value.columns for value in values_set))
    # Columns that are set but unused need no read. At least one column is read to count the rows.
    read = {h: c for h, c in handles.items() if h in used or c.id not in set_ids}
    read = read or dict(list(handles.items())[:1])
    shape = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema.fields])
    generated = GeneratedValues(txn.metadata, by_name)
    changing = recomputed_columns(txn.metadata, set_ids)
    generated.prepare(changing)

    def change(rows: pa.Table) -> pa.Table:
        old = rows.rename_columns(list(read))
        new = computed(engine, old, values_set)
        columns = [new[c.id] if c.id in new else old[h] for h, c in handles.items()]
        return generated.filled(pa.table(columns, [field.name for field in shape]), changing)

    names = [value.field.name for value in values_set]
    return stage_update(txn, where, change, names, shape, list(read.values()))


def stage_update(
    txn: TransactionSnapshot,
    where: Condition,
    change: Change,
    columns: Sequence[str] | None,
    shape: pa.Schema | None = None,
    read: Sequence[Field] | None = None,
) -> Staged:
    """Stage an update with new values from a function over Arrow rows.

    Args:
        txn: the version to read, and the folder for the files.
        where: selects the rows; None for all.
        change: makes new rows from old ones, one for one.
        columns: names of the columns that `change` sets; None: any.
        shape: schema of the new rows; None: `change` is called without rows to get the types.
        read: columns that `change` gets; None: all.

    Raises: as `stage_set`.
    """
    check_may_remove(txn.metadata)
    schema = txn.metadata.schema
    target = analyzed_condition(where, schema)
    read = schema.fields if read is None else read
    if shape is None:
        shape = change(answer_schema(read).empty_table()).schema
    selected, old = select_and_read(txn, target, read)
    written = change_rows(txn, old, change, shape)
    fields = [schema.find(name) for name in columns or ()]
    set_ids = tuple(sorted(field.id for field in fields if field is not None))
    changed = Changed(
        target=target,
        files=selected.files,
        updated=selected.rows,
        updated_files=written,
        set_columns=None if columns is None else set_ids,
    )
    return stage_changes(txn, NAME, changed)
