"""CHECK constraints: allowed conditions, the columns they use, and violation errors. Pure.

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
from tablefmt.expressions.constraint_grammar import rewritten
from tablefmt.expressions.expression_analysis import Kind, analyze_tree, kind_of
from tablefmt.expressions.sql_parser import Relation, function_named, parse_tree
from tablefmt.model.log_entry import Constraint, Metadata
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.schema import Field, Schema, is_nested, is_variant, walk

GENERATED_PREFIX = "generated."
"""Prefix of the names of constraints that make a column a generated one. Spec: GEN-1."""

NAME_MAX = 255
"""Maximum characters of a constraint's name."""

ROW_MAX = 500
"""Maximum characters shown of a row that violates a constraint."""

COLUMNS_SHOWN = 20

_NO_CONDITION = {
    Kind.SUBQUERY: "a constraint may depend on one row only",
    Kind.SEVERAL_ROWS: "a constraint may depend on one row only",
    Kind.CHANCE: "the result of a constraint must not change over time",
    Kind.CLOCK: "the result of a constraint must not change over time",
    Kind.SESSION: "the result of a constraint must not change over time",
}
"""Reasons why a construct is not allowed. `log_text` decides about all other constructs."""


def with_constraint(metadata: Metadata, name: str, condition: str) -> Metadata:
    """Return the metadata with one more CHECK.

    Args:
        metadata: the table's metadata.
        name: 1 to `NAME_MAX` characters; differs from the other names, ignoring case.
        condition: Spark SQL over the columns of one row, without a table's name before them.

    Raises:
        SchemaMismatchError: an invalid or existing name; it uses a variant.
        InvalidPredicateError: it cannot be parsed, names a column that does not exist, or depends
            on more than one row or on something that changes by itself.
        UnsupportedFeatureError: it contains a construct that the log does not allow (SQL-6).
    """
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_MAX:
        raise SchemaMismatchError(
            f"{name!r:.300} is not a constraint name: expected text of 1 to {NAME_MAX} characters"
        )
    if folded(name).startswith(GENERATED_PREFIX):
        raise SchemaMismatchError(
            f"constraint {name!r} has a name of generated columns; choose a name that does not "
            f"start with {GENERATED_PREFIX!r}"
        )
    if _find(metadata, name) is not None:
        raise SchemaMismatchError(
            f"constraint {name!r} already exists; drop it first, or choose another name"
        )
    if not isinstance(condition, str):
        raise InvalidPredicateError(
            f"{condition!r:.100} is not a condition: expected SQL text, got "
            f"{type(condition).__name__}"
        )
    columns = columns_of(condition, metadata.schema)
    for column in columns:
        if any(map(is_variant, walk(column.type))):
            raise SchemaMismatchError(
                f"constraint {name!r} uses column {column.name!r}, which holds variants; "
                "leave the column out",
                [column.name],
            )
    new = Constraint(condition.strip(), tuple(sorted(column.id for column in columns)))
    return replace(metadata, constraints={**metadata.constraints, name: new})


def without_constraint(metadata: Metadata, name: str) -> Metadata:
    """Return the metadata without a CHECK. Raises SchemaMismatchError if the name does not
    exist.
    """
    known_as = _find(metadata, name)
    if known_as is None:
        there = ", ".join(map(repr, metadata.constraints)) or "none"
        raise SchemaMismatchError(f"there is no constraint {name!r}; there are: {there}")
    if known_as.startswith(GENERATED_PREFIX):
        raise SchemaMismatchError(
            f"{known_as!r} belongs to the generated column "
            f"{metadata.constraints[known_as].condition}; drop the column instead"
        )
    left = {n: each for n, each in metadata.constraints.items() if n != known_as}
    return replace(metadata, constraints=left)


def _find(metadata: Metadata, name: str) -> str | None:
    lowered = folded(str(name))
    return next((n for n in metadata.constraints if folded(n) == lowered), None)


