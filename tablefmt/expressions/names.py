"""Names of columns in text: which relation and which column of it they mean. Pure. Spec: SQL-7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.parse import parse_tree
from tablefmt.model.near_names import there_are
from tablefmt.model.schema import Field, Schema, is_nested

_SPARKS_OWN = frozenset({"_metadata", "session", "system"})
"""What Spark knows besides: a column of every file, and where variables of a session are."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns that an expression may name."""

    schema: Schema
    prefix: str = "t"
    """Column i is called `<prefix><i>` in the text made."""
    alias: str | None = None
    """What the statement calls it; None: no name, and its columns have no qualifier (SQL-7)."""

    def handle(self, at: int) -> str:
        """What a column is called in the text made."""
        return f"{self.prefix}{at}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A column of a relation, or a field inside it."""

    relation: Relation
    at: int
    """The column's place in the relation's schema."""
    path: tuple[str, ...]
    """Names of fields, from the column down; empty for the column itself."""

    @property
    def field(self) -> Field:
        """The column."""
        return self.relation.schema.fields[self.at]


def resolve(column: exp.Column, relations: Sequence[Relation]) -> list[Resolved]:
    """All that a name may mean: none is unknown, several are ambiguous.

    Args:
        column: as the parser has it; the first part is a relation's name where one fits.
        relations: their names take the first part before any column does.
    """
    parts = [part.name for part in column.parts]
    meanings: list[Resolved] = []
    if len(parts) > 1:
        for relation in relations:
            if relation.alias is not None and relation.alias.casefold() == parts[0].casefold():
                meanings += _at(relation, parts[1:])
    if not meanings:
        for relation in relations:
            meanings += _at(relation, parts)
    return meanings


_WITHOUT_PARENTHESES: Mapping[str, type[exp.Expression]] = {
    "current_date": exp.CurrentDate,
    "current_timestamp": exp.CurrentTimestamp,
    "current_user": exp.CurrentUser,
    "session_user": exp.SessionUser,
    "user": exp.CurrentUser,
}


def function_named(column: exp.Column) -> exp.Expression | None:
    """Return the function that Spark calls by a name alone, if there is no column of that name."""
    made = _WITHOUT_PARENTHESES.get(column.name.lower()) if len(column.parts) == 1 else None
    return None if made is None else made()


def _at(relation: Relation, parts: Sequence[str]) -> list[Resolved]:
    column = relation.schema.find(parts[0])
    if column is None or (len(parts) > 1 and not is_nested(column.type)):
        return []
    return [Resolved(relation, relation.schema.fields.index(column), tuple(parts[1:]))]


def no_column(path: Sequence[str], names: Sequence[str]) -> InvalidPredicateError:
    """The error of a path that leads to no column.

    Args:
        path: what was written, part by part.
        names: of the columns there are.
    """
    return InvalidPredicateError(f"no column {'.'.join(path)!r}; {there_are(path[-1], names)}")


def check_qualifiers(text: str, schema: Schema, alias: str | None = None) -> None:
    """Refuse a column behind a name that is neither the table's nor that of a nested column.

    Text that cannot be parsed here, or has sub-queries, which bring names of their own, is left to
    the engine.

    Args:
        text: of a condition over the table.
        schema: the table's.
        alias: what the statement calls it; None: nothing.

    Raises:
        InvalidPredicateError: which column.
    """
    try:
        tree = parse_tree(text)
    except InvalidPredicateError:
        return
    if tree.find(exp.Query) is not None:
        return
    known = {p.name.casefold() for each in tree.find_all(exp.Lambda) for p in each.expressions}
    known |= _SPARKS_OWN if alias is None else {*_SPARKS_OWN, alias.casefold()}
    for column in tree.find_all(exp.Column):
        names = [part.name for part in column.parts]
        outer = schema.find(names[0])
        nested = outer is not None and is_nested(outer.type)
        if len(names) > 1 and not nested and names[0].casefold() not in known:
            raise no_column(names, schema.names)
