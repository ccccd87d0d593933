"""Append: rows beside what is there. Of rows that were not read from the table: INSERT, blind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.commit.plan import Plan
from tablefmt.data.bounds import stats_of
from tablefmt.data.tabular import incoming_schema
from tablefmt.data.write import write_data
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.model.entry import AddedFiles, Metadata, Operation, OperationClass
from tablefmt.model.properties import get_property
from tablefmt.session.context import (
    Commit,
    CommitOptions,
    TableContext,
    partition_scope,
    writing,
)
from tablefmt.session.metadata_changes import merged
from tablefmt.session.scan import Scan
from tablefmt.session.source import (
    own_scan,
    read_of,
    repeatable,
    source_reader,
    with_reads,
)
from tablefmt.session.staging import check_idempotency, commit_plan
from tablefmt.snapshot.head import Head

NAME = "WRITE"


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
    # A blind append needs no newest version: losing the race tells it. An application id, a schema
    # that may change, a read of the table, and granularity `transaction`, where any winner since
    # the start is a conflict, do.
    known = context.view.head.metadata.properties
    whole_scope = get_property(known, "conflictGranularity") == "transaction"
    reads = isinstance(data, Scan) and data.snapshot.table_id == context.view.head.table
    if whole_scope or merge_schema or reads or options.application is not None:
        return _append_known(context, data, options, merge_schema)
    head = context.begin(refresh=False)
    with repeatable(data) as rows:
        try:
            return _append_rows(context, head, rows.reader(), options)
        except (*_MISFITS, MetadataChangedException, ProtocolChangedException) as error:
            # The schema was the one that this handle remembers. That of now decides.
            before, head = head.metadata, context.begin()
            if rows.lost or (isinstance(error, _MISFITS) and head.metadata == before):
                raise
        return _append_rows(context, head, rows.reader(), options)


_MISFITS = (
    SchemaMismatchError,
    ConstraintViolationError,
    InvalidPredicateError,
    UnsupportedFeatureError,
)
"""What rows, or a CHECK, that do not fit the schema are refused with."""


def _append_rows(
    context: TableContext, head: Head, rows: pa.RecordBatchReader, options: CommitOptions
) -> Commit:
    transaction = context.environment.nonce()
    with writing(context.store, transaction):
        stats = stats_of(head.metadata)
        added = write_data(context.store, transaction, rows, head.metadata, stats)
    return append_files(
        context, transaction, added, head.metadata, options, read_version=head.version
    )


def _append_known(
    context: TableContext, data: Any, options: CommitOptions, merge_schema: bool
) -> Commit:
    """An append that begins from the newest version there is, or from the one it reads."""
    head = context.begin()
    given = check_idempotency(context, options, source_reader(data), (NAME,))
    if given.already is not None:
        return given.already
    assert given.rows is not None
    own = own_scan(context.view, data)
    pinned = context.pin(head.version if own is None else own.version)
    with pinned.staging():
        if merge_schema:
            schema = incoming_schema(given.rows.schema, pinned.metadata.schema)
            pinned.target = merged(pinned.metadata, schema)
        added = pinned.write(given.rows)
    plan = append_plan(
        pinned.transaction,
        added,
        pinned.metadata,
        read_version=pinned.version,
        evolved=pinned.target,
    )
    plan = replace(plan, floating=own is None and plan.metadata is None)
    if own is not None and not plan.is_empty:
        plan = with_reads(plan, [read_of(own, pinned)], pinned)
    return commit_plan(context, plan, options, given.digest)


def append_files(
    context: TableContext,
    transaction: str,
    added: AddedFiles | None,
    written_under: Metadata,
    options: CommitOptions,
    *,
    read_version: int,
    digest: str | None = None,
    evolved: Metadata | None = None,
) -> Commit:
    """Commit data files that exist already under the transaction's folder.

    Args:
        context: the table.
        transaction: whose folder it is.
        added: the files; None for none.
        written_under: the metadata of `read_version`.
        options: what every commit takes.
        read_version: the head when the work began; what came later is judged (CMT-6).
        digest: of the content, where it is known.
        evolved: what the files were written under, and the table's metadata from then on.

    Raises:
        CommitRejectedError, ConcurrentModificationException: the files are removed.
        CommitUnknownError: they are kept.
    """
    plan = append_plan(
        transaction, added, written_under, read_version=read_version, evolved=evolved
    )
    return commit_plan(context, replace(plan, floating=plan.metadata is None), options, digest)


def append_plan(
    transaction: str,
    added: AddedFiles | None,
    written_under: Metadata,
    *,
    read_version: int,
    evolved: Metadata | None = None,
) -> Plan:
    """An INSERT of files that exist already. It floats only in a commit of its own (CFL-5)."""
    plan = Plan(
        transaction=transaction,
        operation=Operation(name=NAME, cls=OperationClass.INSERT, parameters={"mode": "Append"}),
        scope=partition_scope(added, written_under),
        blind=True,
        written_under=written_under,
        read_version=read_version,
        metadata=changed_metadata(written_under, evolved),
    )
    return with_files(plan, added)


def changed_metadata(before: Metadata, evolved: Metadata | None) -> Metadata | None:
    """What an entry says of the metadata: nothing where it stays."""
    return None if evolved == before else evolved


def with_files(plan: Plan, added: AddedFiles | None) -> Plan:
    """The plan with its files."""
    return plan if added is None else replace(plan, add=added)