def violation(condition: str, schema: Schema) -> str:
    """Return SQL text that is TRUE for exactly the rows that violate the condition. NULL does not.

    Engines receive a condition only in this form. Spec: SQL-6.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: a constraint may not have the condition;
            `features` of the latter names the construct.
    """
    return f"NOT ({rewritten(condition, schema.names)})"


def violation_of(name: str, metadata: Metadata) -> str:
    """Return the same as `violation` for a constraint of the log.

    Raises:
        UnsupportedFeatureError: it also names the constraint.
    """
    condition = metadata.constraints[name].condition
    try:
        return violation(condition, metadata.schema)
    except (InvalidPredicateError, UnsupportedFeatureError) as error:
        features = error.features if isinstance(error, UnsupportedFeatureError) else ["sql:check"]
        raise UnsupportedFeatureError(
            f"{labelled(name, condition)} cannot be evaluated ({error}); drop "
            "it, or write with an engine that supports it",
            features,
        ) from None


def labelled(name: str, condition: str) -> str:
    """Return a constraint with its condition, for messages."""
    if name.startswith(GENERATED_PREFIX):
        return f"the generated column {condition[:200]}"
    return f"CHECK constraint {name!r} ({condition[:200]})"


def columns_of(condition: str, schema: Schema) -> list[Field]:
    """Return the top-level columns that a condition uses, each once. Raises as
    `with_constraint`.
    """
    for found in parse_tree(condition).find_all(exp.Expression):
        node = found
        if isinstance(found, exp.Column) and schema.find(found.name) is None:
            node = function_named(found) or found
        reason = _NO_CONDITION.get(kind_of(node))
        if reason is not None or isinstance(node, exp.Placeholder):
            why = reason or _NO_CONDITION[Kind.SUBQUERY]
            raise InvalidPredicateError(f"{node.sql('spark')[:200]}: {why}")
    analysis = analyze_tree(parse_tree(violation(condition, schema)), Relation(schema))
    for name in analysis.unresolved:
        raise InvalidPredicateError(
            f"a constraint cannot use {'.'.join(name)!r}; {there_are(name[-1], schema.names)}"
        )
    return [field for field in schema.fields if field.id in analysis.columns[0]]


def check_columns_stay(constraints: Mapping[str, Constraint], old: Schema, new: Schema) -> None:
    """Refuse a schema change of columns that constraints use. Spec: ENT-10.

    Raises:
        SchemaMismatchError: the change drops, renames or retypes a column of a constraint.
    """
    after = {f.id: f for f in new.fields}
    for name, each in constraints.items():
        for column in each.columns:
            before, now = old.by_id(column), after.get(column)
            if now is None or now.name != before.name or now.type != before.type:
                raise SchemaMismatchError(
                    f"constraint {name!r} ({each.condition}) uses column {before.name!r}; "
                    "drop the constraint first",
                    [before.name],
                )


def shown_columns(schema: Schema) -> list[Field]:
    """Return the columns that an error shows of a row."""
    return [f for f in schema.fields if not is_nested(f.type)][:COLUMNS_SHOWN]


def broken(
    name: str, condition: str, row: Mapping[str, Any] | str | None, count: str = "a row"
) -> ConstraintViolationError:
    """Return the error for rows that violate a CHECK."""
    text = row if isinstance(row, str) or row is None else shown(row.items())
    example = "" if text is None else f", as {text}"
    if name.startswith(GENERATED_PREFIX):
        return ConstraintViolationError(
            f"{count} differs from the generated column {condition}{example}; nothing was written; "
            "leave the column out, and its value is computed",
            constraint=name,
            row=None if isinstance(row, str) else row,
        )
    return ConstraintViolationError(
        f"{count} violates CHECK constraint {name!r} ({condition}){example}; nothing was written",
        constraint=name,
        row=None if isinstance(row, str) else row,
    )


def shown(values: Iterable[tuple[str, Any]]) -> str:
    """Return a row as short text."""
    text = "{" + ", ".join(f"{name}: {value!r:.100}" for name, value in values) + "}"
    return text if len(text) <= ROW_MAX else text[: ROW_MAX - 1] + "…"
