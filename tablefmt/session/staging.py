"""Path of a statement to a commit: check if it was applied, do its work, commit the result.

A single statement and a statement of a `Transaction` share this path. It is staged on a transaction
snapshot. The staged work becomes one plan when it is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.commit.restore_plan import restores_nothing
from tablefmt.commit.transaction_plan import Plan, Staged, check_age, pending_of
from tablefmt.conflict.conflict_check import RUN_AGAIN
from tablefmt.conflict.read_write_sets import Read
from tablefmt.errors import (
    ConcurrentModificationException,
    ConcurrentTransactionException,
    UnsupportedFeatureError,
)
from tablefmt.expressions.generated_columns import features_for
from tablefmt.model.content_hashes import without_run
from tablefmt.model.log_entry import (
    AddedFiles,
    DerivedFrom,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.properties import DECISIVE, get_property, transaction_seconds
from tablefmt.session.commit_options import CommitOptions, application_of
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import (
    check_unchanged,
    own_scan,
    read_of,
    read_of_all,
    with_reads,
)
from tablefmt.session.measurements import Measured
from tablefmt.session.statement import (
    Begun,
    Content,
    EngineRows,
    Stage,
    Statement,
    digest_of,
    digest_of_all,
)
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import explain_given_up_version
from tablefmt.session.transaction_snapshot import (
    OtherVersionRead,
    TransactionFiles,
    TransactionSnapshot,
    shared_key_among,
)
from tablefmt.snapshot.cursors import position
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.log_view import cursors_at
from tablefmt.store.clocks import Moment, seconds_between
from tablefmt.telemetry import log_event, span

ATTEMPTS = 16
"""Most attempts of `commit_with_retries`, the first one included."""

NO_OPTIONS = CommitOptions()

logger = logging.getLogger(__name__)


class OpenTransaction:
    """One transaction snapshot, with the work that statements staged on it and their reads."""

    def __init__(self, context: TableContext, txn: TransactionSnapshot) -> None:
        self.context = context
        self.txn = txn
        self.staged: Staged | None = None
        self.reads: list[Read] = []
        """Reads by scans and sources, besides those in `staged`."""
        self._digests: list[str | None] = []

    @property
    def digest(self) -> str | None:
        """Return the digest of all statements' content; None if one is unknown."""
        return digest_of_all(self._digests)

    def execute(self, statement: Statement, rows: Any, content: Content | None) -> None:
        """Do the work of a statement, and stage the result. A failure keeps the previously staged
        work.

        Args:
            statement: its result includes the work that is staged already.
            rows: its input rows.
            content: its rows and text, if the digest is needed.

        Raises:
            OtherVersionRead: a query of an engine reads another version of the table.
            ConcurrentModificationException: the source is a scan of another version of the table,
                and the difference matters (CFL-8).
            CommitRejectedError: the store refused a file.
            Any error of `statement.stage`.
        """
        own = own_scan(self.context.view, statement.source)
        reads = [] if own is None else [read_of(own, self.txn)]
        self.txn.files_of = statement.files_of
        self.stage(lambda txn: statement.stage(txn, rows))
        self.reads += reads
        self._digests.append(None if content is None else content.digest())

    def stage(self, stage: Stage) -> None:
        """Stage work without a known digest. Raises as `execute`."""
        given_up = explain_given_up_version(self.context.store, self.txn.version)
        with given_up, self.txn.staging():
            self.staged = stage(self.txn)


def autocommit(
    context: TableContext,
    statement: Statement,
    options: CommitOptions,
    *,
    refresh: bool = True,
    begun: Begun | None = None,
) -> Commit:
    """Run a statement in its own transaction and commit it. Every engine commits through this
    function.

    Args:
        context: the table.
        statement: the work. If its source is a scan or query of the table, the transaction uses the
            version that the source reads.
        options: of the commit.
        refresh: begin from the newest version in the store, not from the newest known one.
        begun: the transaction, if its files exist already. They are removed on any failure.

    Raises:
        IdempotenceError: CFL-7.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError: of the commit.
        Any error of the statement. Its files are removed.
    """
    with span("statement", context.store.uri, operation=statement.name) as add_fields:
        if begun is not None:
            commit = _commit_begun(context, statement, options, begun)
        else:
            commit = _run(context, statement, options, refresh)
        add_fields(version=commit.version, no_op=commit.no_op)
    return commit


