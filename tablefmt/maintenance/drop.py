"""Implementation of `tablefmt.drop`: ends a table, and optionally deletes its data. Spec: ENT-14,
RET-8.
"""

from __future__ import annotations

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.errors import StoreError
from tablefmt.maintenance.ages import now_of
from tablefmt.maintenance.listing import listed
from tablefmt.maintenance.vacuum import check_place, remove
from tablefmt.maintenance.vacuum_plan import FOLDERS, Limits, doomed
from tablefmt.maintenance.whole import whole_view
from tablefmt.model.arguments import check_flags
from tablefmt.model.properties import transaction_seconds
from tablefmt.operations.drop import NAME
from tablefmt.operations.drop import drop as end_table
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitOptions
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store


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
    ended = context.view.head.ended
    done = context.no_op("", NAME) if ended else end_table(context, options)
    if delete_data:
        _delete_data(context)
    return done


def _delete_data(context: TableContext) -> None:
    """Remove files that entries name, and others that are too old to belong to a new table."""
    store = context.store
    now_us = now_of(context)
    listing = listed(store, FOLDERS[:1])
    view = whole_view(store, ended=True)
    head = view.head
    if not head.ended or not listing.num_rows:
        return
    limits = Limits(
        oldest=head.version,
        now_us=now_us,
        unnamed_seconds=2 * transaction_seconds(head.metadata.properties),
    )
    files = doomed(listing, view.snapshot().history, pa.array([], pa.string()), limits)
    failures = remove(store, files["path"].to_pylist())
    if failures:
        path, reason = next(iter(failures.items()))
        raise StoreError(
            f"could not remove {len(failures)} files of the dropped table at {store.uri}, "
            f"among them {path}: {reason}. Drop it again with delete_data=True."
        )
