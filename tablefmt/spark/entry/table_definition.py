"""CREATE, REPLACE and ALTER TABLE, and CREATE TABLE AS SELECT: define tables from statements.

A replacement is one commit. The columns, partitioning, properties, constraints, comments and rows
come from the statement. Every earlier version stays readable. The module also has the JVM callback
handlers of these statements, and of columns that INSERT adds. Spec: CFL-3, CFL-5, SCH-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.check_constraints import GENERATED_PREFIX, with_constraint
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.generated_columns import check_conditions, generated_expressions
from tablefmt.model.clustering_columns import with_cluster_by
from tablefmt.model.identity_columns import identity_texts, is_identity
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_fields import same_partitioning
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.properties import plain_properties
from tablefmt.model.schema import Schema, nullable
from tablefmt.operations.alter import add_features
from tablefmt.operations.create import create_as, definition
from tablefmt.operations.overwrite import overwrite_files
from tablefmt.session import statement as session_statement
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.metadata_changes import for_new_table, redefined
from tablefmt.session.staging import autocommit
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.columns.catalog_columns import declared_by, different, shown, widened_columns
from tablefmt.spark.entry.dataframe_io import overwrite_rows, write_first
from tablefmt.spark.entry.delta_settings import default_properties
from tablefmt.spark.entry.java_arguments import context_of, java_columns, session_of, store_of
from tablefmt.spark.pyspark_objects import DataFrame, JavaObject, Session
from tablefmt.spark.spark_options import WriteOptions, option_key
from tablefmt.spark.statements.alter_table import alter_table, check_of, with_defaults
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.object_store import Store

REPLACE = "REPLACE TABLE"
REPLACE_AS = "REPLACE TABLE AS SELECT"

_CATALOGS_OWN = frozenset(
    {"provider", "location", "owner", "external", "comment", "is_managed_location", "collation"}
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A CREATE or REPLACE TABLE statement, as SessionCatalog.java passes it."""

    columns: Mapping[str, Any]
    """Spark's JSON form. Without fields if the statement names no columns."""
    partition_by: Sequence[str]
    cluster_by: Sequence[str]
    """Columns of CLUSTER BY."""
    given: Mapping[str, str]
    """Properties of the statement, and those that Spark adds."""
    options: Mapping[str, str]
    constraints: Sequence[Mapping[str, Any]]
    """`kind`, `name`, `condition` of each."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Properties that the table gets unless the statement sets them."""

    @classmethod
    def read(
        cls, text: str, options: Mapping[str, str], defaults: Mapping[str, str] | None = None
    ) -> Statement:
        """Parse the statement from JSON text."""
        given = json.loads(text)
        return cls(
            json.loads(given["columns"]),
            given["partitionBy"],
            given["clusterBy"],
            given["properties"],
            options,
            given["constraints"],
            defaults or {},
        )

    @property
    def properties(self) -> dict[str, str]:
        """Table properties, without those that Spark adds, and with Delta's translated.

        Raises:
            SchemaMismatchError: one of Delta's properties that tablefmt tables cannot have; CLUSTER
                BY beside the property `clusterBy`.
        """
        given = translate_properties(
            {
                name: value
                for name, value in self.given.items()
                if name not in _CATALOGS_OWN
                and name not in self.options
                and name != "path"
                and not name.startswith(("option.", GENERATED_PREFIX))
            }
        )
        return with_cluster_by(given, self.cluster_by)

    @property
    def generated(self) -> dict[str, str]:
        """Expressions of generated columns, as SHOW CREATE TABLE prints them."""
        return {n: text for n, text in self._said_of_columns() if not is_identity(text)}

    @property
    def identity(self) -> dict[str, str]:
        """Clauses of identity columns, as SHOW CREATE TABLE prints them."""
        return {n: text for n, text in self._said_of_columns() if is_identity(text)}

    def _said_of_columns(self) -> list[tuple[str, str]]:
        length = len(GENERATED_PREFIX)
        given = self.given.items()
        return [(n[length:], text) for n, text in given if n.startswith(GENERATED_PREFIX)]

    @property
    def comment(self) -> str | None:
        """The table comment, if the statement has one."""
        return self.given.get("comment") or None

    def metadata(self, spark: Session) -> Metadata:
        """Return the table metadata that the statement defines.

        Raises:
            SchemaMismatchError, InvalidPredicateError: the definition is invalid.
            UnsupportedFeatureError: a constraint that is not a CHECK, by name.
        """
        columns = with_defaults(spark, self.columns, schema_from(self.columns))
        return self._with_constraints(self._of(columns))

    def metadata_of_rows(self, rows: Schema) -> Metadata:
        """Return the same with the columns of a query. As in Spark, all of them are nullable."""
        return self._with_constraints(self._of(nullable(rows)))

    def _of(self, schema: Schema) -> Metadata:
        properties = {**self.defaults, **self.properties}
        return definition(
            schema,
            self.partition_by,
            properties,
            self.comment,
            self.generated or None,
            self.identity or None,
        )

    def _with_constraints(self, metadata: Metadata) -> Metadata:
        for each in self.constraints:
            name, condition = check_of(each)
            metadata = with_constraint(metadata, name, condition)
        return metadata


