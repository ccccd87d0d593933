"""Alter: schema and properties, by metadata alone (class METADATA).

Every write that runs beside it fails, blind ones of a transaction too; it goes on top of writes.
Spec: ENT-8, SCH-2 .. SCH-4, CFL-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from tablefmt.commit.plan import Plan
from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.ddl import schema_from, to_ddl
from tablefmt.model.entry import Metadata, Operation, OperationClass
from tablefmt.model.predicate import quote_name
from tablefmt.model.properties import PROPERTIES, USER_PREFIX, check_properties
from tablefmt.model.schema import Field, Schema, Struct, check_names, number_fields
from tablefmt.operations.context import Commit, CommitOptions, TableContext
from tablefmt.operations.pinned import Pinned
from tablefmt.operations.staging import run

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of the metadata."""

    name: str
    change: Callable[[Metadata], Metadata]
    """Raises SchemaMismatchError if it does not fit."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    promises: bool = False
    """It says something of every row, so rows added meanwhile stand in its way."""

    @property
    def said(self) -> tuple[str, str]:
        """Its text, all of it that decides what it does."""
        return self.name, orjson.dumps(self.parameters, option=orjson.OPT_SORT_KEYS).decode()


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
        self, name: str, type: Any, *, after: str | None = None, default: Any = None, **commit: Any
    ) -> Made:
        """Add a column that is NULL in all rows there are.

        Args:
            name: of the column.
            type: DDL text, a pyarrow.DataType, or a Spark DataType.
            after: the column it comes after; by default it comes last.
            default: only None so far.
            commit: what every commit takes.

        Raises:
            SchemaMismatchError: the name is taken, or the type is none that a table can have.
            UnsupportedFeatureError: a default value, or a field inside a struct.
        """
        return self._apply(add_column(name, type, after=after, default=default), commit)


def alter(context: TableContext, alteration: Alteration, options: CommitOptions) -> Commit:
    """Change the metadata in one commit; a change that changes nothing makes no version.

    Raises:
        SchemaMismatchError: it does not fit; CommitRejectedError, CommitUnknownError.
        MetadataChangedException: somebody else changed the metadata meanwhile.
    """
    head = context.begin()
    stage = partial(stage_alter, alteration=alteration)
    return run(context, head, options, stage, alteration.said)


def stage_alter(pinned: Pinned, alteration: Alteration) -> Plan:
    """The change on the metadata of the pinned version."""
    changed = alteration.change(pinned.metadata)
    same = changed == pinned.metadata and not alteration.promises
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
        promises=alteration.promises,
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
    name: str, kind: Any, *, after: str | None = None, default: Any = None
) -> Alteration:
    """As `Alter.add_column`."""
    if default is not None:
        raise UnsupportedFeatureError(
            f"column {name!r} with a default value is not supported yet; add it without, and "
            "update the rows",
            ["add_column:default"],
        )
    column = _column(name, kind)

    def change(metadata: Metadata) -> Metadata:
        return replace(metadata, schema=_with_column(metadata.schema, column, after))

    parameters = {"column": to_ddl(Schema((column,), column.id)), "after": after}
    return Alteration("ADD COLUMNS", change, parameters)


def _column(name: str, kind: Any) -> Field:
    """The column as a schema of its own has it."""
    if isinstance(kind, str):
        schema = schema_from(f"{quote_name(name)} {kind}")
    elif isinstance(kind, pa.DataType):
        schema = schema_from(pa.schema([pa.field(name, kind)]))
    elif callable(getattr(kind, "jsonValue", None)):
        json = {"name": name, "type": kind.jsonValue(), "nullable": True, "metadata": {}}
        schema = schema_from({"type": "struct", "fields": [json]})
    else:
        raise SchemaMismatchError(
            f"{kind!r} is no type; give DDL text, a pyarrow.DataType or a Spark DataType", [name]
        )
    if len(schema.fields) != 1 or schema.fields[0].name != name:
        raise SchemaMismatchError(f"{kind!r:.100} is not the type of one column", [name])
    column = schema.fields[0]
    if not column.nullable:
        raise SchemaMismatchError(
            f"column {name!r} cannot be NOT NULL: it is NULL in all rows there are", [name]
        )
    return column


def _with_column(schema: Schema, column: Field, after: str | None) -> Schema:
    outer = schema.find(column.name.partition(".")[0])
    if outer is not None and outer.name != column.name and isinstance(outer.type, Struct):
        raise UnsupportedFeatureError(
            f"adding the field {column.name!r} inside a column is not supported yet",
            ["add_column:nested"],
        )
    numbered = number_fields([column], schema.last_id + 1)
    new = numbered.fields[0]
    taken = {f.physical.casefold() for f in schema.fields}
    if new.physical.casefold() in taken:
        new = replace(new, physical=f"{new.name}_{new.id}")
    place = len(schema.fields)
    if after is not None:
        before = schema.find(after)
        if before is None:
            raise SchemaMismatchError(f"there is no column {after!r} to come after", [after])
        place = schema.fields.index(before) + 1
    fields = (*schema.fields[:place], new, *schema.fields[place:])
    check_names(fields)
    return Schema(fields, numbered.last_id)
