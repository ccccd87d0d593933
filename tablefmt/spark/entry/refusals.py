"""What the Java classes refuse: the errors, by the verb that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.spark.columns.conditions import of_several_rows
from tablefmt.spark.runtime.ansi import lenient


def _changed(name: str) -> None:
    raise SchemaMismatchError(
        f"column {name!r} has another type than when the statement was read: somebody altered the "
        "table meanwhile; run the statement again",
        [name],
    )


def _twice(name: str) -> None:
    raise SchemaMismatchError(f"column {name!r} is set twice", [name])


def _misfit(name: str, kind: str, given: str) -> None:
    raise SchemaMismatchError(
        f"column {name!r} is {kind}, and {given} cannot be stored there; cast it first", [name]
    )


def _refuse(what: str, instead: str | None = None) -> None:
    end = "yet on tablefmt tables" if instead is None else f"on tablefmt tables; {instead}"
    raise UnsupportedFeatureError(f"{what} is not supported {end}", [f"sql:{what}"])


def _view(table: str | None) -> None:
    what = "DELETE, UPDATE or MERGE of a view"
    there = "the table's own name, as CREATE TABLE … OPTIONS (path '…') gives it one"
    # A table of the catalog looks like a view where another's catalog does not ask ours.
    other = (
        ". If it is a table, the session's spark.sql.catalog.spark_catalog does not ask Spark's "
        "own catalog: use tablefmt.spark.open(spark, path), or a session without that setting"
    )
    raise UnsupportedFeatureError(
        f"{what} is not supported yet on tablefmt tables; use {table or there}, with the table's "
        "own names of columns, and put the view's condition into the statement"
        f"{'' if table else other}",
        [f"sql:{what}"],
    )


def _foreign(name: str) -> None:
    raise UnsupportedFeatureError(
        f"{name} is no table USING tablefmt, so nothing was put in its place: it would be gone "
        "before the new rows are there; use another name, or DROP it first",
        ["sql:REPLACE TABLE of another format"],
    )


def _queried(condition: str) -> None:
    raise InvalidPredicateError(
        f"CHECK ({condition}): a constraint looks at one row by itself, and not at a query"
    )


def _rowwise(clause: str, text: str) -> None:
    raise of_several_rows(clause, text)


def _lenient() -> None:
    raise lenient("DELETE, UPDATE or MERGE")


def _unguarded() -> None:
    raise UnsupportedFeatureError(
        "rows of this table were deleted, and the session that runs the query does not know how to "
        "leave them out; call tablefmt.spark.register(spark) with that session first",
        ["spark:unregistered"],
    )


REFUSALS: Mapping[str, Callable[..., Any]] = {
    "changed": _changed,
    "twice": _twice,
    "misfit": _misfit,
    "refuse": _refuse,
    "view": _view,
    "foreign": _foreign,
    "queried": _queried,
    "rowwise": _rowwise,
    "lenient": _lenient,
    "unguarded": _unguarded,
}
