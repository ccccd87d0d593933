"""The rows that one run of a pipe takes, as a stream. Spec: PIP-1, PIP-4, PIP-6."""

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
from tablefmt.errors import InvalidRangeError, SchemaMismatchError
from tablefmt.model.entry import DerivedFrom
from tablefmt.pipes.taking import ANEW
from tablefmt.session.context import TableContext
from tablefmt.session.scan import Scan

PIECE_ROWS = 1 << 16
"""So many rows of small commits are given to `transform` at once."""

UNMARKED = pa.schema([])

Transform = Callable[[pa.Table], Any]


def check_transform(transform: object) -> None:
    """Refuse what is no function, nor None. Raises InvalidRangeError."""
    if transform is not None and not callable(transform):
        raise InvalidRangeError(f"transform={transform!r:.100} is no function")


def taken_rows(
    source: TableContext,
    derived: DerivedFrom,
    content: str,
    where: Condition,
    marks: pa.Schema | None = None,
    *,
    whole: bool = False,
) -> BatchSource:
    """What is new, as rows of the source.

    Args:
        source: read up to `derived.to`.
        derived: which versions.
        content: "append", "changes" or "net".
        where: rows for which it is TRUE.
        marks: change columns that rows get, besides the table's; by default those of the content,
            and of "append" none.
        whole: as of `Changes`.

    Raises:
        ChangesExpiredError, InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: as
        `Table.changes`.
    """
    if takes_all(derived, content, marks):
        snapshot = source.view.snapshot(derived.to)
        return Scan(source.store, snapshot, where=where, asked=True)
    return changed_rows(source, derived, content, where, marks, whole=whole)


def takes_all(derived: DerivedFrom, content: str, marks: pa.Schema | None) -> bool:
    """Whether it is all rows that there are: what became of them on the way there is of no use."""
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
    """What is new, where that is not all that there is. Arguments and errors as of `taken_rows`."""
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
            # Whoever has nothing yet can begin with all rows there are.
            expired="snapshot" if first else "error",
            refresh=False,
            marks=UNMARKED if content == "append" else marks,
            whole=whole,
        )
    except InvalidRangeError as error:
        # The bounds are right, so no type holds the values of a column (INC-4).
        raise InvalidRangeError(f"{error}. A pipe takes one range in one run. {ANEW}") from None


@dataclass(slots=True)
class Taken:
    """Rows on their way, in the columns of the target."""

    reader: pa.RecordBatchReader
    rows: int = 0
    """How many have gone by."""


def transformed(rows: BatchSource, transform: Transform | None, empty: pa.Schema | None) -> Taken:
    """Rows through a function, piece by piece.

    Args:
        rows: of the source.
        transform: gives of an Arrow table another one; None: they stay as they are.
        empty: the columns if nothing is left; None: what `transform` makes of no rows says it.

    Raises:
        SchemaMismatchError: it gives no table, or not always the same columns. What it raises.
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
    """Batches as a stream that says how many rows went by."""

    def passing() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            taken.rows += batch.num_rows
            yield batch

    taken = Taken(pa.RecordBatchReader.from_batches(schema, passing()))
    return taken


def pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches as tables of about PIECE_ROWS rows, none of them empty."""
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
    """What a function makes of rows. Raises SchemaMismatchError: no table."""
    made = transform(piece)
    if isinstance(made, pa.Table):
        return made
    if made is None:
        raise SchemaMismatchError(
            "the transform gave None; it is to give an Arrow table, and an empty one for no rows"
        )
    return as_reader(made).read_all()


def _alike(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The batches of a table in the columns of the first one."""
    if table.schema.names != schema.names:
        raise SchemaMismatchError(
            f"the transform gave the columns {table.schema.names} after {schema.names}; it is "
            "asked of a piece of the rows at a time, and has to give the same columns each time"
        )
    try:
        return list(table.cast(schema).to_batches())
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            f"the transform gave other types than of the rows before: {str(error).splitlines()[0]}"
        ) from None
