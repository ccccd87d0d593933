"""Transaction: one pinned version to read, several appends or one other operation, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Read
from tablefmt.data.conform import as_reader, incoming_schema
from tablefmt.data.engine import MEMORY_BYTES
from tablefmt.data.selection import Condition
from tablefmt.errors import (
    CommitRejectedError,
    InvalidRangeError,
    TransactionStateError,
)
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.clauses import Expression, MergeStatement
from tablefmt.model.entry import OperationClass
from tablefmt.model.predicate import any_of
from tablefmt.model.properties import duration_seconds
from tablefmt.operations.alter import Alter, Alteration, stage_alter
from tablefmt.operations.append import NAME as APPEND
from tablefmt.operations.append import append_plan
from tablefmt.operations.columns import merged, rebound, replaced
from tablefmt.operations.context import (
    Commit,
    CommitOptions,
    TableContext,
    commit_options,
    discard,
)
from tablefmt.operations.delete import stage_delete
from tablefmt.operations.digest import ContentDigest, digest_of, digest_of_all
from tablefmt.operations.merge import MergeBuilder, begin_merge
from tablefmt.operations.merge_plan import (
    explain_merge,
    source_reader,
    stage_merge,
    with_source,
)
from tablefmt.operations.merge_plan import said_of as said_of_merge
from tablefmt.operations.overwrite import (
    check_replaces_all,
    overwrite_plan,
    replaces_nothing,
    said_of,
)
from tablefmt.operations.partitions import partitions_of
from tablefmt.operations.pinned import Pinned, joined, live_rows, scope_of
from tablefmt.operations.replace import needs_rows, stage_replace
from tablefmt.operations.scan import Scan
from tablefmt.operations.staging import Stage, settle, with_metadata
from tablefmt.operations.target import Target, target_of
from tablefmt.operations.update import said_of as said_of_set
from tablefmt.operations.update import stage_set


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
        if read_version is not None and type(read_version) is not int:
            raise InvalidRangeError(f"version {read_version!r} is not a whole number")
        version = head.version if read_version is None else read_version
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
        self._reads.append(target_of(where, pinned.metadata.schema).read(scan.survivors))
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
            reader = as_reader(data)
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
        self._digests.append(content.hexdigest(APPEND))
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
        text = target_of(where, self._pinned.metadata.schema).text
        return self.stage(lambda pinned: stage_delete(pinned, where), ("DELETE", text))

    def update(self, set: Mapping[str, Expression], where: Condition = None) -> Transaction:
        """Stage an update of the pinned version. Raises as `Table.update`, but for the commit."""
        text = target_of(where, self._pinned.metadata.schema).text
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

        def stage(pinned: Pinned) -> Plan:
            reader = content.through(source_reader(source))
            return with_source(stage_merge(pinned, reader, statement, memory_limit), source, pinned)

        self.stage(stage)
        self._digests[-1] = content.hexdigest(*said_of_merge(statement))
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
        self._digests.append(None if said is None else digest_of(None, *said))
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
        self.receipt = applied or settle(self._context, plan, options, digest)
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
        said = said_of(where, pinned.metadata, dynamic_partitions, name)
        with pinned.staging():
            added = None
            if data is not None:
                reader = as_reader(data)
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
        self._digests.append(content.hexdigest(*said))
        return self

    def _replace(self, data: Any, where: Condition, name: str) -> Transaction:
        content = ContentDigest()
        text = target_of(where, self._pinned.metadata.schema).text

        def stage(pinned: Pinned) -> Plan:
            reader = None if data is None else content.through(as_reader(data))
            return stage_replace(pinned, reader, where, name)

        self.stage(stage)
        self._digests[-1] = content.hexdigest(name, text)
        return self

    def _alter(self, alteration: Alteration, commit: Mapping[str, Any]) -> Transaction:
        if commit:
            raise InvalidRangeError(f"{', '.join(sorted(commit))}: give it to commit()")
        return self.stage(lambda pinned: stage_alter(pinned, alteration), alteration.said)

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
        if replaces_nothing(plan, lambda: pinned.snapshot) and not carries_application:
            plan = replace(plan, replacing=None)
        return with_reads(plan, self._reads, pinned) if self._reads else plan


def with_reads(plan: Plan, reads: Sequence[Read], pinned: Pinned) -> Plan:
    """The plan of an operation whose source read the table: INSERT and OVERWRITE become UPDATE.

    An OVERWRITE then keeps the removals it has at the pinned version.
    """
    # Rows that came meanwhile would stay, and have none of the new columns.
    replaces_columns = plan.metadata is not None and plan.replacing is not None
    plan = replace(
        plan,
        reads=(*plan.reads, *reads),
        blind=False,
        floating=False,
        promises=plan.promises or replaces_columns,
    )
    if plan.operation.cls in (OperationClass.INSERT, OperationClass.OVERWRITE):
        plan = _as_update(plan, pinned)
    if plan.operation.cls is not OperationClass.UPDATE or replaces_columns:
        return replace(plan, scope=None)
    scopes = [read.predicate for read in plan.reads]
    if plan.add is not None and pinned.metadata.partition_by:
        scopes.append(partitions_of(plan.add, plan.metadata or pinned.metadata))
    known = [predicate for predicate in scopes if predicate is not None]
    whole = None if len(known) < len(scopes) else any_of(known)
    return replace(plan, scope=scope_of(whole, pinned.metadata))


def _as_update(plan: Plan, pinned: Pinned) -> Plan:
    metrics = dict(plan.operation.metrics)
    if plan.replacing is not None:
        target = Target("", plan.replacing.predicate, None, True)
        files = pinned.snapshot.in_scope(target.predicate)
        metrics["numDeletedRows"] = live_rows(files)
        plan = replace(
            plan,
            reads=(*plan.reads, target.read_nothing()),
            removes=np.sort(files["id"].to_numpy()),
            replacing=None,
        )
    operation = replace(plan.operation, cls=OperationClass.UPDATE, metrics=metrics)
    return replace(plan, operation=operation)
