"""SQL text that the package gives to Spark goes through one gate."""

from __future__ import annotations

import ast

from tablefmt.spark.backends.native.native_writer import SESSION_CONF
from tests.architecture.test_architecture import MODULES, PACKAGE, package, trees

GATE = "tablefmt.spark.runtime.sql_text"

USERS_OWN = {
    # The text of DEFAULT, and of a time: the user's, which SQL has read before.
    ("tablefmt.spark.statements.alter_table", "sql"),
    ("tablefmt.spark.entry.clone_verbs", "sql"),
    # The names that a user gives to CALL system.snapshot.
    ("tablefmt.spark.entry.procedure_verbs", "sql"),
}
"""Calls of a session's parser that are allowed, with the reason."""

PARSING = {"expr", "selectExpr", "sql", "parsePlan", "parseExpression", "sqlParser"}
ROWWISE = {"where", "filter", "createOrReplaceTempView"}
"""Methods of a DataFrame: text that is a constant of ours is fine."""


JAVA = {
    # In a copy of the session that has variables switched off.
    ("NativeWrite", "functions.expr("),
    # Statements of the user, before Spark's own parser.
    ("StatementParser", "sqlParser()"),
}


def is_constant(node: ast.expr) -> bool:
    """Text without anything put into it but constants of the module."""
    if isinstance(node, ast.JoinedStr):
        return all(
            isinstance(part, ast.Constant)
            or (isinstance(part, ast.FormattedValue) and _is_ours(part.value))
            for part in node.values
        )
    return isinstance(node, ast.Constant)


def _is_ours(node: ast.expr) -> bool:
    """A constant, or what a module picks among names of its own."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id == "marks"
    return isinstance(node, ast.Name) and (node.id.isupper() or node.id == "sign")


def test_spark_parses_text_of_ours_at_the_gate_alone() -> None:
    """SEC-4: the gate puts nothing in place of `${…}`."""
    found = set()
    for name in MODULES:
        if package(name) != "spark" or name == GATE:
            continue
        for node in ast.walk(trees()[name]):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called, given = node.func.attr, node.args
            if called in PARSING and given:
                found.add((name, called))
            by_row = called in ROWWISE and given and isinstance(given[0], ast.JoinedStr)
            if by_row and not is_constant(given[0]):
                found.add((name, called))
    assert found == USERS_OWN


def test_so_do_the_java_classes() -> None:
    """SEC-4: a name of the log is parsed by the parser that knows no variables."""
    marks = ("functions.expr(", "sqlParser()", ".parseExpression(", ".parsePlan(", ".selectExpr(")
    folder = PACKAGE / "spark" / "jvm" / "java"
    found = {
        (path.stem, mark)
        for path in folder.glob("*.java")
        for mark in marks
        if mark in path.read_text("utf-8")
    }
    assert found == JAVA
    assert SESSION_CONF["spark.sql.variable.substitute"] == "false"
