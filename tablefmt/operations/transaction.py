"""Transaction: one pinned version to read, several appends or one other operation, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tablefmt.commit.transaction_plan import Staged, check_age
from tablefmt.data.selection import Condition
from tablefmt.data.sql_evaluation import MEMORY_BYTES
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, TransactionStateError
from tablefmt.expressions.merge_statement import MergeStatement
from tablefmt.expressions.set_assignments import Expression
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.log_entry import OperationClass
from tablefmt.model.times import Time
from tablefmt.operations.alter import Alter, alter_statement
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.append import append_files, append_statement
from tablefmt.operations.cluster import Cluster, cluster_statement, order_here
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.operations.delete import delete_statement
from tablefmt.operations.merge import explain_merge, merge_statement
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.operations.overwrite import overwrite_statement, truncate_statement
from tablefmt.operations.restore import restore_statement
from tablefmt.operations.update import update_statement
from tablefmt.session.commit_options import CommitKeywords, CommitOptions, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import source_reader, with_reads
from tablefmt.session.staging import OpenTransaction, commit_staged
from tablefmt.session.statement import Content, Stage, Statement
from tablefmt.session.statement_scope import analyzed_condition
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.store.clocks import seconds_between

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Transaction:
    """Work on one version of a table that becomes one commit, or nothing.

    Data files are written when a verb is called; nothing is in the table before `commit`. What
    others committed since the pinned version is judged then (CFL-1). Not to be shared between
    threads. As a context manager it commits at the end of the block, and aborts if the block
    raises.

    Verbs raise TransactionStateError after the end, and where the transaction holds another
    operation already. One that fails leaves what was staged before.
    """

    def __init__(self, context: TableContext, read_version: int | None = None) -> None:
        measured = context.measure()
        head = context.begin()
        version = head.version if read_version is None else whole_number(read_version)
        if version is None:
            raise InvalidRangeError(f"version {read_version!r} is not a whole number")
        context.view.check_version(version)
        self._context = context
        self._work = OpenTransaction(context, context.pin(version, measured=measured))
        self._ended: str | None = None
        self.commit_result: Commit | None = None
        """What `commit` returned."""

    def __repr__(self) -> str:
        staged = self._work.staged
        what = "nothing" if staged is None else staged.operation.name
        return (
            f"Transaction({self._context.store.uri!r}, read_version={self.read_version}, "
            f"staged={what!r}, {self._ended or 'open'})"
        )

    @property
    def read_version(self) -> int:
        """The ID version that is read, and from which on winners are judged."""
        return self._work.txn.version

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        limit: int | None = None,
    ) -> Scan:
        """A read of the pinned version, without what the transaction stages. It counts as read:
        rows of the condition that come or go meanwhile are a conflict (CFL-8, CFL-10).

        Raises:
            InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: as `Table.scan`.
        """
        self._check_open()
        txn = self._work.txn
        scan = Scan(txn.store, txn.snapshot, columns=columns, where=where, limit=limit)
        condition = analyzed_condition(where, txn.metadata.schema)
        self._work.reads.append(condition.read(scan.survivors))
        return scan

    def append(self, data: Any, *, merge_schema: bool = False) -> Transaction:
        """Stage rows, columns by name; may be called several times.

        Raises:
            SchemaMismatchError, ConstraintViolationError, UnsupportedFeatureError: as
                `Table.append`.
            CommitRejectedError: the store refuses a file.
        """
        self._check_open()
        before = self._work.staged
        if before is not None and before.operation.cls is not OperationClass.INSERT:
            raise _full(before)
        return self._execute(append_statement(data, merge_schema=merge_schema, before=before))

    def overwrite(
        self,
        data: Any,
        where: Condition = None,
        *,
        dynamic_partitions: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | None = None,
    ) -> Transaction:
        """Stage rows in place of others. Arguments and errors as of `Table.overwrite`.

        In a transaction that scans, the rows that go are those of the pinned version: it is an
        UPDATE to the conflict rules (CFL-3).
        """
        statement = overwrite_statement(
            data,
            where=where,
            dynamic_partitions=dynamic_partitions,
            overwrite_schema=overwrite_schema,
            partition_by=partition_by,
        )
        return self._execute_alone(statement)

    def truncate(self, where: Condition = None) -> Transaction:
        """Stage an overwrite with nothing. Raises as `Table.truncate`."""
        return self._execute_alone(truncate_statement(where))

    def restore(self, version: int | None = None, *, timestamp: Time | None = None) -> Transaction:
        """Stage an older version as the next one. Raises as `Table.restore`, but for the commit."""
        return self._execute_alone(restore_statement(version, timestamp))

    def delete(self, where: Condition = None) -> Transaction:
        """Stage a delete at the pinned version. Raises as `Table.delete`, but for the commit."""
        return self._execute_alone(delete_statement(where))

    def update(self, set: Mapping[str, Expression], where: Condition = None) -> Transaction:
        """Stage an update of the pinned version. Raises as `Table.update`, but for the commit."""
        return self._execute_alone(update_statement(set, where))

    def merge(
        self,
        source: Any,
        on: Expression,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
        memory_limit: int = MEMORY_BYTES,
    ) -> MergeBuilder[Transaction]:
        """A MERGE; `execute` stages it, and reads the source then. See `Table.merge`.

        `execute` takes no arguments of the commit here (InvalidArgumentError): `commit` does.
        """

        def staged(statement: MergeStatement, options: CommitKeywords) -> Transaction:
            _refuse_keywords(options)
            return self._execute_alone(merge_statement(source, statement, memory_limit))

        def explained(statement: MergeStatement) -> str:
            self._check_open()
            txn = self._work.txn
            rows = source_reader(source, txn.target.schema)
            return explain_merge(txn, rows, statement, memory_limit)

        return begin_merge(source, on, source_alias, target_alias, merge_schema, staged, explained)

    def compact(
        self,
        kind: str = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
    ) -> Transaction:
        """Stage a compaction of the pinned version. Arguments and errors as of `Table.compact`."""
        asked = Compaction(kind=kind, where=where, target_file_size=target_file_size)
        return self._execute_alone(compact_statement(asked, rewrite_here()))

    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: Condition = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
    ) -> Transaction:
        """Stage a clustering of the pinned version. Arguments and errors as of `Table.cluster`."""
        asked = Cluster(by=by, curve=curve, where=where, target_file_size=target_file_size)
        return self._execute_alone(cluster_statement(asked, order_here()))

    @property
    def alter(self) -> Alter[Transaction]:
        """Stage a change of schema, properties or constraints: the verbs of `Table.alter`, which
        take no arguments of the commit here (InvalidArgumentError).
        """

        def staged(alteration: Alteration, options: CommitKeywords) -> Transaction:
            _refuse_keywords(options)
            return self._execute_alone(alter_statement(alteration))

        return Alter(staged)

    def stage(self, stage: Stage) -> Transaction:
        """Stage any one operation that is no verb.

        Args:
            stage: does its work on the pinned version.
        """
        self._check_empty()
        self._work.stage(stage)
        return self

    def commit(self, **options: Unpack[CommitKeywords]) -> Commit:
        """Bring what is staged into the table, in one version; the transaction ends, however.

        Nothing staged, or nothing to do, and no application version: no version is made.

        Args:
            options: application=(id, version), user_metadata={}, deadline=seconds.

        Raises:
            TransactionStateError: it was committed or aborted before.
            IdempotenceError: CFL-7. CommitRejectedError: the store refuses, time is up, or the
                transaction is older than half the retention of files. The files are removed.
            ConcurrentModificationException: a winner stands in the way; the files are removed.
            CommitUnknownError: it may be in the table; the files are kept.
        """
        checked = commit_options(options)
        self._check_open()
        staged, work = self._whole(), self._work
        self._ended = "committed"
        files, measured = work.txn.files, work.txn.measured
        with files.discarded_on_failure():
            self._check_age()
            applied = self._applied(checked, work.digest, staged.operation.name)
        if applied is not None:
            files.discard()
        self.commit_result = applied or commit_staged(
            self._context, staged, checked, work.digest, alone=False, measured=measured
        )
        return self.commit_result

    def abort(self) -> None:
        """Give up: the files written are removed.

        Raises:
            TransactionStateError: it was committed or aborted before.
        """
        self._check_open()
        self._ended = "aborted"
        self._work.txn.files.discard()

    def __enter__(self) -> Transaction:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended is not None:
            return
        if error is not None:
            self.abort()
        else:
            self.commit()

    def _execute_alone(self, statement: Statement) -> Transaction:
        """Stage what has to be the only operation."""
        self._check_empty()
        return self._execute(statement)

    def _execute(self, statement: Statement) -> Transaction:
        text = (statement.name, *statement.text(self._work.txn.metadata))
        content = Content(statement.rows(self._work.txn.target.schema), text)
        self._work.execute(statement, content.rows, content)
        return self

    def _check_open(self) -> None:
        if self._ended is not None:
            raise TransactionStateError(
                f"the transaction was {self._ended}; begin another with table.transaction()"
            )

    def _check_empty(self) -> None:
        self._check_open()
        if self._work.staged is not None:
            raise _full(self._work.staged)

    def _check_age(self) -> None:
        """By every clock: one of them may stand still while a machine sleeps (RET-6)."""
        now = self._context.environment.moment(self._context.store)
        txn = self._work.txn
        check_age(seconds_between(txn.measured.began, now), txn.metadata)

    def _applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """What was applied at the pinned version; what came later is judged as a winner."""
        if options.application is None:
            return None
        last = self._context.view.head.applications.get(options.application[0])
        if last is None or last[1] > self.read_version:
            return None
        return self._context.applied(options, digest, name)

    def _whole(self) -> Staged:
        """All that was staged and read."""
        work, txn = self._work, self._work.txn
        staged = work.staged or append_files(
            txn.transaction, None, txn.metadata, read_version=txn.version
        )
        return with_reads(staged, work.reads, txn) if work.reads else staged


def _full(staged: Staged) -> TransactionStateError:
    return TransactionStateError(
        f"the transaction holds {staged.operation.name} already: several appends, or one other "
        "operation, are what it can hold. Commit it, and begin another."
    )


def _refuse_keywords(options: CommitKeywords) -> None:
    """Raises InvalidArgumentError for any: they are the commit's."""
    if options:
        raise InvalidArgumentError(f"{', '.join(sorted(options))}: give it to commit()")
