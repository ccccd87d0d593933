"""RESTORE: an older version becomes the newest one, in an ordinary commit (class OVERWRITE).

No data file is read or written. Rows, columns, partitioning, constraints, comments and source
cursors are restored. Properties and application versions stay. Spec: RET-1 .. RET-3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.commit.restore_plan import Restoring
from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import InvalidRangeError
from tablefmt.model.log_entry import Metadata, Operation, OperationClass
from tablefmt.model.partitionings import restored_partitionings
from tablefmt.model.schema import id_places
from tablefmt.model.schema_rules import dropped_names, dropped_roots
from tablefmt.model.tags import version_or_tag
from tablefmt.model.times import Time, show_time, to_micros
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.metadata_changes import with_schema
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove
from tablefmt.snapshot.head import tagged_at
from tablefmt.snapshot.log_view import cursors_at

NAME = "RESTORE"

_METRICS = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
"""Our metric by Delta's column of the result of a restore."""

RESTORED = pa.schema([(name, pa.int64()) for name in _METRICS])
"""Columns of the result of a restore, by Delta's names."""


def restored(context: TableContext, commit: Commit) -> pa.Table:
    """Return the result of a restore in one row. A restore that made no version moved no file."""
    files, _, size = context.view.snapshot().totals
    unchanged = {"tableSizeAfterRestore": size, "numOfFilesAfterRestore": files}
    metrics = {**unchanged, **commit.metrics}
    row = {name: metrics.get(ours, 0) for name, ours in _METRICS.items()}
    return pa.Table.from_pylist([row], RESTORED)


def restore(
    context: TableContext, version: int | str | None, timestamp: Time | None, options: CommitOptions
) -> Commit:
    """Restore an older version in one commit.

    If the table equals that version already and there is no application version, no version is
    made.

    Args:
        context: the table.
        version: a version, or the name of a tag.
        timestamp: restore the version at this time (TIM-4) instead.
        options: of the commit.

    Raises:
        InvalidRangeError: both arguments or none are given, or one is invalid.
        VersionNotFoundError: RET-2, with the versions that can be restored. A concurrent vacuum may
            have given the version up.
        ConstraintViolationError: the table is append-only.
        IdempotenceError: CFL-7.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    return autocommit(context, restore_statement(version, timestamp), options)


def restore_statement(version: int | str | None, timestamp: Time | None) -> Statement:
    """Return the statement of a restore. Arguments as in `restore`.

    Raises:
        InvalidRangeError: as `restore`.
    """
    if (version is None) == (timestamp is None):
        raise InvalidRangeError("give a version or a timestamp to restore: exactly one of them")
    number = None if version is None else version_or_tag(version)
    micros = None if timestamp is None else to_micros(timestamp)
    time = None if micros is None else show_time(micros)
    asked: dict[str, Any] = {"version": number} if time is None else {"timestamp": time}

    def stage(txn: TransactionSnapshot, _: Any) -> Staged:
        return stage_restore(txn, number, micros, asked)

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_remove(metadata)
        # An application version has one content, however the time was given.
        return (time or str(number),)

    return Statement(name=NAME, stage=stage, text=text)


def stage_restore(
    txn: TransactionSnapshot,
    version: int | str | None,
    micros: int | None,
    parameters: dict[str, Any],
) -> Staged:
    """Stage the restore on the transaction snapshot. Raises as `restore`, except for the commit."""
    view = txn.view
    at = view.timeline.version_at(micros) if micros is not None else version
    if isinstance(at, str):
        at = tagged_at(view.head, at)
    assert at is not None
    snapshot = view.snapshot(view.check_version(at))
    txn.target = restored_metadata(txn.metadata, snapshot.metadata)
    metadata = txn.evolved
    return Staged(
        transaction=txn.transaction,
        operation=Operation(
            name=NAME,
            cls=OperationClass.OVERWRITE,
            parameters={**parameters, "version": at},
        ),
        written_under=txn.metadata,
        read_version=txn.version,
        restoring=Restoring(snapshot, txn.target, cursors_at(view, at)),
        metadata=metadata,
        replaces=metadata is not None,
    )


def restored_metadata(now: Metadata, then: Metadata) -> Metadata:
    """Return an older definition as the successor of the current one.

    It has its own column ids, the columns dropped since as dropped, and the current properties.
    Spec: SCH-4, SCH-8, RET-3.
    """
    dropped = tuple(dropped_roots(now.schema.fields, id_places(then.schema).keys()))
    schema = replace(
        then.schema, last_id=now.schema.last_id, dropped=dropped_names(now.schema, dropped)
    )
    named = with_schema(replace(now, constraints={}), schema)
    partitionings = restored_partitionings(now, then)
    return replace(then, schema=schema, properties=named.properties, partitionings=partitionings)
