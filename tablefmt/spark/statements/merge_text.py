"""A MERGE put together in Python: its text as Spark's columns.

Spark works out every expression. What is understood of the text leaves out files and goes to the
conflict rules; text that only Spark understands costs a look at every file. Spec: MRG-1, MRG-3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.expressions.clauses import (
    MergeStatement,
    Side,
    Step,
    resolve_clauses,
    source_column,
)
from tablefmt.expressions.merge_evolution import evolving_columns
from tablefmt.expressions.names import Relation, check_qualifiers
from tablefmt.model.schema import Field
from tablefmt.session.merge_analysis import EquatedColumn, MergeAnalysis
from tablefmt.session.merge_statement import StatementReader
from tablefmt.session.metadata_changes import merged
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.columns.assignment import new_column
from tablefmt.spark.columns.conditions import as_column, is_plain, session_zone
from tablefmt.spark.columns.projection import check_frame, incoming
from tablefmt.spark.columns.store_assignment import store_assigned
from tablefmt.spark.runtime.frames import DataFrame, Functions, Session, functions_of
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.statements.merge_clauses import Merge, SparkClause, plain


def merge_of(
    spark: Session,
    statement: MergeStatement,
    source: DataFrame,
    origin: DataFrame | None = None,
) -> Callable[[TransactionSnapshot], Merge]:
    """The MERGE for a version of the table.

    Args:
        spark: the session.
        statement: what to do; expressions are SQL text, or Columns.
        source: a DataFrame.
        origin: as of `Merge`.

    Raises, when it is called:
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
    """

    def of_version(pinned: TransactionSnapshot) -> Merge:
        check_frame(source)
        columns = incoming(source, pinned.target.schema)
        coming = evolving_columns(statement, pinned.target.schema, columns)
        if coming is not None:
            pinned.target = merged(pinned.target, coming)
        steps = resolve_clauses(statement, pinned.target.schema, source.columns)
        reader = StatementReader(
            Relation(pinned.snapshot.schema, "t", statement.target_alias),
            Relation(columns, "s", statement.source_alias),
            session_zone(spark),
        )
        return replace(_merge(statement, steps, source, reader), origin=origin)

    return of_version


def _merge(
    statement: MergeStatement, steps: Sequence[Step], source: DataFrame, reader: StatementReader
) -> Merge:
    functions, schema = functions_of(source), reader.target.schema
    for step in steps:
        condition = step.clause.condition
        if step.clause.side is Side.NOT_MATCHED_BY_SOURCE and isinstance(condition, str):
            check_qualifiers(condition, schema, statement.target_alias)
    analysis = reader.analyze(statement, steps)

    def new(field: Field, value: Any) -> Any:
        there = next((f for f in schema.fields if f.id == field.id), None)
        return new_column(functions, field, value, there, (statement.target_alias,))

    def clause(step: Step) -> SparkClause:
        given = step.clause.condition
        condition = None if given is None else as_column(functions, given)
        values = tuple((field, new(field, value)) for field, value in step.assignments)
        return SparkClause(step.clause.side, step.clause.action, condition, values)

    return Merge(
        analysis=replace(analysis, equated=tuple(_of_columns(analysis, statement, functions))),
        on=as_column(functions, statement.on),
        clauses=tuple(map(clause, steps)),
        source=source,
        bind_target=lambda rows: rows.alias(statement.target_alias),
        bind_source=lambda rows: rows.alias(statement.source_alias),
        fits=store_assigned,
        by_name=True,
        may_query=not all(map(is_plain, _expressions(statement.on, steps))),
        may_be_chance=not all(is_plain(step.clause.condition) for step in steps),
    )


def _of_columns(
    analysis: MergeAnalysis, statement: MergeStatement, functions: Functions
) -> Iterator[EquatedColumn]:
    """What ON equates with columns of the source, as Spark has these: text of expressions is not
    taken apart for it."""
    for each in analysis.equated:
        if each.value.source is not None:
            text = source_column(statement, each.value.source.name)
            yield replace(each, value=parsed(functions, text))


def _expressions(on: Any, steps: Sequence[Step]) -> Iterator[Any]:
    yield on
    for step in steps:
        yield step.clause.condition
        for _, value in step.assignments:
            yield plain(value)
