"""One batch of a pipe: its range of versions, decided from both logs, and its rows as a stream.

The cursor is verified in the log of the source. A column name of the source may now refer to
another column: dropped and added again, or renamed. Unchanged rows then show other values under
that name, but the change feed has no change for them. In that case a run with keys compares all
rows of both versions. Spec: PIP-1, PIP-2, PIP-4 .. PIP-7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from tablefmt.changes.change_reader import Changes, begins_with
from tablefmt.changes.change_schema import CHANGE_COLUMNS, check_names
from tablefmt.changes.version_range import Bounds
from tablefmt.data.arrow_results import BatchSource
from tablefmt.data.input_data import as_reader
from tablefmt.data.selection import Condition
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidArgumentError,
    InvalidRangeError,
    SchemaMismatchError,
    TableReplacedError,
)
from tablefmt.expressions.predicate import quote_name
from tablefmt.log.entry_json import LOCATION_BYTES_MAX
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Array, Map, Schema, Struct, Type
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.snapshot.cursors import Cursor, Cursors
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.log_view import LogView

ANEW = (
    "To start over, fill an empty target under another name, "
    'tablefmt.pipe(…, name="…"); this target stays unchanged'
)


@dataclass(frozen=True, slots=True)
class PipeCursor:
    """The cursor of a pipe, together with its source."""

    source: Head
    """The newest version of the source."""
    location: str
    """Address of the source."""
    cursor: Cursor | None
    """The target's cursor; None if it never copied from this source."""

    @property
    def start(self) -> int | None:
        """The last version that was copied; None if there is none."""
        return None if self.cursor is None else self.cursor.to

    @property
    def is_current(self) -> bool:
        """True if nothing is new."""
        return self.start == self.source.version

    def taking(self, name: str) -> DerivedFrom:
        """Return the new versions, in the form of the target's entry (ENT-15).

        An address that is too long for an entry is left out.
        """
        head = self.source
        fits = 0 < len(self.location.encode(errors="replace")) <= LOCATION_BYTES_MAX
        location = self.location if fits else None
        return DerivedFrom(head.table, name, self.start, head.version, head.digest, location)


def pipe_cursor(source: Head, location: str, cursors: Cursors, name: str) -> PipeCursor:
    """Return the cursor of a pipe into a table.

    Args:
        source: the newest version of the source.
        location: address of the source.
        cursors: cursors of the target.
        name: name of the pipe.

    Raises:
        TableReplacedError: PIP-7, another table is at the source's address, or its log ends before
            the cursor.
        ChangesExpiredError: PIP-7, new versions are no longer kept.
    """
    cursor = cursors.get((source.table, name))
    if cursor is None:
        _check_same_table(source, location, cursors, name)
    left = PipeCursor(source, location, cursor)
    start, oldest = left.start, source.totals.oldest
    if start is None:
        return left
    if start > source.version:
        raise _other_log(f"it ends at version {source.version}, but version {start} was copied")
    if start < oldest:
        raise ChangesExpiredError(
            start + 1,
            oldest + 1,
            f"The target has changes up to version {start}. The changes after it are lost. {ANEW}.",
        )
    return left


def check_digest(left: PipeCursor, digest: str | None) -> None:
    """Refuse a log that differs from the log that was copied.

    Args:
        left: the cursor.
        digest: digest of the source's entry at the cursor, in its current log.

    Raises:
        TableReplacedError: PIP-7.
    """
    if left.cursor is not None and left.cursor.digest != digest:
        raise _other_log(f"its version {left.start} is not the version that was copied")


def check_apart(source: Head, place: str, target: Head, other: str) -> None:
    """Refuse a table that would feed itself.

    Args:
        source: head of the source.
        place: address of the source.
        target: head of the target.
        other: address of the target.

    Raises:
        InvalidArgumentError: PIP-7.
    """
    if source.table == target.table or place == other:
        raise InvalidArgumentError(
            f"a pipe cannot copy from {place} into {other}: both are the same table, or a copy "
            "with its id. Make the target with tablefmt.create, or let the pipe make it."
        )


