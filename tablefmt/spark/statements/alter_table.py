"""ALTER TABLE of SQL: apply the changes that Spark's catalog passes, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.ddl import CURRENT_DEFAULT, to_spark_json
from tablefmt.expressions.generated_columns import declared_schema
from tablefmt.expressions.predicate import quoted_path
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.peer_properties import our_name, translate_properties
from tablefmt.model.schema import Field, Schema, Type, nullable
from tablefmt.model.schema_rules import number_fields
from tablefmt.operations import alter, alterations
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.create import definition
from tablefmt.session import metadata_changes
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import newest
from tablefmt.session.table_context import TableContext
from tablefmt.spark.pyspark_objects import Session
from tablefmt.spark.statements.frame_reads import find_row

Change = Mapping[str, Any]
"""SessionCatalog.java's form of one TableChange: `kind`, `path`, and what the kind needs."""


def alter_table(spark: Session, context: TableContext, changes: Sequence[Change]) -> Commit:
    """Make all changes of one statement in one commit.

    Raises:
        SchemaMismatchError, ConstraintViolationError: as the methods of `alter`.
        UnsupportedFeatureError: a change that tablefmt tables do not support, by name.
    """
    metadata = newest(context).metadata
    if _replaces_all(metadata, changes):
        changes = _replaced(metadata, changes)
    parts = [_alteration(spark, metadata, change) for change in changes]
    if not parts:
        return context.no_op(context.environment.nonce(), "REPLACE COLUMNS")
    if any(change["kind"] == "AddConstraint" for change in changes):
        # Spark checks the existing rows, because the condition may use any SQL of Spark.
        find = partial(find_row, spark, context)
        return alter.alter(context, alterations.combined(parts), CommitOptions(), find)
    return alter.alter(context, alterations.combined(parts), CommitOptions())


def _replaces_all(metadata: Metadata, changes: Sequence[Change]) -> bool:
    """Return whether this is REPLACE COLUMNS: Spark drops every column and adds the given ones."""
    dropped = [change["path"] for change in changes if change["kind"] == "DeleteColumn"]
    new = [change for change in changes if change["kind"] == "AddColumn"]
    whole = dropped == [[name] for name in metadata.schema.names]
    return whole and 0 < len(new) == len(changes) - len(dropped)


