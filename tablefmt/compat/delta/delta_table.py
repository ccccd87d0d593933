"""The DeltaTable of Delta's Python library, over a table of tablefmt and a Spark session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import tablefmt.spark
from tablefmt.compat.delta.delta_builders import (
    Condition,
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTableBuilder,
    Values,
    given_set,
)
from tablefmt.compat.delta.delta_names import NAMES
from tablefmt.compat.translation import Translated, translated
from tablefmt.errors import InvalidArgumentError, TableNotFoundError, UnsupportedFeatureError
from tablefmt.expressions.literals import in_session, text_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_checks import check_flags, whole_number
from tablefmt.model.delta_properties import DELTA_FEATURES
from tablefmt.model.name_matching import folded
from tablefmt.model.peer_properties import translate_properties
from tablefmt.operations.describe import detail
from tablefmt.operations.restore import restored
from tablefmt.spark import SparkTable
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.catalog_locations import catalog_table_or_none
from tablefmt.spark.entry.delta_settings import may_break_transactions
from tablefmt.spark.pyspark_objects import DataFrame, Session, active_session, source_name
from tablefmt.table import exists, import_table

_WORDS = re.compile(r"`(?:[^`]|``)+`|[^.`]+")
_PLACE = re.compile(r"\s*(\w+)\.`((?:[^`]|``)+)`\s*")
"""A place in the form of a name: delta.`/path`."""

HADOOP = {
    "fs.s3a.access.key": "key",
    "fs.s3a.secret.key": "secret",
    "fs.s3a.session.token": "token",
    "fs.s3a.endpoint": "endpoint_url",
}
"""Our storage option by Hadoop's name."""

_UNKNOWN = {
    **dict.fromkeys(("userId", "userName", "clusterId", "engineInfo"), "STRING"),
    "job": "STRUCT<jobId: STRING, jobName: STRING, runId: STRING, jobOwnerId: STRING, "
    "triggerType: STRING>",
    "notebook": "STRUCT<notebookId: STRING>",
}
"""Types of the columns of Delta's history that are NULL here."""


