"""A MERGE as Spark has it: what is carried out, whoever put it together. Spec: MRG-1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tablefmt.expressions.assignments import Over
from tablefmt.expressions.clauses import Action, Side
from tablefmt.model.schema import Field
from tablefmt.session.merge_analysis import MergeAnalysis
from tablefmt.spark.columns.conditions import bound
from tablefmt.spark.runtime.frames import Column, DataFrame
from tablefmt.spark.statements.dml import SparkCondition

Assigned = tuple[Field, "Column | Over"]
"""A column of the table, and its new value as Spark has it, or an `Over` of that."""


def plain(value: Column | Over) -> Column:
    """The value itself."""
    return value.value if isinstance(value, Over) else value


@dataclass(frozen=True, slots=True, eq=False)
class SparkClause:
    """One WHEN, as Spark has it."""

    side: Side
    action: Action
    condition: Column | None = None
    values: tuple[Assigned, ...] = ()

    def over(self, rows: DataFrame) -> SparkClause:
        """The same, its names those of `rows` alone (MRG-1). Raises AnalysisException."""
        condition = None if self.condition is None else bound(rows, self.condition)
        values = tuple((field, bound(rows, value)) for field, value in self.values)
        return replace(self, condition=condition, values=values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merge:
    """A MERGE, resolved or to be resolved by Spark."""

    analysis: MergeAnalysis
    """What is understood of it; `EquatedColumn.value` is a Column."""
    on: Column
    """ON as Spark has it, all of it."""
    clauses: tuple[SparkClause, ...]
    source: DataFrame
    """A DataFrame."""
    origin: DataFrame | None = None
    """The query whose stored rows `source` reads: its plan says which tables. None: `source`'s."""
    bind_target: Callable[[DataFrame], DataFrame]
    """Gives rows of the table the names by which the expressions know them."""
    bind_source: Callable[[DataFrame], DataFrame]
    """Gives stored rows of the source such names."""
    fits: Callable[[DataFrame, Sequence[Assigned]], Sequence[Assigned]]
    """Gives new values, worked out over a DataFrame, the types of their columns."""
    by_name: bool = False
    """Whether expressions call columns by names that Spark has not resolved yet."""
    may_query: bool = True
    """Whether an expression may have a sub-query, or a function with one."""
    may_be_chance: bool = True
    """Whether a clause's condition may be one that is not deterministic."""

    def of(self, side: Side) -> tuple[SparkClause, ...]:
        """The clauses about these rows, in order."""
        return tuple(c for c in self.clauses if c.side is side)

    @property
    def where(self) -> SparkCondition:
        """ON, as a condition over the table's rows."""
        return SparkCondition(self.analysis.on, self.on, self.bind_target)
