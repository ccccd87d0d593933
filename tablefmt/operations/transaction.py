"""Transaction: reads of one version, several appends or one other operation, and one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tablefmt.commit.transaction_plan import Staged, check_age
from tablefmt.data.clustering_order import Curve
from tablefmt.data.selection import Condition
from tablefmt.data.sql_evaluation import MEMORY_BYTES
from tablefmt.errors import (
    CommitUnknownError,
    InvalidArgumentError,
    InvalidRangeError,
    TablefmtError,
    TransactionStateError,
)
from tablefmt.expressions.merge_statement import MergeStatement
from tablefmt.expressions.set_assignments import Expression
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.argument_names import check_method_names
from tablefmt.model.log_entry import OperationClass
from tablefmt.model.times import Time
from tablefmt.operations.alter import Alter, alter_statement
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.append import append_files, append_statement
from tablefmt.operations.cluster import Cluster, cluster_statement, order_here
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.operations.compact_plan import Kind
from tablefmt.operations.delete import delete_statement
from tablefmt.operations.merge import explain_merge, merge_statement
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.operations.overwrite import overwrite_statement, truncate_statement
from tablefmt.operations.restore import restore_statement
from tablefmt.operations.update import update_statement
from tablefmt.session.commit_options import CommitKeywords, CommitOptions, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import with_reads
from tablefmt.session.rebase_reasons import CommitReport, commit_report
from tablefmt.session.staging import OpenTransaction, commit_staged
from tablefmt.session.statement import Content, Stage, Statement
from tablefmt.session.statement_scope import analyzed_condition
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.store.clocks import seconds_between

if TYPE_CHECKING:
    from typing_extensions import Unpack


_COMMITTED, _ABORTED, _REJECTED, _UNKNOWN = "committed", "aborted", "rejected", "unknown"


def _number(context: TableContext, read_version: int | str) -> int:
    if isinstance(read_version, str):
        return context.version_of(read_version)
    version = whole_number(read_version)
    if version is None:
        raise InvalidRangeError(f"read_version {read_version!r:.100} is not a whole number")
    return version


@check_method_names
class Transaction:
    """Work on one version of a table that becomes one commit, or nothing.

    Methods write data files when they are called. Nothing is in the table before `commit`, which
    judges all commits since the read version (CFL-1). Do not share a transaction between threads.
    As a context manager it commits at the end, and aborts if the block raises.

    Methods raise TransactionStateError after the end, and if the transaction holds another
    operation already. A method that fails keeps the earlier staged work.
    """

    def __init__(self, context: TableContext, read_version: int | str | None = None) -> None:
        measured = context.measure()
        head = context.begin()
        version = head.version if read_version is None else _number(context, read_version)
        context.view.check_version(version)
        self._context = context
        self._work = OpenTransaction(context, context.pin(version, measured=measured))
        self._ended: str | None = None
        """The end of the transaction, in a word. None: it is open."""
        self._contested: int | None = None
        """The version that an unknown outcome names."""
        self._options = CommitOptions()
        """The options of `commit`, once it was called."""
        self.commit_result: Commit | None = None
        """The result of `commit`."""

    def __repr__(self) -> str:
        staged = self._work.staged
        what = "nothing" if staged is None else staged.operation.name
        return (
            f"Transaction({self._context.store.uri!r}, read_version={self.read_version}, "
            f"staged={what!r}, {self._ended or 'open'})"
        )

    @property
    def read_version(self) -> int:
        """The version that is read. Commits after it are judged as concurrent."""
        return self._work.txn.version

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        limit: int | None = None,
    ) -> Scan:
        """Read the version of the transaction, without its staged work.

        It is part of the read set: concurrent changes of rows that match the condition conflict
        (CFL-8, CFL-10).

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
        """Stage rows to append, columns by name. May be called several times.

        Raises:
            SchemaMismatchError, ConstraintViolationError, UnsupportedFeatureError: as
                `Table.append`.
            CommitRejectedError: the store refused a file.
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
        """Stage rows that replace others. Arguments and errors as in `Table.overwrite`.

        In a transaction that scans, it removes the rows of the read version. The conflict rules
        then see an UPDATE (CFL-3).
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
        """Stage the removal of rows. Raises as `Table.truncate`, except for the commit."""
        return self._execute_alone(truncate_statement(where))

    def restore(
        self, version: int | str | None = None, *, timestamp: Time | None = None
    ) -> Transaction:
        """Stage the restore of an older version. Raises as `Table.restore`, except for the
        commit."""
        return self._execute_alone(restore_statement(version, timestamp))

    def delete(self, where: Condition = None) -> Transaction:
        """Stage a delete at the read version. Raises as `Table.delete`, except for the commit."""
        return self._execute_alone(delete_statement(where))

    def update(self, set: Mapping[str, Expression], where: Condition = None) -> Transaction:
        """Stage an update of the read version. Raises as `Table.update`, except for the commit."""
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
        """Return a MERGE. Its `execute` reads the source and stages the work. See `Table.merge`.

        `execute` takes no options of the commit here (InvalidArgumentError). Pass them to `commit`.
        """

        def staged(statement: MergeStatement, options: CommitKeywords) -> Transaction:
            _refuse_keywords(options)
            return self._execute_alone(merge_statement(source, statement, memory_limit))

        def explained(statement: MergeStatement) -> str:
            self._check_open()
            return explain_merge(self._work.txn, source, statement, memory_limit)

        return begin_merge(source, on, source_alias, target_alias, merge_schema, staged, explained)

    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
    ) -> Transaction:
        """Stage a compaction of the read version. Arguments and errors as in `Table.compact`."""
        asked = Compaction(kind=kind, where=where, target_file_size=target_file_size)
        return self._execute_alone(compact_statement(asked, rewrite_here()))

    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: Condition = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
    ) -> Transaction:
        """Stage a clustering of the read version. Arguments and errors as in `Table.cluster`."""
        asked = Cluster(by=by, curve=curve, where=where, target_file_size=target_file_size)
        return self._execute_alone(cluster_statement(asked, order_here()))

    @property
    def alter(self) -> Alter[Transaction]:
        """Methods to stage a change of schema, properties or constraints, as those of
        `Table.alter`.

        They take no options of the commit here (InvalidArgumentError).
        """

        def staged(alteration: Alteration, options: CommitKeywords) -> Transaction:
            _refuse_keywords(options)
            return self._execute_alone(alter_statement(alteration))

        return Alter(staged)

    def stage(self, stage: Stage) -> Transaction:
        """Stage an operation that has no method here.

        Args:
            stage: does the work on the transaction snapshot.
        """
        self._check_empty()
        self._work.stage(stage)
        return self

    def commit(self, **keywords: Unpack[CommitKeywords]) -> Commit:
        """Commit the staged work in one version. The transaction ends, also on failure.

        Commit nothing if there are neither changes nor an application version.

        Args:
            keywords: application=(id, version), user_metadata={}, deadline=seconds.

        Raises:
            TransactionStateError: it has ended.
            IdempotenceError: CFL-7.
            CommitRejectedError: the store refused it, time ran out, or the transaction is older
                than half the file retention. The files are removed.
            ConcurrentModificationException: it conflicts with a concurrent commit. The files are
                removed.
            CommitUnknownError: it may be in the table. The files are kept.
        """
        checked = self._options = commit_options(keywords)
        self._check_open()
        staged, work = self._whole(), self._work
        files, measured = work.txn.files, work.txn.measured
        self._ended = _REJECTED
        with files.discarded_on_failure():
            self._check_age()
            applied = self._applied(checked, work.digest, staged.operation.name)
        if applied is not None:
            files.discard()
        self._ended = _UNKNOWN
        try:
            self.commit_result = applied or commit_staged(
                self._context, staged, checked, work.digest, alone=False, measured=measured
            )
        except CommitUnknownError as unknown:
            self._contested = unknown.version
            raise
        except TablefmtError:
            self._ended = _REJECTED
            raise
        self._ended = _COMMITTED
        return self.commit_result

    def why(self) -> CommitReport:
        """Return the verdict on each commit since the read version, and the rule that decided.

        Nothing is written. Call it before `commit`, or after a conflict. It judges by the rules of
        the commit itself (CFL-1).

        Raises:
            VersionNotFoundError: the read version has expired.
            CorruptTableError, StoreError: the log cannot be read.
        """
        return commit_report(self._context, self._whole(), self._options, self._work.digest)

    def abort(self) -> None:
        """Abort the transaction and remove its files.

        Raises:
            TransactionStateError: it has ended.
        """
        self._check_open()
        self._ended = _ABORTED
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
        """Stage a statement that must be the only operation."""
        self._check_empty()
        return self._execute(statement)

    def _execute(self, statement: Statement) -> Transaction:
        text = (statement.name, *statement.text(self._work.txn.metadata))
        content = Content(statement.rows(self._work.txn.target.schema), text)
        self._work.execute(statement, content.rows, content)
        return self

    def _check_open(self) -> None:
        if self._ended is None:
            return
        if self._ended != _UNKNOWN:
            raise TransactionStateError(
                f"the transaction was {self._ended}; begin another with table.transaction()"
            )
        version = "" if self._contested is None else f", {self._contested}"
        raise TransactionStateError(
            "the outcome of the transaction is unknown; call "
            f'resolve("{self._work.txn.transaction}"{version}) before you write its rows again'
        )

    def _check_empty(self) -> None:
        self._check_open()
        if self._work.staged is not None:
            raise _full(self._work.staged)

    def _check_age(self) -> None:
        """Check the age by every clock, because one of them may stop while a machine sleeps
        (RET-6)."""
        now = self._context.environment.moment(self._context.store)
        txn = self._work.txn
        check_age(seconds_between(txn.measured.began, now), txn.metadata)

    def _applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """Return the commit that applied the application version by the read version.

        Later commits are judged as concurrent.
        """
        if options.application is None:
            return None
        last = self._context.view.head.applications.get(options.application[0])
        if last is None or last[1] > self.read_version:
            return None
        return self._context.applied(options, digest, name)

    def _whole(self) -> Staged:
        """Return everything that was staged and read."""
        work, txn = self._work, self._work.txn
        staged = work.staged or append_files(
            txn.transaction, None, txn.metadata, read_version=txn.version
        )
        return with_reads(staged, work.reads, txn) if work.reads else staged


def _full(staged: Staged) -> TransactionStateError:
    return TransactionStateError(
        f"the transaction holds {staged.operation.name} already. It can hold several appends, or "
        "one other operation. Commit it, and begin another."
    )


def _refuse_keywords(options: CommitKeywords) -> None:
    """Refuse options of the commit. Raises InvalidArgumentError."""
    if options:
        raise InvalidArgumentError(
            f"unexpected argument {', '.join(sorted(options))}: pass it to commit()"
        )
