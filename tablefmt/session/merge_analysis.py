"""Analysis of a MERGE, independent of its form and of the engine that runs it. Pure.

It states the target rows that the MERGE reads, the columns that its clauses really change, and the
key columns. An engine fills it in, finds pairs of rows, evaluates expressions and writes rows. A
MERGE as text is analyzed here too.

Text that cannot be understood, and conditions that are not text, tell nothing. Then the MERGE opens
every file, and conflicts are found by file instead of by row.
Spec: MRG-1 .. MRG-5, CFL-8, CFL-17, CFL-18, CFL-21.
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
from tablefmt.model.identity_columns import refuse_set
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field, Type, is_float, is_nested
from tablefmt.session.statement_scope import AnalyzedCondition, kept_text
from tablefmt.session.transaction_snapshot import check_may_remove

NAME = "MERGE"


@dataclass(frozen=True, slots=True, eq=False)
class EquatedColumn:
    """One `field = expression over the source` of the AND-ed parts of ON.

    The types must satisfy `are_comparable`.
    """

    field: Field
    """The target's column."""
    source: Hashable
    """Identity of the expression. Equal ones, in ON and in clauses, have the same value for a
    row."""
    value: Any
    """The expression in the engine's form."""
    null_safe: bool = False
    """The operator is `<=>`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnalyzedClause:
    """One WHEN clause."""

    side: Side
    action: Action
    condition: str | None = None
    """Text for messages and the history; None: the clause always applies."""
    values: tuple[tuple[Field, Hashable | None], ...] = ()
    """Columns set, each with its expression as `EquatedColumn.source`; None: another expression."""
    rows: AnalyzedCondition | None = None
    """Rows of a NOT MATCHED BY SOURCE clause; None for every other clause."""

    def __post_init__(self) -> None:
        assert (self.rows is not None) == (self.side is Side.NOT_MATCHED_BY_SOURCE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeAnalysis:
    """A MERGE without the rows of its source, as far as it is understood."""

    on: AnalyzedCondition
    """The part of ON about the target's rows alone."""
    equated: tuple[EquatedColumn, ...]
    clauses: tuple[AnalyzedClause, ...]
    only_equates: bool = False
    """ON says only that `equated` are equal."""

    def of(self, side: Side) -> tuple[AnalyzedClause, ...]:
        """Return the clauses about these rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side is side)

    @property
    def reads_all_targets(self) -> bool:
        """Return whether the MERGE reads target rows that no source row matches."""
        return bool(self.of(Side.NOT_MATCHED_BY_SOURCE))

    @property
    def joins_by_keys(self) -> bool:
        """Return whether rows match exactly if their keys are equal and without NULL."""
        return self.only_equates and not any(
            each.null_safe or is_float(each.field.type) for each in self.equated
        )

    @property
    def deletes_always(self) -> bool:
        """Return whether every matched row is deleted, so several source rows may match it
        (MRG-4)."""
        matched = self.of(Side.MATCHED)
        return (
            len(matched) == 1
            and matched[0].action is Action.DELETE
            and matched[0].condition is None
        )

    @property
    def set_columns(self) -> tuple[int, ...]:
        """Return the ids, ascending, of the columns that UPDATE clauses may change (MRG-5, CFL-17).

        A column that is set to the value which ON equates it to does not change.
        """
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
        """Return the places in `equated` of the key columns, in the order of their ids (ADD-8).

        There are none if the MERGE also reads rows with other keys.
        """
        if self.reads_all_targets:
            return ()
        first: dict[int, int] = {}
        for at, each in enumerate(self.equated):
            if not each.null_safe:
                first.setdefault(each.field.id, at)
        return tuple(first[field_id] for field_id in sorted(first))

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """Return the key columns of the target, in the order of the hash."""
        return tuple(self.equated[at].field for at in self.key_parts)

    def read_condition(self, values: Sequence[SourceValues]) -> AnalyzedCondition:
        """Return the target's rows that the statement reads (MRG-3).

        Args:
            values: the source's values for each of `equated`.
        """
        bounds = predicate_of_source(
            [
                Equated(each.field, known, each.null_safe)
                for each, known in zip(self.equated, values, strict=True)
            ]
        )
        matching = [p for p in (self.on.predicate, bounds) if p is not None and p != TRUE]
        rest = [clause.rows for clause in self.clauses if clause.rows is not None]
        reads = [self.on, *rest]
        return AnalyzedCondition(
            self.on.text,
            _any_of([all_of(matching) if matching else None, *(read.predicate for read in rest)]),
            None,
            exact=False,
            follows_from_columns=all(read.by_row for read in reads),
            columns=_union([read.used_columns for read in reads]),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The clauses in the form of Delta's history."""
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
    """Return whether equal values of a column and an expression are the same value in the
    column."""
    if source is None or is_nested(field.type):
        return False
    return field.type == source or (is_integer(field.type) and is_integer(source))


def check_may_change(metadata: Metadata, clauses: Sequence[Clause | AnalyzedClause]) -> None:
    """Refuse to change rows of an append-only table. A MERGE that only inserts is allowed.

    Raises:
        ConstraintViolationError: property appendOnly.
    """
    if any(clause.action is not Action.INSERT for clause in clauses):
        check_may_remove(metadata)


def check_may_set(metadata: Metadata, clauses: Sequence[AnalyzedClause]) -> None:
    """Refuse an UPDATE of a GENERATED ALWAYS AS IDENTITY column.

    Raises:
        ConstraintViolationError: IDN-3.
    """
    for clause in clauses:
        if clause.action is Action.UPDATE:
            refuse_set(metadata, [field for field, _ in clause.values], "an UPDATE of the MERGE")


def merge_fingerprint(statement: MergeStatement) -> tuple[str, ...]:
    """Return the texts that decide what the statement does: all but its name. Spec: CFL-23."""
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
    decisive = [clause.side.value, clause.action.value, condition, values]
    return json.dumps(decisive, ensure_ascii=False, separators=(",", ":"))


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
    """Resolves the names and times in the text of a MERGE."""

    target: Relation
    """The table as the MERGE reads it."""
    source: Relation
    time_zone: str = "UTC"
    """Time zone of times that have none (SQL-4)."""
    now_us: int = 0
    """Time of the statement."""

    def analyze(self, statement: MergeStatement, steps: Sequence[Step]) -> MergeAnalysis:
        """Return the analysis of a statement, as far as it is understood.

        Args:
            statement: its expressions are SQL text, or objects of an engine.
            steps: its clauses from `resolve_clauses`.

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
        """Return the identity of a column's new value as `EquatedColumn.source`; None if
        unknown."""
        if not isinstance(value, str):
            return None
        try:
            translated = translate(value, (self.target, self.source), self.now_us)
        except (InvalidPredicateError, UnsupportedFeatureError):
            return None
        return translated.sql if are_comparable(field, translated.type) else None


def not_understood(condition: Any) -> AnalyzedCondition:
    """Return a condition of which only the text is known."""
    return AnalyzedCondition(
        kept_text(str(condition)), None, None, False, follows_from_columns=False
    )


def _analyzed(text: str, condition: TargetCondition) -> AnalyzedCondition:
    return AnalyzedCondition(
        kept_text(text),
        condition.predicate,
        None,
        exact=False,
        follows_from_columns=condition.columns is not None,
        columns=condition.columns,
    )
