"""Single changes of a table's metadata: the new metadata, the text, and added constraints.

Pure: the caller searches for rows that break a constraint, with the SQL text that it gets here.
Spec: ENT-8, ENT-10, SCH-2 .. SCH-4, SCH-7 .. SCH-9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from tablefmt.errors import (
    ConstraintViolationError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
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
from tablefmt.model.partitionings import (
    repartitioned,
    with_field,
    with_field_renamed,
    with_field_replaced,
    without_field,
)
from tablefmt.model.properties import PROPERTIES, USER_PREFIX, check_properties
from tablefmt.model.scalar_values import shown_value
from tablefmt.model.schema import Schema, path_of
from tablefmt.model.schema_rules import checked_comment
from tablefmt.model.tags import checked_tag_name, version_or_tag, without_tag
from tablefmt.session import metadata_changes

Row = Mapping[str, Any]
"""Values of a row by name, for messages."""


@dataclass(frozen=True, slots=True)
class AddedConstraint:
    """A condition that every row must satisfy from now on (ENT-10)."""

    broken_by: Callable[[Schema], str]
    """Gives SQL text over the columns that is TRUE for rows that break it."""
    error: Callable[[Row], ConstraintViolationError]
    """Makes the error for a row that breaks it."""


@dataclass(frozen=True, slots=True)
class TagRequest:
    """A tag to set (TAG-1)."""

    name: str
    version: int | str | None
    """A version, or the name of another tag; None: the version that the transaction reads."""
    seconds: float | None
    """Seconds for which the version stays at least; None: as long as the tag."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of the metadata."""

    name: str
    change: Callable[[Metadata], Metadata]
    """Raises SchemaMismatchError if the change does not fit."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    added_constraint: AddedConstraint | None = None
    """The constraint that it adds. Concurrent appends conflict with it."""
    force: bool = False
    """True to let the copies of the property `export` hold, if they cannot show it (XPT-12)."""

    tag: TagRequest | None = None
    """A tag to set. Its version is that of the transaction snapshot, unless it names one."""

    synced: str | None = None
    """An identity column that shall continue after the values in the table (IDN-4)."""

    repartitions: bool = False
    """True if it changes the partitioning. Partitionings that no live file has are then left out
    (EVO-5).
    """

    @property
    def adds_constraints(self) -> bool:
        """Return whether it adds a constraint on every row, or otherwise depends on every row."""
        return self.added_constraint is not None or self.synced is not None

    @property
    def text(self) -> tuple[str, str]:
        """Return its name and all parameters, which decide what it does."""
        try:
            text = orjson.dumps(self.parameters, option=orjson.OPT_SORT_KEYS).decode()
        except TypeError:
            raise SchemaMismatchError(
                f"expected Unicode text in {self.parameters!r:.200} (rule SCH-11); use other names"
            ) from None
        return self.name, text


def combined(parts: Sequence[Alteration]) -> Alteration:
    """Return several changes as one, which is one commit.

    Raises:
        UnsupportedFeatureError: one of several changes depends on every row, or sets a tag.
    """
    if len(parts) == 1:
        return parts[0]
    if any(part.adds_constraints or part.tag is not None for part in parts):
        raise UnsupportedFeatureError(
            "one ALTER TABLE statement cannot set NOT NULL, add a constraint or set a tag together "
            "with other changes; use a separate statement for it",
            ["sql:ALTER TABLE"],
        )

    def change(metadata: Metadata) -> Metadata:
        for part in parts:
            metadata = part.change(metadata)
        return metadata

    described = [{"operation": part.name, **part.parameters} for part in parts]
    return Alteration(
        parts[0].name,
        change,
        {"changes": described},
        force=any(part.force for part in parts),
        repartitions=any(part.repartitions for part in parts),
    )


def set_properties(properties: Mapping[str, Any]) -> Alteration:
    """Return the change of `Alter.set_properties`."""
    checked = check_properties(properties)
    return Alteration(
        "SET TBLPROPERTIES",
        lambda metadata: metadata_changes.with_properties(metadata, checked),
        {"properties": checked},
    )


def unset_properties(names: Sequence[str]) -> Alteration:
    """Return the change of `Alter.unset_properties`."""
    given = checked_names(names, "names")
    unknown = [n for n in given if n not in PROPERTIES and not n.startswith(USER_PREFIX)]
    if unknown:
        raise SchemaMismatchError(
            f"unknown table property {unknown[0]!r}; there are {', '.join(PROPERTIES)}, and your "
            f"own names, which start with {USER_PREFIX!r}"
            f"{did_you_mean(unknown[0], PROPERTIES)}"
        )

    def change(metadata: Metadata) -> Metadata:
        left = {n: v for n, v in metadata.properties.items() if n not in given}
        return replace(metadata, properties=left)

    return Alteration("UNSET TBLPROPERTIES", change, {"properties": given})


def set_partitioning(by: str | Sequence[str] | None) -> Alteration:
    """Return the change of `Alter.set_partitioning`."""
    names = checked_names(by, "by")
    return _partitioning(lambda metadata: names, {"partitionBy": names})


def forget_partitionings() -> Alteration:
    """Return the change that drops the partitionings that no file has; the current one stays."""
    return _partitioning(lambda metadata: metadata.partition_names, {})


def add_partition_field(text: str) -> Alteration:
    """Return the change that adds a field to the partitioning."""
    return _partitioning(lambda metadata: with_field(metadata, text), {"add": text})


def drop_partition_field(text: str) -> Alteration:
    """Return the change that takes a field out of the partitioning."""
    return _partitioning(lambda metadata: without_field(metadata, text), {"drop": text})


def replace_partition_field(text: str, by: str) -> Alteration:
    """Return the change that puts another field in the place of one."""
    return _partitioning(
        lambda metadata: with_field_replaced(metadata, text, by), {"replace": text, "with": by}
    )


def rename_partition_field(text: str, name: str) -> Alteration:
    """Return the change that gives another name to a hidden field of the partitioning."""
    return _partitioning(
        lambda metadata: with_field_renamed(metadata, text, name), {"rename": text, "to": name}
    )


def _partitioning(
    names: Callable[[Metadata], Sequence[str]], parameters: Mapping[str, Any]
) -> Alteration:
    return Alteration(
        "SET PARTITIONING",
        lambda metadata: repartitioned(metadata, names(metadata)),
        parameters,
        repartitions=True,
    )


def set_clustering(by: str | Sequence[str] | None) -> Alteration:
    """Return the change of `Alter.set_clustering`."""
    names = checked_names(by, "by")
    return Alteration(
        "CLUSTER BY",
        lambda metadata: metadata_changes.with_clustering(metadata, names),
        {"columns": names},
    )


def set_tag(name: str, version: int | str | None, seconds: float | None) -> Alteration:
    """Return the change of `Alter.set_tag`. Its metadata depends on the transaction snapshot."""
    known = checked_tag_name(name)
    asked = None if version is None else version_or_tag(version)
    return Alteration(
        "SET TAG",
        lambda metadata: metadata,
        {"tag": known, "version": asked, "retainSeconds": seconds},
        tag=TagRequest(known, asked, seconds),
    )


def drop_tag(name: str) -> Alteration:
    """Return the change of `Alter.drop_tag`. A log may hold names that `set_tag` refuses."""
    known = name if isinstance(name, str) else checked_tag_name(name)
    return Alteration("DROP TAG", lambda metadata: without_tag(metadata, known), {"tag": known})


def sync_identity(name: str) -> Alteration:
    """Return the change of `Alter.sync_identity`. Its metadata depends on the rows."""
    return Alteration("SYNC IDENTITY", lambda metadata: metadata, {"column": name}, synced=name)


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
    """Return the change of `Alter.add_column`. `required` and `comment` override NOT NULL and the
    comment of `kind`."""
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
    """Return the change of `Alter.rename_column`."""
    return Alteration(
        "RENAME COLUMN",
        lambda metadata: metadata_changes.renamed(metadata, name, to),
        {"oldColumnPath": name, "newColumnPath": to},
    )


def drop_column(name: str) -> Alteration:
    """Return the change of `Alter.drop_column`."""
    return Alteration(
        "DROP COLUMNS",
        lambda metadata: metadata_changes.dropped(metadata, name),
        {"columns": [name]},
    )


def move_column(name: str, *, after: str | None = None, first: bool = False) -> Alteration:
    """Return the change of `Alter.move_column`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.moved(metadata, name, after, first),
        {"column": name, "position": "FIRST" if first else f"AFTER {after}"},
    )


