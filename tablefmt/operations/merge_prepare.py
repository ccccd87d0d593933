"""A MERGE made ready to run on Arrow: expressions translated, the source read and kept.

Spec: MRG-1, MRG-2, MRG-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tablefmt.data.assignment import NewValue, new_values
from tablefmt.data.engine import LazyEngine, check_engine, now_us
from tablefmt.data.evaluation import check_carried_out
from tablefmt.data.spool import spooled
from tablefmt.expressions.clauses import (
    Action,
    MergeStatement,
    Side,
    Step,
    in_clause,
    resolve_clauses,
    when,
)
from tablefmt.expressions.merge_evolution import evolving_columns
from tablefmt.expressions.names import Relation
from tablefmt.expressions.sql_to_duckdb import Translated, translate_condition
from tablefmt.operations.merge_source import Source, by_handles, source_schema
from tablefmt.session.condition import AnalyzedCondition
from tablefmt.session.merge_analysis import MergeAnalysis
from tablefmt.session.merge_statement import StatementReader
from tablefmt.session.metadata_changes import merged
from tablefmt.session.snapshot import TransactionSnapshot

SOURCE_PARTS = 4
"""A source that takes more than this part of the memory goes to disk."""

NONE = -1
"""The clause of a row that none applies to."""


@dataclass(frozen=True, slots=True)
class ArrowClause:
    """One WHEN, translated."""

    side: Side
    action: Action
    condition: Translated | None
    """None: always."""
    values: tuple[NewValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedMerge:
    """A MERGE whose source is read, and all of whose text is translated."""

    pinned: TransactionSnapshot
    analysis: MergeAnalysis
    looked_at: AnalyzedCondition
    """The target's rows that the statement looks at."""
    on: Translated
    clauses: tuple[ArrowClause, ...]
    target: Relation
    """The table as it is read."""
    source: Source
    engine: LazyEngine
    memory_limit: int

    def conditions(self, *sides: Side) -> list[Translated]:
        """Those that clauses about these rows have."""
        return [c.condition for c in self.clauses if c.side in sides and c.condition is not None]

    def first_clause(self, side: Side) -> str:
        """The index of the first clause of a side that applies, or NONE: the engine's text."""
        chosen = [
            f"WHEN {'TRUE' if clause.condition is None else clause.condition.sql} THEN {at}"
            for at, clause in enumerate(self.clauses)
            if clause.side is side
        ]
        return f"CASE {' '.join(chosen)} ELSE {NONE} END" if chosen else str(NONE)


@contextmanager
def prepared(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int,
) -> Iterator[PreparedMerge]:
    """The MERGE made ready; the source is kept while the block lasts.

    Args:
        pinned: the version; its `target` gets the columns that come from the source.
        source: read to its end, once.
        statement: what to do.
        memory_limit: bytes, about.

    Raises:
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
    """
    schema = source_schema(source.schema, pinned.metadata.schema)
    coming = evolving_columns(statement, pinned.target.schema, schema)
    if coming is not None:
        pinned.target = merged(pinned.target, coming)
    now = now_us()
    steps = resolve_clauses(statement, pinned.target.schema, schema.names)
    target = Relation(pinned.snapshot.schema, "t", statement.target_alias)
    relation = Relation(schema, "s", statement.source_alias)
    with in_clause("ON"):
        on = translate_condition(statement.on, (target, relation), now)
    clauses = _clauses(steps, target, relation, now)
    analysis = StatementReader(target, relation, now_us=now).analyze(statement, steps)
    if not analysis.joins_by_keys:
        check_engine()
    check_carried_out([c.condition for c in clauses if c.condition is not None])
    engine = LazyEngine(memory_limit)
    most = memory_limit // SOURCE_PARTS
    with spooled(by_handles(source, relation), most) as rows:
        kept = Source(relation, rows, engine, in_memory=rows.nbytes <= most)
        yield PreparedMerge(
            pinned=pinned,
            analysis=analysis,
            looked_at=analysis.looked_at(kept.values(analysis)),
            on=on,
            clauses=clauses,
            target=target,
            source=kept,
            engine=engine,
            memory_limit=memory_limit,
        )


def _clauses(
    steps: Sequence[Step], target: Relation, source: Relation, now: int
) -> tuple[ArrowClause, ...]:
    """Conditions before values, so that the first thing wrong is told as a reader finds it."""
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
