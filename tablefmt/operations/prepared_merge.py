"""Preparation of a MERGE on Arrow: translated expressions, and the source, read once and kept.

The kept source has its columns, rows and keys. Spec: MRG-1, MRG-2, MRG-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.conflict.read_write_sets import Keys
from tablefmt.data.assigned_values import NewValue, new_values
from tablefmt.data.column_cast import cast_to_schema, match_columns
from tablefmt.data.generated_values import GeneratedValues, by_name
from tablefmt.data.spill_buffers import spilled
from tablefmt.data.sql_evaluation import (
    LazyEngine,
    check_carried_out,
    check_engine,
    evaluate,
    now_us,
)
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.merge_statement import (
    Action,
    MergeStatement,
    Side,
    SourceValues,
    Step,
    evolving_columns,
    in_clause,
    resolve_clauses,
    values_of,
    when,
)
from tablefmt.expressions.sql_parser import Relation, check_refused
from tablefmt.expressions.sql_to_duckdb import Translated, translate_condition
from tablefmt.model.arrow_types import arrow_type, file_schema, from_arrow_field
from tablefmt.model.identity_columns import identity_ids
from tablefmt.model.schema import Schema
from tablefmt.model.schema_rules import number_fields
from tablefmt.session.merge_analysis import (
    EquatedColumn,
    MergeAnalysis,
    StatementReader,
    check_may_set,
)
from tablefmt.session.merge_pairs import source_keys
from tablefmt.session.metadata_changes import merged
from tablefmt.session.statement_scope import AnalyzedCondition
from tablefmt.session.transaction_snapshot import TransactionSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source's rows, read once."""

    relation: Relation
    rows: pa.Table
    """Rows with columns by their handles."""
    engine: LazyEngine
    """Evaluates the expressions that ON equates with columns."""
    in_memory: bool
    """The rows stay in memory after the statement too."""

    def of(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns, and the rows' numbers as `r`."""
        chosen = self.rows.select(list(columns))
        return chosen.append_column("r", pa.array(np.arange(self.rows.num_rows)))

    def equated(self, each: EquatedColumn) -> pa.ChunkedArray:
        """Return the values that a column is equated with, in its type; NULL for a value out of
        range."""
        kind, value = each.field.type, each.value.value
        if value.column is not None:
            column = self.rows[value.column]
        else:
            (column,) = evaluate(self.engine, self.rows, [value])
        if value.type == kind:
            return column
        wide, target = column.cast(pa.int64()), arrow_type(kind)
        half = 1 << (target.bit_width - 1)
        fits = pc.and_(pc.greater_equal(wide, -half), pc.less_equal(wide, half - 1))
        return pc.if_else(fits, wide, pa.scalar(None, pa.int64())).cast(target)

    def values(self, analysis: MergeAnalysis) -> list[SourceValues]:
        """Return the source's values for each of `MergeAnalysis.equated`."""
        return [values_of(self.equated(each), each.field) for each in analysis.equated]

    def keys(self, analysis: MergeAnalysis) -> Keys | None:
        """Return the keys of all rows, from `source_keys`."""
        columns = [self.equated(analysis.equated[at]) for at in analysis.key_parts]
        return source_keys(analysis, self.rows.num_rows, lambda: columns, later=self.in_memory)


def source_relation(given: pa.Schema, statement: MergeStatement, target: Schema) -> Relation:
    """Return the source's columns. Those of types that a table cannot have are refused where a
    clause uses them, and ignored otherwise.

    A column without a type, all NULL, gets the type of the table's column of that name.

    Raises:
        SchemaMismatchError: no column is left, or `*` would set such a column.
    """
    columns, refused = [], []
    for column in given:
        same = target.find(column.name) if pa.types.is_null(column.type) else None
        if same is not None:
            columns.append(replace(same, name=column.name))
            continue
        try:
            columns.append(from_arrow_field(column))
        except SchemaMismatchError as error:
            refused.append((column.name, f"the source's {error}"))
    every = any(c.values is None and c.action is not Action.DELETE for c in statement.clauses)
    if every:
        new = [name for name, _ in refused] if statement.merge_schema else []
        check_refused(refused, [*target.names, *new])
    if not columns:
        raise SchemaMismatchError(
            "the source has no column of a type that a table can have: "
            + "; ".join(why for _, why in refused)[:500]
        )
    schema = number_fields([replace(column, nullable=True) for column in columns])
    return Relation(schema, "s", statement.source_alias, tuple(refused))


def by_handles(reader: pa.RecordBatchReader, relation: Relation) -> pa.RecordBatchReader:
    """Return the source's rows in the types of its schema, with columns by their handles."""
    schema = relation.schema
    shape = file_schema(schema)
    known = [name for name in reader.schema.names if schema.find(name) is not None]
    chosen = pa.schema([reader.schema.field(name) for name in known])
    positions = match_columns(chosen, schema)
    handles = [relation.handle(at) for at in range(len(schema.fields))]
    renamed = pa.schema([pa.field(h, f.type) for h, f in zip(handles, shape, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            rows = pa.Table.from_batches([batch]).select(known)
            cast = cast_to_schema(rows, positions, schema, shape)
            yield from cast.rename_columns(handles).cast(renamed).to_batches()

    return pa.RecordBatchReader.from_batches(renamed, batches())


SOURCE_PARTS = 4
"""A source larger than this fraction (1/4) of the memory limit goes to disk."""

NONE = -1
"""Marks a row to which no clause applies."""


@dataclass(frozen=True, slots=True)
class ArrowClause:
    """One WHEN clause, translated."""

    side: Side
    action: Action
    condition: Translated | None
    """None: the clause always applies."""
    values: tuple[NewValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedMerge:
    """A MERGE with its source read and its expressions translated."""

    txn: TransactionSnapshot
    analysis: MergeAnalysis
    read_condition: AnalyzedCondition
    """The target's rows that the statement reads."""
    on: Translated
    clauses: tuple[ArrowClause, ...]
    target: Relation
    """The table as the MERGE reads it."""
    source: Source
    engine: LazyEngine
    generated: GeneratedValues
    memory_limit: int

    def conditions(self, *sides: Side) -> list[Translated]:
        """Return the conditions of the clauses about these rows."""
        return [c.condition for c in self.clauses if c.side in sides and c.condition is not None]

    def first_clause(self, side: Side) -> str:
        """Return the engine's text for the index of the first clause of a side that applies, or
        NONE."""
        chosen = [
            f"WHEN {'TRUE' if clause.condition is None else clause.condition.sql} THEN {at}"
            for at, clause in enumerate(self.clauses)
            if clause.side is side
        ]
        return f"CASE {' '.join(chosen)} ELSE {NONE} END" if chosen else str(NONE)


@contextmanager
def prepare_merge(
    txn: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int,
) -> Iterator[PreparedMerge]:
    """Prepare a MERGE. The source is kept within the context.

    Args:
        txn: the version. Its `target` gets the columns that come from the source.
        source: read to its end, once.
        statement: the MERGE.
        memory_limit: approximate bytes.

    Raises:
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
    """
    relation = source_relation(source.schema, statement, txn.metadata.schema)
    schema = relation.schema
    incoming = evolving_columns(statement, txn.target.schema, schema)
    if incoming is not None:
        txn.target = merged(txn.target, incoming)
    now = now_us()
    generated = GeneratedValues(txn.target, by_name)
    filled = generated.ids | identity_ids(txn.target)
    steps = resolve_clauses(statement, txn.target.schema, schema.names, filled)
    target = Relation(txn.snapshot.schema, "t", statement.target_alias)
    with in_clause("ON"):
        on = translate_condition(statement.on, (target, relation), now)
    clauses = _clauses(steps, target, relation, now)
    analysis = StatementReader(target, relation, now_us=now).analyze(statement, steps)
    check_may_set(txn.target, analysis.clauses)
    if not analysis.joins_by_keys:
        check_engine()
    check_carried_out([c.condition for c in clauses if c.condition is not None])
    engine = LazyEngine(memory_limit)
    most = memory_limit // SOURCE_PARTS
    with spilled(by_handles(source, relation), most) as rows:
        kept = Source(relation, rows, engine, in_memory=rows.nbytes <= most)
        yield PreparedMerge(
            txn=txn,
            analysis=analysis,
            read_condition=analysis.read_condition(kept.values(analysis)),
            on=on,
            clauses=clauses,
            target=target,
            source=kept,
            engine=engine,
            generated=generated,
            memory_limit=memory_limit,
        )


def _clauses(
    steps: Sequence[Step], target: Relation, source: Relation, now: int
) -> tuple[ArrowClause, ...]:
    """Return the clauses. Conditions are translated first, so the first error is the first in the
    text."""
    named = {
        Side.MATCHED: (target, source),
        Side.NOT_MATCHED: (source,),
        Side.NOT_MATCHED_BY_SOURCE: (target,),
    }
    conditions: list[Translated | None] = []
    for clause in (step.clause for step in steps):
        if clause.condition is None:
            conditions.append(None)
            continue
        with in_clause(when(clause)):
            conditions.append(translate_condition(clause.condition, named[clause.side], now))
    return tuple(
        ArrowClause(
            step.clause.side,
            step.clause.action,
            condition,
            tuple(new_values(step.assignments, named[step.clause.side], now)),
        )
        for step, condition in zip(steps, conditions, strict=True)
    )
