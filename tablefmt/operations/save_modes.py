"""Write rows to a place by a save mode. A missing table is created."""

from __future__ import annotations

from typing import Any, Literal, cast

from tablefmt.errors import (
    ForeignTableError,
    InvalidArgumentError,
    ProtocolChangedException,
    SchemaMismatchError,
    TableExistsError,
)
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.name_matching import folded
from tablefmt.operations.append import NAME, append
from tablefmt.operations.create import (
    Partitions,
    check_partitioning,
    create_with_rows,
    open_if_exists,
)
from tablefmt.operations.overwrite import overwrite
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import repeatable, source_reader
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

TO_WRITE = "To add the rows, use mode append. To replace the rows of the table, use mode overwrite."
"""Advice for mode `error`."""
MODES = ("append", "overwrite", "error", "ignore")
Mode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]


def known_mode(mode: str) -> Mode:
    """Return one of MODES, in lower case. `errorifexists` is `error`.

    Raises:
        InvalidArgumentError: an unknown mode.
    """
    lowered = folded(mode) if isinstance(mode, str) else mode
    lowered = "error" if lowered == "errorifexists" else lowered
    if lowered not in MODES:
        raise InvalidArgumentError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    return cast(Mode, lowered)


def write(
    store: Store,
    data: Any,
    options: CommitOptions,
    *,
    mode: str = "append",
    partition_by: Partitions = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
) -> Commit:
    """Append rows, or replace existing ones. Without a table, create one from the rows.

    Of several writers that find no table, one creates it. The others then write to that table as to
    any existing one. Their rows are kept for that, on disk beyond a limit.

    Arguments and errors as in `tablefmt.write`.
    """
    mode = known_mode(mode)
    check_flags(merge_schema=merge_schema, overwrite_schema=overwrite_schema)
    if data is None:
        raise SchemaMismatchError("None is not tabular data; give an empty list for no rows")
    for argument, given, meant in (
        ("overwrite_schema", overwrite_schema, "overwrite"),
        ("merge_schema", merge_schema, "append"),
    ):
        if given and mode != meant:
            raise InvalidArgumentError(
                f"{argument} works only with mode={meant!r}, got mode={mode!r}"
            )

    def into(context: TableContext, rows: Any) -> Commit:
        if mode == "error":
            raise TableExistsError(store.uri, advice=TO_WRITE)
        if mode == "ignore":
            return context.no_op(context.environment.nonce(), NAME)
        if overwrite_schema:
            return overwrite(
                context, rows, options, overwrite_schema=True, partition_by=partition_by
            )
        check_partitioning(context.view.head.metadata, partition_by)
        if mode == "append":
            return append(context, rows, options, merge_schema=merge_schema)
        return overwrite(context, rows, options)

    existing = open_if_exists(store)
    if existing is not None:
        return into(existing, data)
    with repeatable(data) as rows:
        try:
            reader = source_reader(rows.rows())
            append_to_equal = mode == "append"
            return create_with_rows(
                store, reader, options, partition_by=partition_by, exist_ok=append_to_equal
            )[1]
        except ForeignTableError:
            raise
        except (TableExistsError, ProtocolChangedException):
            # Another writer created the table first.
            if rows.lost:
                raise
        return into(TableContext(store, LogView.open(store)), rows.rows())
