"""A MERGE written as text, analysed: by clauses in Python, for whatever engine. Pure.

Text that cannot be understood here, or what is no text, says nothing: it costs a look at every
file, and at files instead of rows. Spec: MRG-1, MRG-3, CFL-21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.clauses import Action, MergeStatement, Side, Step
from tablefmt.expressions.merge_condition import (
    TargetCondition,
    analyze_merge_condition,
    analyze_target_condition,
)
from tablefmt.expressions.names import Relation
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.model.schema import Field
from tablefmt.session.condition import AnalyzedCondition, kept_text
from tablefmt.session.merge_analysis import (
    AnalyzedClause,
    EquatedColumn,
    MergeAnalysis,
    are_comparable,
)

EVERY_ROW = AnalyzedCondition("TRUE", None, None, True)


@dataclass(frozen=True, slots=True)
class StatementReader:
    """What names and times in the text of a MERGE mean."""

    target: Relation
    """The table as it is read."""
    source: Relation
    time_zone: str = "UTC"
    """Of times without one (SQL-4)."""
    now_us: int = 0
    """The statement's time."""

    def analyze(self, statement: MergeStatement, steps: Sequence[Step]) -> MergeAnalysis:
        """The statement, as far as it is understood.

        Args:
            statement: expressions are SQL text, or what only an engine knows.
            steps: its clauses as of `resolve_clauses`.

        Returns:
            An analysis in which `EquatedColumn.value` is an `Equality`.

        Raises:
            InvalidPredicateError: a condition that cannot be parsed.
        """
        on, equated, complete = self._on(statement.on)
        keyed = frozenset(each.field.id for each in equated)
        return MergeAnalysis(
            on=on,
            equated=equated,
            clauses=tuple(self._clause(step, keyed) for step in steps),
            only_equates=complete,
        )

    def _on(self, text: Any) -> tuple[AnalyzedCondition, tuple[EquatedColumn, ...], bool]:
        if not isinstance(text, str):
            return not_understood(text), (), False
        condition = analyze_merge_condition(
            text, self.target, self.source, self.time_zone, self.now_us
        )
        equated = tuple(
            EquatedColumn(each.field, each.value.sql, each, each.null_safe)
            for each in condition.equalities
            if are_comparable(each.field, each.value.type)
        )
        complete = condition.complete and len(equated) == len(condition.equalities)
        return _analyzed(text, condition.target), equated, complete

    def _clause(self, step: Step, keyed: frozenset[int]) -> AnalyzedClause:
        clause = step.clause
        rows = None
        if clause.side is Side.NOT_MATCHED_BY_SOURCE:
            rows = self._target_rows(clause.condition)
        matters = clause.action is Action.UPDATE and clause.side is Side.MATCHED
        return AnalyzedClause(
            side=clause.side,
            action=clause.action,
            condition=None if clause.condition is None else str(clause.condition),
            values=tuple(
                (field, self._expression(field, value) if matters and field.id in keyed else None)
                for field, value in step.assignments
            ),
            rows=rows,
        )

    def _target_rows(self, condition: Any) -> AnalyzedCondition:
        if condition is None:
            return EVERY_ROW
        if not isinstance(condition, str):
            return not_understood(condition)
        understood = analyze_target_condition(condition, self.target, self.time_zone)
        return _analyzed(condition, understood)

    def _expression(self, field: Field, value: Any) -> str | None:
        """What a column is set to, as `EquatedColumn.source`; None where that is not known."""
        if not isinstance(value, str):
            return None
        try:
            translated = translate(value, (self.target, self.source), self.now_us)
        except (InvalidPredicateError, UnsupportedFeatureError):
            return None
        return translated.sql if are_comparable(field, translated.type) else None


def not_understood(condition: Any) -> AnalyzedCondition:
    """A condition of which nothing is known but how it is shown."""
    return AnalyzedCondition(kept_text(str(condition)), None, None, False, reasoned=False)


def _analyzed(text: str, condition: TargetCondition) -> AnalyzedCondition:
    return AnalyzedCondition(
        kept_text(text),
        condition.predicate,
        None,
        exact=False,
        reasoned=condition.columns is not None,
        columns=condition.columns,
    )
