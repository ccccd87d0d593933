"""Reading a table as a Spark DataFrame that stays at the version it was made at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.errors import InvalidPredicateError
from tablefmt.model.constraints import shown_columns
from tablefmt.model.predicate import quote_name
from tablefmt.model.times import Time
from tablefmt.operations.context import TableContext
from tablefmt.operations.pinned import Pinned
from tablefmt.snapshot.load import LogView
from tablefmt.spark.ansi import under_ansi
from tablefmt.spark.arrow_plane import read_arrow
from tablefmt.spark.opened import open_context
from tablefmt.spark.planes import plane_for
from tablefmt.spark.relation import Files, to_dataframe
from tablefmt.spark.shown import shown_rows
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store


def read(
    spark: Any,
    uri: str,
    *,
    version: int | None = None,
    timestamp: Time | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """The table as a DataFrame, scanned in Spark's tasks and pinned to one version.

    It stays at that version over Spark Connect too, where `format("tablefmt")` without a version is
    analysed anew for every action (spec/decisions/0005).

    Args:
        spark: a session, classic or Connect.
        uri: where the table is.
        version: the ID version to read; by default the newest there is now.
        timestamp: or a point in time: an aware datetime, or ISO text (naive = UTC). TIM-4.
        storage_options: as `tablefmt.open`.

    Raises:
        TableNotFoundError, VersionNotFoundError, InvalidRangeError, CorruptTableError.
        UnsupportedFeatureError: it needs a newer reader (ENT-7); memory://, which Spark's workers
            cannot see. StoreError: an address or an option that makes no sense, or no answer.
    """
    return read_at(spark, open_context(open_store(uri, storage_options)), version, timestamp)


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
    spark: Any, context: TableContext, pinned: Pinned, where: str
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
