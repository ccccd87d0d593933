"""What an UPDATE sets and what the clauses of a MERGE say, checked against the table. Pure.

Expressions are carried, not looked into: SQL text, or what an engine has instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.paths import parts_of
from tablefmt.model.schema import Field, Schema, Struct, is_nested, number_fields

Expression = Any
"""SQL text in Spark's dialect; on Spark also a Column."""

Assignment = tuple[Field, Expression]
"""A column of the table, or a field of a struct, and its new value: an expression, `Parts` or
`Over`."""

NESTED_INSERT = "insert:nested-field"
INSIDE_COLLECTION = "update:inside-array-or-map"


@dataclass(frozen=True, slots=True)
class Parts:
    """New values of fields of a struct; its other fields stay as they are. Spec: SQL-5."""

    values: tuple[Assignment, ...]
    """One at least, in the order of the struct's fields."""


@dataclass(frozen=True, slots=True)
class Over:
    """A new value of a struct that may lack some of its fields: those stay as they are, at any
    depth; NULL over NULL is NULL. Spec: MRG-1."""

    value: Expression


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
        UnsupportedFeatureError: something inside an array or a map is set; an INSERT names a part
            of a column.
    """
    check_clauses(statement)
    found = []
    for clause in statement.clauses:
        if clause.action is Action.DELETE:
            found.append(Step(clause))
        elif clause.values is None:
            found.append(Step(clause, _all_columns(statement, schema, source_names, clause)))
        else:
            values = assigned(clause.values, schema, statement.target_alias)
            if clause.action is Action.INSERT:
                _check_whole(values)
            found.append(Step(clause, values))
    return tuple(found)


def _check_whole(values: Sequence[Assignment]) -> None:
    for column, value in values:
        if isinstance(value, Parts):
            raise UnsupportedFeatureError(
                f"INSERT of a part of column {column.name!r}; give the whole column, with "
                "named_struct()",
                [NESTED_INSERT],
            )


def assigned(
    values: Mapping[str, Expression], schema: Schema, alias: str | None = None
) -> tuple[Assignment, ...]:
    """The columns of SET or of an INSERT, in the table's order.

    Args:
        values: by column, or field of a struct: its name as it is, or as SQL has it, `alias` before
            it or not.
        schema: the table's.
        alias: what the statement calls the table.

    Raises: as `resolve_clauses`. Something is set twice as well by a struct and a part of it.
    """
    if not values:
        raise InvalidPredicateError("nothing is set; name one column at least")
    found: dict[str, tuple[Field, ...]] = {}
    for name in values:
        path = find_path(schema, name, alias)
        for other, there in found.items():
            shared = min(len(path), len(there))
            if path[:shared] == there[:shared]:
                raise SchemaMismatchError(
                    f"column {_dotted(max(path, there, key=len))!r} is set twice, as {other!r} and "
                    f"as {name!r}",
                    [path[0].name],
                )
        found[name] = path
    return _tree(schema.fields, [(path, values[name]) for name, path in found.items()])


def _tree(
    fields: Sequence[Field], given: Sequence[tuple[tuple[Field, ...], Expression]]
) -> tuple[Assignment, ...]:
    made: list[Assignment] = []
    for field in fields:
        mine = [(path[1:], value) for path, value in given if path[0] == field]
        if not mine:
            continue
        if not mine[0][0]:
            made.append((field, mine[0][1]))
        else:
            assert isinstance(field.type, Struct)
            made.append((field, Parts(_tree(field.type.fields, mine))))
    return tuple(made)


def find_path(schema: Schema, name: str, alias: str | None = None) -> tuple[Field, ...]:
    """The column, or the field of a struct, that a name in SET means, and what it is in.

    A column that is called exactly so comes first, then a column of the table that `alias` names,
    then a part of a column.

    Raises:
        SchemaMismatchError: there is none.
        UnsupportedFeatureError: it is inside an array, a map or a variant.
    """
    if not isinstance(name, str):
        raise SchemaMismatchError(f"{name!r} is no name of a column; give its text")
    plain = schema.find(name)
    if plain is not None:
        return (plain,)
    parts = parts_of(name)
    qualified = len(parts) > 1 and alias is not None and parts[0].casefold() == alias.casefold()
    if qualified and schema.find(parts[1]) is not None:
        parts = parts[1:]
    outer = schema.find(parts[0]) if parts else None
    if outer is None or (len(parts) > 1 and not is_nested(outer.type)):
        shown = ", ".join(map(repr, schema.names[:20])) + (", …" if len(schema.fields) > 20 else "")
        raise SchemaMismatchError(f"no column {name!r}; there are {shown}", [name])
    path = [outer]
    for part in parts[1:]:
        path.append(_field_of(path, part))
    return tuple(path)


def _field_of(path: Sequence[Field], name: str) -> Field:
    kind = path[-1].type
    if not isinstance(kind, Struct):
        if is_nested(kind):
            raise UnsupportedFeatureError(
                f"{name!r} is inside {_dotted(path)!r}, which is {kind}: only fields of structs "
                "are set one by one; set the whole of it",
                [INSIDE_COLLECTION],
            )
        raise SchemaMismatchError(f"{_dotted(path)!r} is {kind} and has no fields", [path[0].name])
    for field in kind.fields:
        if field.name.casefold() == name.casefold():
            return field
    raise SchemaMismatchError(
        f"{_dotted(path)!r} has no field {name!r}; there are "
        f"{', '.join(repr(f.name) for f in kind.fields)}",
        [path[0].name],
    )


def _dotted(path: Sequence[Field]) -> str:
    return ".".join(field.name for field in path)


def source_column(statement: MergeStatement, name: str) -> str:
    """SQL text of a column of the source."""
    return f"{quote_name(statement.source_alias)}.{quote_name(name)}"


def when(clause: Clause) -> str:
    """The clause up to its condition, as SQL writes it."""
    return f"WHEN {clause.side.value.upper().replace('_', ' ')}"


@contextmanager
def naming(clause: str) -> Iterator[None]:
    """Errors about expressions inside say which clause it is."""
    try:
        yield
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        error.args = (f"{clause}: {error}", *error.args[1:])
        raise


def _said(clause: Clause) -> str:
    return f"{when(clause)} THEN {clause.action.value.upper()}"


def _all_columns(
    statement: MergeStatement, schema: Schema, source_names: Sequence[str], clause: Clause
) -> tuple[Assignment, ...]:
    if clause.side is Side.NOT_MATCHED_BY_SOURCE:
        raise InvalidPredicateError(f"{_said(clause)} has no source row; say what is set")
    found = columns_by_name(schema, source_names, partly=statement.merge_schema)
    overlays = statement.merge_schema and clause.action is Action.UPDATE
    values = [(field, source_column(statement, name)) for field, name in found]
    return tuple((field, over(field, text) if overlays else text) for field, text in values)


def over(field: Field, value: Expression) -> Expression:
    """What `SET *` with schema merging sets a column to."""
    return Over(value) if isinstance(field.type, Struct) else value


def evolving(statement: MergeStatement, schema: Schema, given: Schema) -> Schema | None:
    """The columns, and fields, that a MERGE may bring into the table; None: none.

    Args:
        statement: with `merge_schema` or without.
        schema: the table's.
        given: the source's.

    Returns:
        All columns of the source, if a clause says `SET *` or `INSERT *`; else those that clauses
        about its rows name and the table lacks.
    """
    if not statement.merge_schema:
        return None
    clauses = statement.of(Side.MATCHED, Side.NOT_MATCHED)
    if any(c.values is None and c.action is not Action.DELETE for c in clauses):
        return given
    paths = [
        path
        for clause in clauses
        for name, value in (clause.values or {}).items()
        if (path := _only_given(statement, schema, given, name, value))
    ]
    return number_fields(_pruned(given.fields, paths)) if paths else None


def _only_given(
    statement: MergeStatement, schema: Schema, given: Schema, name: str, value: Expression
) -> tuple[Field, ...]:
    """Where the source has what a clause names, if the table lacks it or a part of it."""
    if not isinstance(name, str):
        return ()
    plain = given.find(name)
    parts = [name] if plain is not None or schema.find(name) is not None else parts_of(name)
    if len(parts) > 1 and parts[0].casefold() == statement.target_alias.casefold():
        parts = parts[1:]
    theirs = _walked(given.fields, parts)
    ours = _walked(schema.fields, parts)
    if len(theirs) < len(parts):
        return ()
    if len(ours) == len(parts):
        # The whole of a column as the source has it: with what it has inside.
        written = ".".join(parts).casefold()
        text = value.replace("`", "").casefold() if isinstance(value, str) else ""
        return theirs if text == f"{statement.source_alias.casefold()}.{written}" else ()
    inside = ours[-1].type if ours else None
    return () if inside is not None and not isinstance(inside, Struct) else theirs


def _walked(fields: Sequence[Field], parts: Sequence[str]) -> tuple[Field, ...]:
    """The fields on a path, as far as there are any."""
    path: list[Field] = []
    for part in parts:
        found = next((f for f in fields if f.name.casefold() == part.casefold()), None)
        if found is None:
            break
        path.append(found)
        fields = found.type.fields if isinstance(found.type, Struct) else ()
    return tuple(path)


def _pruned(fields: Sequence[Field], paths: Sequence[tuple[Field, ...]]) -> list[Field]:
    """Of the fields, those that are on a path or at its end."""
    kept = []
    for field in fields:
        mine = [path[1:] for path in paths if path[0] == field]
        if mine and isinstance(field.type, Struct) and all(mine):
            kept.append(replace(field, type=Struct(tuple(_pruned(field.type.fields, mine)))))
        elif mine:
            kept.append(field)
    return kept


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
