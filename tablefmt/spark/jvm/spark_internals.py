"""Parts of Spark that this package uses by name, and the tested versions of Spark.

Most of the Java classes are compiled against Spark, so the compiler detects a missing class or
method. This table has the rest: names that are looked up at run time, methods of Spark that our
classes override, and names that Python uses by py4j. `java_classes.problem` resolves each name once
per JVM. If one is missing, the session uses the Arrow backend, and a single warning names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MINORS = ((4, 1), (4, 2), (4, 3))
"""Minor versions of Spark that CI tests. `checks.old_sparks`, which CI runs, reads this."""

_SQL = "org.apache.spark.sql."
_CATALYST = _SQL + "catalyst."
_PLANS = _CATALYST + "plans.logical."
_EXECUTION = _SQL + "execution."


@dataclass(frozen=True, slots=True)
class Internal:
    """A class of Spark, py4j or Scala, with members that are used by name."""

    name: str
    members: tuple[str, ...]
    """Fields or methods, also inherited ones.

    Scala may add a prefix to the name of a field, and a suffix to the name of a method.
    """
    user: str
    """Java class or Python module that uses the names."""
    without: str
    """Failure that the check in `register` prevents."""


INTERNALS = (
    # Private fields: Spark has setters for these only while it creates a session.
    Internal(
        _CATALYST + "analysis.Analyzer",
        ("postHocResolutionRules", "hintResolutionRules"),
        "RowCommands",
        "DELETE, UPDATE, MERGE and reads of changes by name are rejected",
    ),
    Internal(
        _SQL + "connector.catalog.CatalogManager",
        ("defaultSessionCatalog",),
        "SparkFields",
        "tables USING tablefmt are not found by name in threads without an active session",
    ),
    Internal(
        _SQL + "internal.SessionState",
        ("sqlParser",),
        "SparkFields",
        "OPTIMIZE, VACUUM, RESTORE and DESCRIBE HISTORY are unknown",
    ),
    Internal(
        _SQL + "connector.catalog.DefaultValue",
        ("getSql",),
        "SparkFields",
        "ALTER TABLE ADD COLUMN with a default fails",
    ),
    # Constructor arguments of plan nodes, by the names of their accessors.
    Internal(
        _PLANS + "AppendData",
        ("table", "query", "writeOptions", "isByName", "write", "analyzedQuery"),
        "SparkNodes",
        "a dynamic overwrite fails",
    ),
    Internal(
        _PLANS + "OverwritePartitionsDynamic",
        ("table", "query", "writeOptions", "isByName", "write"),
        "SparkNodes",
        "a dynamic overwrite fails",
    ),
    Internal(
        _EXECUTION + "datasources.v2.DataSourceV2Relation",
        ("table", "output"),
        "SparkNodes",
        "INSERT and MERGE WITH SCHEMA EVOLUTION fail",
    ),
    Internal(
        _PLANS + "InsertIntoStatement",
        ("table",),
        "SparkNodes",
        "INSERT WITH SCHEMA EVOLUTION fails",
    ),
    # Callers on the stack. tests/spark/jvm/test_callers.py tests each case.
    Internal(
        _SQL + "classic.DataFrameWriter",
        ("saveAsTable",),
        "SparkCallers",
        "saveAsTable over a table replaces its properties and constraints too",
    ),
    Internal(
        _SQL + "classic.DataStreamWriter",
        ("writeToV1Table",),
        "SparkCallers",
        "a stream into a catalog table ignores the table's storage options",
    ),
    Internal(
        _EXECUTION + "datasources.PreprocessTableInsertion",
        (),
        "SparkCallers",
        "INSERT into a view of a partitioned table is rejected",
    ),
    Internal(
        _EXECUTION + "streaming.runtime.MicroBatchExecution",
        ("populateStartOffsets",),
        "SparkCallers",
        "a restarted stream reads its last batch again, and fails if files were removed",
    ),
    Internal(
        _EXECUTION + "datasources.v2.ShowTablePropertiesExec",
        (),
        "SparkCallers",
        "SHOW TBLPROPERTIES shows no CHECK",
    ),
    Internal(
        _EXECUTION + "datasources.v2.DescribeTableExec",
        (),
        "SparkCallers",
        "DESCRIBE shows no CHECK",
    ),
    Internal(
        _EXECUTION + "datasources.v2.ShowCreateTableExec",
        (),
        "SparkCallers",
        "SHOW CREATE TABLE shows no CHECK",
    ),
    # Methods that our classes override: Spark would no longer call them.
    Internal(
        _EXECUTION + "datasources.SaveIntoDataSourceCommand",
        ("run", "output", "clone", "innerChildren", "nodeName", "simpleString"),
        "RowCommand",
        "a statement runs as a write by Spark itself",
    ),
    Internal(
        _EXECUTION + "datasources.HadoopFsRelation",
        ("partitionSchema", "location"),
        "SnapshotRelation",
        "INSERT into a view writes Spark's own files into the table's folder",
    ),
    Internal(
        _EXECUTION + "datasources.parquet.ParquetFileFormat",
        ("buildReaderWithPartitionValues",),
        "SnapshotFormat",
        "renamed columns read as NULL",
    ),
    Internal(
        _SQL + "connector.util.V2ExpressionSQLBuilder",
        ("build", "visitLiteral"),
        "SnapshotWrite",
        "the condition of INSERT OVERWRITE has values in JDBC's syntax",
    ),
    Internal(
        "org.apache.spark.internal.io.FileCommitProtocol",
        ("setupJob", "commitJob", "abortJob", "onTaskCommit"),
        "DirectFiles",
        "writes to Azure and Google are refused",
    ),
    # Names in text: a method called by Invoke, and functions of the current time.
    Internal(
        "org.apache.spark.broadcast.Broadcast",
        ("value",),
        "SparkExpressions",
        "a scan of a table with many deleted rows fails",
    ),
    *(
        Internal(
            f"{_CATALYST}expressions.{name}",
            (),
            "Conditions",
            "a function of the current time in a condition becomes a constant",
        )
        for name in ("CurrentDate", "CurrentTimestamp", "LocalTimestamp", "Now")
    ),
    # Names that Python uses by py4j.
    Internal(
        "py4j.Gateway",
        ("cbClient",),
        "tablefmt.spark.jvm.callbacks",
        "the JVM calls Python without a token",
    ),
    Internal(
        "org.apache.spark.util.Utils",
        ("getContextOrSparkClassLoader",),
        "tablefmt.spark.jvm.java_classes",
        "the classes cannot be loaded",
    ),
    Internal(
        _SQL + "ExperimentalMethods",
        (
            "extraOptimizations",
            "extraOptimizations_$eq",
            "extraStrategies",
            "extraStrategies_$eq",
        ),
        "tablefmt.spark.jvm.java_classes",
        "scans of catalog tables fail",
    ),
    Internal(
        "org.apache.spark.api.python.PythonUtils",
        ("toScalaMap",),
        "tablefmt.spark.jvm.java_classes",
        "reads fail",
    ),
    Internal(
        _CATALYST + "parser.CatalystSqlParser$",
        ("parseExpression", "parseMultipartIdentifier", "parseTableIdentifier"),
        "tablefmt.spark.runtime.sql_text",
        "conditions with ${ and names of tables cannot be parsed",
    ),
    Internal(
        _SQL + "classic.ExpressionUtils",
        ("column",),
        "tablefmt.spark.columns.row_conditions",
        "conditions given as Columns fail",
    ),
    Internal(
        _SQL + "classic.ColumnNodeToExpressionConverter$",
        ("apply",),
        "tablefmt.spark.columns.row_conditions",
        "the retry of a statement with binary values counts as another statement",
    ),
    Internal(
        _SQL + "classic.SparkSession",
        (
            "sessionUUID",
            "sessionState",
            "sharedState",
            "baseRelationToDataFrame",
            "getActiveSession",
            "setActiveSession",
            "clearActiveSession",
        ),
        "tablefmt.spark.runtime.ansi",
        "statements in a session that is not ANSI fail",
    ),
    Internal(
        _SQL + "internal.SharedState",
        ("activeStreamingQueries", "cacheManager"),
        "tablefmt.spark.runtime.spark_jobs",
        "a batch of a stream is identified by its number alone",
    ),
    Internal(
        _EXECUTION + "streaming.runtime.StreamExecution",
        ("offsetLog", "lastExecution"),
        "tablefmt.spark.runtime.spark_jobs",
        "a batch of a stream is identified by its number alone",
    ),
    Internal(
        _CATALYST + "catalog.SessionCatalog",
        ("alterTableSchema", "isTempView", "databaseExists", "tableExists", "getTableMetadata"),
        "tablefmt.spark.entry.java_arguments",
        "catalog tables cannot be opened by name",
    ),
)
"""The whole table. A test compares it with the sources that it names."""


def tested() -> str:
    """Return the tested minor versions as text: "4.1, 4.2, 4.3"."""
    return ", ".join(f"{major}.{minor}" for major, minor in MINORS)


def untested(version: str) -> str | None:
    """Return why the native backend is not used with a version of Spark. None if it is tested.

    Args:
        version: Spark's version, such as "4.3.0" or "4.4.0-SNAPSHOT".
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) in MINORS:
        return None
    return (
        f"tablefmt was not tested with Spark {version}, only with {tested()}; install a tested "
        "version of Spark, or a newer tablefmt"
    )


def as_lines() -> str:
    """Return INTERNALS for SparkInternals.java: class and members, separated by tabs."""
    return "\n".join("\t".join((each.name, *each.members)) for each in INTERNALS)


def lacking(missing: list[str]) -> str:
    """Return the message for names that Spark does not have."""
    return (
        f"this Spark lacks parts that tablefmt uses: {', '.join(missing)}; install Spark "
        f"{tested()}, or a newer tablefmt"
    )