def _check_same_table(source: Head, location: str, cursors: Cursors, name: str) -> None:
    for (table, other), cursor in cursors.items():
        if table != source.table and other == name and cursor.location == location:
            raise TableReplacedError(
                f"the target copied rows of table {table} at {location}, but another table is "
                f"there now: {source.table}",
                rule="PIP-7",
                advice=f"{ANEW}.",
            )


def _other_log(how: str) -> TableReplacedError:
    return TableReplacedError(
        f"the source's log is not the log that was copied: {how}. It was restored to an "
        f"older state, or it is a diverged copy",
        rule="PIP-7",
        advice=f"{ANEW}.",
    )


def first_copied(source: TableContext, derived: DerivedFrom) -> int:
    """Return the first version that a run copies.

    For a first run, it is the version with which the source begins, or 0 if that is unknown.
    """
    if derived.start is not None:
        return derived.start + 1
    oldest = source.view.head.totals.oldest
    return oldest if begins_with(source.view, oldest) else 0


def pipe_cursor_of(source: LogView, cursors: Cursors, name: str) -> PipeCursor:
    """Return the cursor of a pipe, after a check that the source still has the same log.

    It reads one entry of the log, the first new one, if there is one.

    Args:
        source: the source, at its newest version.
        cursors: cursors of the target.
        name: name of the pipe.

    Raises:
        TableReplacedError, ChangesExpiredError: PIP-7.
        CorruptTableError: the entry is damaged.
    """
    left = pipe_cursor(source.head, source.store.uri, cursors, name)
    if left.start is None:
        return left
    digest: str | None = source.head.digest
    if not left.is_current:
        (after,) = source.entries_after(left.start, left.start + 1)
        digest = after.entry.previous
    check_digest(left, digest)
    return left


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


