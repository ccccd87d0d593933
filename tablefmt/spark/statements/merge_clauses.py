"""Clauses of a MERGE as Columns, from SQL or from Python, and the columns that they write.

Nothing runs here: Spark evaluates every expression later. The analysis of a MERGE built in Python
prunes files and feeds the conflict rules. Text that only Spark can parse makes the MERGE read every
file. Spec: MRG-1, MRG-2, MRG-3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.ddl import default_sql
from tablefmt.expressions.generated_columns import generated_columns, recomputed_columns
from tablefmt.expressions.merge_statement import (
    Action,
    MergeStatement,
    Side,
    Step,
    evolving_columns,
    resolve_clauses,
    source_column,
)
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.set_assignments import Expression, Over
from tablefmt.expressions.sql_parser import Relation, check_qualifiers
from tablefmt.model.identity_columns import identity_ids
from tablefmt.model.schema import Field
from tablefmt.session.merge_analysis import EquatedColumn, MergeAnalysis, StatementReader
from tablefmt.session.merge_pairs import ACTIONS, KEPT
from tablefmt.session.metadata_changes import merged
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.columns.projection import check_frame, incoming
from tablefmt.spark.columns.row_conditions import as_column, bound, is_plain, session_zone
from tablefmt.spark.columns.store_assignment import (
    cast_column,
    new_column,
    overlaid,
    spark_types,
    store_assigned,
)
from tablefmt.spark.pyspark_objects import Column, DataFrame, Functions, Session, functions_of
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.statements.dml import SparkCondition

NewValue = tuple[Field, "Column"]
"""A column of the table, and its new value."""

Assignment = tuple[Field, "Column | Over"]
"""A column of the table, and its new value as a Column, or an `Over` of a Column."""


def plain(value: Column | Over) -> Column:
    """Return the value without `Over`."""
    return value.value if isinstance(value, Over) else value


@dataclass(frozen=True, slots=True, eq=False)
class SparkClause:
    """One WHEN clause, with Columns."""

    side: Side
    action: Action
    condition: Column | None = None
    values: tuple[Assignment, ...] = ()

    def over(self, rows: DataFrame) -> SparkClause:
        """Return the clause with names resolved in `rows` (MRG-1). Raises AnalysisException"""
        condition = None if self.condition is None else bound(rows, self.condition)
        values = tuple((field, bound(rows, plain(value))) for field, value in self.values)
        return replace(self, condition=condition, values=values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merge:
    """A MERGE, resolved by Spark already or not yet."""

    analysis: MergeAnalysis
    """Analysis of the MERGE. `EquatedColumn.value` is a Column."""
    on: Column
    """The whole ON condition."""
    clauses: tuple[SparkClause, ...]
    source: DataFrame
    """The source rows."""
    origin: DataFrame | None = None
    """Query that produced the stored rows of `source`. Its plan shows the tables that it reads.

    None: `source` is the query itself.
    """
    bind_target: Callable[[DataFrame], DataFrame]
    """Gives rows of the table the column names that the expressions use."""
    bind_source: Callable[[DataFrame], DataFrame]
    """Gives stored rows of the source the column names that the expressions use."""
    fits: Callable[[DataFrame, Sequence[NewValue]], Sequence[NewValue]]
    """Casts new values over a DataFrame to the types of their columns."""
    by_name: bool = False
    """True if expressions have column names that Spark has not resolved yet."""
    may_query: bool = True
    """True if an expression may contain a subquery, or a function with a subquery."""
    may_be_chance: bool = True
    """True if a clause's condition may be nondeterministic."""

    def of(self, side: Side) -> tuple[SparkClause, ...]:
        """Return the clauses of a side, in order."""
        return tuple(c for c in self.clauses if c.side is side)

    @property
    def where(self) -> SparkCondition:
        """ON, as a condition over the table's rows."""
        return SparkCondition(self.analysis.on, self.on, self.bind_target)