def _replaced(metadata: Metadata, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of REPLACE COLUMNS. Columns with old names keep their values."""
    schema = metadata.schema
    given = [change for change in changes if change["kind"] == "AddColumn"]
    names = {folded(change["path"][0]) for change in given}
    steps: list[Change] = [
        change
        for change in changes
        if change["kind"] == "DeleteColumn" and folded(change["path"][0]) not in names
    ]
    order = [name for name in schema.names if folded(name) in names]
    before: str | None = None
    for at, change in enumerate(given):
        name = change["path"][0]
        there = schema.find(name)
        place = {"after": before, "first": before is None}
        if there is None:
            steps.append({**change, **place})
            order.insert(at, name)
            before = name
            continue
        path = [there.name]
        if not _same_type(there, metadata_changes.wider_of(there.name, _Given(change["type"]))):
            steps.append({"kind": "UpdateColumnType", "path": path, "type": change["type"]})
        if not there.nullable and change["nullable"]:
            steps.append({"kind": "UpdateColumnNullability", "path": path, "nullable": True})
        elif there.nullable and not change["nullable"]:
            raise UnsupportedFeatureError(
                "REPLACE COLUMNS cannot add NOT NULL; use ALTER TABLE … ALTER COLUMN … SET NOT "
                "NULL",
                ["sql:ALTER TABLE"],
            )
        if order[at] != there.name:
            steps.append({"kind": "UpdateColumnPosition", "path": path, **place})
            order.remove(there.name)
            order.insert(at, there.name)
        before = there.name
    return steps


def _same_type(one: Field, other: Field) -> bool:
    """Return whether two columns have the same type and length. Nullability inside is ignored."""
    shapes = [to_spark_json(nullable(number_fields([replace(f, name="c")]))) for f in (one, other)]
    return shapes[0] == shapes[1] and one.text == other.text


def _alteration(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    make = _KINDS.get(change["kind"])
    if make is None:
        raise UnsupportedFeatureError(
            f"ALTER TABLE cannot change {change['kind']!r} of a tablefmt table; supported changes: "
            f"{', '.join(sorted(_KINDS))}",
            [f"sql:{change['kind']}"],
        )
    return make(spark, metadata, change)


def _add(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    name, kind = _path(change), _Given(change["type"])
    default = None
    if change["default"] is not None:
        default = evaluated(spark, change["default"], metadata_changes.type_of(name, kind))
    return alterations.add_column(
        name,
        kind,
        after=change["after"],
        first=change["first"],
        default=default,
        required=not change["nullable"],
        comment=change["comment"],
    )


def _rename(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.rename_column(_path(change), change["to"])


def _drop(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.drop_column(_path(change))


def _move(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.move_column(_path(change), after=change["after"], first=change["first"])


def _widen(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.widen_column(_path(change), _Given(change["type"]))


def _nullability(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    name = _path(change)
    return alterations.drop_not_null(name) if change["nullable"] else alterations.set_not_null(name)


def _default(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    name, text = _path(change), change["default"]
    column = metadata.schema.find(change["path"][0])
    if not text or column is None or len(change["path"]) > 1:
        # `set_default` raises the error for an unknown or nested column.
        return alterations.set_default(name, None)
    return alterations.set_default(name, evaluated(spark, text, column.type))


def _comment(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.set_comment(change["comment"], _path(change))


def _add_constraint(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.add_constraint(*check_of(change["constraint"]))


def _cluster_by(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    return alterations.set_clustering(change["columns"])


def check_of(constraint: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the condition of a CHECK that a statement adds.

    Raises:
        UnsupportedFeatureError: any other constraint, or a CHECK that is not enforced, by name.
    """
    name, kind = constraint["name"], constraint["kind"]
    if kind != "Check":
        sql = {"PrimaryKey": "PRIMARY KEY", "ForeignKey": "FOREIGN KEY"}.get(kind, kind.upper())
        raise UnsupportedFeatureError(
            f"constraint {name!r}: tablefmt tables have no {sql}, because nothing would enforce "
            "it; use NOT NULL and CHECK",
            [f"sql:{sql}"],
        )
    if not constraint["enforced"]:
        raise UnsupportedFeatureError(
            f"constraint {name!r}: tablefmt tables enforce every CHECK; leave NOT ENFORCED out",
            ["sql:NOT ENFORCED"],
        )
    return name, constraint["condition"]


def _drop_constraint(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    name = change["name"]
    known = {folded(each) for each in metadata.constraints}
    if change["ifExists"] and folded(name) not in known:
        return Alteration("DROP CONSTRAINT", lambda metadata: metadata, {"name": name})
    return alterations.drop_constraint(name)


def _property(spark: Session, metadata: Metadata, change: Change) -> Alteration:
    if change["name"] == "comment":
        return alterations.set_comment(change["value"])
    if change["name"] in _CATALOGS:
        name = change["name"]
        raise UnsupportedFeatureError(
            f"ALTER TABLE cannot set {name!r} of a tablefmt table: {_CATALOGS[name]}",
            [f"sql:{name}"],
        )
    if change["value"] is None:
        name = our_name(change["name"])
        return alterations.unset_properties([] if name is None else [name])
    ours = translate_properties({change["name"]: change["value"]})
    if not ours:
        # A property of Delta's or Iceberg's that needs no property here.
        asked = {"properties": change["name"]}
        return Alteration("SET TBLPROPERTIES", lambda metadata: metadata, asked)
    return alterations.set_properties(ours)


_CATALOGS = {
    "location": "a table cannot be moved; to use another location, use DROP TABLE, which keeps the "
    "files of a table with a path, and CREATE TABLE … OPTIONS (path '…')",
    "provider": "another format needs all rows to be rewritten; use CREATE TABLE … AS SELECT",
    "owner": "only Spark's catalog has owners",
}
"""Pseudo-properties that Spark passes, and the advice for each."""

_KINDS: Mapping[str, Callable[[Any, Metadata, Change], Alteration]] = {
    "AddColumn": _add,
    "RenameColumn": _rename,
    "DeleteColumn": _drop,
    "UpdateColumnPosition": _move,
    "UpdateColumnType": _widen,
    "UpdateColumnNullability": _nullability,
    "UpdateColumnDefaultValue": _default,
    "UpdateColumnComment": _comment,
    "AddConstraint": _add_constraint,
    "DropConstraint": _drop_constraint,
    "ClusterBy": _cluster_by,
    "SetProperty": _property,
    "RemoveProperty": _property,
}
"""Functions by the name of Spark's class."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Wraps a type in Spark's JSON form, with the method of PySpark's types that returns it."""

    json: Any

    def jsonValue(self) -> Any:
        """Return the JSON form."""
        return self.json


def _path(change: Change) -> str:
    return quoted_path(*change["path"])


def evaluated(spark: Session, text: str, kind: Type) -> Any:
    """Return the value of an expression without columns, as an Arrow scalar. None for NULL.

    Raises:
        InvalidArgumentError: the expression cannot be evaluated.
    """
    from pyspark.errors import PySparkException

    try:
        value = spark.sql(f"SELECT CAST(({text}) AS {str(kind).upper()}) AS v").toArrow()["v"][0]
        return value if value.is_valid else None
    except PySparkException as error:
        first = str(error).splitlines()[0]
        raise InvalidArgumentError(
            f"DEFAULT {text[:200]} is not a valid {kind} value: {first}"
        ) from None


def with_defaults(spark: Session, described: Mapping[str, Any], schema: Schema) -> Schema:
    """Return the schema of CREATE TABLE with the defaults of its columns.

    Args:
        spark: evaluates the defaults.
        described: Spark's JSON form of the columns.
        schema: the same columns.

    Raises:
        SchemaMismatchError, InvalidArgumentError: an invalid default.
    """
    metadata = definition(schema, (), {})
    for field, column in zip(described["fields"], schema.fields, strict=True):
        text = (field.get("metadata") or {}).get(CURRENT_DEFAULT)
        if text is not None:
            value = evaluated(spark, text, column.type)
            metadata = metadata_changes.with_default(metadata, column.name, value)
    return declared_schema(metadata)
