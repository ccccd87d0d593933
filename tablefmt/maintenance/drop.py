"""`tablefmt.drop`: a table ends, and its data may go with it. Spec: ENT-14, RET-8."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.errors import StoreError
from tablefmt.maintenance.listing import listed
from tablefmt.maintenance.vacuum import check_place, remove
from tablefmt.maintenance.vacuum_plan import FOLDERS, Limits, doomed
from tablefmt.model.properties import transaction_seconds
from tablefmt.operations.drop import NAME
from tablefmt.operations.drop import drop as end_table
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitKeywords, commit_options
from tablefmt.session.receipt import Commit
from tablefmt.snapshot.load import LogView
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

Uri = Union[str, "os.PathLike[str]"]


def drop(
    uri: Uri,
    *,
    delete_data: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitKeywords],
) -> Commit:
    """End the table at `uri`: its last entry says so, and there is no table from then on.

    Handles that know it are told (`TableReplacedError`), whatever they try to commit. The log
    stays, so that a new table at the same place goes on counting from there, and nobody can take
    one for the other. Data files stay too, for whoever reads them just now, until a vacuum of a new
    table at that place, or another call with `delete_data`.

    Args:
        uri: as of `tablefmt.open`.
        delete_data: remove the data files at once; of a table that was dropped before, too.
        storage_options: as of `tablefmt.open`.
        commit: as of every method that writes.

    Raises:
        TableNotFoundError: there is none; with `delete_data`, and there was none.
        StoreError: a file could not be removed; call it again.
        CommitRejectedError, CommitUnknownError: the table stays, or may be gone.
        UnsupportedFeatureError: the table is a whole bucket, and `delete_data` is asked for.
    """
    store = open_store(uri, storage_options)
    return drop_at(store, commit, delete_data=delete_data)


def drop_at(
    store: Store,
    commit: CommitKeywords,
    *,
    delete_data: bool = False,
    environment: Environment = SYSTEM,
) -> Commit:
    """The same at the root of a store."""
    options = commit_options(commit)
    if delete_data:
        check_place(store)
    context = TableContext(store, LogView.open(store, ended=delete_data), environment)
    ended = context.view.head.ended
    receipt = context.no_op("", NAME) if ended else end_table(context, options)
    if delete_data:
        _delete_data(context)
    return receipt


def _delete_data(context: TableContext) -> None:
    """Remove the files that entries name, and others that are too old to be a new table's."""
    store = context.store
    listing = listed(store, FOLDERS[:1])
    view = LogView.open(store, whole=True, ended=True)
    head = view.head
    if not head.ended or not listing.num_rows:
        return
    limits = Limits(
        oldest=head.version,
        now_us=store.server_time_us() or context.environment.now_us(),
        unnamed_seconds=2 * transaction_seconds(head.metadata.properties),
    )
    files = doomed(listing, view.snapshot().history, pa.array([], pa.string()), limits)
    failures = remove(store, files["path"].to_pylist())
    if failures:
        path, reason = next(iter(failures.items()))
        raise StoreError(
            f"{len(failures)} files of the dropped table at {store.uri} could not be removed, "
            f"among them {path}: {reason}. Drop it again with delete_data=True."
        )
