"""The objects of Delta's Python library that build a MERGE, a table, an OPTIMIZE or a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tablefmt.spark
from tablefmt.compat.delta.delta_names import NAMES
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.ddl import (
    EXPRESSION,
    IDENTITY_KEYS,
    identity_of,
    schema_from,
    to_spark_json,
)
from tablefmt.expressions.literals import text_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.identity_columns import checked_identity, shown_identity
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.schema import Identity
from tablefmt.operations.merge_builder import Pending
from tablefmt.spark import SparkTable
from tablefmt.spark.pyspark_objects import Column, DataFrame, Session, has_jvm
from tablefmt.table import exists

_Table = TypeVar("_Table")
Values = Mapping[str, str | Column]
Condition = str | Column | None


def given_set(values: Values | None, call: str) -> Values:
    """Return the assignments of a call. Raises InvalidArgumentError if there are none."""
    if values is None:
        raise InvalidArgumentError(
            f"delta: {call} needs assignments: pass a dict of column -> value"
        )
    return values


class DeltaMergeBuilder(Translated):
    """A MERGE under construction. Each method returns a builder with one more clause.

    A MERGE that is never executed warns when it is discarded.
    """

    _names, _called = NAMES, "DeltaMergeBuilder"

    def __init__(
        self,
        table: SparkTable,
        arguments: Mapping[str, Any],
        clauses: tuple[tuple[str, tuple[Any, ...]], ...] = (),
        pending: Pending | None = None,
    ) -> None:
        self._table, self._arguments, self._clauses = table, arguments, clauses
        self._pending = pending or Pending(arguments.get("source"))

    @translated(NAMES, "DeltaMergeBuilder.whenMatchedUpdate")
    def whenMatchedUpdate(
        self, condition: Condition = None, set: Values | None = None
    ) -> DeltaMergeBuilder:
        """Update matched rows."""
        return self._with("when_matched_update", self._set(set, "whenMatchedUpdate"), condition)

    @translated(NAMES, "DeltaMergeBuilder.whenMatchedUpdateAll")
    def whenMatchedUpdateAll(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Update all columns of matched rows."""
        return self._with("when_matched_update_all", condition)

    @translated(NAMES, "DeltaMergeBuilder.whenMatchedDelete")
    def whenMatchedDelete(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Delete matched rows."""
        return self._with("when_matched_delete", condition)

    @translated(NAMES, "DeltaMergeBuilder.whenNotMatchedInsert")
    def whenNotMatchedInsert(
        self, condition: Condition = None, values: Values | None = None
    ) -> DeltaMergeBuilder:
        """Insert source rows without a match."""
        inserted = self._set(values, "whenNotMatchedInsert")
        return self._with("when_not_matched_insert", inserted, condition)

    @translated(NAMES, "DeltaMergeBuilder.whenNotMatchedInsertAll")
    def whenNotMatchedInsertAll(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Insert all columns of source rows without a match."""
        return self._with("when_not_matched_insert_all", condition)

    @translated(NAMES, "DeltaMergeBuilder.whenNotMatchedBySourceUpdate")
    def whenNotMatchedBySourceUpdate(
        self, condition: Condition = None, set: Values | None = None
    ) -> DeltaMergeBuilder:
        """Update rows of the table without a match."""
        updated = self._set(set, "whenNotMatchedBySourceUpdate")
        return self._with("when_not_matched_by_source_update", updated, condition)

    @translated(NAMES, "DeltaMergeBuilder.whenNotMatchedBySourceDelete")
    def whenNotMatchedBySourceDelete(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Delete rows of the table without a match."""
        return self._with("when_not_matched_by_source_delete", condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns that only the source has to the table."""
        return DeltaMergeBuilder(
            self._table, {**self._arguments, "merge_schema": True}, self._clauses, self._pending
        )

    def execute(self) -> DataFrame:
        """Run the MERGE. Return the numbers of changed rows."""
        self._pending.settle()
        builder = self._table.merge(**self._arguments)
        for name, arguments in self._clauses:
            builder = getattr(builder, name)(*arguments)
        counts = builder.execute().metrics
        found = [
            int(counts.get(f"numTargetRows{kind}", 0))
            for kind in ("Updated", "Deleted", "Inserted")
        ]
        return self._table.spark.createDataFrame(
            [(sum(found), *found)],
            "num_affected_rows BIGINT, num_updated_rows BIGINT, num_deleted_rows BIGINT, "
            "num_inserted_rows BIGINT",
        )

    def _set(self, values: Values | None, call: str) -> Values:
        """Return assignments without the alias of the table in front of columns."""
        start = f"{self._arguments['target_alias']}."
        columns = self._table.table.schema.names
        if start[:-1] in columns:
            return given_set(values, call)
        return {name.removeprefix(start): value for name, value in given_set(values, call).items()}

    def _with(self, name: str, *arguments: Any) -> DeltaMergeBuilder:
        clauses = (*self._clauses, (name, arguments))
        return DeltaMergeBuilder(self._table, self._arguments, clauses, self._pending)


class DeltaOptimizeBuilder(Translated):
    """An OPTIMIZE of a table or of some partitions."""

    _names, _called = NAMES, "DeltaOptimizeBuilder"

    def __init__(self, table: SparkTable, where: str | None = None) -> None:
        self._table, self._where = table, where

    @translated(NAMES, "DeltaOptimizeBuilder.where")
    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Select partitions by a condition."""
        both = f"({self._where}) AND ({partitionFilter})" if self._where else partitionFilter
        return DeltaOptimizeBuilder(self._table, both)

    def executeCompaction(self) -> DataFrame:
        """Compact small files, or cluster new ones. Return the place and the numbers of files."""
        if self._table.table.cluster_by:
            return self._answer(self._table.cluster(where=self._where).metrics)
        return self._answer(self._table.compact(where=self._where).metrics)

    def executeZOrderBy(self, *cols: str | Iterable[str]) -> DataFrame:
        """Cluster rows by columns. Return the place and the numbers of files."""
        return self._answer(self._table.cluster(names_of(cols), where=self._where).metrics)

    def _answer(self, metrics: Mapping[str, Any]) -> DataFrame:
        counts = (metrics.get("numAddedFiles", 0), metrics.get("numRemovedFiles", 0))
        return self._table.spark.createDataFrame(
            [(self._table.table.uri, counts)],
            "path STRING, metrics STRUCT<numFilesAdded: BIGINT, numFilesRemoved: BIGINT>",
        )


def names_of(cols: tuple[Any, ...]) -> list[str]:
    """Return names that were given one by one, or as one list."""
    if len(cols) == 1 and isinstance(cols[0], list | tuple):
        return list(cols[0])
    return list(cols)


class DeltaTableBuilder(Translated, Generic[_Table]):
    """A table to create or replace."""

    _names, _called = NAMES, "DeltaTableBuilder"

    def __init__(
        self, spark: Session, statement: str, opened: Callable[[SparkTable | str], _Table]
    ) -> None:
        """Begin without columns.

        Args:
            spark: the session.
            statement: CREATE TABLE, and what else the words before the name are.
            opened: returns Delta's object for a table, or for its name in the catalog.
        """
        self._spark, self._statement, self._opened = spark, statement, opened
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._fields: list[dict[str, Any]] = []
        self._types: list[str] = []
        self._partitions: list[str] = []
        self._clustering: list[str] = []
        self._properties: dict[str, str] = {}

    @translated(NAMES, "DeltaTableBuilder.tableName")
    def tableName(self, identifier: str) -> DeltaTableBuilder[_Table]:
        """Set the name in the catalog."""
        self._name = identifier
        return self

    @translated(NAMES, "DeltaTableBuilder.location")
    def location(self, location: str) -> DeltaTableBuilder[_Table]:
        """Set the place of the table."""
        self._location = location
        return self

    @translated(NAMES, "DeltaTableBuilder.comment")
    def comment(self, comment: str) -> DeltaTableBuilder[_Table]:
        """Set the comment of the table."""
        self._comment = comment
        return self

    @translated(NAMES, "DeltaTableBuilder.addColumn")
    def addColumn(
        self,
        colName: str,
        dataType: Any,
        nullable: bool = True,
        generatedAlwaysAs: Any = None,
        generatedByDefaultAs: Any = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[_Table]:
        """Add a column. Its type is DDL text or a Spark DataType."""
        if isinstance(dataType, str):
            schema = to_spark_json(schema_from(f"{quote_name(colName)} {dataType}"))
            kind, text = schema["fields"][0]["type"], dataType
        else:
            kind, text = dataType.jsonValue(), dataType.simpleString()
        metadata: dict[str, Any] = {} if comment is None else {"comment": comment}
        metadata |= _generated(colName, generatedAlwaysAs, generatedByDefaultAs)
        self._fields.append(
            {"name": colName, "type": kind, "nullable": nullable, "metadata": metadata}
        )
        self._types.append(text)
        return self

    @translated(NAMES, "DeltaTableBuilder.addColumns")
    def addColumns(self, cols: Any) -> DeltaTableBuilder[_Table]:
        """Add the columns of a StructType, or of a list of StructFields."""
        for each in cols:
            comment, text = each.metadata.get("comment"), each.metadata.get(EXPRESSION)
            identity, more = identity_of(each.metadata), {"generatedAlwaysAs": text}
            if identity is not None:
                way = "generatedAlwaysAs" if identity.always else "generatedByDefaultAs"
                more = {way: IdentityGenerator(identity.start, identity.step)}
            self.addColumn(each.name, each.dataType, each.nullable, comment=comment, **more)
        return self

    def partitionedBy(self, *cols: str | Iterable[str]) -> DeltaTableBuilder[_Table]:
        """Set the partition columns."""
        self._partitions = names_of(cols)
        return self

    @translated(NAMES, "DeltaTableBuilder.clusterBy")
    def clusterBy(self, *cols: str | Iterable[str]) -> DeltaTableBuilder[_Table]:
        """Set the columns of the clustering order."""
        self._clustering = names_of(cols)
        return self

    @translated(NAMES, "DeltaTableBuilder.property")
    def property(self, key: str, value: str) -> DeltaTableBuilder[_Table]:
        """Set a property. Names that start with `delta.` become ours, or are refused."""
        self._properties.update(translate_properties({key: value}))
        return self

    def execute(self) -> _Table:
        """Create or replace the table.

        Raises:
            InvalidArgumentError: neither a name nor a place.
            UnsupportedFeatureError: a name on Spark Connect; a replacement without a name.
        """
        if self._name is not None:
            self._create_by_name(self._name)
            return self._opened(self._name)
        if self._location is None:
            raise InvalidArgumentError("delta: give the table a tableName or a location")
        creates = self._statement.startswith("CREATE")
        if "REPLACE" in self._statement and (not creates or exists(self._location)):
            raise UnsupportedFeatureError(
                "delta: a table can be replaced only by its name; give tableName too",
                ["compat:DeltaTableBuilder.location"],
            )
        table = tablefmt.spark.create(
            self._spark,
            self._location,
            self._schema(),
            partition_by=self._partitions,
            cluster_by=self._clustering,
            properties=self._properties,
            exist_ok="IF NOT EXISTS" in self._statement,
        )
        if self._comment is not None and table.table.comment != self._comment:
            table.alter.set_comment(self._comment)
        return self._opened(table)

    def _schema(self) -> dict[str, Any]:
        return {"type": "struct", "fields": self._fields}

    def _create_by_name(self, name: str) -> None:
        """Run the CREATE TABLE statement that the builder describes."""
        if not has_jvm(self._spark):
            raise UnsupportedFeatureError(
                "delta: on Spark Connect, create a table by its location, or with CREATE TABLE",
                ["compat:DeltaTableBuilder.tableName"],
            )
        columns = [
            f"{quote_name(field['name'])} {kind}"
            + ("" if field["nullable"] else " NOT NULL")
            + (f" GENERATED ALWAYS AS ({text})" if (text := _expression(field)) else "")
            + (f" {shown_identity(known)}" if (known := identity_of(field["metadata"])) else "")
            + (f" COMMENT {text_sql(text)}" if (text := field["metadata"].get("comment")) else "")
            for field, kind in zip(self._fields, self._types, strict=True)
        ]
        parts = [f"{self._statement} {name}"]
        if columns:
            parts.append(f"({', '.join(columns)})")
        parts.append("USING tablefmt")
        if self._location is not None:
            parts.append(f"OPTIONS (path {text_sql(self._location)})")
        if self._partitions:
            parts.append(f"PARTITIONED BY ({', '.join(map(quote_name, self._partitions))})")
        if self._clustering:
            parts.append(f"CLUSTER BY ({', '.join(map(quote_name, self._clustering))})")
        if self._comment is not None:
            parts.append(f"COMMENT {text_sql(self._comment)}")
        if self._properties:
            pairs = [
                f"{text_sql(key)} = {text_sql(value)}" for key, value in self._properties.items()
            ]
            parts.append(f"TBLPROPERTIES ({', '.join(pairs)})")
        self._spark.sql(" ".join(parts))


@dataclass
class IdentityGenerator:
    """The values of an identity column."""

    start: int = 1
    step: int = 1


def _generated(name: str, always: Any, by_default: Any) -> dict[str, Any]:
    """Return what the metadata of a column says of its values."""
    if always is not None and by_default is not None:
        raise InvalidArgumentError(
            f"delta: column {name!r} has generatedAlwaysAs and generatedByDefaultAs; give one"
        )
    if isinstance(always, str):
        return {EXPRESSION: always}
    for given, way in ((always, "generatedAlwaysAs"), (by_default, "generatedByDefaultAs")):
        if given is None:
            continue
        if not isinstance(given, IdentityGenerator):
            raise UnsupportedFeatureError(
                f"delta: {way} of column {name!r} is a {type(given).__name__}; expected an "
                "IdentityGenerator"
                + (", or an expression as text" if way == "generatedAlwaysAs" else ""),
                [f"compat:DeltaTableBuilder.addColumn({way})"],
            )
        explicit = way == "generatedByDefaultAs"
        checked_identity(name, Identity(not explicit, given.start, given.step))
        values = (given.start, given.step, explicit)
        return {f"delta.{key}": each for key, each in zip(IDENTITY_KEYS, values, strict=True)}
    return {}


def _expression(field: Mapping[str, Any]) -> str | None:
    text: str | None = field["metadata"].get(EXPRESSION)
    return text


DELTAS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of a session with Delta, which has no class of them here."""


class SessionBuilder:
    """A builder of Spark whose session is registered for tablefmt."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def getOrCreate(self) -> Any:
        """Return the session, registered."""
        options = getattr(self._builder, "_options", {})
        for name, value in DELTAS.items():
            if options.get(name) == value:
                del options[name]
        session = self._builder.getOrCreate()
        tablefmt.spark.register(session)
        return session

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._builder, name)
        if not callable(member):
            return member

        def chained(*arguments: Any, **named: Any) -> Any:
            result = member(*arguments, **named)
            return SessionBuilder(result) if isinstance(result, type(self._builder)) else result

        return chained


@translated(NAMES, "configure_spark_with_delta_pip")
def configure_spark_with_delta_pip(
    spark_session_builder: Any, extra_packages: Sequence[str] | None = None
) -> SessionBuilder:
    """Return a builder of a registered session, without Delta's extension and catalog.

    Other packages are downloaded as Spark does it.
    """
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return SessionBuilder(spark_session_builder)
