"""Implementation of `tablefmt.drop`: ends a table, and optionally deletes its data.

The last entry of a table says that it is one. Spec: ENT-14, RET-8, XPT-13.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Replacing, Staged
from tablefmt.errors import StoreError
from tablefmt.export.copy_removal import removable_copies
from tablefmt.log.log_reader import has_entry
from tablefmt.maintenance.removal_plan import (
    FOLDERS,
    RetentionLimits,
    adopted_imports,
    vacuum_candidates,
)
from tablefmt.maintenance.retention import now_of, whole_view
from tablefmt.maintenance.stored_objects import listed
from tablefmt.maintenance.vacuum import check_place, remove
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.model.properties import transaction_seconds
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import commit_with_retries
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

NAME = "DROP TABLE"


def end_table(context: TableContext, options: CommitOptions) -> Commit:
    """End a table; every file of it goes, and the log stays.

    Raises:
        TableNotFoundError, TableReplacedError: somebody else dropped it.
        CommitRejectedError, CommitUnknownError, ConcurrentModificationException.
    """

    def stage(_: Head, txn: TransactionSnapshot) -> Staged:
        return Staged(
            transaction=txn.transaction,
            operation=Operation(name=NAME, cls=OperationClass.PROTOCOL),
            written_under=txn.metadata,
            read_version=txn.version,
            replacing=Replacing(None),
            ends=True,
        )

    return commit_with_retries(context, stage, options)


def drop_at(
    store: Store,
    options: CommitOptions,
    *,
    delete_data: bool = False,
    environment: Environment = SYSTEM,
) -> Commit:
    """End the table at the root of a store. Arguments and errors as of `tablefmt.drop`."""
    check_flags(delete_data=delete_data)
    if delete_data:
        check_place(store)
    context = TableContext(store, LogView.open(store, ended=delete_data), environment)
    if delete_data:
        # A blocked copy is refused before the table ends.
        removable_copies(store, context.view)
    ended = context.view.head.ended
    done = context.no_op("", NAME) if ended else end_table(context, options)
    if delete_data:
        _delete_data(context)
    return done


def _delete_data(context: TableContext) -> None:
    """Remove files that entries name, and others that are too old to belong to a new table.

    Then remove the table's copies. While files are missing, readers of a copy fail.
    """
    store = context.store
    now_us = now_of(context)
    adopted = adopted_imports(context.view.head.metadata)
    listing = listed(store, ("",) if adopted else FOLDERS[:1])
    view = whole_view(store, ended=True)
    head = view.head
    if not head.ended:
        return
    copies = removable_copies(store, view)
    limits = RetentionLimits(
        oldest=head.version,
        now_us=now_us,
        unnamed_seconds=2 * transaction_seconds(head.metadata.properties),
        adopted=adopted,
    )
    files = vacuum_candidates(listing, view.snapshot().history, pa.array([], pa.string()), limits)
    _remove(store, files["path"].to_pylist())
    for copy in copies:
        for step in copy.steps:
            # Another drop may have ended before this one, and a new table may have copies now.
            if has_entry(store, head.version + 1):
                return
            _remove(store, step)
        store.remove_empty(copy.folder)


def _remove(store: Store, keys: Sequence[str]) -> None:
    failures = remove(store, list(keys))
    if failures:
        path, reason = next(iter(failures.items()))
        raise StoreError(
            f"could not remove {len(failures)} files of the dropped table at {store.uri}, "
            f"among them {path}: {reason}. Drop it again with delete_data=True."
        )
