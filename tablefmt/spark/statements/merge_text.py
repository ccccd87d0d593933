"""A MERGE put together in Python: its text as Spark's columns, and what is understood of it.

Spark works out every expression. What is understood here leaves out files and goes to the conflict
rules; text that only Spark understands costs a look at every file. Spec: MRG-1, MRG-3, CFL-21.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tablefmt.errors import InvalidPredicateError, TablefmtError
from tablefmt.expressions.clauses import (
    Action,
    MergeStatement,
    Side,
    Step,
    resolve_clauses,
    source_column,
)
from tablefmt.expressions.duckdb_types import is_integer
from tablefmt.expressions.merge_condition import parts_of
from tablefmt.expressions.merge_evolution import evolving_columns
from tablefmt.expressions.names import Relation
from tablefmt.expressions.predicate import all_of
from tablefmt.model import schema_views
from tablefmt.model.schema import Field, Schema
from tablefmt.session.condition import TEXT_MAX, AnalyzedCondition
from tablefmt.session.metadata_changes import merged
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.columns.assignment import new_column, refitted, same_type, spark_types
from tablefmt.spark.columns.conditions import (
    analyzed_text,
    as_column,
    either,
    is_plain,
    session_zone,
)
from tablefmt.spark.columns.projection import check_frame, check_inner, incoming, misfit
from tablefmt.spark.runtime.failures import raised_for
from tablefmt.spark.runtime.frames import functions_of
from tablefmt.spark.statements.dml import Where
from tablefmt.spark.statements.merge_clauses import Merge, SparkClause, plain
from tablefmt.spark.statements.source_rows import EquatedColumn


def merge_of(
    spark: Any, statement: MergeStatement, source: Any
) -> Callable[[TransactionSnapshot], Merge]:
    """The MERGE for a version of the table.

    Args:
        spark: the session.
        statement: what to do; expressions are SQL text, or Columns.
        source: a DataFrame.

    Raises, when it is called:
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: the statement.
    """

    def made(pinned: TransactionSnapshot) -> Merge:
        check_frame(source)
        given = incoming(source, pinned.target.schema)
        coming = evolving_columns(statement, pinned.target.schema, given)
        if coming is not None:
            pinned.target = merged(pinned.target, coming)
        steps = resolve_clauses(statement, pinned.target.schema, source.columns)
        return _Text(spark, statement, source, pinned.snapshot.schema, given).merge(steps)

    return made


_OWN = re.compile(r", `__tablefmt_\w+`|`__tablefmt_\w+`(, )?")
"""Columns of ours among those that Spark suggests."""


@contextmanager
def named() -> Iterator[None]:
    """Spark's refusals of an expression come out as ours."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except TablefmtError:
        raise
    except (AnalysisException, ParseException) as error:
        # A text that cannot be parsed is told of after an empty line.
        first = _OWN.sub("", str(error).strip().splitlines()[0])
        raise InvalidPredicateError(f"Spark refuses the statement: {first}") from None
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        raise raised_for(java) or error from None


def fitted(frame: Any, values: Sequence[tuple[Field, Any]]) -> tuple[tuple[Field, Any], ...]:
    """New values in the types of their columns, by the rules of INSERT (ANSI store assignment).

    Args:
        frame: over which the values are worked out.
        values: columns and values as Spark has them.

    Raises:
        SchemaMismatchError: a type that cannot be stored in the column.
        InvalidPredicateError: Spark refuses the value.
    """
    from pyspark.errors import AnalysisException

    if not values:
        return ()
    with named():
        rows = frame.select(*(value.alias(field.name) for field, value in values))
        given = [field.dataType for field in rows.schema.fields]
    fields = [field for field, _ in values]
    wanted = spark_types(fields)
    kinds = [field.dataType for field in wanted.fields]
    if all(map(same_type, given, kinds)):
        return tuple(values)
    check_inner(rows, Schema(tuple(fields), max(f.id for f in fields)))
    try:
        rows.to(wanted).schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    functions = functions_of(frame)
    return tuple(
        (field, refitted(functions, value, kind, there))
        for (field, value), kind, there in zip(values, given, kinds, strict=True)
    )