def _run(
    context: TableContext, statement: Statement, options: CommitOptions, refresh: bool
) -> Commit:
    """Run a statement on the version that its source reads. Raises as `autocommit`."""
    measured = context.measure()
    head = context.begin(refresh=refresh)
    own = own_scan(context.view, statement.source)
    version = head.version if own is None else own.version
    while True:
        txn = context.pin(version, measured=measured, shared_folder=context.shared_folders.open)
        try:
            return _commit_on(context, statement, options, txn)
        except OtherVersionRead as other:
            version = other.version
            if version > context.view.head.version:
                context.view.refresh()


def newest(context: TableContext) -> Head:
    """Return the newest head, after the checks of a write. It starts no statement.

    It is for callers that only need the schema.

    Raises:
        As `TableContext.begin`.
    """
    return context.begin()


def newest_snapshot(context: TableContext) -> TransactionSnapshot:
    """Return a snapshot of the newest version with its files. Raises as `newest`."""
    return context.pin(newest(context).version)


def _commit_begun(
    context: TableContext, statement: Statement, options: CommitOptions, begun: Begun
) -> Commit:
    """Commit a statement whose files were written before.

    Since then the table may have been created, or the same work applied. As after a lost race, the
    whole digest is compared.
    """
    files = TransactionFiles(context.store, begun.transaction)
    with files.discarded_on_failure():
        txn = context.pin(begun.version, measured=begun.measured, transaction=begun.transaction)
        text = (statement.name, *statement.text(txn.metadata))
        content = Content(None, text, statement.engine)
        already = context.applied(options, content.digest(), statement.name)
    if already is not None:
        files.discard()
        return already
    transaction = OpenTransaction(context, txn)
    transaction.execute(statement, None, content)
    assert transaction.staged is not None
    since = begun.began if begun.measured is None else begun.measured.began
    return commit_staged(
        context,
        transaction.staged,
        options,
        transaction.digest,
        measured=begun.measured,
        began=since,
    )


def _commit_on(
    context: TableContext,
    statement: Statement,
    options: CommitOptions,
    txn: TransactionSnapshot,
) -> Commit:
    """Run a statement on a transaction snapshot. Raises as `autocommit`, and OtherVersionRead."""
    engine = statement.engine
    text = (statement.name, *statement.text(txn.metadata))
    rows, content = statement.rows(txn.target.schema), None
    if options.application is not None:
        already = applied_before(context, options, rows, text, engine)
        if already is not None:
            return already
        content = Content(rows, text, engine)
        rows = content.rows
    versions = () if engine is None else engine.versions_read(txn)
    if versions:
        if versions[0] != txn.version:
            raise OtherVersionRead(versions[0], wrote=False)
        check_unchanged(txn, versions[-1])
    transaction = OpenTransaction(context, txn)
    transaction.execute(statement, rows, content)
    staged = transaction.staged
    assert staged is not None
    if not staged.is_empty and (transaction.reads or versions):
        with _discarded_on_failure(context, staged):
            reads = [read_of_all(txn)] if versions else transaction.reads
            staged = with_reads(staged, reads, txn)
    return commit_staged(context, staged, options, transaction.digest, measured=txn.measured)


def applied_before(
    context: TableContext,
    options: CommitOptions,
    rows: pa.RecordBatchReader | None,
    text: tuple[str, ...],
    engine: EngineRows | None = None,
) -> Commit | None:
    """Return the commit that already has a statement's application version, if there is one.

    Args:
        context: the table, ready to write (`begin`).
        options: of the commit, with an application version.
        rows: input rows of the statement. They are read here only if the version is the last one
            applied, to compare the content.
        text: name of the statement, and the rest of its text.
        engine: the rows of an engine, if the statement takes them.

    Raises:
        IdempotenceError: CFL-7.
    """
    if engine is not None:
        # Another run of a streaming query may repeat a batch (STR-12).
        return context.applied(options, without_run(engine.digest), text[0])
    if rows is None:
        return context.applied(options, digest_of(None, *text), text[0])
    already = context.applied(options, None, text[0])
    if already is not None and options.application is not None:
        last = context.view.head.applications[options.application[0]][0]
        if last.version == options.application[1] and last.digest is not None:
            context.applied(options, digest_of(rows, *text), text[0])
    return already