def widen_column(name: str, kind: Any) -> Alteration:
    """Return the change of `Alter.widen_column`."""
    wider = metadata_changes.wider_of(name, kind)
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.widened(metadata, name, wider),
        {"column": name, "type": wider.text or str(wider.type)},
    )


def set_default(name: str, value: Any) -> Alteration:
    """Return the change of `Alter.set_default`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_default(metadata, name, value),
        {"column": name, "default": None if value is None else str(_plain(value))},
    )


def set_comment(comment: str | None, column: str | None = None) -> Alteration:
    """Return the change of `Alter.set_comment`."""
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
    """Return the change of `Alter.add_constraint`."""
    return Alteration(
        "ADD CONSTRAINT",
        lambda metadata: with_constraint(metadata, name, condition),
        {"name": name, "condition": condition},
        AddedConstraint(
            lambda schema: violation(condition, schema),
            lambda row: broken(name, condition, row, "an existing row"),
        ),
    )


def drop_constraint(name: str) -> Alteration:
    """Return the change of `Alter.drop_constraint`."""
    return Alteration(
        "DROP CONSTRAINT", lambda metadata: without_constraint(metadata, name), {"name": name}
    )


def set_not_null(name: str) -> Alteration:
    """Return the change of `Alter.set_not_null`."""

    def error(row: Row) -> ConstraintViolationError:
        return ConstraintViolationError(
            f"column {name!r} cannot be NOT NULL: an existing row has NULL in it: "
            f"{shown(row.items())}",
            row=row,
        )

    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_nullable(metadata, name, False),
        {"column": name, "nullable": False},
        AddedConstraint(lambda schema: f"{quote_name(path_of(schema, name)[0])} IS NULL", error),
    )


def drop_not_null(name: str) -> Alteration:
    """Return the change of `Alter.drop_not_null`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_nullable(metadata, name, True),
        {"column": name, "nullable": True},
    )
