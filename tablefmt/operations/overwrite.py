"""OVERWRITE and TRUNCATE: remove the rows in scope at the commit, and add the new rows.

The scope is the whole table, the partitions of the new rows, or a condition. Removals that
partition values decide are computed anew at every rebase (CFL-3). A condition on rows keeps the
removals that it computed, so its class is UPDATE.
Spec: CFL-3, MRG-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.transaction_plan import Replacing, Staged
from tablefmt.data.data_writer import codes_of, comparable, partition_column, whole_rows
from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.selection import Condition, no_condition
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.arrow_to_predicate import predicates_of
from tablefmt.expressions.file_pruning import Mask, decided_by_partitions, partition_match
from tablefmt.expressions.filter_tuples import filters_to_predicate, is_filters
from tablefmt.expressions.partition_conditions import over_partitions
from tablefmt.expressions.predicate import Predicate, all_of, to_sql
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.log_entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    PartitionScope,
    PredicateScope,
    Scope,
)
from tablefmt.model.scalar_values import decode
from tablefmt.model.schema import Field, Schema, with_hidden_columns
from tablefmt.operations.alter import add_features
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import is_in_memory, repeatable, source_reader
from tablefmt.session.metadata_changes import replaced
from tablefmt.session.row_changes import Changed, select, stage_changes
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import (
    AnalyzedCondition,
    analyzed_condition,
    kept_text,
    partition_scope,
    partitions_of,
)
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, check_may_remove
from tablefmt.snapshot.file_columns import added_table


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """A condition as SQL text, in which hidden partition fields are columns (HID-4)."""

    text: str

    def __str__(self) -> str:
        return self.text

    def predicate(self, schema: Schema) -> Predicate:
        """Return the condition as a predicate."""
        return parse_predicate(self.text, with_hidden_columns(schema))


Partitions = Union[Condition, PartitionValues]  # noqa: UP007 - evaluated at run time in 3.10


def needs_rows(where: Partitions, metadata: Metadata) -> bool:
    """Return whether the condition depends on more than partition values.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `analyzed_condition`.
    """
    if where is None or isinstance(where, PartitionValues):
        return False
    return not analyzed_condition(where, metadata.schema).decided_by_partitions(metadata)


def replaces_by_rows(metadata: Metadata) -> bool:
    """Return whether a file may have rows of several current partitions, because it is older.

    An overwrite of partitions then removes rows of files (EVO-4).
    """
    return not frozenset(metadata.partition_by) <= metadata.partition_ids


def stage_replace_partitions(
    txn: TransactionSnapshot, added: AddedFiles | None, name: str
) -> Staged:
    """Stage the replacement of the current partitions of new files, row by row (EVO-4).

    Args:
        txn: the version to read.
        added: the files, by the current partitioning; None for none.
        name: of the operation.

    Raises:
        ConstraintViolationError: the table is append-only.
        CorruptDataError: DAT-5.
    """
    metadata = txn.target
    if added is None:
        return overwrite_files(
            txn.transaction, None, txn.metadata, read_version=txn.version,
            dynamic_partitions=True, name=name, evolved=txn.evolved, decided=True,
        )  # fmt: skip
    check_may_remove(txn.metadata)
    predicate, sources = partitions_of(added, metadata), partition_sources(metadata)
    rows = RowFilter(
        None,
        exact=in_partitions(added, metadata),
        reads=tuple(field.physical for field in sources),
        pushed_reads=frozenset(),
    )
    target = AnalyzedCondition(
        kept_text(to_sql(predicate)),
        predicate,
        rows,
        exact=True,
        follows_from_columns=True,
        columns=frozenset(field.id for field in sources),
    )
    selected = select(txn, target)
    changed = Changed(
        target=target,
        files=selected.files,
        deleted=selected.rows,
        inserted_files=added,
        parameters={"mode": "Overwrite", "partitionOverwriteMode": "dynamic"},
    )
    return stage_changes(txn, name, changed)


def stage_replace(
    txn: TransactionSnapshot, reader: pa.RecordBatchReader | None, where: Condition, name: str
) -> Staged:
    """Stage the replacement on the transaction snapshot. Without changes, the work is empty.

    Args:
        txn: the version to read, and the folder for the files.
        reader: the new rows; None for none.
        where: selects the rows to remove, and must be true for every new row.
        name: of the operation.

    Raises:
        ConstraintViolationError: the table is append-only; a new row does not match.
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError, CorruptDataError.
    """
    check_may_remove(txn.metadata)
    target = analyzed_condition(where, txn.metadata.schema)
    selected = select(txn, target)
    added = None
    if reader is not None:
        checked = _matching(reader, txn.target, target.rows, target.text)
        added = txn.write(pa.RecordBatchReader.from_batches(reader.schema, checked))
    changed = Changed(
        target=target,
        files=selected.files,
        deleted=selected.rows,
        inserted_files=added,
        parameters={"mode": "Overwrite"} if name == "OVERWRITE" else {},
    )
    return stage_changes(txn, name, changed)


def _matching(
    reader: pa.RecordBatchReader, metadata: Metadata, condition: RowFilter | None, text: str
) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, after checking that each row matches."""
    rows_of = whole_rows(reader.schema, metadata, checked=False)
    for batch in reader:
        if condition is not None and batch.num_rows:
            rows = rows_of(pa.Table.from_batches([batch]))
            short = batch.num_rows - sum(_count(part, condition) for part in rows.to_batches())
            if short:
                raise ConstraintViolationError(
                    f"at least {short} new rows do not match the condition {text}; nothing was "
                    "written"
                )
        yield batch