def check_only_storage(options: Mapping[str, Any]) -> None:
    """Check that a CREATE TABLE without rows has only options of its storage.

    Raises:
        UnsupportedFeatureError: names the first other option.
    """
    for name in options:
        if not (
            folded(name).startswith("storage.") or option_key(name) in ("path", "storageoptions")
        ):
            raise UnsupportedFeatureError(
                f"CREATE TABLE without rows does not take option {name!r}: its OPTIONS are path "
                "and storage.<key>; give the option to the read or the write, and set table "
                "properties with TBLPROPERTIES",
                [f"option:{name}"],
            )


def define(spark: Session, store: Store, statement: Statement) -> Schema:
    """Run CREATE TABLE, and return the columns of the table.

    An existing table is used as it is, if its definition agrees with the statement.

    Raises:
        TableNotFoundError: there is no table, and the statement names no columns.
        SchemaMismatchError: a table with another definition exists, or the definition is invalid.
    """
    asked = statement.metadata(spark) if statement.columns["fields"] else None
    context = open_context_if_exists(store)
    if context is None:
        context = open_context(store) if asked is None else create_as(store, asked)
    metadata = context.view.head.metadata
    _check_agrees(statement, asked, metadata, store.uri)
    return metadata.schema


def _check_agrees(statement: Statement, asked: Metadata | None, there: Metadata, uri: str) -> None:
    """Refuse a CREATE TABLE whose definition differs from that of the table in the place."""
    if asked is not None:
        ours, theirs = declared_by(there.schema), declared_by(asked.schema)
        if ours != theirs:
            raise SchemaMismatchError(
                f"a table with other columns exists at {uri}: it has {shown(ours)}, not "
                f"{shown(theirs)}; leave the columns out of CREATE TABLE to use it as it is",
                different(ours, theirs),
            )
    names = list(statement.partition_by)
    if names and not same_partitioning(names, there.partition_names, there.schema):
        raise SchemaMismatchError(
            f"the table at {uri} is partitioned by {there.partition_names}, not by {names}; leave "
            "PARTITIONED BY out",
            names,
        )
    other = [n for n, v in statement.properties.items() if there.properties.get(n) != v]
    if other:
        raise SchemaMismatchError(
            f"the table at {uri} has another property {other[0]!r}: "
            f"{there.properties.get(other[0])!r:.100}; leave it out of CREATE TABLE, and use ALTER "
            "TABLE … SET TBLPROPERTIES"
        )
    if statement.comment is not None and statement.comment != there.comment:
        raise SchemaMismatchError(
            f"the table at {uri} has another comment: {there.comment!r:.100}; leave it out of "
            "CREATE TABLE, and use COMMENT ON TABLE"
        )
    checks = {} if asked is None else check_conditions(asked)
    generated = {} if asked is None else {**generated_expressions(asked), **identity_texts(asked)}
    known = {**generated_expressions(there), **identity_texts(there)}
    for name, text in generated.items():
        mine = known.get(name)
        if mine != text:
            shown_text = "is not generated" if mine is None else f"is generated as {mine[:200]}"
            raise SchemaMismatchError(
                f"column {name!r} of the table at {uri} {shown_text}, not as {text[:200]}; leave "
                "the columns out of CREATE TABLE to use the table as it is",
                [name],
            )
    for name, condition in checks.items():
        if check_conditions(there).get(name) != condition:
            raise SchemaMismatchError(
                f"the table at {uri} has no constraint {name!r} with this condition; leave it out "
                "of CREATE TABLE, and use ALTER TABLE … ADD CONSTRAINT"
            )


