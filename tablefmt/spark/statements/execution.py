"""How a statement of Spark becomes a commit: by the session's one door, as every other statement.

Nothing in `tablefmt.spark` begins, pins or commits a transaction by itself (tests/architecture).
"""

from __future__ import annotations

from collections.abc import Callable

from tablefmt.model.entry import Metadata
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.files import TransactionFiles
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import EngineRows, Stage, Statement
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.backends.query_versions import version_read
from tablefmt.spark.options import WriteOptions
from tablefmt.spark.runtime.frames import DataFrame, Session


def rows_of(options: WriteOptions, query: DataFrame | None = None) -> EngineRows:
    """Return what the session knows of the rows of a query.

    Args:
        options: of the write, with the digest of a stream's batch if there is one.
        query: the rows, if the version of the table that they read is found before the work.
    """

    def version(pinned: TransactionSnapshot) -> int | None:
        return None if query is None else version_read(pinned.store, pinned.view, query)

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

    def files_of(pinned: TransactionSnapshot) -> TransactionFiles:
        return backend_for(spark, pinned.store).files_of(pinned.transaction)

    statement = Statement(
        name=name,
        stage=lambda pinned, _: stage(pinned),
        text=text,
        engine=rows,
        files_of=files_of,
    )
    return autocommit(context, statement, options.commit, refresh=refresh)
