"""What the clauses of a MERGE say, checked against the table. Pure. Spec: MRG-1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.assignments import Assignment, Expression, assigned, check_whole, over
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arguments import check_expression, check_flags, check_set
from tablefmt.model.schema import Field, Schema

_CALL = """when_matched_update({"price": "s.price"}, "s.price > 0")"""


class Side(str, Enum):
    """Which rows a clause is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"
    """Source rows without a target row."""
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"
    """Target rows without a source row."""


class Action(str, Enum):
    """What a clause does with a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a MERGE."""

    side: Side
    action: Action
    condition: Expression | None = None
    """None: always."""
    values: Mapping[str, Expression] | None = None
    """New values by column; None for every column by name (`SET *`, `INSERT *`), or a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """A MERGE, without its source."""

    on: Expression
    source_alias: str = "s"
    target_alias: str = "t"
    clauses: tuple[Clause, ...] = ()
    merge_schema: bool = False
    """Columns that only the source has become columns of the table: by `SET *` and `INSERT *` all
    of them, else those that a clause names. Fields that its structs lack stay by `SET *`."""

    def of(self, *sides: Side) -> tuple[Clause, ...]:
        """The clauses about these rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side in sides)


@dataclass(frozen=True, slots=True)
class Step:
    """A clause with its columns found."""

    clause: Clause
    assignments: tuple[Assignment, ...] = ()
    """In the order of the table's columns. A column that an INSERT leaves out has its default, one
    that an UPDATE leaves out stays."""


def check_clauses(statement: MergeStatement) -> None:
    """Refuse what Spark refuses too.

    Raises:
        InvalidPredicateError: no clause; an action that its rows cannot have; a clause behind one
            that leaves it no row; equal aliases. InvalidRangeError: a flag that is none.
    """
    check_flags(merge_schema=statement.merge_schema)
    if not statement.clauses:
        raise InvalidPredicateError("a MERGE needs at least one WHEN clause")
    if statement.source_alias.casefold() == statement.target_alias.casefold():
        raise InvalidPredicateError(
            f"source and table are both called {statement.source_alias!r}; give them two names"
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
            raise InvalidPredicateError(f"no {_shown(clause)}: those rows cannot have it")
        if clause.side in always:
            raise InvalidPredicateError(
                f"{_shown(clause)} comes after one without a condition, so no row is left for it; "
                "only the last clause of a kind can do without"
            )
        if clause.condition is None:
            always.add(clause.side)


def resolve_clauses(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str]
) -> tuple[Step, ...]:
    """The clauses with the columns that they set, in their order.

    Args:
        statement: checked here too.
        schema: the table's; with `merge_schema` as it will be.
        source_names: the source's columns. For every column by name, all of the table's have to be
            among them unless `merge_schema` (then an UPDATE leaves the others, an INSERT makes them
            NULL); others of the source's are not looked at.

    Raises:
        InvalidPredicateError: as `check_clauses`; a clause that sets nothing.
        SchemaMismatchError: a column that is not there, or is set twice.
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
    """What `SET *` and `INSERT *` set: columns of the table, and of the source, by name.

    Args:
        schema: the table's.
        source_names: the source's columns.
        partly: the source may lack some of the table's.

    Raises:
        SchemaMismatchError: the source lacks columns, or has one twice.
    """
    by_name: dict[str, str] = {}
    for name in source_names:
        if name.casefold() in by_name and schema.find(name) is not None:
            raise SchemaMismatchError(f"the source has column {name!r} twice", [name])
        by_name[name.casefold()] = name
    missing = [f.name for f in schema.fields if f.name.casefold() not in by_name]
    if len(missing) == len(schema.fields) or (missing and not partly):
        raise SchemaMismatchError(
            f"every column is to be set: the source lacks {', '.join(map(repr, missing))}; "
            "name the columns to set, or pass merge_schema=True",
            missing,
        )
    return tuple(
        (field, by_name[field.name.casefold()])
        for field in schema.fields
        if field.name.casefold() in by_name
    )


def _all_columns(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str], clause: Clause
) -> tuple[Assignment, ...]:
    if clause.side is Side.NOT_MATCHED_BY_SOURCE:
        raise InvalidPredicateError(f"{_shown(clause)} has no source row; say what is set")
    columns = columns_by_name(schema, source_names, partly=statement.merge_schema)
    overlays = statement.merge_schema and clause.action is Action.UPDATE
    values = [(field, source_column(statement, name)) for field, name in columns]
    return tuple((field, over(field, text) if overlays else text) for field, text in values)


def source_column(statement: MergeStatement, name: str) -> str:
    """SQL text of a column of the source."""
    return f"{quote_name(statement.source_alias)}.{quote_name(name)}"


def when(clause: Clause) -> str:
    """The clause up to its condition, as SQL writes it."""
    return f"WHEN {clause.side.value.upper().replace('_', ' ')}"


@contextmanager
def in_clause(clause: str) -> Iterator[None]:
    """Errors about expressions inside say which clause it is."""
    try:
        yield
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        error.args = (f"{clause}: {error}", *error.args[1:])
        raise


def _shown(clause: Clause) -> str:
    return f"{when(clause)} THEN {clause.action.value.upper()}"