def merge_of(
    spark: Session,
    statement: MergeStatement,
    source: DataFrame,
    origin: DataFrame | None = None,
) -> Callable[[TransactionSnapshot], Merge]:
    """Return a function that makes the MERGE for a version of the table.

    Args:
        spark: the session.
        statement: the statement. Expressions are SQL text or Columns.
        source: a DataFrame.
        origin: as in `Merge`.

    The returned function raises:
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: an invalid statement.
    """

    def of_version(txn: TransactionSnapshot) -> Merge:
        check_frame(source)
        columns = incoming(source, txn.target.schema)
        coming = evolving_columns(statement, txn.target.schema, columns)
        if coming is not None:
            txn.target = merged(txn.target, coming)
        filled = {each.field.id for each in generated_columns(txn.target)}
        filled |= identity_ids(txn.target)
        steps = resolve_clauses(statement, txn.target.schema, source.columns, filled)
        reader = StatementReader(
            Relation(txn.snapshot.schema, "t", statement.target_alias),
            Relation(columns, "s", statement.source_alias),
            session_zone(spark),
        )
        return replace(_merge(statement, steps, source, reader), origin=origin)

    return of_version


def _merge(
    statement: MergeStatement, steps: Sequence[Step], source: DataFrame, reader: StatementReader
) -> Merge:
    """Return a MERGE of the builder as expressions of Spark."""
    functions, schema = functions_of(source), reader.target.schema
    for step in steps:
        condition = step.clause.condition
        if step.clause.side is Side.NOT_MATCHED_BY_SOURCE and isinstance(condition, str):
            check_qualifiers(condition, schema, statement.target_alias)
    analysis = reader.analyze(statement, steps)

    def new(field: Field, value: Expression) -> Column | Over:
        if isinstance(value, Over):
            return Over(as_column(functions, value.value))
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
    """Yield the columns that ON equates with a source column, with that column as a Column.

    Columns that ON equates with other expressions are left out.
    """
    for each in analysis.equated:
        if each.value.source is not None:
            text = source_column(statement, each.value.source.name)
            yield replace(each, value=parsed(functions, text))


def _expressions(on: Expression, steps: Sequence[Step]) -> Iterator[Expression]:
    yield on
    for step in steps:
        yield step.clause.condition
        for _, value in step.assignments:
            yield plain(value)