def new_rows(
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
    """Return the new rows of a partial range. Arguments and errors as for `new_rows`."""
    first = derived.start is None
    if content != "append" and marks is None:
        names = source.view.metadata_at(derived.to).schema.names
        check_names(
            names, CHANGE_COLUMNS, "rename them in the source, or pass content='append' or keys"
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
class CountedRows:
    """A stream of rows in the columns of the target, with a count."""

    reader: pa.RecordBatchReader
    rows: int = 0
    """Number of rows read so far."""


def transformed(
    rows: BatchSource, transform: Transform | None, empty: pa.Schema | None
) -> CountedRows:
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


def counted(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> CountedRows:
    """Return batches as a stream that counts its rows."""

    def passing() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted_rows.rows += batch.num_rows
            yield batch

    counted_rows = CountedRows(pa.RecordBatchReader.from_batches(schema, passing()))
    return counted_rows


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
            "transform returned different types than for earlier rows: "
            f"{str(error).splitlines()[0]}"
        ) from None


@dataclass(frozen=True, slots=True)
class Renewed:
    """Columns of a later schema, classified by the values that earlier rows have in them."""

    kept: list[tuple[str, str]] = field(default_factory=list)
    """Columns with their earlier values: the earlier name, and the name now."""
    replaced: list[str] = field(default_factory=list)
    """Columns with other values than before under the same name, because it is another column."""
    filled: list[str] = field(default_factory=list)
    """Columns that may have values under a name without any before: defaults, restored columns, and
    structs with other fields.
    """
    empty: list[str] = field(default_factory=list)
    """Columns with NULL: the column is new."""


def renewed(before: Schema, after: Schema) -> Renewed:
    """Classify the columns of a later schema. Pure."""
    known = {column.id: column for column in before.fields}
    what = Renewed()
    for column in after.fields:
        then = known.get(column.id)
        if then is not None:
            what.kept.append((then.name, column.name))
            if not _same_parts(then.type, column.type):
                what.filled.append(column.name)
        elif before.find(column.name) is not None:
            what.replaced.append(column.name)
        elif column.id <= before.last_id or column.initial is not None:
            what.filled.append(column.name)
        else:
            what.empty.append(column.name)
    return what


def _same_parts(then: Type, now: Type) -> bool:
    """Return whether each nested field is still the field of the same name."""
    if isinstance(then, Struct) and isinstance(now, Struct):
        known = {folded(part.name): part for part in then.fields}
        both = ((known.get(folded(part.name)), part) for part in now.fields)
        return all(p and p.id == part.id and _same_parts(p.type, part.type) for p, part in both)
    if isinstance(then, Array) and isinstance(now, Array):
        return _same_parts(then.element, now.element)
    if isinstance(then, Map) and isinstance(now, Map):
        return _same_parts(then.key, now.key) and _same_parts(then.value, now.value)
    return True


def takes_both_ends(
    source: TableContext,
    target: TableContext | None,
    derived: DerivedFrom,
    keys: Sequence[str],
    *,
    chosen: bool,
) -> bool:
    """Return whether a run must replace all earlier rows instead of applying changes only.

    If the columns of neither table changed since, no rows are read.

    Args:
        source: the source, read up to `derived.to`.
        target: the target; None if there is none.
        derived: the versions to copy.
        keys: keys of the pipe.
        chosen: True if a condition or a function decides which rows are copied, and their keys.

    Raises:
        SchemaMismatchError: the keys of earlier rows are no longer known.
    """
    start, view = derived.start, source.view
    if start is None or target is None:
        return False
    at = target.view.read_head.cursors[derived.key].at
    is_new = view.metadata_version_at(derived.to) > start
    if not is_new and target.view.head.totals.metadata_version <= at:
        return False
    what = renewed(view.metadata_at(start).schema, view.metadata_at(derived.to).schema)
    then = _schema_at(target, at)
    apart = _not_followed(what.kept, target.view.head.metadata.schema, then)
    lowered = {folded(key) for key in keys}
    moved = [new for old, new in apart if folded(old) != folded(new) or folded(new) in lowered]
    others = [*what.replaced, *moved]
    if others and (chosen or any(folded(name) in lowered for name in others)):
        raise SchemaMismatchError(
            f"since version {start} of the source, the last one copied, the names "
            f"{', '.join(map(repr, others))} refer to other columns. The keys of rows already in "
            f"the target are no longer known. {ANEW}",
            others,
        )
    return bool(others or apart or what.filled) or _holds(target, what.empty, then)


def _schema_at(target: TableContext, at: int) -> Schema:
    """Return the schema at a version, or at the oldest kept one if that version has expired."""
    view = target.view
    return view.metadata_at(max(at, view.head.totals.oldest)).schema


def _not_followed(
    kept: Sequence[tuple[str, str]], target: Schema, then: Schema
) -> list[tuple[str, str]]:
    """Return columns whose name now belongs to another target column than the name before did."""
    names = {column.id: folded(column.name) for column in then.fields}
    found = ((old, new, target.find(new)) for old, new in kept)
    # The MERGE reports a name that the target lacks, if rows have it.
    return [(o, n) for o, n, c in found if c is not None and names.get(c.id) != folded(o)]


def _holds(target: TableContext, names: Sequence[str], then: Schema) -> bool:
    """Return whether an earlier row of the target may have a value under one of the names."""
    found = map(target.view.head.metadata.schema.find, names)
    # A column added later holds values of other columns, if any.
    there = [c for c in found if c is not None and (c.id <= then.last_id or c.initial is not None)]
    if not there:
        return False
    snapshot = target.view.snapshot()
    where = " OR ".join(f"{quote_name(column.name)} IS NOT NULL" for column in there)
    rows = Scan(target.store, snapshot, columns=[], where=where, limit=1).to_batches()
    return any(batch.num_rows for batch in rows)
