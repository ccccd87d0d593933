"""Compare a table's columns with those that Spark's catalog or a reader declares.

The module also computes columns after a write that adds some, and notes changes by this process.
Spec: SCH-8, SCH-9.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.expressions.ddl import CURRENT_DEFAULT, say_values, to_spark_json
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema, nullable
from tablefmt.session.metadata_changes import merged
from tablefmt.spark.columns.projection import incoming_of

Declared = list[tuple[str, str]]
"""Names and types of columns, in order."""


def declared(columns: str) -> Declared:
    """Return names and types of columns in Spark's JSON form. Nullability is ignored."""
    return [(f["name"], _folded_type(f["type"])) for f in json.loads(columns)["fields"]]


def declared_by(schema: Schema) -> Declared:
    """Return names and types of a table's columns, with the declared lengths of text."""
    columns = declared(json.dumps(to_spark_json(schema)))
    pairs = zip(columns, schema.fields, strict=True)
    return [(name, field.text or kind) for (name, kind), field in pairs]


def different(ours: Declared, theirs: Declared) -> list[str]:
    """Return the columns that differ in name or type. If only the order differs, return all."""
    return sorted({n for n, _ in set(ours) ^ set(theirs)}) or [n for n, _ in theirs]


def shown(columns: Declared) -> str:
    """Return columns as text for messages."""
    return ", ".join(f"{name} {kind}" for name, kind in columns).replace('"', "")


def _folded_type(given: Any) -> str:
    return json.dumps(_plain_type(given), sort_keys=True)


def _plain_type(given: Any) -> Any:
    """Return Spark's JSON form of a type without nullability and metadata."""
    if isinstance(given, list):
        return [_plain_type(item) for item in given]
    if not isinstance(given, dict):
        return given
    dropped = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {name: _plain_type(item) for name, item in given.items() if name not in dropped}


KEPT = 256
"""Number of tables with known column changes by this process: those changed last."""

_steps: OrderedDict[str, list[tuple[Schema, Schema]]] = OrderedDict()
_steps_lock = threading.Lock()


def widened_columns(metadata: Metadata, described: Mapping[str, Any], how: Any) -> str:
    """Return the columns of a table after a query's rows are added, in Spark's JSON form.

    Args:
        metadata: the table's metadata.
        described: the query's columns, in Spark's JSON form.
        how: `byName`; or `columns`, names that the statement lists, and `fixed`, partition columns
            with a fixed value. By position, columns beyond the table's are new.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has an invalid name or type.
    """
    fields = [dict(field) for field in described["fields"]]
    if not how["byName"]:
        fixed = {folded(name) for name in how.get("fixed", ())}
        there = [name for name in metadata.schema.names if folded(name) not in fixed]
        names = how.get("columns") or there
        for field, name in zip(fields, names, strict=False):
            field["name"] = name
    rows = nullable(incoming_of(fields, metadata.schema))
    schema = merged(metadata, rows).schema
    return json.dumps(say_values(to_spark_json(schema), schema, CURRENT_DEFAULT))


def note(table: str, before: Schema, after: Schema) -> None:
    """Note that a commit of this process changed a table's columns."""
    with _steps_lock:
        _steps.setdefault(table, []).append((before, after))
        _steps.move_to_end(table)
        while len(_steps) > KEPT:
            _steps.popitem(last=False)


def changed_here(table: str, before: Callable[[Schema], bool], after: Schema) -> bool:
    """Return whether commits of this process alone changed a table's columns from `before`.

    Args:
        table: the table's id.
        before: returns whether a schema has the columns from before.
        after: the current columns.
    """
    with _steps_lock:
        steps = list(_steps.get(table, ()))
    reached = [result for known, result in steps if before(known)]
    for known, result in steps:
        if known in reached and result not in reached:
            reached.append(result)
    return after in reached
