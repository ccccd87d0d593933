"""A MERGE as Spark has it: what is carried out, whoever put it together. Spec: MRG-1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablefmt.expressions.assignments import Over
from tablefmt.expressions.clauses import Action, Side
from tablefmt.model.schema import Field
from tablefmt.session.condition import AnalyzedCondition
from tablefmt.spark.columns.conditions import bound
from tablefmt.spark.statements.dml import Where
from tablefmt.spark.statements.source_rows import EquatedColumn

Assigned = tuple[Field, Any]
"""A column of the table, and its new value as Spark has it, or an `Over` of that."""


def plain(value: Any) -> Any:
    """The value itself."""
    return value.value if isinstance(value, Over) else value


@dataclass(frozen=True, slots=True, eq=False)
class SparkClause:
    """One WHEN, as Spark has it."""

    side: Side
    action: Action
    condition: Any | None = None
    values: tuple[Assigned, ...] = ()

    def over(self, rows: Any) -> SparkClause:
        """The same, its names those of `rows` alone (MRG-1). Raises AnalysisException."""
        condition = None if self.condition is None else bound(rows, self.condition)
        values = tuple((field, bound(rows, value)) for field, value in self.values)
        return replace(self, condition=condition, values=values)


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """A MERGE, resolved or to be resolved by Spark."""

    where: Where
    """ON: what is understood of its parts over the table alone; and how Spark has it, all of it."""
    source: Any
    """A DataFrame."""
    clauses: tuple[SparkClause, ...]
    equated: tuple[EquatedColumn, ...] = ()
    """Parts `column = expression over the source` of ON."""
    set_columns: tuple[int, ...] | None = None
    """Ids of the columns that UPDATE clauses set to something new; None: any."""
    by_source: AnalyzedCondition | None = None
    """What is understood of the conditions for rows not matched by the source; None: no clause."""
    may_query: bool = True
    """Whether an expression may have a sub-query, or a function with one."""
    may_be_chance: bool = True
    """Whether a clause's condition may be one that is not deterministic."""
    bind_source: Callable[[Any], Any] = lambda rows: rows
    """Gives stored rows of the source the names by which the expressions know them."""
    by_name: bool = False
    """Whether expressions call columns by names that Spark has not resolved yet."""
    fits: Callable[[Any, Sequence[Assigned]], Sequence[Assigned]] = lambda _, values: values
    """Gives new values, worked out over a DataFrame, the types of their columns."""

    def of(self, side: Side) -> tuple[SparkClause, ...]:
        """The clauses about these rows, in order."""
        return tuple(c for c in self.clauses if c.side is side)