class DeltaTable(Translated):
    """A table and a session. `table` is the same table with the names of tablefmt."""

    _names, _called = NAMES, "DeltaTable"

    def __init__(
        self,
        spark: Session,
        table: SparkTable,
        alias: str | None = None,
        name: str | None = None,
    ) -> None:
        self._spark, self.table, self._alias, self._name = spark, table, alias, name

    def __repr__(self) -> str:
        return f"DeltaTable({self.table!r})"

    @classmethod
    @translated(NAMES, "DeltaTable.forPath")
    def forPath(
        cls, sparkSession: Session, path: str, hadoopConf: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Open the table at a path.

        Raises:
            TableNotFoundError: there is none.
            UnsupportedFeatureError: a setting of Hadoop without a counterpart.
        """
        options = {}
        for name, value in (hadoopConf or {}).items():
            if name not in HADOOP:
                raise UnsupportedFeatureError(
                    f"delta: hadoopConf has {name}; it may have {', '.join(HADOOP)}. Or use "
                    "tablefmt.spark.open(spark, path, storage_options={...})",
                    ["compat:DeltaTable.forPath(hadoopConf)"],
                )
            options[HADOOP[name]] = value
        table = tablefmt.spark.open(sparkSession, path, storage_options=options or None)
        return cls(sparkSession, table)

    @classmethod
    @translated(NAMES, "DeltaTable.forName")
    def forName(cls, sparkSession: Session, tableOrViewName: str) -> DeltaTable:
        """Open a table of the catalog, or delta.`/path`.

        Raises:
            TableNotFoundError: the catalog has no such tablefmt table.
        """
        place = _place(tableOrViewName)
        if place is not None:
            return cls.forPath(sparkSession, place)
        if catalog_table_or_none(sparkSession, tableOrViewName) is None:
            raise TableNotFoundError(
                f"the catalog has no tablefmt table {tableOrViewName}; use forPath for a path"
            )
        table = tablefmt.spark.open(sparkSession, tableOrViewName)
        return cls(sparkSession, table, name=_last_word(tableOrViewName))

    @classmethod
    @translated(NAMES, "DeltaTable.isDeltaTable")
    def isDeltaTable(cls, sparkSession: Session, identifier: str) -> bool:
        """Return whether there is a tablefmt table at a path."""
        return exists(_place(identifier) or identifier)

    @classmethod
    @translated(NAMES, "DeltaTable.convertToDelta")
    def convertToDelta(
        cls, sparkSession: Session, identifier: str, partitionSchema: Any = None
    ) -> DeltaTable:
        """Make a table of the Parquet files of parquet.`/path`, in its place.

        Raises:
            InvalidArgumentError: another form of the identifier.
        """
        place = _place(identifier)
        if place is None:
            raise InvalidArgumentError(
                f"the identifier is {identifier!r}; expected parquet.`/path`, the place of the "
                "files"
            )
        table = import_table(place, "parquet", partition_schema=partitionSchema)
        return cls(sparkSession, SparkTable(sparkSession, table))

    @classmethod
    def _builder(cls, given: Session | None, statement: str) -> DeltaTableBuilder[DeltaTable]:
        spark = _session(given)

        def opened(made: SparkTable | str) -> DeltaTable:
            return cls.forName(spark, made) if isinstance(made, str) else cls(spark, made)

        return DeltaTableBuilder(spark, statement, opened)

    @classmethod
    def create(cls, sparkSession: Session | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create a table."""
        return cls._builder(sparkSession, "CREATE TABLE")

    @classmethod
    def createIfNotExists(
        cls, sparkSession: Session | None = None
    ) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create a table, unless there is one."""
        return cls._builder(sparkSession, "CREATE TABLE IF NOT EXISTS")

    @classmethod
    def replace(cls, sparkSession: Session | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to replace a table."""
        return cls._builder(sparkSession, "REPLACE TABLE")

    @classmethod
    def createOrReplace(cls, sparkSession: Session | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create or replace a table."""
        return cls._builder(sparkSession, "CREATE OR REPLACE TABLE")

    def toDF(self) -> DataFrame:
        """Return the newest version as a DataFrame."""
        frame = self.table.to_df()
        return frame if self._alias is None else frame.alias(self._alias)

    @translated(NAMES, "DeltaTable.alias")
    def alias(self, aliasName: str) -> DeltaTable:
        """Return the table under a name for conditions."""
        return DeltaTable(self._spark, self.table, aliasName, self._name)

    @translated(NAMES, "DeltaTable.delete")
    def delete(self, condition: Condition = None) -> None:
        """Delete the rows of a condition, or all rows."""
        self.table.delete(condition)

    @translated(NAMES, "DeltaTable.update")
    def update(self, condition: Condition = None, set: Values | None = None) -> None:
        """Update the rows of a condition, or all rows."""
        self.table.update(given_set(set, "update"), condition)

    @translated(NAMES, "DeltaTable.merge")
    def merge(self, source: DataFrame, condition: Any) -> DeltaMergeBuilder:
        """Begin a MERGE. Conditions use the aliases of both sides, or their names."""
        theirs, ours = source_name(source) or "source", self._alias or self._name or "target"
        if folded(theirs) == folded(ours) and not self._alias:
            ours = "target"
        return DeltaMergeBuilder(
            self.table,
            {"source": source, "on": condition, "source_alias": theirs, "target_alias": ours},
        )

    @translated(NAMES, "DeltaTable.vacuum")
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Remove files that no kept version needs. Return the place of the table."""
        self.table.vacuum(
            retention=None if retentionHours is None else timedelta(hours=retentionHours),
            dry_run=False,
            breaks_running_transactions=may_break_transactions(self._spark),
        )
        return self._spark.createDataFrame([(self.table.table.uri,)], "path STRING")

    @translated(NAMES, "DeltaTable.history")
    def history(self, limit: int | None = None) -> DataFrame:
        """Return one row for each version, newest first.

        Columns of Delta about users, jobs and engines are NULL: a log has no such facts.
        """
        unknown = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in _UNKNOWN.items())
        return self.table.history(limit).selectExpr("*", *unknown)

    def detail(self) -> DataFrame:
        """Return the definition and the size of the table, as DESCRIBE DETAIL does."""
        about = detail(self.table.table.refresh().context, self._name)
        return self._spark.createDataFrame(about)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin an OPTIMIZE."""
        return DeltaOptimizeBuilder(self.table)

    @translated(NAMES, "DeltaTable.restoreToVersion")
    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore an older version by a new commit.

        Raises:
            InvalidArgumentError: version 0, which has no rows here, and may have rows in Delta.
                Version 0 of a clone has its rows.
        """
        first = self.table.table.context.view
        if whole_number(version) == 0 and not first.totals_at(0).files:
            raise InvalidArgumentError(
                "version 0 of a tablefmt table is its creation, and has no rows; the first write "
                "is version 1. To remove all rows, use delete()"
            )
        done = restored(self.table.table.context, self.table.restore(version))
        return self._spark.createDataFrame(done)

    @translated(NAMES, "DeltaTable.restoreToTimestamp")
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the version at a time. Text without a zone is in the session's time zone."""
        done = restored(self.table.table.context, self.table.restore(timestamp=timestamp))
        return self._spark.createDataFrame(done)

    @translated(NAMES, "DeltaTable.clone")
    def clone(
        self,
        target: str,
        isShallow: bool,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a new table of the newest version, at a path or under a name of the catalog."""
        return self._cloned({}, target, isShallow, replace, properties)

    @translated(NAMES, "DeltaTable.cloneAtVersion")
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a new table of a version."""
        point = {"version": whole_number(version)}
        return self._cloned(point, target, isShallow, replace, properties)

    @translated(NAMES, "DeltaTable.cloneAtTimestamp")
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a new table of the version at a time, in the session's time zone without a zone."""
        return self._cloned({"timestamp": timestamp}, target, isShallow, replace, properties)

    def _cloned(
        self,
        point: Mapping[str, Any],
        target: str,
        isShallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
    ) -> DeltaTable:
        check_flags(isShallow=isShallow, replace=replace)
        place = _place(target) or (target if "/" in target else None)
        if place is not None:
            made = self.table.clone(
                place,
                shallow=isShallow,
                replace=replace,
                properties=translate_properties(dict(properties or {})),
                **point,
            )
            return DeltaTable(self._spark, made)
        # Only SQL adds a table to the catalog.
        version = self.table.table.context.resolve_point(
            **(point if "timestamp" not in point else _at(self._spark, point["timestamp"]))
        )
        given = ", ".join(f"{text_sql(n)} = {text_sql(v)}" for n, v in (properties or {}).items())
        create = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE"
        source = f"tablefmt.{quote_name(self.table.table.uri)} VERSION AS OF {version}"
        how = "SHALLOW CLONE" if isShallow else "DEEP CLONE"
        more = f" TBLPROPERTIES ({given})" if given else ""
        self._spark.sql(f"{create} {target} {how} {source}{more}")
        return DeltaTable.forName(self._spark, target)

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Do nothing, and warn: features are enabled as they are needed."""
        NAMES.warn("DeltaTable.upgradeTableProtocol")

    @translated(NAMES, "DeltaTable.addFeatureSupport")
    def addFeatureSupport(self, featureName: str) -> None:
        """Warn about a feature that every table has.

        Raises:
            UnsupportedFeatureError: tablefmt tables cannot have the feature.
        """
        if featureName not in DELTA_FEATURES:
            raise UnsupportedFeatureError(
                f"delta: tablefmt tables do not have the feature {featureName}; leave it out",
                [f"compat:feature:{featureName}"],
            )
        NAMES.warn("DeltaTable.addFeatureSupport")


def _at(spark: Session, timestamp: str) -> dict[str, Any]:
    return {"timestamp": in_session(timestamp, session_zone(spark))}


def _last_word(name: str) -> str:
    """Return a name of the catalog without its database and quotes, as columns are qualified."""
    word: str = _WORDS.findall(name)[-1]
    return word.strip("`").replace("``", "`")


def _place(identifier: str) -> str | None:
    match = _PLACE.fullmatch(identifier)
    return None if match is None else match[2].replace("``", "`")


def _session(given: Session | None) -> Session:
    if given is not None:
        return given
    active = active_session()
    if active is None:
        raise InvalidArgumentError("delta: there is no active session; pass one")
    return active
