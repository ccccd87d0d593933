"""Columns as Spark's catalog or a reader declares them, beside those that a table has. Pure."""

from __future__ import annotations

import json
from typing import Any

from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.schema import Schema

Declared = list[tuple[str, str]]
"""Names and types in order."""


def declared(columns: str) -> Declared:
    """Names and types of columns in Spark's JSON form; whether they may be NULL is not Spark's to
    keep.
    """
    return [(f["name"], _folded_type(f["type"])) for f in json.loads(columns)["fields"]]


def declared_by(schema: Schema) -> Declared:
    """Names and types of a table's columns, with the lengths that text was declared with."""
    columns = declared(json.dumps(to_spark_json(schema)))
    pairs = zip(columns, schema.fields, strict=True)
    return [(name, field.text or kind) for (name, kind), field in pairs]


def different(ours: Declared, theirs: Declared) -> list[str]:
    """Columns of another name or type; all of them where only their order differs."""
    return sorted({n for n, _ in set(ours) ^ set(theirs)}) or [n for n, _ in theirs]


def shown(columns: Declared) -> str:
    """Columns for people."""
    return ", ".join(f"{name} {kind}" for name, kind in columns).replace('"', "")


def _folded_type(given: Any) -> str:
    return json.dumps(_plain_type(given), sort_keys=True)


def _plain_type(given: Any) -> Any:
    """Spark's JSON form of a type, with neither nullability nor metadata."""
    if isinstance(given, list):
        return [_plain_type(item) for item in given]
    if not isinstance(given, dict):
        return given
    dropped = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {name: _plain_type(item) for name, item in given.items() if name not in dropped}
