"""Alter: schema and properties, by metadata alone (class METADATA).

Every write that runs beside it fails, blind ones of a transaction too. It goes on top of writes,
unless it promises something of every row. Spec: ENT-8, ENT-10, SCH-2 .. SCH-4,
SCH-7 .. SCH-9, CFL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from tablefmt.commit.plan import Plan
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.expressions.constraints import (
    broken,
    shown,
    shown_columns,
    violation,
    with_constraint,
    without_constraint,
)
from tablefmt.expressions.ddl import to_ddl
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.display import shown_value
from tablefmt.model.entry import Metadata, Operation, OperationClass
from tablefmt.model.properties import PROPERTIES, USER_PREFIX, check_properties
from tablefmt.model.schema import Schema, checked_comment
from tablefmt.session import metadata_changes
from tablefmt.session.context import Commit, CommitOptions, TableContext
from tablefmt.session.scan import Scan
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import run

Made = TypeVar("Made")

Row = Mapping[str, Any]
"""Values by name, those that tell something."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that holds for every row from now on (ENT-10)."""

    broken_by: Callable[[Schema], str]
    """SQL text over the columns that is TRUE for the rows that break it."""
    error: Callable[[Row], ConstraintViolationError]
    """What to raise, by a row that breaks it."""


Find = Callable[[TransactionSnapshot, str], "Row | None"]
"""A live row of the pinned version for which SQL text is TRUE."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of the metadata."""

    name: str
    change: Callable[[Metadata], Metadata]
    """Raises SchemaMismatchError if it does not fit."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    promise: Promise | None = None
    """What it says of every row; rows added meanwhile stand in its way."""

    @property
    def promises(self) -> bool:
        """Whether it says something of every row."""
        return self.promise is not None

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


class Alter(Generic[Made]):
    """The verbs of `alter`, on a table or in a transaction."""

    def __init__(self, apply: Callable[[Alteration, Mapping[str, Any]], Made]) -> None:
        self._apply = apply

    def set_properties(self, properties: Mapping[str, Any], **commit: Any) -> Made:
        """Set table properties; others stay.

        Raises:
            SchemaMismatchError: an unknown name, or a value that is not what the name wants.
        """
        return self._apply(set_properties(properties), commit)

    def unset_properties(self, names: Sequence[str], **commit: Any) -> Made:
        """Go back to the defaults of these properties; one that is not set is passed over.

        Raises:
            SchemaMismatchError: an unknown name.
        """
        return self._apply(unset_properties(names), commit)

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        after: str | None = None,
        first: bool = False,
        default: Any = None,
        **commit: Any,
    ) -> Made:
        """Add a column, or a field of a struct; no data file is touched.

        Args:
            name: of the column; a dotted path for a field: `s.f`, `list.element.f`, `map.value.f`.
            type: DDL text, a pyarrow.DataType, or a Spark DataType. NOT NULL needs a default.
            after: the sibling it comes after; by default it comes last.
            first: it comes before its siblings.
            default: the value in all rows there are, and in those written without the column; None
                for NULL. Columns that are nested or BINARY, and fields, have none.
            commit: what every commit takes.

        Raises:
            SchemaMismatchError: the name is taken, the type is none that a table can have, or the
                default is none of its values.
        """
        return self._apply(
            add_column(name, type, after=after, first=first, default=default), commit
        )

    def rename_column(self, name: str, to: str, **commit: Any) -> Made:
        """Give a column or field another name: `to` as it is, dots in it mean nothing.

        Raises:
            SchemaMismatchError: no such column, or a name that is taken.
        """
        return self._apply(rename_column(name, to), commit)

    def drop_column(self, name: str, **commit: Any) -> Made:
        """Take a column or field out of the schema. Its values never come back under that name.

        Raises:
            SchemaMismatchError: no such column, a partition column, or the only one.
        """
        return self._apply(drop_column(name), commit)

    def move_column(
        self, name: str, *, after: str | None = None, first: bool = False, **commit: Any
    ) -> Made:
        """Put a column or field at another place among its siblings.

        Raises:
            SchemaMismatchError: no such column or sibling; neither `after` nor `first`.
        """
        return self._apply(move_column(name, after=after, first=first), commit)

    def widen_column(self, name: str, type: Any, **commit: Any) -> Made:
        """Give a column, field, `list.element` or `map.value` a type that holds all its values.

        A wider integer, double for float or integers up to INT, a decimal with room for every
        value, timestamp_ntz for date.

        Raises:
            SchemaMismatchError: no such column, a partition column, or no such type.
        """
        return self._apply(widen_column(name, type), commit)

    def add_constraint(self, name: str, condition: str, **commit: Any) -> Made:
        """From now on no row makes the condition FALSE; the rows there are, are looked through.

        Args:
            name: of the constraint.
            condition: Spark SQL over the columns of a row.
            commit: what every commit takes.

        Raises:
            ConstraintViolationError: a row there is breaks it.
            InvalidPredicateError: it is no condition on a row by itself.
            SchemaMismatchError: the name is taken; it looks at a variant.
            UnsupportedFeatureError: a condition that only Spark can evaluate, without Spark.
            ConcurrentAppendException: rows were added meanwhile.
        """
        return self._apply(add_constraint(name, condition), commit)

    def drop_constraint(self, name: str, **commit: Any) -> Made:
        """Forget a constraint.

        Raises:
            SchemaMismatchError: there is none of that name.
        """
        return self._apply(drop_constraint(name), commit)

    def set_not_null(self, name: str, **commit: Any) -> Made:
        """From now on a column is never NULL; the rows there are, are looked through.

        Raises:
            ConstraintViolationError: a row is NULL there.
            SchemaMismatchError: no such top-level column.
            ConcurrentAppendException: rows were added meanwhile.
        """
        return self._apply(set_not_null(name), commit)

    def drop_not_null(self, name: str, **commit: Any) -> Made:
        """Allow NULL in a column.

        Raises:
            SchemaMismatchError: no such top-level column.
        """
        return self._apply(drop_not_null(name), commit)

    def set_comment(self, comment: str | None, *, column: str | None = None, **commit: Any) -> Made:
        """Say something of the table, or of a column; what was said before goes (ENT-11).

        Args:
            comment: up to 4,000 characters; None or empty text for none.
            column: a column, or the dotted path of a field; None for the table.
            commit: what every commit takes.

        Raises:
            SchemaMismatchError: no such column, or no such text.
        """
        return self._apply(set_comment(comment, column), commit)

    def set_default(self, name: str, value: Any, **commit: Any) -> Made:
        """Set what rows written without a column get from now on; None for NULL.

        Raises:
            SchemaMismatchError: no such column, or no value of its type.
        """
        return self._apply(set_default(name, value), commit)


def find_row(pinned: TransactionSnapshot, where: str) -> Row | None:
    """The first row that Arrow finds; files that cannot hold one are not read.

    Raises:
        UnsupportedFeatureError: text that cannot be evaluated without Spark. CorruptDataError.
    """
    scan = Scan(pinned.store, pinned.snapshot, where=where, limit=1)
    found = scan.to_arrow().select([f.name for f in shown_columns(pinned.metadata.schema)])
    if not found.num_rows:
        return None
    return {name: shown_value(found.column(name)[0]) for name in found.column_names}


def alter(
    context: TableContext, alteration: Alteration, options: CommitOptions, find: Find = find_row
) -> Commit:
    """Change the metadata in one commit; a change that changes nothing makes no version.

    Raises:
        SchemaMismatchError: it does not fit; CommitRejectedError, CommitUnknownError.
        ConstraintViolationError: a row breaks what it promises.
        MetadataChangedException: somebody else changed the metadata meanwhile.
    """
    head = context.begin()
    stage = partial(stage_alter, alteration=alteration, find=find)
    return run(context, head, options, stage, alteration.said)


def stage_alter(pinned: TransactionSnapshot, alteration: Alteration, find: Find = find_row) -> Plan:
    """The change on the metadata of the pinned version.

    Raises: as `alter`, but for what a commit raises.
    """
    changed = alteration.change(pinned.metadata)
    same = changed == pinned.metadata
    if alteration.promise is not None and not same:
        row = find(pinned, alteration.promise.broken_by(pinned.metadata.schema))
        if row is not None:
            raise alteration.promise.error(row)
    return Plan(
        transaction=pinned.transaction,
        operation=Operation(
            name=alteration.name,
            cls=OperationClass.METADATA,
            parameters=dict(alteration.parameters),
        ),
        written_under=pinned.metadata,
        read_version=pinned.version,
        metadata=None if same else changed,
        promises=alteration.promises and not same,
    )


def set_properties(properties: Mapping[str, Any]) -> Alteration:
    """As `Alter.set_properties`."""
    checked = check_properties(properties)
    return Alteration(
        "SET TBLPROPERTIES",
        lambda metadata: replace(metadata, properties={**metadata.properties, **checked}),
        {"properties": checked},
    )


def unset_properties(names: Sequence[str]) -> Alteration:
    """As `Alter.unset_properties`."""
    wanted = [names] if isinstance(names, str) else list(names)
    unknown = [n for n in wanted if n not in PROPERTIES and not str(n).startswith(USER_PREFIX)]
    if unknown:
        raise SchemaMismatchError(
            f"unknown table property {unknown[0]!r}; there are {', '.join(PROPERTIES)}, and names "
            f"of your own that start with {USER_PREFIX!r}"
        )

    def change(metadata: Metadata) -> Metadata:
        left = {n: v for n, v in metadata.properties.items() if n not in wanted}
        return replace(metadata, properties=left)

    return Alteration("UNSET TBLPROPERTIES", change, {"properties": wanted})


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
        said = checked_comment(comment, "the table")
        return Alteration(
            "SET TBLPROPERTIES",
            lambda metadata: metadata_changes.with_comment(metadata, None, said),
            {"comment": said},
        )
    said = checked_comment(comment, f"column {column!r:.100}")
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_comment(metadata, column, said),
        {"column": column, "comment": said},
    )


def _plain(value: Any) -> Any:
    return shown_value(value) if isinstance(value, pa.Scalar) else value


def add_constraint(name: str, condition: str) -> Alteration:
    """As `Alter.add_constraint`."""
    return Alteration(
        "ADD CONSTRAINT",
        lambda metadata: with_constraint(metadata, name, condition),
        {"name": name, "condition": condition},
        Promise(
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
        Promise(lambda schema: f"{quote_name(name)} IS NULL", error),
    )


def drop_not_null(name: str) -> Alteration:
    """As `Alter.drop_not_null`."""
    return Alteration(
        "CHANGE COLUMN",
        lambda metadata: metadata_changes.with_nullable(metadata, name, True),
        {"column": name, "nullable": True},
    )