def _count(rows: pa.RecordBatch, condition: RowFilter) -> int:
    test = condition.pushed if condition.exact is None else condition.exact
    if isinstance(test, pc.Expression):
        return int(rows.filter(test).num_rows)
    assert test is not None
    return int(pc.sum(test(rows)).as_py() or 0)


OVERWRITE, TRUNCATE = "OVERWRITE", "TRUNCATE"


def overwrite(
    context: TableContext,
    data: Any,
    options: CommitOptions,
    *,
    where: Condition = None,
    dynamic_partitions: bool = False,
    overwrite_schema: bool = False,
    partition_by: str | Sequence[str] | None = None,
) -> Commit:
    """Replace rows by `data` in one commit.

    Args:
        context: the table.
        data: the new rows.
        options: of the commit.
        where: rows for which it is true are replaced, and every new row must match it. If more than
            partition values decide it, this is an UPDATE: it keeps the removals that it found.
        dynamic_partitions: replace only the partitions that `data` has rows of.
        overwrite_schema: replace the table's columns by those of `data`, in the same commit. Only
            for the whole table.
        partition_by: with overwrite_schema, names of the new partition columns; None: keep the
            partition columns, which must be among the new columns.

    Raises:
        UnsupportedFeatureError: the condition.
        InvalidPredicateError: `where` cannot be parsed, or comes with dynamic_partitions.
        ConstraintViolationError: a new row does not match `where`; the table is append-only.
        SchemaMismatchError: the data does not fit; nothing is kept.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """

    def statement(rows: Any) -> Statement:
        return overwrite_statement(
            rows,
            where=where,
            dynamic_partitions=dynamic_partitions,
            overwrite_schema=overwrite_schema,
            partition_by=partition_by,
        )

    described = statement(data)
    if partition_by is None or data is None:
        return autocommit(context, described, options)
    with repeatable(data) as rows:
        given = from_arrow(source_reader(rows.rows()).schema)
        add_features(context, replaced(context.view.head.metadata, given, partition_by))
        return autocommit(context, statement(rows.rows()), options)


def truncate(context: TableContext, options: CommitOptions, *, where: Partitions = None) -> Commit:
    """Remove rows without adding new ones. Arguments and errors as in `overwrite`."""
    return autocommit(context, truncate_statement(where), options)


def truncate_statement(where: Partitions = None) -> Statement:
    """Return the statement of a truncate."""
    return _statement(TRUNCATE, None, where=where)


def overwrite_statement(
    data: Any,
    *,
    where: Condition = None,
    dynamic_partitions: bool = False,
    overwrite_schema: bool = False,
    partition_by: str | Sequence[str] | None = None,
) -> Statement:
    """Return the statement of an overwrite. Arguments as in `overwrite`.

    Raises:
        InvalidPredicateError, SchemaMismatchError: two arguments select the rows to replace;
            partition_by without overwrite_schema.
        InvalidArgumentError: a flag is neither True nor False.
    """
    check_flags(dynamic_partitions=dynamic_partitions, overwrite_schema=overwrite_schema)
    _check_replaces_all(overwrite_schema, where, dynamic_partitions, partition_by)
    return _statement(
        OVERWRITE,
        data,
        where=where,
        dynamic_partitions=dynamic_partitions,
        overwrite_schema=overwrite_schema,
        partition_by=partition_by,
    )


