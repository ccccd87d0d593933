"""What an UPDATE sets and what the clauses of a MERGE say, checked against the table. Pure.

Expressions are carried, not looked into: SQL text, or what an engine has instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Field, Schema, is_nested

Expression = Any
"""SQL text in Spark's dialect; on Spark also a Column."""

Assignment = tuple[Field, Expression]
"""A column of the table and its new value."""


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
    """Columns that only the source has become columns of the table, by `SET *` and `INSERT *`."""

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
            that leaves it no row; equal aliases.
    """
    if not statement.clauses:
        raise InvalidPredicateError("a MERGE needs at least one WHEN clause")
    if statement.source_alias.casefold() == statement.target_alias.casefold():
        raise InvalidPredicateError(
            f"source and table are both called {statement.source_alias!r}; give them two names"
        )
    always: set[Side] = set()
    for clause in statement.clauses:
        inserts = clause.action is Action.INSERT
        if inserts != (clause.side is Side.NOT_MATCHED):
            raise InvalidPredicateError(f"no {_said(clause)}: those rows cannot have it")
        if clause.side in always:
            raise InvalidPredicateError(
                f"{_said(clause)} comes after one without a condition, so no row is left for it; "
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
        UnsupportedFeatureError: a part of a nested column is set.
    """
    check_clauses(statement)
    found = []
    for clause in statement.clauses:
        if clause.action is Action.DELETE:
            found.append(Step(clause))
        elif clause.values is None:
            found.append(Step(clause, _all_columns(statement, schema, source_names, clause)))
        else:
            found.append(Step(clause, assigned(clause.values, schema, statement.target_alias)))
    return tuple(found)


def assigned(
    values: Mapping[str, Expression], schema: Schema, alias: str | None = None
) -> tuple[Assignment, ...]:
    """The columns of SET or of an INSERT, in the table's order.

    Args:
        values: by column: its name as it is, or as SQL has it, `alias` before it or not.
        schema: the table's.
        alias: what the statement calls the table.

    Raises: as `resolve_clauses`.
    """
    if not values:
        raise InvalidPredicateError("nothing is set; name one column at least")
    found: dict[int, tuple[str, Expression]] = {}
    for name, value in values.items():
        field = find_column(schema, name, alias)
        if field.id in found:
            raise SchemaMismatchError(
                f"column {field.name!r} is set twice, as {found[field.id][0]!r} and as {name!r}",
                [field.name],
            )
        found[field.id] = (name, value)
    return tuple((field, found[field.id][1]) for field in schema.fields if field.id in found)


def find_column(schema: Schema, name: str, alias: str | None = None) -> Field:
    """The column that a name in SET means: called exactly so, or so spelt in SQL.

    Raises:
        SchemaMismatchError: there is none. UnsupportedFeatureError: a part of a nested one.
    """
    if not isinstance(name, str):
        raise SchemaMismatchError(f"{name!r} is no name of a column; give its text")
    plain = schema.find(name)
    if plain is not None:
        return plain
    parts = _parts(name)
    if len(parts) > 1 and alias is not None and parts[0].casefold() == alias.casefold():
        parts = parts[1:]
    outer = schema.find(parts[0]) if parts else None
    if outer is not None and len(parts) == 1:
        return outer
    if outer is not None and is_nested(outer.type):
        raise UnsupportedFeatureError(
            f"{name!r} is a part of column {outer.name!r}; set the whole column",
            ["update:nested-field"],
        )
    shown = ", ".join(map(repr, schema.names[:20])) + (", …" if len(schema.fields) > 20 else "")
    raise SchemaMismatchError(f"no column {name!r}; there are {shown}", [name])


def source_column(statement: MergeStatement, name: str) -> str:
    """SQL text of a column of the source."""
    return f"{quote_name(statement.source_alias)}.{quote_name(name)}"


def _said(clause: Clause) -> str:
    when = clause.side.value.upper().replace("_", " ")
    return f"WHEN {when} THEN {clause.action.value.upper()}"


def _all_columns(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str], clause: Clause
) -> tuple[Assignment, ...]:
    if clause.side is Side.NOT_MATCHED_BY_SOURCE:
        raise InvalidPredicateError(f"{_said(clause)} has no source row; say what is set")
    by_name: dict[str, str] = {}
    for name in source_names:
        if name.casefold() in by_name and schema.find(name) is not None:
            raise SchemaMismatchError(f"the source has column {name!r} twice", [name])
        by_name[name.casefold()] = name
    missing = [f.name for f in schema.fields if f.name.casefold() not in by_name]
    if len(missing) == len(schema.fields) or (missing and not statement.merge_schema):
        raise SchemaMismatchError(
            f"{_said(clause)} of every column: the source lacks {', '.join(map(repr, missing))}; "
            "name the columns to set, or pass merge_schema=True",
            missing,
        )
    return tuple(
        (field, source_column(statement, by_name[field.name.casefold()]))
        for field in schema.fields
        if field.name.casefold() in by_name
    )


def _parts(name: str) -> list[str]:
    """The parts of a name as SQL has them: dots divide, backticks quote. Empty if it is none."""
    return list(_read_parts(name)) if name else []


def _read_parts(name: str) -> Iterator[str]:
    at = 0
    while at <= len(name):
        if name[at : at + 1] != "`":
            end = name.find(".", at)
            end = len(name) if end < 0 else end
            yield name[at:end]
            at = end + 1
            continue
        part, at = "", at + 1
        while at < len(name):
            end = name.find("`", at)
            if end < 0:
                yield name
                return
            part += name[at:end]
            at = end + 1
            if name[at : at + 1] != "`":
                break
            part, at = part + "`", at + 1
        yield part
        at += 1
