"""Append: add rows. Rows that were not read from the table are a blind INSERT."""

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
"""Errors of rows or a CHECK that do not fit the schema."""


def append(
    context: TableContext, data: Any, options: CommitOptions, *, merge_schema: bool = False
) -> Commit:
    """Add the rows of `data` in one commit, columns by name (DAT-2).

    With `merge_schema`, missing columns and fields are added in the same commit. Types become wider
    if `data` has a wider type of the same kind (SCH-8).

    On a warm handle without concurrent commits, this costs the writes of the data files and one log
    write. Without rows and application version, no version is made. If the handle missed a change
    of the schema, the rows are written again under the newest schema (CFL-5).

    Raises:
        SchemaMismatchError, ConstraintViolationError: the data does not fit; nothing is kept.
        IdempotenceError: CFL-7.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    check_flags(merge_schema=merge_schema)
    # A blind append does not need the newest version, because a lost race would reveal it. These
    # cases do: an application id, a schema that may change, a read of the table, and granularity
    # `transaction`, where every concurrent commit is a conflict.
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
            # The handle used the schema that it remembered. The newest schema decides.
            newest = context.begin().metadata
            if rows.lost or (isinstance(error, _MISFITS) and newest == before):
                raise
        return autocommit(context, append_statement(rows.rows()), options, refresh=False)


def append_statement(
    data: Any, *, merge_schema: bool = False, before: Staged | None = None
) -> Statement:
    """Return the statement of an append.

    Args:
        data: as in `source_reader`.
        merge_schema: as in `append`.
        before: the staged work of earlier appends of the same transaction. Its files are included.
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
    """Return the INSERT of data files that exist already under the transaction's folder.

    Args:
        transaction: owner of the folder.
        added: the files; None for none.
        read_under: the metadata of `read_version`.
        read_version: the head when the work began. Later commits are judged (CMT-6).
        evolved: the metadata that the files were written under, and the table's new metadata; None
            or equal: unchanged.
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