def _check_features(context: TableContext, staged: Staged) -> None:
    """Refuse metadata with features that no entry brought (VER-4).

    Raises:
        UnsupportedFeatureError: names them.
    """
    known = staged.protocol or context.view.head.protocol
    lacking = None if staged.metadata is None else features_for(staged.metadata, known)
    if lacking is not None:
        names = sorted({*lacking.reader, *lacking.writer} - {*known.reader, *known.writer})
        raise UnsupportedFeatureError(
            f"the table lacks the feature {', '.join(names)}, which its new definition needs, and "
            "this statement cannot add it. Overwrite the table outside of a transaction, with "
            "table.overwrite(…, overwrite_schema=True, partition_by=…) or CREATE OR REPLACE TABLE",
            names,
        )


def commit_staged(
    context: TableContext,
    staged: Staged,
    options: CommitOptions,
    digest: str | None = None,
    *,
    alone: bool = True,
    measured: Measured | None = None,
    began: Moment | None = None,
) -> Commit:
    """Commit staged work. Without changes, commit only an application version or a cursor.

    Args:
        context: the table.
        staged: the work. Its files exist already under the transaction's folder.
        options: of the commit.
        digest: of the content, if known.
        alone: the statement is its own transaction. A blind append may then be rebased onto new
            metadata that its files fit (CFL-5).
        measured: measurement of the whole operation; None: the commit has no times.
        began: start of the operation, if it is not in `measured`; None: its age is not checked.

    Raises:
        CommitRejectedError, ConcurrentModificationException: the files are removed.
        CommitUnknownError: the files are kept.
    """
    floating = alone and staged.blind and staged.metadata is None
    with _discarded_on_failure(context, staged):
        _check_features(context, staged)
        since = began if measured is None else measured.began
        if since is not None and staged.written_under is not None:
            now = context.environment.moment(context.store)
            check_age(seconds_between(since, now), staged.written_under)
        if options.derived_from is not None:
            check_cursor(context, staged, options.derived_from)
        if not options.is_recorded and (staged.is_empty or _replaces_nothing(context, staged)):
            return context.no_op(staged.transaction, staged.operation.name)
        if measured is not None:
            staged = _with_metrics(staged, measured)
        plan = plan_of_staged(context, staged, options, digest, floating, since)
    return context.finish(plan, _deadline(options, staged))


def commit_with_retries(
    context: TableContext,
    stage: Callable[[Head, TransactionSnapshot], Staged | None],
    options: CommitOptions = NO_OPTIONS,
) -> Commit:
    """Commit work that does not depend on earlier reads. After a conflict, stage it again at once.

    It then starts from the newest version, which includes the commit that it conflicted with.

    Args:
        context: the table.
        stage: stages the work on a head, in a new transaction; None: there is nothing to do, and no
            version is made.
        options: of the commit.

    Raises:
        CommitRejectedError, CommitUnknownError: of the commit.
        ConcurrentModificationException: every attempt met a conflict.
        Any error of `stage`. Its files are removed.
    """
    attempt = 0
    while True:
        attempt += 1
        measured = context.measure()
        head = context.begin()
        txn = context.pin(head.version, measured=measured)
        with explain_given_up_version(context.store, txn.version), txn.staging():
            staged = stage(head, txn)
        if staged is None:
            return context.no_op(txn.transaction, "")
        try:
            return commit_staged(context, staged, options, measured=measured)
        except ConcurrentModificationException:
            if attempt == ATTEMPTS:
                raise
            log_event(
                logger,
                "retry",
                context.store.uri,
                operation=staged.operation.name,
                transaction=staged.transaction,
                attempt=attempt + 1,
            )


def require_features(
    context: TableContext, needed: Callable[[ProtocolFeatures], ProtocolFeatures]
) -> None:
    """Require readers and writers that know more features, by a commit of its own (VER-4).

    Args:
        context: the table.
        needed: returns all features for those that the table has. The same: there is no commit.

    Raises:
        Errors of `commit_with_retries`.
    """

    def stage(head: Head, txn: TransactionSnapshot) -> Staged | None:
        wanted = needed(head.protocol)
        if wanted == head.protocol:
            return None
        return Staged(
            transaction=txn.transaction,
            operation=Operation(name="UPGRADE PROTOCOL", cls=OperationClass.PROTOCOL),
            written_under=txn.metadata,
            read_version=txn.version,
            protocol=wanted,
        )

    commit_with_retries(context, stage)


