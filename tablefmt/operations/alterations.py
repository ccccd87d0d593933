"""Changes of a table's metadata, one by one: what each makes of it, says of itself and promises.

Pure: who looks for a row that breaks a promise is told its text. Spec: ENT-8, ENT-10,
SCH-2 .. SCH-4, SCH-7 .. SCH-9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.expressions.check_constraints import (
    broken,
    shown,
    violation,
    with_constraint,
    without_constraint,
)
from tablefmt.expressions.ddl import to_ddl
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import checked_names
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import did_you_mean
from tablefmt.model.properties import PROPERTIES, USER_PREFIX, check_properties
from tablefmt.model.scalar_values import shown_value
from tablefmt.model.schema import Schema
from tablefmt.model.schema_rules import checked_comment
from tablefmt.session import metadata_changes

Row = Mapping[str, Any]
"""Values by name, those that tell something."""


@dataclass(frozen=True, slots=True)
class AddedConstraint:
    """Something that holds for every row from now on (ENT-10)."""

    broken_by: Callable[[Schema], str]
    """SQL text over the columns that is TRUE for the rows that break it."""
    error: Callable[[Row], ConstraintViolationError]
    """What to raise, by a row that breaks it."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of the metadata."""

    name: str
    change: Callable[[Metadata], Metadata]
    """Raises SchemaMismatchError if it does not fit."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    added_constraint: AddedConstraint | None = None
    """What it says of every row; rows added meanwhile stand in its way."""

    @property
    def adds_constraints(self) -> bool:
        """Whether it says something of every row."""
        return self.added_constraint is not None

    @property
    def said(self) -> tuple[str, str]:
        """Its text, all of it that decides what it does."""
        try:
            text = orjson.dumps(self.parameters, option=orjson.OPT_SORT_KEYS).decode()
        except TypeError:
            raise SchemaMismatchError(
                f"{self.parameters!r:.200} is not all Unicode text (rule SCH-11); give other names"
            ) from None
        return self.name, text


def set_properties(properties: Mapping[str, Any]) -> Alteration:
    """As `Alter.set_properties`."""
    checked = check_properties(properties)
    return Alteration(
        "SET TBLPROPERTIES",
        lambda metadata: metadata_changes.with_properties(metadata, checked),
        {"properties": checked},
    )


def unset_properties(names: Sequence[str]) -> Alteration:
    """As `Alter.unset_properties`."""
    given = checked_names(names, "names")
    unknown = [n for n in given if n not in PROPERTIES and not n.startswith(USER_PREFIX)]
    if unknown:
        raise SchemaMismatchError(
            f"unknown table property {unknown[0]!r}; there are {', '.join(PROPERTIES)}, and names "
            f"of your own that start with {USER_PREFIX!r}"
            f"{did_you_mean(unknown[0], PROPERTIES)}"
        )

    def change(metadata: Metadata) -> Metadata:
        left = {n: v for n, v in metadata.properties.items() if n not in given}
        return replace(metadata, properties=left)

    return Alteration("UNSET TBLPROPERTIES", change, {"properties": given})


def add_column(
    name: str,
    kind: Any,
    *,
    after: str | None = None,
    first: bool = False,
    default: Any = None,
    required: bool = False,
    comment: str | None = None,
) -> Alteration:
    """As `Alter.add_column`; `required`: NOT NULL, and `comment`, whatever `kind` says."""
    column = metadata_changes.column_of(name, kind, default, required=required)
    if comment is not None:
        column = replace(column, comment=comment or None)
    parameters: dict[str, Any] = {"column": to_ddl(Schema((column,), 0)), "after": after}
    if first:
        parameters["first"] = True
    if column.initial is not None:
        parameters["default"] = column.initial
    return Alteration(
        "ADD COLUMNS",
        lambda metadata: metadata_changes.added(metadata, name, column, after, first),
        parameters,
    )


def rename_column(name: str, to: str) -> Alteration:
    """As `Alter.rename_column`."""
    return Alteration(
        "RENAME COLUMN",
        lambda metadata: metadata_changes.renamed(metadata, name, to),
        {"oldColumnPath": name, "newColumnPath": to},
    )


def drop_column(name: str) -> Alteration:
    """As `Alter.drop_column`."""
    return Alteration(
        "DROP COLUMNS",
        lambda metadata: metadata_changes.dropped(metadata, name),
        {"columns": [name]},
    )


def move_column(name: str, *, after: str | None = None, first: bool = False) -> Alteration:
    """As `Alter.move_column`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.moved(metadata, name, after, first),
        {"column": name, "position": "FIRST" if first else f"AFTER {after}"},
    )


def widen_column(name: str, kind: Any) -> Alteration:
    """As `Alter.widen_column`."""
    wider = metadata_changes.wider_of(name, kind)
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.widened(metadata, name, wider),
        {"column": name, "type": wider.text or str(wider.type)},
    )


def set_default(name: str, value: Any) -> Alteration:
    """As `Alter.set_default`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_default(metadata, name, value),
        {"column": name, "default": None if value is None else str(_plain(value))},
    )


def set_comment(comment: str | None, column: str | None = None) -> Alteration:
    """As `Alter.set_comment`."""
    if column is None:
        text = checked_comment(comment, "the table")
        return Alteration(
            "SET TBLPROPERTIES",
            lambda metadata: metadata_changes.with_comment(metadata, None, text),
            {"comment": text},
        )
    text = checked_comment(comment, f"column {column!r:.100}")
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_comment(metadata, column, text),
        {"column": column, "comment": text},
    )


def _plain(value: Any) -> Any:
    return shown_value(value) if isinstance(value, pa.Scalar) else value


def add_constraint(name: str, condition: str) -> Alteration:
    """As `Alter.add_constraint`."""
    return Alteration(
        "ADD CONSTRAINT",
        lambda metadata: with_constraint(metadata, name, condition),
        {"name": name, "condition": condition},
        AddedConstraint(
            lambda schema: violation(condition, schema),
            lambda row: broken(name, condition, row, "a row there is"),
        ),
    )


def drop_constraint(name: str) -> Alteration:
    """As `Alter.drop_constraint`."""
    return Alteration(
        "DROP CONSTRAINT", lambda metadata: without_constraint(metadata, name), {"name": name}
    )


def set_not_null(name: str) -> Alteration:
    """As `Alter.set_not_null`."""

    def error(row: Row) -> ConstraintViolationError:
        return ConstraintViolationError(
            f"column {name!r} cannot be NOT NULL: a row there is has NULL there, as "
            f"{shown(row.items())}",
            row=row,
        )

    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_nullable(metadata, name, False),
        {"column": name, "nullable": False},
        AddedConstraint(lambda schema: f"{quote_name(name)} IS NULL", error),
    )


def drop_not_null(name: str) -> Alteration:
    """As `Alter.drop_not_null`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_nullable(metadata, name, True),
        {"column": name, "nullable": True},
    )
