"""Open the table of a Spark statement, and run the statement as one commit.

All of `tablefmt.spark` begins transactions, reads fixed versions and commits through the session
layer, by `execute` (tests/architecture).

Logs that this process has read are cached, so the next call reads new entries only. Each `write`,
`read` and SQL statement opens its table by name, and reading the whole log each time would cost
more than the commit. A cached log is always verified: the newest known entry must still exist
unchanged. Its chain of digests (LOG-1) covers all earlier entries.

For the conflict rules, some statements read all rows of the table, at the version of their query:

- an INSERT, OVERWRITE or MERGE with a source that reads the table,
- a statement with a subquery over the table.

A version that the user asked for by number or time is constant, so reading it does not count.

Spec: CFL-22.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import CorruptTableError, TableNotFoundError
from tablefmt.log.codec import digest
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Metadata
from tablefmt.operations.automatic_compaction import watch
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import check_unchanged, read_of_all, with_reads
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import EngineRows, Stage, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import (
    OtherVersionRead,
    TransactionFiles,
    TransactionSnapshot,
)
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.backends.backend_choice import backend_for
from tablefmt.spark.backends.query_plans import versions_read
from tablefmt.spark.columns.catalog_columns import note
from tablefmt.spark.pyspark_objects import DataFrame, Session
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.store.object_store import Store

KEPT = 8
"""Number of tables with a cached log: those used last."""

_views: OrderedDict[Hashable, LogView] = OrderedDict()
_views_lock = threading.Lock()


def open_context(store: Store, *, explain: bool = True) -> TableContext:
    """Open the table at the root of a store, at its newest version. One round trip if unchanged.

    Args:
        store: the table's store.
        explain: as in `LogView.open`.

    Raises:
        TableNotFoundError, CorruptTableError, UnsupportedFeatureError: as `LogView.open`.
    """
    key = _key(store)
    with _views_lock:
        view = _views.get(key)
    if view is None or not _refreshed(view):
        view = LogView.open(store, explain=explain)
    if key is not None:
        with _views_lock:
            _views[key] = view
            _views.move_to_end(key)
            while len(_views) > KEPT:
                _views.popitem(last=False)
    context = TableContext(store, view)
    context.changed = note
    watch(context)
    return context


def open_context_if_exists(store: Store) -> TableContext | None:
    """Open the table as `open_context`. None if there is no table."""
    try:
        return open_context(store, explain=False)
    except TableNotFoundError:
        return None


def _key(store: Store) -> Hashable:
    """Return location and credentials as a cache key. None if they cannot be compared."""
    access = store.access()
    return None if access.untranslated else (store.identity, access)


def _refreshed(view: LogView) -> bool:
    """Read new entries. False if the cached log was removed, replaced, dropped or damaged."""
    known = view.head
    body, newer = view.store.get_many([entry_key(known.version + i) for i in (0, 1)])
    if view.damaged or known.ended or body is None or digest(body) != known.digest:
        return False
    try:
        if newer is not None:
            view.refresh()
    except CorruptTableError:
        # This table may be damaged, or another may be in its place. Opening it anew tells.
        return False
    return True


def rows_of(options: WriteOptions, query: DataFrame | None = None) -> EngineRows:
    """Return what the session knows of the rows of a query.

    Args:
        options: the options of the write. They may have the digest of a stream's batch.
        query: the rows, to find the versions of the table that they read. None: not needed.
    """

    def versions(txn: TransactionSnapshot) -> Sequence[int]:
        return () if query is None else versions_read(txn.store, txn.view, query)

    return EngineRows(digest=options.digest, versions_read=versions)


def execute(
    context: TableContext,
    spark: Session,
    name: str,
    stage: Stage,
    options: WriteOptions,
    *,
    rows: EngineRows | None,
    text: Callable[[Metadata], tuple[str, ...]] = lambda metadata: (),
    refresh: bool = True,
) -> Commit:
    """Run a statement in one commit. If it fails, its files are removed.

    Args:
        context: the table.
        spark: the session.
        name: the name of the operation.
        stage: does the work at the fixed version, in Spark.
        options: the options of the commit.
        rows: what is known of the input rows. None: the statement has none, so its text identifies
            it (CFL-7).
        text: returns the statement's text without its name, and raises errors before any work.
        refresh: as in `autocommit`.

    Raises:
        IdempotenceError: CFL-7. Errors of `stage` and `text`, among them Spark's own exceptions.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError: only the last one
            may leave files behind.
    """

    def files_of(txn: TransactionSnapshot) -> TransactionFiles:
        return backend_for(spark, txn.store).files_of(txn.transaction)

    statement = Statement(
        name=name,
        stage=lambda txn, _: stage(txn),
        text=text,
        engine=rows,
        files_of=files_of,
    )
    return autocommit(context, statement, options.commit, refresh=refresh)


def check_query(
    txn: TransactionSnapshot, query: DataFrame, *, fixed: bool = False, wrote: bool = False
) -> bool:
    """Return whether a query of the statement reads the table. It counts as a read at the
    transaction's version.

    The query may read a newer version too, if no commit between the two changed rows (CFL-22).

    Args:
        txn: the transaction.
        query: the query, with its subqueries.
        fixed: another query of the statement reads the table at the transaction's version.
        wrote: the statement may have written files already.

    Raises:
        OtherVersionRead: it reads an older version, or only newer ones and `fixed` is False.
        ConcurrentModificationException: a commit between the versions changed rows.
    """
    versions = versions_read(txn.store, txn.view, query)
    if not versions:
        return False
    oldest, newest = versions[0], versions[-1]
    if oldest < txn.version or (oldest > txn.version and not fixed):
        raise OtherVersionRead(oldest, wrote=wrote)
    check_unchanged(txn, newest)
    return True


def with_query(staged: Staged, txn: TransactionSnapshot) -> Staged:
    """Return a staged statement as class UPDATE: its query read the table at the fixed version."""
    return staged if staged.is_empty else with_reads(staged, (read_of_all(txn),), txn)
