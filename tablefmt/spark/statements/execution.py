"""How a statement of Spark opens its table and becomes a commit: by the session's one door.

Nothing in `tablefmt.spark` begins, pins or commits a transaction by itself (tests/architecture).

The logs that this process has read are kept, so that the next call reads what is new. Each `write`,
`read` and statement of SQL opens its table by name; reading the whole log each time would cost more
than the commit. A log that is kept is never taken on trust: the newest entry known has to be there
as it was, and its chain of digests (LOG-1) vouches for all before it.

An INSERT, OVERWRITE or MERGE whose source reads the table, and a statement with a sub-query over
it, read all of the table's rows for the conflict rules, at the version that the query is pinned to.
A version that somebody asked for by number or time is a constant, whatever commits.

Spec: CFL-22.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import CorruptTableError, TableNotFoundError
from tablefmt.log.codec import digest
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Metadata
from tablefmt.operations.auto_compact import watch
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import read_of_all, with_reads
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import EngineRows, Stage, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.backends.backend_choice import backend_for
from tablefmt.spark.backends.query_plans import version_read
from tablefmt.spark.columns.catalog_columns import note
from tablefmt.spark.pyspark_objects import DataFrame, Session
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.store.object_store import Store

KEPT = 8
"""Tables whose log is kept: those used last."""

_views: OrderedDict[Hashable, LogView] = OrderedDict()
_keeping = threading.Lock()


def open_context(store: Store, *, explain: bool = True) -> TableContext:
    """The table at the root of a store, at its newest version. One round if nothing is new.

    Args:
        store: where.
        explain: as of `LogView.open`.

    Raises:
        TableNotFoundError, CorruptTableError, UnsupportedFeatureError: as `LogView.open`.
    """
    key = _key(store)
    with _keeping:
        view = _views.get(key)
    if view is None or not _brought_up_to_date(view):
        view = LogView.open(store, explain=explain)
    if key is not None:
        with _keeping:
            _views[key] = view
            _views.move_to_end(key)
            while len(_views) > KEPT:
                _views.popitem(last=False)
    context = TableContext(store, view)
    context.changed = note
    watch(context)
    return context


def open_if_there(store: Store) -> TableContext | None:
    """The same; None if there is no table."""
    try:
        return open_context(store, explain=False)
    except TableNotFoundError:
        return None


def _key(store: Store) -> Hashable:
    """Place and credentials; None for what cannot be told apart, which is not kept."""
    if not hasattr(store, "access"):
        return store.identity
    access = store.access()
    return None if access.untranslated else (store.identity, access)


def _brought_up_to_date(view: LogView) -> bool:
    """Take in what is new; False if what was read is there no more, was dropped, or damaged."""
    known = view.head
    body, newer = view.store.get_many([entry_key(known.version + i) for i in (0, 1)])
    if view.damaged or known.ended or body is None or digest(body) != known.digest:
        return False
    try:
        if newer is not None:
            view.refresh()
    except CorruptTableError:
        # Of this table or of another in its place: a reader with no memory tells which.
        return False
    return True


def rows_of(options: WriteOptions, query: DataFrame | None = None) -> EngineRows:
    """Return what the session knows of the rows of a query.

    Args:
        options: of the write, with the digest of a stream's batch if there is one.
        query: the rows, if the version of the table that they read is found before the work.
    """

    def version(txn: TransactionSnapshot) -> int | None:
        return None if query is None else version_read(txn.store, txn.view, query)

    return EngineRows(digest=options.digest, version_read=version)


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
    """Carry out a statement in one commit. If it fails, its files go, whoever wrote them.

    Args:
        context: the table.
        spark: the session.
        name: of the operation.
        stage: does the work on the pinned version, in Spark.
        options: of the commit.
        rows: what is known of the rows that it takes; None: it takes none, so its text tells it
            from others (CFL-7).
        text: all of the statement's text but its name; raises for what is refused before any work.
        refresh: as of `autocommit`.

    Raises:
        IdempotenceError: CFL-7. What `stage` and `text` raise, among them Spark's own exceptions.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError: only the last one
            leaves files.
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


def with_query(staged: Staged, txn: TransactionSnapshot) -> Staged:
    """Return the work of a statement whose query read the table at the pinned version: class
    UPDATE.
    """
    return staged if staged.is_empty else with_reads(staged, (read_of_all(txn),), txn)