def check_cursor(context: TableContext, staged: Staged, derived: DerivedFrom) -> None:
    """Refuse a batch range that another run committed already (CFL-24).

    This check comes before concurrent commits are judged, which are later.

    Raises:
        ConcurrentTransactionException: CFL-24.
    """
    assert staged.read_version is not None
    cursors = cursors_at(context.view, staged.read_version)
    if position(cursors, derived.key) == derived.start:
        return
    cursor = cursors.get(derived.key)
    at = staged.read_version if cursor is None else cursor.at
    (concurrent,) = context.view.entries_after(at - 1, at)
    raise ConcurrentTransactionException(
        "another run moved the cursor of this source",
        winner_version=at,
        winner_operation=concurrent.entry.operation.name,
        rule="CFL-24",
        evidence={"theirs": position(cursors, derived.key), "mine": derived.start},
        advice=RUN_AGAIN,
    )


def _deadline(options: CommitOptions, staged: Staged) -> float | None:
    """Return the seconds that the commit may take.

    Whatever the caller allows, it ends before a vacuum may remove the transaction's files as unused
    (RET-6).
    """
    if options.deadline is None or staged.written_under is None:
        return options.deadline
    return min(options.deadline, transaction_seconds(staged.written_under.properties) / 2)


@contextmanager
def _discarded_on_failure(context: TableContext, staged: Staged) -> Iterator[None]:
    """Remove the files if the context fails. Nothing was sent to the log, so the commit is not in
    it."""
    shared_key = shared_key_among(staged.add, staged.transaction)
    files = TransactionFiles(context.store, staged.transaction, shared_key=shared_key)
    with files.discarded_on_failure():
        yield


def plan_of_staged(
    context: TableContext,
    staged: Staged,
    options: CommitOptions,
    digest: str | None,
    floating: bool,
    began: Moment | None,
) -> Plan:
    """Return the complete transaction, except for its place in the log."""
    view = context.view
    read_under = staged.written_under or view.head.metadata
    settings = {name: get_property(read_under.properties, name) for name in DECISIVE}
    next_id = 1
    if staged.read_version is not None and not floating:
        next_id = view.totals_at(staged.read_version).next_id
    pending = pending_of(
        staged,
        floating=floating,
        granularity=settings["conflictGranularity"],
        isolation=settings["isolationLevel"],
        delete_mode=settings["deleteMode"],
        next_id=next_id,
        application=application_of(options, digest),
        derived_from=options.derived_from,
    )
    return Plan(
        staged=replace(staged, add=_added(context, staged)),
        pending=pending,
        began=began,
        user_metadata=dict(options.user_metadata),
    )


def _with_metrics(staged: Staged, measured: Measured) -> Staged:
    metrics = {**staged.operation.metrics, **measured.metrics()}
    return replace(staged, operation=replace(staged.operation, metrics=metrics))


def _added(context: TableContext, staged: Staged) -> AddedFiles | None:
    """Return the files, each with the metadata version that it was written under (ADD-9).

    Files of a commit with new metadata were written under that metadata.
    """
    added = staged.add
    if added is None or staged.metadata is not None or staged.read_version is None:
        return added
    under = context.view.metadata_version_at(staged.read_version)
    written = added.columns.get("written", [None] * len(added))
    versions = [under if version is None else version for version in written]
    return AddedFiles({**added.columns, "written": versions})


def _replaces_nothing(context: TableContext, staged: Staged) -> bool:
    """Return whether an OVERWRITE or RESTORE would change nothing at the newest version.

    An OVERWRITE qualifies if it adds and removes no rows and keeps the schema. Its removals, and
    the changes of a RESTORE, are decided at the commit (CFL-3, RET-1). The table is refreshed only
    if nothing is to be removed at the read version.
    """
    if (
        staged.operation.cls is not OperationClass.OVERWRITE
        or staged.add is not None
        or staged.metadata is not None
    ):
        return False
    view = context.view
    if staged.restoring is not None:
        view.refresh()
        head = view.read_head
        return restores_nothing(staged.restoring, head, view.snapshot(head.version))
    if staged.replacing is None:
        return False
    scope = staged.replacing.predicate
    if view.snapshot(staged.read_version).in_scope(scope).num_rows:
        return False
    view.refresh()
    # Under another schema the condition may mean something else, which the commit checks.
    same = view.head.metadata == staged.written_under
    return same and view.snapshot().in_scope(scope).num_rows == 0
