"""The columns of a stream's rows. Pure. Spec: STR-1, INC-3."""

from __future__ import annotations

from typing import Any

from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Schema
from tablefmt.spark.streams.source_options import StreamOptions


def stream_columns(schema: Schema, options: StreamOptions) -> dict[str, Any]:
    """The columns of a stream's rows, in Spark's JSON form of a StructType.

    Raises:
        SchemaMismatchError: INC-3, columns of the table are called like the change columns.
    """
    described: dict[str, Any] = to_spark_json(schema)
    if not options.changes:
        return described
    clash = [name for name in schema.names if folded(name) in CHANGE_COLUMNS.names]
    if clash:
        raise SchemaMismatchError(
            f"the table's own columns {', '.join(map(repr, clash))} are called like the change "
            "columns; leave readChangeFeed out",
            clash,
        )
    fields = [*described["fields"], *to_spark_json(from_arrow(CHANGE_COLUMNS))["fields"]]
    return {**described, "fields": fields}
