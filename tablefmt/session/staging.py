"""From a statement to a commit: was it applied, do its work, commit what came of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from tablefmt.commit.plan import Plan
from tablefmt.model.entry import OperationClass
from tablefmt.session.context import (
    Commit,
    CommitOptions,
    TableContext,
    application_of,
    with_metrics,
)
from tablefmt.session.fingerprint import ContentDigest, digest_of
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.snapshot.head import Head

Stage = Callable[[TransactionSnapshot], Plan]
"""Reads the pinned version, writes data files through it, and says what is to be committed."""


@dataclass(frozen=True, slots=True)
class IdempotencyCheck:
    """What a statement was given, and whether it was applied before."""

    rows: pa.RecordBatchReader | None
    """Still to be read; None for a statement that takes none."""
    said: tuple[str, ...] = ()
    content: ContentDigest | None = None
    """None where no application version asks for it."""
    already: Commit | None = None
    """The receipt of the commit that applied it."""

    @property
    def digest(self) -> str | None:
        """Of text and rows, once all of them were read; None if no application version asks."""
        if self.content is None:
            return None
        return digest_of(None, *self.said) if self.rows is None else self.content.of(*self.said)


def check_idempotency(
    context: TableContext,
    options: CommitOptions,
    rows: pa.RecordBatchReader | None,
    said: tuple[str, ...],
) -> IdempotencyCheck:
    """Look for a statement's application version in the table. Without one no row is read.

    Args:
        context: the table, ready to write (`begin`).
        options: what every commit takes.
        rows: what the statement takes. They are read here only if their application version is the
            last one applied, to be compared with what was.
        said: the statement's name, and the rest of its text.

    Raises:
        IdempotenceError: CFL-7.
    """
    if options.application is None:
        return IdempotencyCheck(rows)
    if rows is None:
        already = context.applied(options, digest_of(None, *said), said[0])
        return IdempotencyCheck(None, said, ContentDigest(), already)
    already = context.applied(options, None, said[0])
    if already is not None:
        known = context.view.head.applications[options.application[0]][0]
        if known.version == options.application[1] and known.digest is not None:
            context.applied(options, digest_of(rows, *said), said[0])
        return IdempotencyCheck(rows, said, None, already)
    content = ContentDigest()
    return IdempotencyCheck(content.through(rows), said, content)


def run(
    context: TableContext, head: Head, options: CommitOptions, stage: Stage, said: tuple[str, ...]
) -> Commit:
    """Carry out a statement that takes no rows, in a commit of its own.

    Args:
        context: the table, ready to write (`begin`).
        head: what it begins from.
        options: what every commit takes.
        stage: the statement.
        said: its name, and the rest of its text.

    Raises:
        IdempotenceError: CFL-7. What `stage` raises; its files are removed.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    given = check_idempotency(context, options, None, said)
    if given.already is not None:
        return given.already
    pinned = context.pin(head.version)
    with pinned.staging():
        plan = with_metadata(stage(pinned), pinned)
    return commit_plan(context, plan, options, given.digest)


def with_metadata(plan: Plan, pinned: TransactionSnapshot) -> Plan:
    """The plan with the metadata that its files were written under, where that is another; of rows
    changed, with the times it took to find and to write them.
    """
    if plan.operation.cls is OperationClass.UPDATE:
        plan = with_metrics(plan, pinned.measured.span_metrics())
    if pinned.target == pinned.metadata:
        return plan
    return replace(plan, metadata=pinned.target, floating=False)


def commit_plan(
    context: TableContext, plan: Plan, options: CommitOptions, digest: str | None
) -> Commit:
    """Commit a plan; one with nothing to do only for the application version it carries."""
    if plan.is_empty and options.application is None:
        return context.no_op(plan.transaction, plan.operation.name)
    return context.finish(replace(plan, application=application_of(options, digest)), options)