def _statement(
    name: str,
    data: Any,
    *,
    where: Partitions,
    dynamic_partitions: bool = False,
    overwrite_schema: bool = False,
    partition_by: str | Sequence[str] | None = None,
) -> Statement:
    """Return the statement of an overwrite, or of a truncate, which has no data."""

    def by_rows(metadata: Metadata) -> bool:
        return not dynamic_partitions and needs_rows(where, metadata)

    def text(metadata: Metadata) -> tuple[str, ...]:
        if not isinstance(where, PartitionValues) and by_rows(metadata):
            check_may_remove(metadata)
            return (analyzed_condition(where, metadata.schema).text,)
        if dynamic_partitions and where is None and replaces_by_rows(metadata):
            check_may_remove(metadata)
            return str(None), str(True)
        condition = check_overwritable(metadata, where, dynamic_partitions)
        # The text of a pyarrow expression leaves out the middle of a long list.
        condition_text = where if condition is None or isinstance(where, str) else to_sql(condition)
        return str(condition_text), str(dynamic_partitions)

    def stage(txn: TransactionSnapshot, rows: pa.RecordBatchReader | None) -> Staged:
        if not isinstance(where, PartitionValues) and by_rows(txn.metadata):
            return stage_replace(txn, rows, where, name)
        if dynamic_partitions and where is None and replaces_by_rows(txn.metadata):
            return stage_replace_partitions(
                txn, None if rows is None else txn.write(rows, in_memory=is_in_memory(data)), name
            )
        if overwrite_schema and rows is not None:
            txn.target = replaced(txn.metadata, from_arrow(rows.schema), partition_by)
        return overwrite_files(
            txn.transaction,
            None if rows is None else txn.write(rows, in_memory=is_in_memory(data)),
            txn.metadata,
            read_version=txn.version,
            where=where,
            dynamic_partitions=dynamic_partitions,
            name=name,
            evolved=txn.evolved,
        )

    return Statement(
        name=name,
        stage=stage,
        text=text,
        takes_rows=name == OVERWRITE,
        source=data,
        replaces_columns=overwrite_schema,
    )


def overwrite_files(
    transaction: str,
    added: AddedFiles | None,
    read_under: Metadata,
    *,
    read_version: int,
    where: Partitions = None,
    dynamic_partitions: bool = False,
    name: str = OVERWRITE,
    evolved: Metadata | None = None,
    decided: bool = False,
) -> Staged:
    """Return the OVERWRITE of the rows in scope by data files that exist already.

    Arguments as in `append_files` and `overwrite`. `decided` says that no partition is replaced.

    Raises:
        ConstraintViolationError, InvalidPredicateError, UnsupportedFeatureError: as `overwrite`.
    """
    condition = check_overwritable(read_under, where, dynamic_partitions and not decided)
    metadata = None if evolved == read_under else evolved
    written_under = read_under if metadata is None else metadata
    if condition is not None and added is not None:
        _check_inside(added, written_under, condition)
    parameters = {"mode": "Overwrite"} if name == OVERWRITE else {}
    predicate = condition
    scope: Scope = None if condition is None else PredicateScope(to_sql(condition))
    dynamic = dynamic_partitions and bool(read_under.partition_by)
    if dynamic:
        parameters["partitionOverwriteMode"] = "dynamic"
        scope = PartitionScope(())
        if added is not None:
            predicate = partitions_of(added, written_under)
            scope = partition_scope(added, written_under)
    elif condition is not None:
        parameters["predicate"] = to_sql(condition)
    return Staged(
        transaction=transaction,
        operation=Operation(name=name, cls=OperationClass.OVERWRITE, parameters=parameters),
        scope=scope,
        written_under=read_under,
        read_version=read_version,
        add=added,
        replacing=None if dynamic and added is None else Replacing(predicate),
        metadata=metadata,
        replaces=metadata is not None and condition is None and not dynamic,
    )


def _check_replaces_all(
    overwrite_schema: bool,
    where: Condition,
    dynamic_partitions: bool = False,
    partition_by: str | Sequence[str] | None = None,
) -> None:
    """Refuse new columns for a part of the rows, and a new partitioning without new columns.

    Raises:
        InvalidPredicateError, SchemaMismatchError.
    """
    if partition_by is not None and not overwrite_schema:
        raise SchemaMismatchError(
            "partition_by needs overwrite_schema=True, because a new partitioning rewrites the "
            "whole table"
        )
    if overwrite_schema and (where is not None or dynamic_partitions):
        raise InvalidPredicateError(
            "overwrite_schema changes the columns of the whole table, but where and "
            "dynamic_partitions replace a part of its rows; give one of them"
        )


