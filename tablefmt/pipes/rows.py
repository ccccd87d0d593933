"""Rows of one run of a pipe, as a stream. Spec: PIP-1, PIP-4, PIP-6."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from tablefmt.changes.columns import CHANGE_COLUMNS, check_names
from tablefmt.changes.range import Bounds
from tablefmt.changes.read import Changes
from tablefmt.data.batch_source import BatchSource
from tablefmt.data.selection import Condition
from tablefmt.data.tabular import as_reader
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, SchemaMismatchError
from tablefmt.model.entry import DerivedFrom
from tablefmt.pipes.taking import ANEW
from tablefmt.session.context import TableContext
from tablefmt.session.scan import Scan

PIECE_ROWS = 1 << 16
"""Rows of small commits are combined to pieces of this size for `transform`."""

UNMARKED = pa.schema([])

Transform = Callable[[pa.Table], Any]


def check_transform(transform: object) -> None:
    """Refuse a transform that is neither a function nor None. Raises InvalidArgumentError."""
    if transform is not None and not callable(transform):
        raise InvalidArgumentError(
            f"transform={transform!r:.100}: expected a function, got {type(transform).__name__}"
        )


def taken_rows(
    source: TableContext,
    derived: DerivedFrom,
    content: str,
    where: Condition,
    marks: pa.Schema | None = None,
    *,
    whole: bool = False,
) -> BatchSource:
    """Return the new rows, in the columns of the source.

    Args:
        source: the source, read up to `derived.to`.
        derived: the versions to copy.
        content: "append", "changes" or "net".
        where: condition on the rows.
        marks: change columns to add to the table's; by default those of the content, and none for
            "append".
        whole: as for `Changes`.

    Raises:
        ChangesExpiredError, InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: as
            `Table.changes`.
    """
    if takes_all(derived, content, marks):
        snapshot = source.view.snapshot(derived.to)
        return Scan(source.store, snapshot, where=where, asked=True)
    return changed_rows(source, derived, content, where, marks, whole=whole)


def takes_all(derived: DerivedFrom, content: str, marks: pa.Schema | None) -> bool:
    """Return whether all rows are copied, so that their changes do not matter."""
    return derived.start is None and (content == "append" or marks is not None)


def changed_rows(
    source: TableContext,
    derived: DerivedFrom,
    content: str,
    where: Condition,
    marks: pa.Schema | None,
    *,
    whole: bool = False,
) -> Changes:
    """Return the new rows of a partial range. Arguments and errors as for `taken_rows`."""
    first = derived.start is None
    if content != "append" and marks is None:
        names = source.view.metadata_at(derived.to).schema.names
        check_names(
            names, CHANGE_COLUMNS, "rename them in the source, or take content='append' or keys"
        )
    begin = {"starting_version": 0} if first else {"after_version": derived.start}
    try:
        return Changes(
            source.view,
            source.environment,
            Bounds(**begin, ending_version=derived.to),
            content=content,
            where=where,
            # A first run may begin with a snapshot.
            expired="snapshot" if first else "error",
            refresh=False,
            marks=UNMARKED if content == "append" else marks,
            whole=whole,
        )
    except InvalidRangeError as error:
        # The bounds are valid, so no type holds all values of a column (INC-4).
        raise InvalidRangeError(f"{error}. A pipe takes one range in one run. {ANEW}") from None


@dataclass(slots=True)
class Taken:
    """A stream of rows in the columns of the target, with a count."""

    reader: pa.RecordBatchReader
    rows: int = 0
    """Number of rows read so far."""


def transformed(rows: BatchSource, transform: Transform | None, empty: pa.Schema | None) -> Taken:
    """Return the rows after a function, piece by piece.

    Args:
        rows: rows of the source.
        transform: function from an Arrow table to another; None keeps the rows as they are.
        empty: the columns if no row is left; None: the columns that `transform` returns for no
            rows.

    Raises:
        SchemaMismatchError: it returns no table, or different columns. Also the errors that it
            raises.
    """
    if transform is None:
        return counted(rows.schema, rows.to_batches())
    tables = (applied(transform, piece) for piece in pieces(rows.to_batches(), rows.schema))
    made = (table for table in tables if table.num_rows)
    first = next(made, None)
    if first is None:
        shape = empty or applied(transform, rows.schema.empty_table()).schema
        return counted(shape, ())
    batches = (b for table in chain([first], made) for b in _alike(table, first.schema))
    return counted(first.schema, batches)


def counted(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Taken:
    """Return batches as a stream that counts its rows."""

    def passing() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            taken.rows += batch.num_rows
            yield batch

    taken = Taken(pa.RecordBatchReader.from_batches(schema, passing()))
    return taken


def pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield batches as non-empty tables of about PIECE_ROWS rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= PIECE_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


def applied(transform: Transform, piece: pa.Table) -> pa.Table:
    """Apply the function to rows. Raises SchemaMismatchError if it returns no table."""
    made = transform(piece)
    if isinstance(made, pa.Table):
        return made
    if made is None:
        raise SchemaMismatchError(
            "transform returned None: expected an Arrow table, which may be empty"
        )
    return as_reader(made).read_all()


def _alike(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the batches of a table in the columns of the first piece."""
    if table.schema.names != schema.names:
        raise SchemaMismatchError(
            f"transform returned the columns {table.schema.names} after {schema.names}. It is "
            "called for one piece of the rows at a time, and must return the same columns "
            "each time."
        )
    try:
        return list(table.cast(schema).to_batches())
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            f"transform returned other types than for earlier rows: {str(error).splitlines()[0]}"
        ) from None