def replace_table(spark: Session, store: Store, statement: Statement) -> Schema:
    """Run REPLACE TABLE without rows, and return the new columns. Create a missing table.

    Raises:
        SchemaMismatchError: the definition is invalid.
        ConstraintViolationError: the table is append-only.
        ConcurrentModificationException: another commit changed the definition meanwhile.
    """
    definition_asked = statement.metadata(spark)
    context = open_context_if_exists(store)
    if context is None:
        return create_as(store, definition_asked).view.head.metadata.schema
    add_features(context, definition_asked)

    def stage(txn: TransactionSnapshot, _: None) -> Staged:
        return overwrite_files(
            txn.transaction,
            None,
            txn.metadata,
            read_version=txn.version,
            name=REPLACE,
            evolved=redefined(txn.counted_metadata, definition_asked),
        )

    autocommit(context, session_statement.Statement(name=REPLACE, stage=stage), CommitOptions())
    return context.view.head.metadata.schema


def create_rows(df: DataFrame, store: Store, statement: Statement, options: WriteOptions) -> Commit:
    """Run CREATE TABLE AS SELECT where no table exists.

    Raises:
        TableExistsError: the table exists, or another writer created it meanwhile. Other errors as
            `tablefmt.spark.write`.
    """
    asked = statement.metadata_of_rows(schema_from(df.schema))
    return write_first(df, store, asked, options, exist_ok=False)[1]


def replace_rows(
    df: DataFrame, store: Store, statement: Statement, options: WriteOptions
) -> Commit:
    """Run REPLACE TABLE AS SELECT in one commit. The query may read the table itself.

    Raises:
        InvalidArgumentError: an option that replaces only a part of the rows. Other errors as
            `tablefmt.spark.write`.
    """
    if options.part:
        raise InvalidArgumentError(
            f"REPLACE TABLE replaces the whole table, so it does not take {options.part}, which "
            "replaces a part of the rows"
        )
    context = open_context_if_exists(store)
    if context is None:
        return create_rows(df, store, statement, options)
    asked = statement.metadata_of_rows(schema_from(df.schema))
    add_features(context, asked)
    return overwrite_rows(context, df, options, name=REPLACE_AS, wanted=asked)


def like(store: Store, source: TableContext, statement: Statement) -> Schema:
    """Run CREATE TABLE LIKE: copy the definition of a tablefmt table, without its rows.

    Raises:
        SchemaMismatchError: a table with another definition exists.
    """
    there = for_new_table(source.view.head.metadata)
    properties = {**plain_properties(there), **statement.properties}
    checked = definition(there.schema, (), properties).properties
    copy = replace(there, properties={**there.properties, **checked})
    if statement.comment is not None:
        copy = replace(copy, comment=statement.comment)
    return create_as(store, copy, exist_ok=True).view.head.metadata.schema


def _define(session: JavaObject, uri: str, storage: str, text: str) -> JavaObject:
    """Run CREATE TABLE, and return the columns of the table."""
    return _as_defined(define, session, uri, storage, text)


def _replace(session: JavaObject, uri: str, storage: str, text: str) -> JavaObject:
    """Run REPLACE TABLE, and return the new columns of the table."""
    return _as_defined(replace_table, session, uri, storage, text)


def _as_defined(
    verb: Callable[[Session, Store, Statement], Schema],
    session: JavaObject,
    uri: str,
    storage: str,
    text: str,
) -> JavaObject:
    spark = session_of(session)
    options = json.loads(storage)
    check_only_storage(options)
    statement = Statement.read(text, options, default_properties(spark))
    return java_columns(verb(spark, store_of(uri, storage), statement))


def _like(
    session: JavaObject, uri: str, storage: str, of: str, of_storage: str, text: str
) -> JavaObject:
    """Run CREATE TABLE LIKE for a tablefmt table, and return the columns of the new table."""
    statement = Statement.read(text, json.loads(storage))
    schema = like(store_of(uri, storage), context_of(of, of_storage), statement)
    return java_columns(schema)


def _alter(session: JavaObject, uri: str, storage: str, changes: str) -> JavaObject:
    """Run ALTER TABLE, and return the columns of the table afterwards."""
    context = context_of(uri, storage)
    alter_table(session_of(session), context, json.loads(changes)["changes"])
    return java_columns(context.view.head.metadata.schema)


def _evolve(session: JavaObject, uri: str, storage: str, columns: str, how: str) -> str:
    """Return the columns that INSERT WITH SCHEMA EVOLUTION requires of the table."""
    metadata = context_of(uri, storage).view.head.metadata
    return widened_columns(metadata, json.loads(columns), json.loads(how))


VERBS: Mapping[str, Callable[..., Any]] = {
    "define": _define,
    "replace": _replace,
    "like": _like,
    "alter": _alter,
    "evolve": _evolve,
}
"""Handlers by the name that Java uses."""
