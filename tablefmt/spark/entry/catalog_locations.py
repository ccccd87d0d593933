"""Find tables of the catalog by name, also where only SQL reaches the catalog: over Spark Connect.

There, Spark cannot read a catalog table USING tablefmt by its name. Opening a table, and errors
about metadata tables, use its location instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.literals import text_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded
from tablefmt.operations.metadata_tables import NAMES
from tablefmt.spark.entry.java_arguments import CatalogTable, catalog_table, place
from tablefmt.spark.pyspark_objects import DataFrame, Session, has_jvm

_METADATA = re.compile(
    r"((?:`(?:[^`]|``)+`\.)*`(?:[^`]|``)+`)\.`(" + "|".join(NAMES) + r")`", re.IGNORECASE
)
"""A quoted name in an error of Spark that may be a metadata table."""

_WORD = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")

_PATH = re.compile(r"`?tablefmt`?\.`((?:[^`]|``)+)`", re.IGNORECASE)

_NAME = r"((?:(?:`(?:[^`]|``)+`|\w+)\.){0,2}(?:`(?:[^`]|``)+`|\w+))"

_CALLS = {
    "DELETE": "delete(where)",
    "UPDATE": "update(set, where)",
    "MERGE": "merge(source, on)",
    "TRUNCATE": "truncate(where)",
    "INSERT": "append(df), or overwrite(df)",
    "ALTER": "alter.add_column(name, type), or another method of alter",
    "SELECT": "to_df(version=…), or to_df(timestamp=…)",
}
"""Method of a SparkTable that does the same, by first word of a statement."""

_TARGET = re.compile(
    r"\s*(?:(?P<verb>DELETE|MERGE|INSERT)\s+(?:WITH\s+SCHEMA\s+EVOLUTION\s+)?"
    r"(?:FROM|INTO|OVERWRITE)\s+(?:TABLE\s+)?|(?P<update>UPDATE)\s+"
    r"|(?P<table>TRUNCATE|ALTER)\s+TABLE\s+)" + _NAME,
    re.IGNORECASE,
)
"""The table that a statement changes."""

_OF_CATALOG = re.compile(r"\s+(?:RENAME\s+TO|RECOVER|SET\s+LOCATION)\b", re.IGNORECASE)
"""Statements that change only the entry of the catalog."""

_VERSION = re.compile(r"Time travel on the relation: (.+?)\.(?:\s|$)")

_CHANGES = re.compile(r"`(table_changes(?:_by_path)?)`", re.IGNORECASE)


def location_of(sql: Callable[[str], DataFrame], name: str) -> str | None:
    """Return the location of the tablefmt table with this name in SQL. None: there is none.

    Args:
        sql: runs a statement.
        name: the name, quoted if it needs to be, with or without a database and `spark_catalog`.
    """
    from pyspark.errors import PySparkException

    words = [quoted.replace("``", "`") or plain for quoted, plain in _WORD.findall(name)]
    if len(words) == 3 and folded(words[0]) == "spark_catalog":
        del words[0]
    if len(words) not in (1, 2):
        return None
    within = f"IN {quote_name(words[0])} " if len(words) == 2 else ""
    pattern = text_sql(words[-1])
    try:
        rows = sql(f"SHOW TABLE EXTENDED {within}LIKE {pattern}").collect()
    except PySparkException:
        return None
    for row in rows:
        facts = dict(line.partition(": ")[::2] for line in row["information"].splitlines())
        same = folded(row["tableName"]) == folded(words[-1])
        if same and folded(facts.get("Provider", "")) == "tablefmt" and "Location" in facts:
            return place(facts["Location"])
    return None


def catalog_table_or_none(spark: Session, given: object) -> CatalogTable | None:
    """Return the tablefmt table that a text names in the catalog. None if the text is a location.

    Over Spark Connect it has only the location, and no storage options.
    """
    from pyspark.errors import ParseException

    if not isinstance(given, str) or ("/" in given and not folded(given).startswith("tablefmt.`")):
        return None
    if not has_jvm(spark):
        found = location_of(spark.sql, given)
        return None if found is None else CatalogTable(found, {}, given)
    try:
        return catalog_table(spark, given)
    except ParseException:
        # SQL cannot parse the name: a folder's name that would need backticks.
        return None


def check_change(sql: Callable[[str], DataFrame], text: str) -> None:
    """Check that a statement does not change a tablefmt table by its name, where Spark cannot.

    Spark would alter the catalog's columns alone, or raise an error that says nothing about it.

    Args:
        sql: runs a statement, as it was before it was wrapped.
        text: the statement.

    Raises:
        UnsupportedFeatureError: it does. It names the method to call.
    """
    target = _TARGET.match(text)
    if target is None or _OF_CATALOG.match(text, target.end()):
        return
    verb = (target["verb"] or target["update"] or target["table"]).upper()
    if location_of(sql, target[4]) is not None:
        raise _by_name(verb, target[4])


def _by_name(verb: str, name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"this session's Spark cannot run {verb} on a tablefmt table by its name; call "
        f"tablefmt.spark.open(spark, {name.replace('`', '')!r}).{_CALLS[verb]}",
        [f"sql:{verb}"],
    )


def check_inspection(sql: Callable[[str], DataFrame], error: Exception) -> None:
    """Check that an error of Spark is not about inspection of a tablefmt table.

    Args:
        sql: runs a statement, as it was before it was wrapped.
        error: an error of Spark's analyzer.

    Raises:
        UnsupportedFeatureError: it is about a metadata table or a version of one of our tables, or
            about `table_changes`. It names the call to use.
    """
    text = str(error).partition("\n")[0]
    older = _VERSION.search(text)
    if older is not None and location_of(sql, older[1]) is not None:
        raise _by_name("SELECT", older[1])
    called = _CHANGES.search(text) if "UNRESOLVABLE_TABLE_VALUED_FUNCTION" in text else None
    if called is not None:
        raise UnsupportedFeatureError(
            f"this session's Spark has no function {folded(called[1])}; for a tablefmt table, call "
            'spark.read.format("tablefmt").option("readChangeFeed", True)'
            '.option("startingVersion", …).load(path), or use CREATE TEMPORARY VIEW … USING '
            "tablefmt OPTIONS (path '…', readChangeFeed 'true', startingVersion '…')",
            [f"sql:{folded(called[1])}"],
        )
    named = _METADATA.search(text)
    if named is None:
        return
    path = _PATH.fullmatch(named[1])
    found = path[1].replace("``", "`") if path else location_of(sql, named[1])
    if found is None:
        return
    kind = folded(named[2])
    raise UnsupportedFeatureError(
        f"this session's Spark cannot read {kind} of a table by its name; call "
        f'spark.read.format("tablefmt").load({f"{found}#{kind}"!r}), or use CREATE TEMPORARY '
        f"VIEW … USING tablefmt OPTIONS (path '…#{kind}')",
        [f"sql:{kind}"],
    )