def check_overwritable(
    metadata: Metadata, where: Partitions, dynamic_partitions: bool
) -> Predicate | None:
    """Return the condition as a predicate over partition values; None for the whole table.

    Raises:
        ConstraintViolationError: the table is append-only.
        InvalidPredicateError, UnsupportedFeatureError: as `overwrite`.
    """
    check_may_remove(metadata)
    if where is None and dynamic_partitions and replaces_by_rows(metadata):
        raise UnsupportedFeatureError(
            "older files have another partitioning, so they hold rows of several partitions, and "
            "this way to write cannot replace some rows of a file. Rewrite them first, with "
            "Table.repartition(), or overwrite through Table.overwrite or a classic Spark session",
            ["overwrite:partitionings"],
        )
    if where is None:
        return None
    if dynamic_partitions:
        raise InvalidPredicateError(
            "where and dynamic_partitions both select the rows to replace; give one of them"
        )
    predicate = over_partitions(_predicate_of(where, metadata.schema), metadata)
    if not decided_by_partitions(predicate, metadata.partition_ids):
        columns = ", ".join(metadata.partition_names) or "none"
        raise UnsupportedFeatureError(
            f"the condition {str(where)[:200]!r} needs row values; use a condition on partition "
            f"columns ({columns}){_aligned(metadata)}",
            ["overwrite:row-values"],
        )
    return predicate


def _aligned(metadata: Metadata) -> str:
    """Return what to do about hidden partition fields, as the end of a message."""
    hidden = metadata.schema.hidden
    return " that selects whole partitions, such as whole days" if hidden else ""


def _predicate_of(where: Partitions, schema: Schema) -> Predicate:
    """Return the exact predicate of the condition. Spec: PRN-3, PRN-15."""
    if isinstance(where, PartitionValues):
        return where.predicate(schema)
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if is_filters(where):
        return filters_to_predicate(where, schema)
    if not isinstance(where, pc.Expression):
        raise no_condition(where)
    parts, exact = predicates_of(where, schema)
    if not exact:
        raise UnsupportedFeatureError(
            f"the pyarrow expression {str(where)[:200]!r} cannot be translated exactly, so it "
            "cannot select the partitions to replace; use SQL text",
            ["overwrite:expression"],
        )
    return all_of(parts)


def _check_inside(added: AddedFiles, metadata: Metadata, condition: Predicate) -> None:
    files = added_table(added, metadata)
    inside = partition_match(condition, files, frozenset(metadata.partition_by))
    if not inside.all():
        rows = int(files["rows"].to_numpy()[~inside].sum())
        raise ConstraintViolationError(
            f"{rows} new rows do not match the condition {to_sql(condition)}; nothing was written"
        )


def partition_sources(metadata: Metadata) -> list[Field]:
    """Return the columns that decide the current partition of a row."""
    schema = metadata.schema
    ids = [f.id if f.transform is None else f.transform.source for f in metadata.partition_fields]
    return [schema.by_id(i) for i in dict.fromkeys(ids)]


def in_partitions(
    added: AddedFiles, metadata: Metadata
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Return a test for rows that belong to a partition of the files.

    Args:
        added: files of the current partitioning.
        metadata: the metadata that they were written under.

    Returns:
        A function of a batch with the columns of `partition_sources`, by physical name.
    """
    fields = metadata.partition_fields
    values = [decode(added.columns[f"partition.{f.id}"], f.type) for f in fields]
    known = [comparable(pa.chunked_array([v]), f) for v, f in zip(values, fields, strict=True)]

    def test(batch: pa.RecordBatch) -> pa.BooleanArray:
        rows = pa.Table.from_batches([batch])
        values = [partition_column(rows, field, metadata.schema) for field in fields]
        keys = [comparable(v, f) for v, f in zip(values, fields, strict=True)]
        return pa.array(_among(keys, known, batch.num_rows))

    return test


def _among(keys: Sequence[pa.Array], known: Sequence[pa.Array], rows: int) -> Mask:
    """Return a mask of the rows whose keys are among the known ones."""
    count = len(known[0])
    both = [pa.concat_arrays([k, v.cast(k.type)]) for k, v in zip(known, keys, strict=True)]
    codes = codes_of(both, count + rows)
    found: Mask = np.isin(codes[count:], codes[:count])
    return found
