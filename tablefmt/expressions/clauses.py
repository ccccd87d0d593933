"""Clauses of a MERGE, checked against the table. Pure. Spec: MRG-1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.assignments import Assignment, Expression, assigned, check_whole, over
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arguments import check_expression, check_flags, check_set
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Field, Schema

_CALL = """when_matched_update({"price": "s.price"}, "s.price > 0")"""


class Side(str, Enum):
    """Rows that a clause applies to."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"
    """Source rows without a target row."""
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"
    """Target rows without a source row."""


class Action(str, Enum):
    """Action of a clause on a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a MERGE."""

    side: Side
    action: Action
    condition: Expression | None = None
    """Condition of the clause. None: it always applies."""
    values: Mapping[str, Expression] | None = None
    """New values by column. None for all columns by name (`SET *`, `INSERT *`), or for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """MERGE statement without its source."""

    on: Expression
    source_alias: str = "s"
    target_alias: str = "t"
    clauses: tuple[Clause, ...] = ()
    merge_schema: bool = False
    """True to add columns of the source that the table lacks. `SET *` and `INSERT *` add all of
    them, other clauses add those they name. With `SET *`, fields that the source's structs lack
    stay unchanged.
    """

    def of(self, *sides: Side) -> tuple[Clause, ...]:
        """Return the clauses for these rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side in sides)


@dataclass(frozen=True, slots=True)
class Step:
    """Clause with its columns resolved."""

    clause: Clause
    assignments: tuple[Assignment, ...] = ()
    """Assignments in the order of the table's columns. A column that an INSERT leaves out gets its
    default. A column that an UPDATE leaves out stays unchanged.
    """


def check_clauses(statement: MergeStatement) -> None:
    """Refuse statements that Spark also refuses.

    Raises:
        InvalidPredicateError: no clause; an action that its rows cannot have; a clause after one
            that matches all its rows; equal aliases. InvalidArgumentError: an invalid flag.
    """
    check_flags(merge_schema=statement.merge_schema)
    if not statement.clauses:
        raise InvalidPredicateError("a MERGE needs at least one WHEN clause")
    if folded(statement.source_alias) == folded(statement.target_alias):
        raise InvalidPredicateError(
            f"source and table are both named {statement.source_alias!r}; use two names"
        )
    check_expression(statement.on, "ON")
    always: set[Side] = set()
    for clause in statement.clauses:
        if clause.values is not None:
            check_set(clause.values, _CALL)
        if clause.condition is not None:
            check_expression(clause.condition, f"the condition of {_shown(clause)}")
        inserts = clause.action is Action.INSERT
        if inserts != (clause.side is Side.NOT_MATCHED):
            raise InvalidPredicateError(
                f"{_shown(clause)} is not possible: these rows cannot have it"
            )
        if clause.side in always:
            raise InvalidPredicateError(
                f"{_shown(clause)} follows a clause without a condition and can never apply; "
                "only the last clause of a kind may omit the condition"
            )
        if clause.condition is None:
            always.add(clause.side)


def resolve_clauses(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str]
) -> tuple[Step, ...]:
    """Return the clauses with the columns that they set, in their order.

    Args:
        statement: this function also checks it.
        schema: the table's schema; with `merge_schema`, the evolved one.
        source_names: the source's columns. For all columns by name, they must include the table's
            columns unless `merge_schema`. Then an UPDATE leaves missing columns unchanged, and an
            INSERT sets them to NULL. Additional source columns are ignored.

    Raises:
        InvalidPredicateError: as `check_clauses`; a clause without assignments.
        SchemaMismatchError: a column that does not exist, or is set twice.
        UnsupportedFeatureError: something inside an array or a map is set; an INSERT names a part
            of a column.
    """
    check_clauses(statement)
    steps = []
    for clause in statement.clauses:
        if clause.action is Action.DELETE:
            steps.append(Step(clause))
        elif clause.values is None:
            steps.append(Step(clause, _all_columns(statement, schema, source_names, clause)))
        else:
            values = assigned(clause.values, schema, statement.target_alias)
            if clause.action is Action.INSERT:
                check_whole(values)
            steps.append(Step(clause, values))
    return tuple(steps)


def columns_by_name(
    schema: Schema, source_names: Sequence[str], *, partly: bool
) -> tuple[tuple[Field, str], ...]:
    """Return the columns that `SET *` and `INSERT *` set: table column and source column, by name.

    Args:
        schema: the table's schema.
        source_names: the source's columns.
        partly: the source may lack some of the table's columns.

    Raises:
        SchemaMismatchError: the source lacks columns, or has one twice.
    """
    by_name: dict[str, str] = {}
    for name in source_names:
        if folded(name) in by_name and schema.find(name) is not None:
            raise SchemaMismatchError(f"the source has column {name!r} twice", [name])
        by_name[folded(name)] = name
    missing = [f.name for f in schema.fields if folded(f.name) not in by_name]
    if len(missing) == len(schema.fields) or (missing and not partly):
        raise SchemaMismatchError(
            f"the source lacks {', '.join(map(repr, missing))}, but every column is to be set; "
            "name the columns to set, or pass merge_schema=True",
            missing,
        )
    return tuple(
        (field, by_name[folded(field.name)])
        for field in schema.fields
        if folded(field.name) in by_name
    )


def _all_columns(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str], clause: Clause
) -> tuple[Assignment, ...]:
    if clause.side is Side.NOT_MATCHED_BY_SOURCE:
        raise InvalidPredicateError(f"{_shown(clause)} has no source row; pass the columns to set")
    columns = columns_by_name(schema, source_names, partly=statement.merge_schema)
    overlays = statement.merge_schema and clause.action is Action.UPDATE
    values = [(field, source_column(statement, name)) for field, name in columns]
    return tuple((field, over(field, text) if overlays else text) for field, text in values)


def source_column(statement: MergeStatement, name: str) -> str:
    """Return the SQL text of a column of the source."""
    return f"{quote_name(statement.source_alias)}.{quote_name(name)}"


def when(clause: Clause) -> str:
    """Return the clause up to its condition, as SQL text."""
    return f"WHEN {clause.side.value.upper().replace('_', ' ')}"


@contextmanager
def in_clause(clause: str) -> Iterator[None]:
    """Prefix errors about expressions with the clause."""
    try:
        yield
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        error.args = (f"{clause}: {error}", *error.args[1:])
        raise


def _shown(clause: Clause) -> str:
    return f"{when(clause)} THEN {clause.action.value.upper()}"
