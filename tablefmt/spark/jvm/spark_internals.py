"""The parts of Spark that this package uses by name, and the Spark versions it was tested with.

Most of the Java classes are compiled against Spark: a class or method that is missing stops the
compiler. The rest is here: names that code looks up while it runs, methods that Spark calls because
a class of ours overrides them, and what Python calls by py4j. `java_classes.problem` resolves each
name once a JVM. If one is missing, the session reads and writes through Arrow, and one warning
names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MINORS = ((4, 1), (4, 2), (4, 3))
"""Minor versions of Spark that CI tests: `checks.old_sparks`, which CI runs, reads this."""

_SQL = "org.apache.spark.sql."
_CATALYST = _SQL + "catalyst."
_PLANS = _CATALYST + "plans.logical."
_EXECUTION = _SQL + "execution."


@dataclass(frozen=True, slots=True)
class Internal:
    """One class of Spark's (or of py4j, or Scala), with members that are used by their names."""

    name: str
    members: tuple[str, ...]
    """Fields or methods, inherited ones too. A field may have a longer name that ends so, and a
    method a longer one that begins so: Scala adds to both."""
    user: str
    """The Java class, or the Python module, that uses the names."""
    without: str
    """The failure that the check at register prevents."""


INTERNALS = (
    # Private fields: Spark takes these only while it makes a session.
    Internal(
        _CATALYST + "analysis.Analyzer",
        ("postHocResolutionRules", "hintResolutionRules"),
        "RowCommands",
        "DELETE, UPDATE, MERGE and reads of changes by name are refused",
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
    # Parts of plan nodes, by the names of their accessors.
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
    # Callers on the stack. tests/spark/jvm/test_callers.py runs each decision.
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
        "a stream into a table of the catalog does without the options of its storage",
    ),
    Internal(
        _EXECUTION + "datasources.PreprocessTableInsertion",
        (),
        "SparkCallers",
        "INSERT into a view of a partitioned table is refused",
    ),
    Internal(
        _EXECUTION + "streaming.runtime.MicroBatchExecution",
        ("populateStartOffsets",),
        "SparkCallers",
        "a stream that starts again reads its last batch once more, and fails if files are gone",
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
    # Methods of classes that ours extend: Spark would no longer call ours.
    Internal(
        _EXECUTION + "datasources.SaveIntoDataSourceCommand",
        ("run", "output", "clone", "innerChildren", "nodeName", "simpleString"),
        "RowCommand",
        "a statement runs as a write of Spark's own",
    ),
    Internal(
        _EXECUTION + "datasources.HadoopFsRelation",
        ("partitionSchema", "location"),
        "SnapshotRelation",
        "INSERT into a view writes files of Spark's own into the table's folder",
    ),
    Internal(
        _EXECUTION + "datasources.parquet.ParquetFileFormat",
        ("buildReaderWithPartitionValues",),
        "SnapshotFormat",
        "columns that were renamed read as NULL",
    ),
    Internal(
        _SQL + "connector.util.V2ExpressionSQLBuilder",
        ("build", "visitLiteral"),
        "SnapshotWrite",
        "the condition of INSERT OVERWRITE has values as JDBC writes them",
    ),
    # Names in text: a method that Invoke calls, functions of the time of a query.
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
            "the value of a function of the current time becomes a constant in a condition",
        )
        for name in ("CurrentDate", "CurrentTimestamp", "LocalTimestamp", "Now")
    ),
    # What Python calls by py4j.
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
        "scans of tables of the catalog fail",
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
        "conditions with ${ in them, and names of tables, cannot be read",
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
        "the retry of a statement with binary values is taken for another statement",
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
        "a batch of a stream is known by its number alone",
    ),
    Internal(
        _EXECUTION + "streaming.runtime.StreamExecution",
        ("offsetLog", "lastExecution"),
        "tablefmt.spark.runtime.spark_jobs",
        "a batch of a stream is known by its number alone",
    ),
    Internal(
        _CATALYST + "catalog.SessionCatalog",
        ("alterTableSchema", "isTempView", "tableExists", "getTableMetadata"),
        "tablefmt.spark.entry.java_arguments",
        "tables of the catalog cannot be opened by name",
    ),
)
"""The literal table. A test compares it with the sources that it names."""


def tested() -> str:
    """Return the tested minor versions as text: "4.1, 4.2, 4.3"."""
    return ", ".join(f"{major}.{minor}" for major, minor in MINORS)


def untested(version: str) -> str | None:
    """Return why Spark's own reader and writer are not used on a version; None if it is tested.

    Args:
        version: of Spark, as it says it: "4.3.0", or "4.4.0-SNAPSHOT".
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) in MINORS:
        return None
    return (
        f"tablefmt was not tested with Spark {version}, only with {tested()}; install one of "
        "these versions, or a newer tablefmt"
    )


def as_lines() -> str:
    """Return INTERNALS as SparkInternals.java reads them: class and members, tabs between."""
    return "\n".join("\t".join((each.name, *each.members)) for each in INTERNALS)


def lacking(missing: list[str]) -> str:
    """Return the reason for names that Spark does not have."""
    return (
        f"this Spark lacks parts that tablefmt uses: {', '.join(missing)}; install Spark "
        f"{tested()}, or a newer tablefmt"
    )
