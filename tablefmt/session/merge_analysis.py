"""Analysis of a MERGE, whoever wrote it down and whatever engine carries it out. Pure.

Which rows it looks at, which columns its clauses really set, by which columns rows have a key. The
engines fill it in, and find pairs of rows, work out expressions and write rows; nothing else. A
MERGE written as text is read here too. Text that cannot be understood, or what is no text, says
nothing: it costs a look at every file, and at files instead of rows. Spec: MRG-1 .. MRG-5, CFL-8,
CFL-17, CFL-18, CFL-21.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.duckdb_types import is_integer
from tablefmt.expressions.merge_statement import (
    Action,
    Clause,
    Equated,
    MergeStatement,
    Side,
    SourceValues,
    Step,
    TargetCondition,
    analyze_merge_condition,
    analyze_target_condition,
    predicate_of_source,
)
from tablefmt.expressions.predicate import TRUE, Predicate, all_of, any_of
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field, Type, is_float, is_nested
from tablefmt.session.statement_scope import AnalyzedCondition, kept_text
from tablefmt.session.transaction_snapshot import check_may_remove

NAME = "MERGE"


@dataclass(frozen=True, slots=True, eq=False)
class EquatedColumn:
    """`field = expression over the source`, one of the AND-ed parts of ON.

    Only of types for which `are_comparable`.
    """

    field: Field
    """The target's column."""
    source: Hashable
    """Which expression: equal ones, in ON and in clauses, come to the same value for a row."""
    value: Any
    """The expression as the engine has it."""
    null_safe: bool = False
    """The operator is `<=>`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnalyzedClause:
    """One WHEN."""

    side: Side
    action: Action
    condition: str | None = None
    """Its text, for people; None: always."""
    values: tuple[tuple[Field, Hashable | None], ...] = ()
    """Columns set, and to which expression, as `EquatedColumn.source`; None: to another."""
    rows: AnalyzedCondition | None = None
    """Of a clause about rows not matched by the source, and of no other: which rows it means."""

    def __post_init__(self) -> None:
        assert (self.rows is not None) == (self.side is Side.NOT_MATCHED_BY_SOURCE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeAnalysis:
    """A MERGE, as far as it is understood; without its source's rows."""

    on: AnalyzedCondition
    """Of ON, what it says of the target's rows alone."""
    equated: tuple[EquatedColumn, ...]
    clauses: tuple[AnalyzedClause, ...]
    only_equates: bool = False
    """ON says nothing but that `equated` are equal."""

    def of(self, side: Side) -> tuple[AnalyzedClause, ...]:
        """The clauses about these rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side is side)

    @property
    def looks_at_all_targets(self) -> bool:
        """Rows of the target are looked at that no source row matches."""
        return bool(self.of(Side.NOT_MATCHED_BY_SOURCE))

    @property
    def joins_by_keys(self) -> bool:
        """Rows match if their keys are the same values, none of them NULL."""
        return self.only_equates and not any(
            each.null_safe or is_float(each.field.type) for each in self.equated
        )

    @property
    def deletes_always(self) -> bool:
        """Every matched row goes, so several source rows may ask for it (MRG-4)."""
        matched = self.of(Side.MATCHED)
        return (
            len(matched) == 1
            and matched[0].action is Action.DELETE
            and matched[0].condition is None
        )

    @property
    def set_columns(self) -> tuple[int, ...]:
        """Ids, ascending, of the columns that UPDATE clauses set to something that ON does not say
        already (MRG-5, CFL-17)."""
        same = {(e.field.id, e.source) for e in self.equated if not is_float(e.field.type)}
        return tuple(
            sorted(
                {
                    field.id
                    for clause in self.clauses
                    if clause.action is Action.UPDATE
                    for field, source in clause.values
                    if clause.side is not Side.MATCHED
                    or source is None
                    or (field.id, source) not in same
                }
            )
        )

    @property
    def key_parts(self) -> tuple[int, ...]:
        """Places in `equated` of the columns by which rows have a key, by id (ADD-8); none if rows
        with other keys are looked at too."""
        if self.looks_at_all_targets:
            return ()
        first: dict[int, int] = {}
        for at, each in enumerate(self.equated):
            if not each.null_safe:
                first.setdefault(each.field.id, at)
        return tuple(first[field_id] for field_id in sorted(first))

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The target's columns that are a key, in the order of the hash."""
        return tuple(self.equated[at].field for at in self.key_parts)

    def looked_at(self, values: Sequence[SourceValues]) -> AnalyzedCondition:
        """The target's rows that the statement looks at (MRG-3).

        Args:
            values: of each of `equated`, what the source holds.
        """
        bounds = predicate_of_source(
            [
                Equated(each.field, known, each.null_safe)
                for each, known in zip(self.equated, values, strict=True)
            ]
        )
        matching = [p for p in (self.on.predicate, bounds) if p is not None and p != TRUE]
        rest = [clause.rows for clause in self.clauses if clause.rows is not None]
        looks = [self.on, *rest]
        return AnalyzedCondition(
            self.on.text,
            _any_of([all_of(matching) if matching else None, *(look.predicate for look in rest)]),
            None,
            exact=False,
            reasoned=all(look.by_row for look in looks),
            columns=_union([look.looked_at for look in looks]),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The clauses, as Delta's history shows them."""
        shown: dict[str, Any] = {}
        for clause in self.clauses:
            action = {"actionType": clause.action.value}
            if clause.condition is not None:
                action["predicate"] = kept_text(clause.condition)
            shown.setdefault(_PARAMETERS[clause.side], []).append(action)
        return shown


_PARAMETERS = {
    Side.MATCHED: "matchedPredicates",
    Side.NOT_MATCHED: "notMatchedPredicates",
    Side.NOT_MATCHED_BY_SOURCE: "notMatchedBySourcePredicates",
}


def are_comparable(field: Field, source: Type | None) -> bool:
    """Whether equal values of a column and of an expression are the same value in the column."""
    if source is None or is_nested(field.type):
        return False
    return field.type == source or (is_integer(field.type) and is_integer(source))


def check_may_change(metadata: Metadata, clauses: Sequence[Clause | AnalyzedClause]) -> None:
    """An append-only table takes a MERGE that only inserts. Raises ConstraintViolationError."""
    if any(clause.action is not Action.INSERT for clause in clauses):
        check_may_remove(metadata)


def merge_fingerprint(statement: MergeStatement) -> tuple[str, ...]:
    """The statement's texts but for its name, all that decides what it does. Spec: CFL-23."""
    decisive = (
        statement.on,
        statement.source_alias,
        statement.target_alias,
        statement.merge_schema,
    )
    return (*map(str, decisive), *map(_clause_text, statement.clauses))


def _clause_text(clause: Clause) -> str:
    condition = None if clause.condition is None else str(clause.condition)
    values = None if clause.values is None else [[n, str(v)] for n, v in clause.values.items()]
    said = [clause.side.value, clause.action.value, condition, values]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _any_of(bounds: Sequence[Predicate | None]) -> Predicate | None:
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    return known[0] if len(known) == 1 else any_of(known)


def _union(columns: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
    known = [each for each in columns if each is not None]
    return frozenset().union(*known) if len(known) == len(columns) else None


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
