"""Outcome of a documented operation, beside the expected one."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import pyarrow as pa

from tablefmt.errors import TablefmtError
from tests.compat.documented.operation import Operation, Refused, SameError, SparkError


def difference(operation: Operation, text: str, names: dict[str, Any]) -> str | None:
    """Run a text. Return how its outcome differs from the operation's; None if it does not.

    Args:
        operation: its language, and what it gives.
        text: the text of the operation, changed.
        names: variables of a program. SQL needs `spark`.
    """
    gives = operation.gives
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _value(operation, text, names)
    except TablefmtError as error:
        if isinstance(gives, Refused | SameError) and gives.words in str(error):
            return None
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        if isinstance(gives, SparkError | SameError) and gives.words in str(error):
            return None
        return f"an error of another library, {type(error).__name__}: {error!s:.300}"
    return None if found == _sorted(gives) else f"gives {found!r:.400}, not {gives!r:.300}"


def _value(operation: Operation, text: str, names: dict[str, Any]) -> Any:
    if operation.language == "sql":
        for statement in filter(None, map(str.strip, text.split(";"))):
            value = names["spark"].sql(statement)
        return _sorted(_plain(value))
    *before, last = ast.parse(text.strip()).body
    if not isinstance(last, ast.Expr):
        exec(compile(text, operation.feature, "exec"), names)
        return None
    exec(compile(ast.Module(before, []), operation.feature, "exec"), names)
    shown = compile(ast.Expression(last.value), operation.feature, "eval")
    return _sorted(_plain(eval(shown, names)))


def _plain(value: Any) -> Any:
    """Return the rows of a DataFrame or an Arrow table as tuples, any other value as it is."""
    if isinstance(value, pa.Table):
        return [tuple(row.values()) for row in value.to_pylist()]
    return [tuple(row) for row in value.collect()] if hasattr(value, "toArrow") else value


def _sorted(value: Any) -> Any:
    """Return rows in an order that does not depend on their files."""
    rows = isinstance(value, list) and all(isinstance(row, tuple) for row in value)
    return sorted(value, key=repr) if rows else value
