"""Resolution of column names in text to relations and columns. Pure. Spec: SQL-7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.parse import parse_tree
from tablefmt.model.case_folding import folded
from tablefmt.model.near_names import there_are
from tablefmt.model.schema import Field, Schema, is_nested

_SPARKS_OWN = frozenset({"_metadata", "session", "system"})
"""Names that Spark adds: a column of every file, and the namespaces of session variables."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation whose columns an expression may name."""

    schema: Schema
    prefix: str = "t"
    """Prefix of the generated names: column i is `<prefix><i>`."""
    alias: str | None = None
    """Name in the statement. None: no name, and its columns have no qualifier (SQL-7)."""

    def handle(self, at: int) -> str:
        """Return the generated name of a column."""
        return f"{self.prefix}{at}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """Column of a relation, or a field inside it."""

    relation: Relation
    at: int
    """Position of the column in the relation's schema."""
    path: tuple[str, ...]
    """Field names from the column down; empty for the column itself."""

    @property
    def field(self) -> Field:
        """Return the column."""
        return self.relation.schema.fields[self.at]


def resolve(column: exp.Column, relations: Sequence[Relation]) -> list[Resolved]:
    """Return all possible meanings of a name: none if it is unknown, several if it is ambiguous.

    Args:
        column: the parser's column. Its first part is a relation's name if one matches.
        relations: their names match the first part before any column does.
    """
    parts = [part.name for part in column.parts]
    meanings: list[Resolved] = []
    if len(parts) > 1:
        for relation in relations:
            if relation.alias is not None and folded(relation.alias) == folded(parts[0]):
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
    """Return the error for an unknown column.

    Args:
        path: the written name, part by part.
        names: the existing columns.
    """
    return InvalidPredicateError(f"no column {'.'.join(path)!r}; {there_are(path[-1], names)}")


def check_qualifiers(text: str, schema: Schema, alias: str | None = None) -> None:
    """Refuse a column whose qualifier is neither the table nor a nested column.

    Text that cannot be parsed here is left to the engine. So is text with sub-queries, which define
    names of their own.

    Args:
        text: a condition over the table.
        schema: the table's schema.
        alias: the table's name in the statement; None: it has none.

    Raises:
        InvalidPredicateError: it names the column.
    """
    try:
        tree = parse_tree(text)
    except InvalidPredicateError:
        return
    if tree.find(exp.Query) is not None:
        return
    known = {folded(p.name) for each in tree.find_all(exp.Lambda) for p in each.expressions}
    known |= _SPARKS_OWN if alias is None else {*_SPARKS_OWN, folded(alias)}
    for column in tree.find_all(exp.Column):
        names = [part.name for part in column.parts]
        outer = schema.find(names[0])
        nested = outer is not None and is_nested(outer.type)
        if len(names) > 1 and not nested and folded(names[0]) not in known:
            raise no_column(names, schema.names)
