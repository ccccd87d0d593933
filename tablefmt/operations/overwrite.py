"""Overwrite and truncate: what is in scope when it commits goes, the new rows come.

Scopes are the whole table, the partitions of the new rows, or a condition that partition values
alone decide. What goes is decided anew at every re-base (CFL-3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import pyarrow.compute as pc

from tablefmt.commit.plan import Plan, Replacing
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.arrow_to_predicate import predicates_of
from tablefmt.expressions.predicate import Predicate, all_of, to_sql
from tablefmt.expressions.prune import decided_by_partitions, partition_match
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    PredicateScope,
    Scope,
)
from tablefmt.model.schema import Schema
from tablefmt.operations.append import changed_metadata, with_files
from tablefmt.operations.replace import needs_rows, replace_rows
from tablefmt.session.context import (
    Commit,
    CommitOptions,
    TableContext,
    discard,
    partition_scope,
)
from tablefmt.session.metadata_changes import replaced
from tablefmt.session.partitions import partitions_of
from tablefmt.session.snapshot import check_may_remove
from tablefmt.session.source import own_scan, read_of, source_reader, with_reads
from tablefmt.session.staging import check_idempotency, commit_plan
from tablefmt.snapshot.files import added_table
from tablefmt.snapshot.state import Snapshot

Said = tuple[str, ...]
"""A statement's name, and the rest of its text."""

Where = Union[str, pc.Expression, None]  # noqa: UP007 - run time


