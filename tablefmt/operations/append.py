"""Append: rows beside what is there. Of rows that were not read from the table: INSERT, blind."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.input_data import incoming_schema
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.log_entry import AddedFiles, Metadata, Operation, OperationClass
from tablefmt.model.properties import get_property
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import is_in_memory, repeatable, without_handles
from tablefmt.session.metadata_changes import merged, rebound
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import partition_scope
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.session.transaction_snapshot import TransactionSnapshot, joined

NAME = "WRITE"

_MISFITS = (
    SchemaMismatchError,
    ConstraintViolationError,
    InvalidPredicateError,
    UnsupportedFeatureError,
)
"""What rows, or a CHECK, that do not fit the schema are refused with."""


def append(
    context: TableContext, data: Any, options: CommitOptions, *, merge_schema: bool = False
) -> Commit:
    """Add the rows of `data` in one commit; columns by name (DAT-2).

    With `merge_schema`, columns and fields that the table lacks are added in the same commit, and
    types become wider where `data` has the wider one of a kind (SCH-8).

    On a handle that is warm and not overtaken this is the data files' writes and one log write. No
    rows and no application version: no version is made. Where the handle did not hear of a change
    of the schema, the rows are written again under the newest (CFL-5).

    Raises:
        SchemaMismatchError, ConstraintViolationError: the data does not fit; nothing is kept.
        IdempotenceError: CFL-7.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    check_flags(merge_schema=merge_schema)
    # A blind append needs no newest version: losing the race tells it. An application id, a schema
    # that may change, a read of the table, and granularity `transaction`, where any winner since
    # the start is a conflict, do.
    before = context.view.head.metadata
    data = without_handles(data)
    whole_scope = get_property(before.properties, "conflictGranularity") == "transaction"
    reads = isinstance(data, Scan) and data.snapshot.table_id == context.view.head.table
    if whole_scope or merge_schema or reads or options.is_recorded:
        statement = append_statement(data, merge_schema=merge_schema)
        return autocommit(context, statement, options)
    with repeatable(data) as rows:
        statement = append_statement(rows.rows())
        try:
            return autocommit(context, statement, options, refresh=False)
        except (*_MISFITS, MetadataChangedException, ProtocolChangedException) as error:
            # The schema was the one that this handle remembers. That of now decides.
            newest = context.begin().metadata
            if rows.lost or (isinstance(error, _MISFITS) and newest == before):
                raise
        return autocommit(context, append_statement(rows.rows()), options, refresh=False)


def append_statement(
    data: Any, *, merge_schema: bool = False, before: Staged | None = None
) -> Statement:
    """An append of rows.

    Args:
        data: as of `source_reader`.
        merge_schema: as of `append`.
        before: what appends of the same transaction staged; its files come along.
    """
    check_flags(merge_schema=merge_schema)

    def stage(txn: TransactionSnapshot, rows: pa.RecordBatchReader) -> Staged:
        schema = txn.target.schema
        if merge_schema:
            txn.target = merged(txn.target, incoming_schema(rows.schema, schema))
        added = txn.write(rows, in_memory=is_in_memory(data))
        earlier = None if before is None else before.add
        if earlier is not None:
            earlier = rebound(earlier, schema, txn.target.schema)
        return append_files(
            txn.transaction,
            joined([earlier, added]),
            txn.metadata,
            read_version=txn.version,
            evolved=txn.evolved,
        )

    return Statement(name=NAME, stage=stage, takes_rows=True, source=data)


def append_files(
    transaction: str,
    added: AddedFiles | None,
    read_under: Metadata,
    *,
    read_version: int,
    evolved: Metadata | None = None,
) -> Staged:
    """An INSERT of data files that exist already under the transaction's folder.

    Args:
        transaction: whose folder it is.
        added: the files; None for none.
        read_under: the metadata of `read_version`.
        read_version: the head when the work began; what came later is judged (CMT-6).
        evolved: what the files were written under, and the table's metadata from then on; None or
            equal: as it was.
    """
    return Staged(
        transaction=transaction,
        operation=Operation(name=NAME, cls=OperationClass.INSERT, parameters={"mode": "Append"}),
        scope=partition_scope(added, read_under),
        blind=True,
        written_under=read_under,
        read_version=read_version,
        metadata=None if evolved == read_under else evolved,
        add=added,
    )
