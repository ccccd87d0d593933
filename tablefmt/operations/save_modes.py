"""Rows to a place, by a mode: what is missing is made."""

from __future__ import annotations

from typing import Any

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
    open_if_there,
)
from tablefmt.operations.overwrite import overwrite
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import repeatable, source_reader
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

MODES = ("append", "overwrite", "error", "ignore")


def known_mode(mode: str) -> str:
    """One of MODES, in lower case; `errorifexists` is `error`.

    Raises:
        InvalidArgumentError: it is none.
    """
    lowered = folded(mode) if isinstance(mode, str) else mode
    lowered = "error" if lowered == "errorifexists" else lowered
    if lowered not in MODES:
        raise InvalidArgumentError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    return lowered


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
    """Append rows, or put them in place of what is there; without a table, make one of them.

    Of several writers that find no table, one makes it. What the others do is what they would have
    done had they come later; the rows are kept for that, on disk beyond a limit.

    Arguments and errors as of `tablefmt.write`.
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
            raise InvalidArgumentError(f"{argument} means nothing with mode={mode!r}")

    def into(context: TableContext, rows: Any) -> Commit:
        if mode == "error":
            raise TableExistsError(store.uri)
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

    there = open_if_there(store)
    if there is not None:
        return into(there, data)
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
            # Another writer was first.
            if rows.lost:
                raise
        return into(TableContext(store, LogView.open(store)), rows.rows())
