"""Names before columns in text that another engine evaluates. Pure. Spec: SQL-7."""

from __future__ import annotations

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.sql_to_predicate import no_column, parse_tree
from tablefmt.model.schema import Schema, is_nested

_SPARKS_OWN = frozenset({"_metadata", "session", "system"})
"""What Spark knows besides: a column of every file, and where variables of a session are."""


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
