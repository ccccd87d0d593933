"""One version of an open table as a DataFrame, as files, or looked into for a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.constraints import shown_columns
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.times import Time
from tablefmt.session.context import TableContext
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.snapshot.load import LogView
from tablefmt.spark.backends.arrow.plane import read_arrow
from tablefmt.spark.backends.choice import plane_for
from tablefmt.spark.backends.native.relation import Files, to_dataframe
from tablefmt.spark.runtime.ansi import under_ansi
from tablefmt.spark.runtime.display import shown_rows
from tablefmt.store.protocol import Store


def read_at(spark: Any, context: TableContext, version: int | None, timestamp: Time | None) -> Any:
    """The same on an open table."""
    if plane_for(spark, context.store).kind == "arrow":
        snapshot = context.view.snapshot(context.resolve_point(version, timestamp))
        asked = version is not None or timestamp is not None
        return read_arrow(spark, context.store, snapshot, asked=asked)
    files = snapshot_files(context, version, timestamp)
    return to_dataframe(spark, context.store, files, keep=True)


def snapshot_files(context: TableContext, version: int | None, timestamp: Time | None) -> Files:
    """The files of one version of an open table. Raises as `read`."""
    snapshot = context.view.snapshot(context.resolve_point(version, timestamp))
    asked = version is not None or timestamp is not None
    table = snapshot_identity(context.store, context.view, asked=asked)
    return Files(
        identity=f"{table}@{snapshot.version}",
        columns=snapshot.files,
        schema=snapshot.schema,
        partition_ids=snapshot.partition_ids,
        vectors=snapshot.with_vectors,
    )


def snapshot_identity(store: Store, view: LogView, *, asked: bool = False) -> str:
    """Names a table's files; `asked` tells a version that somebody asked for from the newest."""
    return f"{store.identity}#{view.head.table}{'!' if asked else ''}"


def find_row(
    spark: Any, context: TableContext, pinned: TransactionSnapshot, where: str
) -> Mapping[str, Any] | None:
    """A live row of the pinned version for which SQL text is TRUE, found by Spark.

    Raises:
        InvalidPredicateError: Spark does not understand it as a condition.
    """
    from pyspark.errors import AnalysisException, ParseException

    names = [quote_name(f.name) for f in shown_columns(pinned.metadata.schema)]
    try:
        with under_ansi(spark) as ansi:
            rows = read_at(ansi, context, pinned.version, None)
            found = shown_rows(rows.where(where).select(*names).limit(1))
    except (AnalysisException, ParseException) as error:
        first = str(error).splitlines()[0]
        raise InvalidPredicateError(f"Spark does not take the condition: {first}") from None
    return found[0] if found else None