NONE = -1
"""Clause number of a row without an applicable clause."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeColumns:
    """Columns that one MERGE writes."""

    txn: TransactionSnapshot
    merge: Merge
    functions: Functions
    """Functions of Spark for the kind of session."""

    @property
    def fields(self) -> Sequence[Field]:
        """Columns of the table after the MERGE."""
        return self.txn.target.schema.fields

    @property
    def always_updates(self) -> bool:
        """True if every row that a clause applies to, or that matches, is updated."""
        matched = self.merge.of(Side.MATCHED)
        clauses = [*matched, *self.merge.of(Side.NOT_MATCHED_BY_SOURCE)]
        complete = bool(matched) and matched[-1].condition is None
        return complete and all(c.action is Action.UPDATE for c in clauses)

    def first_clause(
        self, clauses: Sequence[SparkClause], is_matched: Column | None = None
    ) -> Column:
        """Return the number of the first clause that applies to a row, or `NONE`.

        Args:
            clauses: MATCHED clauses, NOT MATCHED BY SOURCE clauses, or both.
            is_matched: whether a row is matched, if there are clauses of both sides.
        """
        first: Column | None = None
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
        """Return the action for a row as an int: KEPT, DELETED or UPDATED.

        Args:
            clauses: as in `first_clause`.
            clause: the Column from `first_clause`.
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
        """Return all columns of updated rows: the values that the clause sets, else the old ones.

        Args:
            frame: pairs of rows, with the clause that applies.
            rows: the table's rows.
            clauses: as in `first_clause`.
            clause: the Column with the number of the clause.
        """
        values = [self._values(frame, each, rows) for each in clauses]
        updating = [at for at, each in enumerate(clauses) if each.action is Action.UPDATE]
        left_out = self._recomputed([values[at] for at in updating])
        return [
            self._updated(field, rows, values, updating, clause)
            for field in self.fields
            if field.id not in left_out
        ]

    def _recomputed(self, values: Sequence[Mapping[int, Column]]) -> frozenset[int]:
        """Return the generated columns that the backend computes for updated rows (GEN-4).

        Args:
            values: the columns that each UPDATE sets.

        Raises:
            UnsupportedFeatureError: one UPDATE sets the column, and another one its sources.
        """
        changing = frozenset[int]().union(
            *(recomputed_columns(self.txn.target, given) for given in values)
        )
        self._check_not_set(changing, values)
        return changing

    def _check_not_set(
        self, computed: Collection[int], values: Sequence[Mapping[int, Column]]
    ) -> None:
        for field in self.fields:
            if field.id in computed and any(field.id in given for given in values):
                raise UnsupportedFeatureError(
                    f"one WHEN clause sets the generated column {field.name!r}, and another one "
                    "leaves it to be computed; name the column in all of these clauses or in none",
                    ["merge:generated-column"],
                )

    def inserted(
        self, frame: DataFrame, clauses: Sequence[SparkClause], clause: Column | None
    ) -> list[Column]:
        """Return the columns of inserted rows that at least one clause sets.

        Args:
            frame: source rows, with the clause that applies.
            clauses: the clauses, which insert.
            clause: the Column with the number of the clause. None: a single clause inserts all
                rows.
        """
        values = [self._values(frame, each) for each in clauses]
        for each in generated_columns(self.txn.target):
            if any(each.field.id not in given for given in values):
                self._check_not_set([each.field.id], values)
        columns = []
        for field in self.fields:
            setting = [
                (at, given[field.id]) for at, given in enumerate(values) if field.id in given
            ]
            if not setting:
                continue
            value = setting[0][1]
            if clause is not None:
                value = self._left_out(field)
                for at, new in setting:
                    value = self.functions.when(clause == at, new).otherwise(value)
            columns.append(value.alias(field.name))
        return columns

    def _values(
        self, frame: DataFrame, clause: SparkClause, rows: DataFrame | None = None
    ) -> dict[int, Column]:
        """Return the values that a clause sets, by column id. `rows` are the table's rows."""
        values = self._overlaid(frame, clause.values, rows)
        # If one clause writes all rows, they are cast when they are written.
        lone = len(self.merge.clauses) == 1 and clause.condition is None
        if not values or (lone and clause.side is not Side.NOT_MATCHED_BY_SOURCE):
            return {field.id: value for field, value in values}
        return {field.id: value for field, value in self.merge.fits(frame, values)}

    def _overlaid(
        self, frame: DataFrame, values: Sequence[Assignment], rows: DataFrame | None
    ) -> list[NewValue]:
        there = {field.id: field for field in self.txn.snapshot.schema.fields}
        overlaid_values = []
        for field, value in values:
            new_value = plain(value)
            if isinstance(value, Over) and field.id in there:
                assert rows is not None, "only an UPDATE has old values"
                old, new = spark_types([there[field.id], field]).fields
                given = frame.select(value.value.alias("value")).schema.fields[0].dataType
                before = rows[quote_name(there[field.id].name)]
                kinds = old.dataType, new.dataType
                new_value = overlaid(self.functions, value.value, given, before, *kinds)
            overlaid_values.append((field, new_value))
        return overlaid_values

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
        """Return a column's old value in the column's new type."""
        there = next((f for f in self.txn.snapshot.schema.fields if f.id == field.id), None)
        if there is None:
            return self.functions.lit(None)
        old, new = spark_types([there, field]).fields
        return cast_column(self.functions, rows[quote_name(there.name)], old.dataType, new.dataType)

    def _left_out(self, field: Field) -> Column:
        """Return the value of a column that an INSERT does not name (MRG-2)."""
        if field.default is None:
            return self.functions.lit(None)
        return parsed(self.functions, default_sql(field.default, field.type))
