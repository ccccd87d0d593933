"""Overwrite and truncate: what is in scope when it commits goes, the new rows come.

Scopes are the whole table, the partitions of the new rows, or a condition that partition values
alone decide. What goes is decided anew at every re-base (CFL-3).
"""

from __future__ import annotations

from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.plan import Plan, Replacing
from tablefmt.data.bounds import stats_columns
from tablefmt.data.conform import as_reader
from tablefmt.data.write import write_data
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    UnsupportedFeatureError,
)
from tablefmt.model.entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    PredicateScope,
    Scope,
)
from tablefmt.model.parse import parse_predicate
from tablefmt.model.predicate import Comparison, IsNull, Predicate, all_of, any_of, to_sql
from tablefmt.model.properties import get_property
from tablefmt.model.schema import Field, Schema
from tablefmt.model.substrait import predicates_of
from tablefmt.model.values import decode_value
from tablefmt.operations.append import with_files
from tablefmt.operations.context import (
    Commit,
    CommitOptions,
    TableContext,
    application_of,
    digest_of,
    discard,
    partition_scope,
    writing,
)
from tablefmt.snapshot.files import added_table
from tablefmt.snapshot.prune import decided_by_partitions, partition_match

Where = Union[str, pc.Expression, None]  # noqa: UP007 - run time


def overwrite(
    context: TableContext,
    data: Any,
    options: CommitOptions,
    *,
    where: Where = None,
    dynamic_partitions: bool = False,
    overwrite_schema: bool = False,
) -> Commit:
    """Replace rows by `data` in one commit.

    Args:
        context: the table.
        data: the new rows; None for none (TRUNCATE).
        options: what every commit takes.
        where: rows for which it holds are replaced, and every new row must match it. It has to be
            decided by partition values.
        dynamic_partitions: replace the partitions that `data` has rows of, and no other.
        overwrite_schema: not supported yet.

    Raises:
        UnsupportedFeatureError: a condition that needs row values, or overwrite_schema.
        InvalidPredicateError: `where` cannot be parsed, or comes with dynamic_partitions.
        ConstraintViolationError: a new row does not match `where`; the table is append-only.
        SchemaMismatchError: the data does not fit; nothing is kept.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    if overwrite_schema:
        raise UnsupportedFeatureError(
            "overwrite_schema is not supported yet; make a new table", ["overwrite_schema"]
        )
    head = context.begin()
    condition = check_overwritable(head.metadata, where, dynamic_partitions)
    digest, reader = None, None if data is None else as_reader(data)
    name = "TRUNCATE" if data is None else "OVERWRITE"
    if options.application is not None:
        rows = reader.read_all() if reader is not None else pa.table({})
        reader = None if reader is None else rows.to_reader()
        # An expression's own text leaves out the middle of a long list.
        said = where if condition is None or isinstance(where, str) else to_sql(condition)
        digest = digest_of(rows, name, str(said), str(dynamic_partitions))
        already = context.applied(options, digest, name)
        if already is not None:
            return already
    transaction = context.environment.nonce()
    added = None
    if reader is not None:
        with writing(context.store, transaction):
            stats = stats_columns(
                head.metadata.schema, head.metadata.properties.get("statsColumns")
            )
            added = write_data(context.store, transaction, reader, head.metadata, stats)
    return overwrite_files(
        context,
        transaction,
        added,
        head.metadata,
        options,
        read_version=head.version,
        where=where,
        dynamic_partitions=dynamic_partitions,
        digest=digest,
        name=name,
    )


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
) -> Commit:
    """Commit data files that exist already, in place of what is in scope.

    Arguments as of `append_files` and `overwrite`.

    Raises:
        ConstraintViolationError, CommitRejectedError, ConcurrentModificationException: the files
            are removed. CommitUnknownError: they are kept.
    """
    try:
        condition = check_overwritable(written_under, where, dynamic_partitions)
        if condition is not None and added is not None:
            _check_inside(added, written_under, condition)
    except Exception:
        discard(context.store, transaction)
        raise
    dynamic = dynamic_partitions and bool(written_under.partition_by)
    predicate, scope = condition, _scope(condition)
    if dynamic and added is not None:
        predicate = partitions_of(added, written_under)
        scope = partition_scope(added, written_under)
    nothing_goes = (dynamic and added is None) or (
        added is None and context.view.snapshot().in_scope(predicate).num_rows == 0
    )
    if nothing_goes and options.application is None:
        return context.no_op(transaction, name)
    parameters = {"mode": "Overwrite"} if name == "OVERWRITE" else {}
    if dynamic:
        parameters["partitionOverwriteMode"] = "dynamic"
    elif condition is not None:
        parameters["predicate"] = to_sql(condition)
    plan = Plan(
        transaction=transaction,
        operation=Operation(name=name, cls=OperationClass.OVERWRITE, parameters=parameters),
        scope=scope,
        written_under=written_under,
        read_version=read_version,
        replacing=None if dynamic and added is None else Replacing(predicate),
        application=application_of(options, digest),
    )
    return context.finish(with_files(plan, added), options)


def check_overwritable(
    metadata: Metadata, where: Where, dynamic_partitions: bool
) -> Predicate | None:
    """The condition as a predicate that partition values decide; None for the whole table.

    Raises:
        ConstraintViolationError: the table is append-only.
        InvalidPredicateError, UnsupportedFeatureError: as `overwrite`.
    """
    if get_property(metadata.properties, "appendOnly") == "true":
        raise ConstraintViolationError(
            "the table is append-only (property appendOnly): rows may be added, never replaced"
        )
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
            f"replacing rows by {str(where)[:200]!r} needs row values, and is not supported yet; "
            f"only conditions on partition columns are (there: {columns})",
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


def partitions_of(added: AddedFiles, metadata: Metadata) -> Predicate:
    """True exactly for the partitions that the files are in."""
    columns = [metadata.schema.by_id(i) for i in metadata.partition_by]
    encoded = [added.columns[f"partition.{c.id}"] for c in columns]
    distinct = list(dict.fromkeys(zip(*encoded, strict=True)))
    alternatives = []
    for values in distinct:
        pairs = zip(columns, values, strict=True)
        alternatives.append(all_of([_is(column, value) for column, value in pairs]))
    return any_of(alternatives)


def _is(column: Field, encoded: Any) -> Predicate:
    """`column` holds exactly this partition value, NULL included."""
    if encoded is None:
        return IsNull(column)
    return Comparison(column, "=", decode_value(encoded, column.type))


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