def overwrite(
    context: TableContext,
    data: Any,
    options: CommitOptions,
    *,
    where: Where = None,
    dynamic_partitions: bool = False,
    overwrite_schema: bool = False,
    partition_by: Sequence[str] | None = None,
) -> Commit:
    """Replace rows by `data` in one commit.

    Args:
        context: the table.
        data: the new rows; None for none (TRUNCATE).
        options: what every commit takes.
        where: rows for which it holds are replaced, and every new row must match it. Where it is
            not decided by partition values, this is an UPDATE: it keeps the rows that it found.
        dynamic_partitions: replace the partitions that `data` has rows of, and no other.
        overwrite_schema: the columns of `data` take the place of the table's, in the same commit.
            Only for the whole table.
        partition_by: with overwrite_schema, names of the columns to partition by from then on; None
            for those that the table has, which have to be among the new columns.

    Raises:
        UnsupportedFeatureError: the condition.
        InvalidPredicateError: `where` cannot be parsed, or comes with dynamic_partitions.
        ConstraintViolationError: a new row does not match `where`; the table is append-only.
        SchemaMismatchError: the data does not fit; nothing is kept.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    check_replaces_all(overwrite_schema, where, dynamic_partitions, partition_by)
    head = context.begin()
    name = "TRUNCATE" if data is None else "OVERWRITE"
    own = own_scan(context.view, data)
    pinned = context.pin(head.version if own is None else own.version)
    if not dynamic_partitions and needs_rows(where, pinned.metadata):
        return replace_rows(context, pinned, data, where, options, name)
    said = statement_fingerprint(where, pinned.metadata, dynamic_partitions, name)
    given = check_idempotency(context, options, None if data is None else source_reader(data), said)
    if given.already is not None:
        return given.already
    with pinned.staging():
        added = None
        if given.rows is not None:
            if overwrite_schema:
                pinned.target = replaced(
                    pinned.metadata, from_arrow(given.rows.schema), partition_by
                )
            added = pinned.write(given.rows)
        plan = overwrite_plan(
            pinned.transaction,
            added,
            pinned.metadata,
            read_version=pinned.version,
            where=where,
            dynamic_partitions=dynamic_partitions,
            name=name,
            evolved=pinned.target,
        )
    if own is not None:
        plan = with_reads(plan, [read_of(own, pinned)], pinned)
    return _finish(context, plan, options, given.digest)


def overwrite_files(
    context: TableContext,
    transaction: str,
    added: AddedFiles | None,
    written_under: Metadata,
    options: CommitOptions,
    *,
    read_version: int,
    where: Where = None,
    dynamic_partitions: bool = False,
    digest: str | None = None,
    name: str = "OVERWRITE",
    evolved: Metadata | None = None,
) -> Commit:
    """Commit data files that exist already, in place of what is in scope.

    Arguments as of `append_files` and `overwrite`.

    Raises:
        ConstraintViolationError, CommitRejectedError, ConcurrentModificationException: the files
            are removed. CommitUnknownError: they are kept.
    """
    try:
        plan = overwrite_plan(
            transaction,
            added,
            written_under,
            read_version=read_version,
            where=where,
            dynamic_partitions=dynamic_partitions,
            name=name,
            evolved=evolved,
        )
    except Exception:
        discard(context.store, transaction)
        raise
    return _finish(context, plan, options, digest)


def _finish(
    context: TableContext, plan: Plan, options: CommitOptions, digest: str | None
) -> Commit:
    if options.application is None and has_nothing_to_do(context, plan, context.view.snapshot):
        return context.no_op(plan.transaction, plan.operation.name)
    return commit_plan(context, plan, options, digest)


def overwrite_plan(
    transaction: str,
    added: AddedFiles | None,
    written_under: Metadata,
    *,
    read_version: int,
    where: Where = None,
    dynamic_partitions: bool = False,
    name: str = "OVERWRITE",
    evolved: Metadata | None = None,
) -> Plan:
    """An OVERWRITE by files that exist already.

    Raises:
        ConstraintViolationError, InvalidPredicateError, UnsupportedFeatureError: as `overwrite`.
    """
    condition = check_overwritable(written_under, where, dynamic_partitions)
    target = written_under if evolved is None else evolved
    if condition is not None and added is not None:
        _check_inside(added, target, condition)
    dynamic = dynamic_partitions and bool(written_under.partition_by)
    predicate, scope = condition, _scope(condition)
    if dynamic and added is not None:
        predicate = partitions_of(added, target)
        scope = partition_scope(added, target)
    parameters = {"mode": "Overwrite"} if name == "OVERWRITE" else {}
    if dynamic:
        parameters["partitionOverwriteMode"] = "dynamic"
    elif condition is not None:
        parameters["predicate"] = to_sql(condition)
    metadata = changed_metadata(written_under, evolved)
    plan = Plan(
        transaction=transaction,
        operation=Operation(name=name, cls=OperationClass.OVERWRITE, parameters=parameters),
        scope=scope,
        written_under=written_under,
        read_version=read_version,
        replacing=None if dynamic and added is None else Replacing(predicate),
        metadata=metadata,
        replaces=metadata is not None and condition is None and not dynamic,
    )
    return with_files(plan, added)


def has_nothing_to_do(context: TableContext, plan: Plan, snapshot: Callable[[], Snapshot]) -> bool:
    """Whether an OVERWRITE brings no rows, takes none away, and leaves the schema, at the newest
    version that there is: what goes is decided when it commits (CFL-3).

    Args:
        context: the table; it is refreshed where that is needed to tell.
        plan: any plan.
        snapshot: of a version that is known.
    """
    if not _replaces_nothing(plan, snapshot):
        return False
    view = context.view
    view.refresh()
    # Under another schema the condition may mean something else; the commit says so.
    return view.head.metadata == plan.written_under and _replaces_nothing(plan, view.snapshot)


def _replaces_nothing(plan: Plan, snapshot: Callable[[], Snapshot]) -> bool:
    if (
        plan.add is not None
        or plan.metadata is not None
        or plan.operation.cls is not OperationClass.OVERWRITE
    ):
        return False
    return plan.replacing is None or snapshot().in_scope(plan.replacing.predicate).num_rows == 0


def statement_fingerprint(
    where: Where, metadata: Metadata, dynamic_partitions: bool, name: str
) -> Said:
    """The statement's text, all of it that decides what it does.

    Raises: as `check_overwritable`.
    """
    condition = check_overwritable(metadata, where, dynamic_partitions)
    # An expression's own text leaves out the middle of a long list.
    said = where if condition is None or isinstance(where, str) else to_sql(condition)
    return name, str(said), str(dynamic_partitions)


def check_replaces_all(
    overwrite_schema: bool,
    where: Where,
    dynamic_partitions: bool = False,
    partition_by: Sequence[str] | None = None,
) -> None:
    """Refuse other columns for a part of the rows, and another partitioning without them.

    Raises:
        InvalidPredicateError, SchemaMismatchError.
    """
    if partition_by is not None and not overwrite_schema:
        raise SchemaMismatchError(
            "partition_by needs overwrite_schema=True: a table is partitioned anew with all of its "
            "rows"
        )
    if overwrite_schema and (where is not None or dynamic_partitions):
        raise InvalidPredicateError(
            "overwrite_schema gives the whole table other columns, and where or dynamic_partitions "
            "replace a part of its rows; give one of them"
        )


def check_overwritable(
    metadata: Metadata, where: Where, dynamic_partitions: bool
) -> Predicate | None:
    """The condition as a predicate that partition values decide; None for the whole table.

    Raises:
        ConstraintViolationError: the table is append-only.
        InvalidPredicateError, UnsupportedFeatureError: as `overwrite`.
    """
    check_may_remove(metadata)
    if where is None:
        return None
    if dynamic_partitions:
        raise InvalidPredicateError(
            "where and dynamic_partitions both say what to replace; give one of them"
        )
    predicate = _predicate_of(where, metadata.schema)
    if not decided_by_partitions(predicate, frozenset(metadata.partition_by)):
        columns = ", ".join(metadata.partition_names) or "none"
        raise UnsupportedFeatureError(
            f"replacing rows by {str(where)[:200]!r} needs row values; "
            f"here only conditions on partition columns do (there: {columns})",
            ["overwrite:row-values"],
        )
    return predicate


def _predicate_of(where: Where, schema: Schema) -> Predicate:
    """The condition, exactly. Spec: PRN-3, PRN-15."""
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if not isinstance(where, pc.Expression):
        raise InvalidPredicateError(
            f"where is a {type(where).__name__}; give SQL text or a pyarrow.compute.Expression"
        )
    parts, exact = predicates_of(where, schema)
    if not exact:
        raise UnsupportedFeatureError(
            f"the pyarrow expression {str(where)[:200]!r} is not understood exactly, so it cannot "
            "say which partitions to replace; give SQL text",
            ["overwrite:expression"],
        )
    return all_of(parts)


def _scope(condition: Predicate | None) -> Scope:
    return None if condition is None else PredicateScope(to_sql(condition))


def _check_inside(added: AddedFiles, metadata: Metadata, condition: Predicate) -> None:
    files = added_table(added, metadata)
    inside = partition_match(condition, files, frozenset(metadata.partition_by))
    if not inside.all():
        rows = int(files["rows"].to_numpy()[~inside].sum())
        raise ConstraintViolationError(
            f"{rows} new rows do not match the condition {to_sql(condition)}; nothing was written"
        )
