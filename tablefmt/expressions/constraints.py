"""CHECK constraints: what a condition may be, which columns it looks at, what breaks it. Pure.

Spec: ENT-10, DAT-13, SQL-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.analysis import Kind, analyze_tree, kind_of
from tablefmt.expressions.log_text.grammar import rewritten
from tablefmt.expressions.names import Relation, function_named
from tablefmt.expressions.parse import parse_tree
from tablefmt.model.entry import Constraint, Metadata
from tablefmt.model.near_names import there_are
from tablefmt.model.schema import Field, Schema, is_nested, is_variant, walk

NAME_MAX = 255
"""Characters of a constraint's name."""

ROW_MAX = 500
"""Characters shown of a row that breaks a constraint."""

COLUMNS_SHOWN = 20

_NO_CONDITION = {
    Kind.SUBQUERY: "a constraint looks at one row by itself",
    Kind.SEVERAL_ROWS: "a constraint looks at one row by itself",
    Kind.CHANCE: "a constraint that holds today has to hold tomorrow",
    Kind.CLOCK: "a constraint that holds today has to hold tomorrow",
    Kind.SESSION: "a constraint that holds today has to hold tomorrow",
}
"""Why a construct cannot be in one; which of the others can, is for `log_text` to say."""


def with_constraint(metadata: Metadata, name: str, condition: str) -> Metadata:
    """The metadata with one more CHECK.

    Args:
        metadata: of the table.
        name: 1 to `NAME_MAX` characters; differs from the others', case ignored.
        condition: Spark SQL over the columns of one row, without a table's name before them.

    Raises:
        SchemaMismatchError: a name that is none or taken; it looks at a variant.
        InvalidPredicateError: it cannot be parsed, names a column that is not there, or looks at
            more than one row or at something that changes by itself.
        UnsupportedFeatureError: it has what a condition in the log may not have (SQL-6).
    """
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_MAX:
        raise SchemaMismatchError(
            f"{name!r:.300} is no name of a constraint; give 1 to {NAME_MAX} characters"
        )
    if _find(metadata, name) is not None:
        raise SchemaMismatchError(
            f"there is a constraint {name!r} already; drop it first, or choose another name"
        )
    if not isinstance(condition, str):
        raise InvalidPredicateError(f"{condition!r:.100} is no condition; give SQL text")
    columns = columns_of(condition, metadata.schema)
    for column in columns:
        if any(map(is_variant, walk(column.type))):
            raise SchemaMismatchError(
                f"constraint {name!r} looks at column {column.name!r}, which holds variants",
                [column.name],
            )
    new = Constraint(condition.strip(), tuple(sorted(column.id for column in columns)))
    return replace(metadata, constraints={**metadata.constraints, name: new})


def without_constraint(metadata: Metadata, name: str) -> Metadata:
    """The metadata without a CHECK. Raises SchemaMismatchError if there is none of that name."""
    known_as = _find(metadata, name)
    if known_as is None:
        there = ", ".join(map(repr, metadata.constraints)) or "none"
        raise SchemaMismatchError(f"there is no constraint {name!r}; there are: {there}")
    left = {n: each for n, each in metadata.constraints.items() if n != known_as}
    return replace(metadata, constraints=left)


def _find(metadata: Metadata, name: str) -> str | None:
    folded = str(name).casefold()
    return next((n for n in metadata.constraints if n.casefold() == folded), None)


def violation(condition: str, schema: Schema) -> str:
    """SQL text that is TRUE for exactly the rows that break the condition: NULL does not.

    The one form in which an engine gets to see a condition. Spec: SQL-6.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: the condition is none that a constraint may
            have; `features` of the latter names what.
    """
    return f"NOT ({rewritten(condition, schema.names)})"


def violation_of(name: str, metadata: Metadata) -> str:
    """The same for a constraint that the log holds.

    Raises:
        UnsupportedFeatureError: it names the constraint too.
    """
    condition = metadata.constraints[name].condition
    try:
        return violation(condition, metadata.schema)
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        features = error.features if isinstance(error, UnsupportedFeatureError) else ["sql:check"]
        raise UnsupportedFeatureError(
            f"CHECK constraint {name!r} ({condition[:200]}) is not evaluated ({error}); drop the "
            "constraint, or write with what knows it",
            features,
        ) from None


def columns_of(condition: str, schema: Schema) -> list[Field]:
    """The top-level columns that a condition looks at, each once. Raises as `with_constraint`."""
    for found in parse_tree(condition).walk():
        bare = isinstance(found, exp.Column) and schema.find(found.name) is None
        node = (function_named(found) if bare else None) or found
        reason = _NO_CONDITION.get(kind_of(node))
        if reason is not None or isinstance(node, exp.Placeholder):
            why = reason or _NO_CONDITION[Kind.SUBQUERY]
            raise InvalidPredicateError(f"{node.sql('spark')[:200]}: {why}")
    analysis = analyze_tree(parse_tree(violation(condition, schema)), Relation(schema))
    for name in analysis.unresolved:
        raise InvalidPredicateError(
            f"a constraint cannot look at {'.'.join(name)!r}; {there_are(name[-1], schema.names)}"
        )
    return [field for field in schema.fields if field.id in analysis.columns[0]]


def check_columns_stay(constraints: Mapping[str, Constraint], old: Schema, new: Schema) -> None:
    """Refuse another schema under constraints that look at what it changes. Spec: ENT-10.

    Raises:
        SchemaMismatchError: a column of a constraint would go, or have another name or type.
    """
    after = {f.id: f for f in new.fields}
    for name, each in constraints.items():
        for column in each.columns:
            before, now = old.by_id(column), after.get(column)
            if now is None or now.name != before.name or now.type != before.type:
                raise SchemaMismatchError(
                    f"constraint {name!r} ({each.condition}) looks at column {before.name!r}; "
                    "drop the constraint first",
                    [before.name],
                )


def shown_columns(schema: Schema) -> list[Field]:
    """The columns of which an error shows a row."""
    return [f for f in schema.fields if not is_nested(f.type)][:COLUMNS_SHOWN]


def broken(
    name: str, condition: str, row: Mapping[str, Any] | str | None, count: str = "a row"
) -> ConstraintViolationError:
    """The error of rows that break a CHECK."""
    text = row if isinstance(row, str) or row is None else shown(row.items())
    example = "" if text is None else f", as {text}"
    return ConstraintViolationError(
        f"{count} broke CHECK constraint {name!r} ({condition}){example}; nothing was written",
        constraint=name,
        row=None if isinstance(row, str) else row,
    )


def shown(values: Iterable[tuple[str, Any]]) -> str:
    """A row as short text."""
    text = "{" + ", ".join(f"{name}: {value!r:.100}" for name, value in values) + "}"
    return text if len(text) <= ROW_MAX else text[: ROW_MAX - 1] + "…"