class _Text:
    """One statement's text."""

    def __init__(
        self, spark: Any, statement: MergeStatement, source: Any, schema: Schema, given: Schema
    ) -> None:
        self._statement = statement
        self._source = source
        self._schema = schema
        self._zone = session_zone(spark)
        self._functions = functions_of(source)
        self._target = Relation(schema, "t", statement.target_alias)
        self._given = Relation(given, "s", statement.source_alias)

    def merge(self, steps: Sequence[Step]) -> Merge:
        """The statement as Spark has it."""
        statement = self._statement
        target, equated = self._on()
        same = {e.field.id: source_column(statement, name) for e, name in equated}
        by_source = [
            self._by_source(step.clause.condition)
            for step in steps
            if step.clause.side is Side.NOT_MATCHED_BY_SOURCE
        ]
        return Merge(
            where=Where(
                target,
                self._column(statement.on),
                lambda rows: rows.alias(statement.target_alias),
            ),
            source=self._source,
            clauses=tuple(
                SparkClause(
                    step.clause.side,
                    step.clause.action,
                    None if step.clause.condition is None else self._column(step.clause.condition),
                    tuple((field, self._new(field, value)) for field, value in step.assignments),
                )
                for step in steps
            ),
            equated=tuple(e for e, _ in equated),
            set_columns=tuple(
                sorted(
                    {
                        field.id
                        for step in steps
                        if step.clause.action is Action.UPDATE
                        for field, value in step.assignments
                        if step.clause.side is not Side.MATCHED
                        or not _is_same(value, same.get(field.id))
                    }
                )
            ),
            by_source=either(by_source),
            may_query=not all(map(is_plain, _expressions(statement.on, steps))),
            may_be_chance=not all(is_plain(step.clause.condition) for step in steps),
            bind_source=lambda rows: rows.alias(statement.source_alias),
            by_name=True,
            fits=fitted,
        )

    def _column(self, given: Any) -> Any:
        return as_column(self._functions, given)

    def _new(self, field: Field, value: Any) -> Any:
        there = next((f for f in self._schema.fields if f.id == field.id), None)
        place = (self._statement.target_alias,)
        return new_column(self._functions, field, value, there, place)

    def _by_source(self, condition: Any | None) -> AnalyzedCondition:
        if condition is not None and not isinstance(condition, str):
            return AnalyzedCondition(str(condition)[:TEXT_MAX], None, None, False, reasoned=False)
        return analyzed_text(condition, self._schema, self._zone, self._statement.target_alias)

    def _on(self) -> tuple[AnalyzedCondition, list[tuple[EquatedColumn, str]]]:
        """What is understood of ON, and what it equates with which column of the source."""
        text = self._statement.on
        if not isinstance(text, str):
            return AnalyzedCondition(str(text)[:TEXT_MAX], None, None, False, reasoned=False), []
        found = parts_of(text, self._target, self._given, self._zone)
        whole = found.columns
        ids = {self._target.handle(at): f.id for at, f in enumerate(self._schema.fields)}
        target = AnalyzedCondition(
            text[:TEXT_MAX],
            all_of(list(found.known)) if found.known else None,
            None,
            False,
            reasoned=whole is not None,
            columns=None if whole is None else frozenset(ids[h] for h in whole if h in ids),
        )
        return target, list(self._equated(found.equated))

    def _equated(
        self, found: Sequence[tuple[Field, Field, bool]]
    ) -> Iterator[tuple[EquatedColumn, str]]:
        for field, theirs, null_safe in found:
            integers = is_integer(field.type) and is_integer(theirs.type)
            if schema_views.same_type(theirs.type, field.type) or integers:
                value = self._functions.expr(source_column(self._statement, theirs.name))
                yield EquatedColumn(field, value, null_safe), theirs.name


def _expressions(on: Any, steps: Sequence[Step]) -> Iterator[Any]:
    yield on
    for step in steps:
        yield step.clause.condition
        for _, value in step.assignments:
            yield plain(value)


def _is_same(value: Any, equated: str | None) -> bool:
    """Whether a value is, as it is written, what ON equates the column with."""
    if equated is None or not isinstance(value, str):
        return False
    return value == equated or value.replace("`", "") == equated.replace("`", "")
