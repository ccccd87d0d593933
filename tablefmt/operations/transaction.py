"""Transaction: one pinned version to read, several appends or one other operation, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Read
from tablefmt.data.engine import MEMORY_BYTES
from tablefmt.data.selection import Condition
from tablefmt.data.tabular import incoming_schema
from tablefmt.errors import (
    CommitRejectedError,
    InvalidRangeError,
    TransactionStateError,
)
from tablefmt.expressions.assignments import Expression
from tablefmt.expressions.clauses import MergeStatement
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.entry import OperationClass
from tablefmt.model.integers import whole_number
from tablefmt.model.properties import duration_seconds
from tablefmt.operations.alter import Alter, stage_alter
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.append import NAME as APPEND
from tablefmt.operations.append import append_plan
from tablefmt.operations.delete import stage_delete
from tablefmt.operations.merge import explain_merge, stage_merge
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.operations.overwrite import (
    check_replaces_all,
    has_nothing_to_do,
    overwrite_plan,
    statement_fingerprint,
)
from tablefmt.operations.replace import needs_rows, stage_replace
from tablefmt.operations.update import stage_set
from tablefmt.operations.update import statement_fingerprint as said_of_set
from tablefmt.session.condition import analyzed_condition
from tablefmt.session.context import (
    Commit,
    CommitOptions,
    TableContext,
    commit_options,
    discard,
)
from tablefmt.session.fingerprint import ContentDigest, digest_of, digest_of_all
from tablefmt.session.merge_analysis import statement_fingerprint as said_of_merge
from tablefmt.session.metadata_changes import merged, rebound, replaced
from tablefmt.session.scan import Scan
from tablefmt.session.snapshot import TransactionSnapshot, joined
from tablefmt.session.source import own_scan, read_of, source_reader, with_reads
from tablefmt.session.staging import Stage, commit_plan, with_metadata


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
        head = context.begin()
        version = head.version if read_version is None else whole_number(read_version)
        if version is None:
            raise InvalidRangeError(f"version {read_version!r} is not a whole number")
        context.view.timeline.check_version(version)
        self._context = context
        self._pinned = context.pin(version)
        # Others may begin in this thread before this one ends.
        context.measured = None
        self._started = (context.environment.monotonic(), context.environment.now_us())
        self._plan: Plan | None = None
        self._reads: list[Read] = []
        self._digests: list[str | None] = []
        self._ended: str | None = None
        self.receipt: Commit | None = None
        """What `commit` returned."""

    def __repr__(self) -> str:
        what = "nothing" if self._plan is None else self._plan.operation.name
        return (
            f"Transaction({self._context.store.uri!r}, read_version={self.read_version}, "
            f"staged={what!r}, {self._ended or 'open'})"
        )

    @property
    def read_version(self) -> int:
        """The ID version that is read, and from which on winners are judged."""
        return self._pinned.version

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
        pinned = self._pinned
        scan = Scan(pinned.store, pinned.snapshot, columns=columns, where=where, limit=limit)
        self._reads.append(analyzed_condition(where, pinned.metadata.schema).read(scan.survivors))
        return scan

    def append(self, data: Any, *, merge_schema: bool = False) -> Transaction:
        """Stage rows, columns by name; may be called several times.

        Raises:
            SchemaMismatchError, ConstraintViolationError, UnsupportedFeatureError: as
                `Table.append`.
            CommitRejectedError: the store refuses a file.
        """
        self._check_open()
        before = self._plan
        if before is not None and before.operation.cls is not OperationClass.INSERT:
            raise self._full(before)
        pinned, content = self._pinned, ContentDigest()
        schema = pinned.target.schema
        with pinned.staging():
            reads = self._reads_of(data)
            reader = source_reader(data)
            if merge_schema:
                pinned.target = merged(pinned.target, incoming_schema(reader.schema, schema))
            added = pinned.write(content.through(reader))
        earlier = None if before is None else before.add
        if earlier is not None:
            earlier = rebound(earlier, schema, pinned.target.schema)
        self._plan = append_plan(
            pinned.transaction,
            joined([earlier, added]),
            pinned.metadata,
            read_version=pinned.version,
            evolved=pinned.target,
        )
        self._staged(reads, content.of(APPEND))
        return self

    def overwrite(
        self,
        data: Any,
        *,
        where: Condition = None,
        dynamic_partitions: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | None = None,
    ) -> Transaction:
        """Stage rows in place of others. Arguments and errors as of `Table.overwrite`.

        In a transaction that scans, the rows that go are those of the pinned version: it is an
        UPDATE to the conflict rules (CFL-3).
        """
        check_replaces_all(overwrite_schema, where, dynamic_partitions, partition_by)
        return self._overwrite(data, where, dynamic_partitions, overwrite_schema, partition_by)

    def truncate(self, where: Condition = None) -> Transaction:
        """Stage an overwrite with nothing. Raises as `Table.truncate`."""
        return self._overwrite(None, where, False)

    def delete(self, where: Condition = None) -> Transaction:
        """Stage a delete at the pinned version. Raises as `Table.delete`, but for the commit."""
        text = analyzed_condition(where, self._pinned.metadata.schema).text
        return self.stage(lambda pinned: stage_delete(pinned, where), ("DELETE", text))

    def update(self, set: Mapping[str, Expression], where: Condition = None) -> Transaction:
        """Stage an update of the pinned version. Raises as `Table.update`, but for the commit."""
        text = analyzed_condition(where, self._pinned.metadata.schema).text
        said = ("UPDATE", text, *said_of_set(set))
        return self.stage(lambda pinned: stage_set(pinned, set, where), said)

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

        `execute` takes no arguments of the commit here (InvalidRangeError): `commit` does.
        """

        def staged(statement: MergeStatement, commit: Mapping[str, Any]) -> Transaction:
            if commit:
                raise InvalidRangeError("in a transaction these are arguments of its commit()")
            return self._merge(source, statement, memory_limit)

        def explained(statement: MergeStatement) -> str:
            self._check_open()
            return explain_merge(self._pinned, source_reader(source), statement, memory_limit)

        return begin_merge(on, source_alias, target_alias, merge_schema, staged, explained)

    def _merge(self, source: Any, statement: MergeStatement, memory_limit: int) -> Transaction:
        content = ContentDigest()

        def stage(pinned: TransactionSnapshot) -> Plan:
            reader = content.through(source_reader(source))
            return stage_merge(pinned, reader, statement, memory_limit)

        reads = self._reads_of(source)
        self.stage(stage)
        self._staged(reads, content.of(*said_of_merge(statement)))
        return self

    @property
    def alter(self) -> Alter[Transaction]:
        """Stage a change of schema, properties or constraints: the verbs of `Table.alter`, which
        take no arguments of the commit here (InvalidRangeError).
        """
        return Alter(self._alter)

    def stage(self, stage: Stage, said: tuple[str, ...] | None = None) -> Transaction:
        """Stage any one operation: what the verbs other than `append` are made of.

        Args:
            stage: does its work on the pinned version.
            said: the statement's text, if that is all of its content.
        """
        self._check_empty()
        with self._pinned.staging():
            self._plan = with_metadata(stage(self._pinned), self._pinned)
        if said is not None:
            self._staged((), digest_of(None, *said))
        return self

    def commit(self, **commit: Any) -> Commit:
        """Bring what is staged into the table, in one version; the transaction ends, however.

        Nothing staged, or nothing to do, and no application version: no version is made.

        Args:
            commit: application=(id, version), user_metadata={}, deadline=seconds.

        Raises:
            TransactionStateError: it was committed or aborted before.
            IdempotenceError: CFL-7. CommitRejectedError: the store refuses, time is up, or the
                transaction is older than half the retention of files. The files are removed.
            ConcurrentModificationException: a winner stands in the way; the files are removed.
            CommitUnknownError: it may be in the table; the files are kept.
        """
        options = commit_options(commit)
        self._check_open()
        plan, digest = self._whole(options.application is not None), digest_of_all(self._digests)
        self._ended = "committed"
        self._context.measured = self._pinned.measured
        try:
            self._check_age()
            applied = self._applied(options, digest, plan.operation.name)
        except Exception:
            discard(self._context.store, plan.transaction)
            raise
        if applied is not None:
            discard(self._context.store, plan.transaction)
        self.receipt = applied or commit_plan(self._context, plan, options, digest)
        return self.receipt

    def abort(self) -> None:
        """Give up: the files written are removed.

        Raises:
            TransactionStateError: it was committed or aborted before.
        """
        self._check_open()
        self._ended = "aborted"
        discard(self._context.store, self._pinned.transaction)

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

    def _overwrite(
        self,
        data: Any,
        where: Condition,
        dynamic_partitions: bool,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | None = None,
    ) -> Transaction:
        self._check_empty()
        pinned, content = self._pinned, ContentDigest()
        name = "TRUNCATE" if data is None else "OVERWRITE"
        if not dynamic_partitions and needs_rows(where, pinned.metadata):
            return self._replace(data, where, name)
        said = statement_fingerprint(where, pinned.metadata, dynamic_partitions, name)
        with pinned.staging():
            added, reads = None, self._reads_of(data)
            if data is not None:
                reader = source_reader(data)
                if overwrite_schema:
                    columns = from_arrow(reader.schema)
                    pinned.target = replaced(pinned.metadata, columns, partition_by)
                added = pinned.write(content.through(reader))
            self._plan = overwrite_plan(
                pinned.transaction,
                added,
                pinned.metadata,
                read_version=pinned.version,
                where=where,
                dynamic_partitions=dynamic_partitions,
                name=name,
                evolved=pinned.target,
            )
        self._staged(reads, content.of(*said))
        return self

    def _replace(self, data: Any, where: Condition, name: str) -> Transaction:
        content = ContentDigest()
        text = analyzed_condition(where, self._pinned.metadata.schema).text

        def stage(pinned: TransactionSnapshot) -> Plan:
            reader = None if data is None else content.through(source_reader(data))
            return stage_replace(pinned, reader, where, name)

        reads = self._reads_of(data)
        self.stage(stage)
        self._staged(reads, content.of(name, text))
        return self

    def _alter(self, alteration: Alteration, commit: Mapping[str, Any]) -> Transaction:
        if commit:
            raise InvalidRangeError(f"{', '.join(sorted(commit))}: give it to commit()")
        return self.stage(lambda pinned: stage_alter(pinned, alteration), alteration.said)

    def _reads_of(self, source: Any) -> tuple[Read, ...]:
        """What a source is, to the conflict rules, that is a scan of this table (CFL-22).

        Raises:
            ConcurrentModificationException: it is of another version, which makes a difference.
        """
        self._check_open()
        own = own_scan(self._context.view, source)
        return () if own is None else (read_of(own, self._pinned),)

    def _staged(self, reads: Sequence[Read], digest: str) -> None:
        """Note what the verb that has just been staged read, and its content."""
        self._reads.extend(reads)
        self._digests.append(digest)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise TransactionStateError(
                f"the transaction was {self._ended}; begin another with table.transaction()"
            )

    def _check_empty(self) -> None:
        self._check_open()
        if self._plan is not None:
            raise self._full(self._plan)

    def _full(self, plan: Plan) -> TransactionStateError:
        return TransactionStateError(
            f"the transaction holds {plan.operation.name} already: several appends, or one other "
            "operation, are what it can hold. Commit it, and begin another."
        )

    def _check_age(self) -> None:
        """Refuse what vacuum may have taken the files of: no entry names them yet."""
        environment = self._context.environment
        seconds = max(
            environment.monotonic() - self._started[0],
            (environment.now_us() - self._started[1]) / 1_000_000,
        )
        kept = duration_seconds(self._pinned.property("deletedFileRetentionDuration"))
        if seconds > kept / 2:
            raise CommitRejectedError(
                f"the transaction began {int(seconds)} s ago, which is more than half of "
                f"deletedFileRetentionDuration ({kept} s): its files may be gone"
            )

    def _applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """What was applied at the pinned version; what came later is judged as a winner."""
        if options.application is None:
            return None
        known = self._context.view.head.applications.get(options.application[0])
        if known is None or known[1] > self.read_version:
            return None
        return self._context.applied(options, digest, name)

    def _whole(self, carries_application: bool) -> Plan:
        pinned = self._pinned
        plan = self._plan or append_plan(
            pinned.transaction, None, pinned.metadata, read_version=pinned.version
        )
        if self._reads:
            return with_reads(plan, self._reads, pinned)
        idle = not carries_application and has_nothing_to_do(
            self._context, plan, lambda: pinned.snapshot
        )
        return replace(plan, replacing=None) if idle else plan
