"""Columns of a table in Spark's catalog: as declared there, and as writes add to them.

A catalog or a reader declares columns beside those that the table has; a write adds some before
its rows come, and others are known after. Spec: SCH-8, SCH-9.
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
from tablefmt.spark.columns.projection import taken_over

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


KEPT = 256
"""Tables of which it is known how this process changed their columns: those changed last."""

_steps: OrderedDict[str, list[tuple[Schema, Schema]]] = OrderedDict()
_noting = threading.Lock()


def widened_columns(metadata: Metadata, described: Mapping[str, Any], how: Any) -> str:
    """The columns that a table will have once rows of a query are in it, in Spark's JSON form.

    Args:
        metadata: of the table.
        described: the query's columns, in Spark's JSON form.
        how: `byName`; else `columns`, names that the statement lists, and `fixed`, partition
            columns with a value of their own. By position, columns beyond the table's are new.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has a name or a type that none can have.
    """
    fields = [dict(field) for field in described["fields"]]
    if not how["byName"]:
        fixed = {folded(name) for name in how.get("fixed", ())}
        there = [name for name in metadata.schema.names if folded(name) not in fixed]
        names = how.get("columns") or there
        for field, name in zip(fields, names, strict=False):
            field["name"] = name
    rows = nullable(taken_over(fields, metadata.schema))
    schema = merged(metadata, rows).schema
    return json.dumps(say_values(to_spark_json(schema), schema, CURRENT_DEFAULT))


def note(table: str, before: Schema, after: Schema) -> None:
    """Keep in mind that a commit of this process gave a table other columns."""
    with _noting:
        _steps.setdefault(table, []).append((before, after))
        _steps.move_to_end(table)
        while len(_steps) > KEPT:
            _steps.popitem(last=False)


def made_here(table: str, before: Callable[[Schema], bool], after: Schema) -> bool:
    """Whether it was this process that brought a table from columns to columns, and nobody else.

    Args:
        table: its id.
        before: says of a schema whether it has the columns of before.
        after: the columns that there are.
    """
    with _noting:
        steps = list(_steps.get(table, ()))
    reached = [result for known, result in steps if before(known)]
    for known, result in steps:
        if known in reached and result not in reached:
            reached.append(result)
    return after in reached
