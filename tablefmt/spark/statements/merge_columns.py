"""Columns of the rows that a MERGE writes, as Spark works them out. Spec: MRG-1, MRG-2.

Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablefmt.expressions.assignments import Over
from tablefmt.expressions.clauses import Action, Side
from tablefmt.expressions.default_text import default_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.schema import Field
from tablefmt.session.merge_pairs import ACTIONS, KEPT
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.columns.assignment import cast_column, overlaid, spark_types
from tablefmt.spark.runtime.frames import Column, DataFrame, Functions
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.statements.merge_clauses import Assigned, Merge, SparkClause

NONE = -1
"""The clause of a row that none applies to."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeColumns:
    """What the columns of one MERGE come to."""

    pinned: TransactionSnapshot
    merge: Merge
    functions: Functions
    """Spark's, for the kind of session."""

    @property
    def fields(self) -> Sequence[Field]:
        """The table's columns, as they will be."""
        return self.pinned.target.schema.fields

    @property
    def always_updates(self) -> bool:
        """Whether every row that matches, or that a clause is about, gets new values."""
        matched = self.merge.of(Side.MATCHED)
        clauses = [*matched, *self.merge.of(Side.NOT_MATCHED_BY_SOURCE)]
        complete = bool(matched) and matched[-1].condition is None
        return complete and all(c.action is Action.UPDATE for c in clauses)

    def first_clause(
        self, clauses: Sequence[SparkClause], is_matched: Column | None = None
    ) -> Column:
        """The place of the first clause that applies to a row; NONE.

        Args:
            clauses: about rows that are matched, rows not matched by the source, or both.
            is_matched: which of the two a row is, if there are both.
        """
        first: Any = None
        for at, clause in enumerate(clauses):
            holds = self.functions.lit(True) if clause.condition is None else clause.condition
            if is_matched is not None:
                side = is_matched if clause.side is Side.MATCHED else ~is_matched
                holds = side & holds
            start = self.functions if first is None else first
            first = start.when(holds, self.functions.lit(at))
        none = self.functions.lit(NONE)
        return none if first is None else first.otherwise(none)

    def action(self, clauses: Sequence[SparkClause], clause: Column) -> Column:
        """What becomes of a row: KEPT, DELETED, UPDATED; an int.

        Args:
            clauses: as of `first_clause`.
            clause: the Column that it gave.
        """
        action = self.functions.lit(KEPT)
        for kind, code in ACTIONS.items():
            places = [at for at, each in enumerate(clauses) if each.action is kind]
            if places:
                known = self.functions.when(clause.isin(places), self.functions.lit(code))
                action = known.otherwise(action)
        return action.cast("int")

    def updated(
        self, frame: DataFrame, rows: DataFrame, clauses: Sequence[SparkClause], clause: Column
    ) -> list[Column]:
        """All columns of the rows written: what the clause sets, or what it was.

        Args:
            frame: pairs of rows, with the clause that applies.
            rows: the table's.
            clauses: as of `first_clause`.
            clause: the Column that says which.
        """
        values = [self._values(frame, each, rows) for each in clauses]
        updating = [at for at, each in enumerate(clauses) if each.action is Action.UPDATE]
        return [self._updated(field, rows, values, updating, clause) for field in self.fields]

    def inserted(
        self, frame: DataFrame, clauses: Sequence[SparkClause], clause: Column | None
    ) -> list[Column]:
        """The columns of the rows inserted that any clause gives a value.

        Args:
            frame: rows of the source, with the clause that applies.
            clauses: that insert.
            clause: the Column that says which; None: there is one, and it applies to all.
        """
        values = [self._values(frame, each) for each in clauses]
        columns = []
        for field in self.fields:
            setting = [
                (at, given[field.id]) for at, given in enumerate(values) if field.id in given
            ]
            if clause is None and setting:
                columns.append(setting[0][1].alias(field.name))
            elif setting:
                value = self._left_out(field)
                for at, new in setting:
                    value = self.functions.when(clause == at, new).otherwise(value)
                columns.append(value.alias(field.name))
        return columns

    def _values(
        self, frame: DataFrame, clause: SparkClause, rows: DataFrame | None = None
    ) -> dict[int, Column]:
        """What a clause sets, by column; `rows` are the table's."""
        if any(isinstance(value, Over) for _, value in clause.values):
            clause = replace(clause, values=self._overlaid(frame, clause.values, rows))
        # Rows that come from one clause alone are cast when they are written.
        lone = len(self.merge.clauses) == 1 and clause.condition is None
        if not clause.values or (lone and clause.side is not Side.NOT_MATCHED_BY_SOURCE):
            return {field.id: value for field, value in clause.values}
        return {field.id: value for field, value in self.merge.fits(frame, clause.values)}

    def _overlaid(
        self, frame: DataFrame, values: Sequence[Assigned], rows: DataFrame
    ) -> tuple[Assigned, ...]:
        there = {field.id: field for field in self.pinned.snapshot.schema.fields}
        plain = []
        for field, value in values:
            if isinstance(value, Over) and field.id in there:
                old, new = spark_types([there[field.id], field]).fields
                given = frame.select(value.value.alias("value")).schema.fields[0].dataType
                before = rows[quote_name(there[field.id].name)]
                kinds = old.dataType, new.dataType
                value = overlaid(self.functions, value.value, given, before, *kinds)
            plain.append((field, value.value if isinstance(value, Over) else value))
        return tuple(plain)

    def _updated(
        self,
        field: Field,
        rows: DataFrame,
        values: Sequence[Mapping[int, Column]],
        updating: Sequence[int],
        clause: Column,
    ) -> Column:
        setting = [at for at, given in enumerate(values) if field.id in given]
        if self.always_updates and setting == list(updating) and len(setting) == 1:
            return values[setting[0]][field.id].alias(field.name)
        value = self._old(field, rows)
        for at in setting:
            value = self.functions.when(clause == at, values[at][field.id]).otherwise(value)
        return value.alias(field.name)

    def _old(self, field: Field, rows: DataFrame) -> Column:
        """A column as it was, in the type that it has from now on."""
        there = next((f for f in self.pinned.snapshot.schema.fields if f.id == field.id), None)
        if there is None:
            return self.functions.lit(None)
        old, new = spark_types([there, field]).fields
        return cast_column(self.functions, rows[quote_name(there.name)], old.dataType, new.dataType)

    def _left_out(self, field: Field) -> Column:
        """What an INSERT that does not name the column puts there (MRG-2)."""
        if field.default is None:
            return self.functions.lit(None)
        return parsed(self.functions, default_sql(field.default, field.type))
