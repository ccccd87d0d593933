"""Which version of a table a query reads: what is then written there depends on it.

An INSERT, OVERWRITE or MERGE whose source reads the table, and a statement with a sub-query over
it, read all of the table's rows for the conflict rules, at the version that the query is pinned to.
A version that somebody asked for by number or time is a constant, whatever commits.

Spec: CFL-22.
"""

from __future__ import annotations

import numpy as np

from tablefmt.commit.plan import Staged
from tablefmt.conflict.facts import Read
from tablefmt.session.context import TableContext
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.source import with_reads
from tablefmt.spark.backends.query_versions import version_read
from tablefmt.spark.runtime.frames import DataFrame


def pinned_to(pinned: TransactionSnapshot, version: int) -> TransactionSnapshot:
    """The same transaction on the version that its query reads."""
    if version > pinned.view.head.version:
        pinned.view.refresh()
    other = TransactionSnapshot(
        pinned.store, pinned.view, version, pinned.transaction, pinned.measured
    )
    if pinned.target != pinned.metadata:
        other.target = pinned.target
    return other


def with_query(staged: Staged, pinned: TransactionSnapshot) -> Staged:
    """The work of a statement whose query read the table at the pinned version: class UPDATE."""
    if staged.is_empty:
        return staged
    files = np.sort(pinned.snapshot.files["id"].to_numpy())
    return with_reads(staged, (Read(by_row=False, files=files),), pinned)


def pin_query(context: TableContext, query: DataFrame) -> TransactionSnapshot | None:
    """What `with_query` needs for a query that reads the table; None if it does not."""
    version = version_read(context.store, context.view, query)
    if version is None:
        return None
    if version > context.view.head.version:
        context.view.refresh()
    return context.pin(version)
