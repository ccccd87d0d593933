"""Net changes as a MERGE by keys: new rows, rows with new values, and deleted rows.

The keys identify rows of the source. Spec: PIP-5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.change_schema import KIND
from tablefmt.changes.commit_rows import INSERT
from tablefmt.data.arrow_results import BatchSource
from tablefmt.data.column_cast import cast_column
from tablefmt.data.row_comparison import row_keys
from tablefmt.data.spill_buffers import Kept
from tablefmt.errors import (
    CommitRejectedError,
    ConstraintViolationError,
    InvalidArgumentError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.expressions.merge_statement import Action, Clause, MergeStatement, Side
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import arrow_type, from_arrow_field
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.schema import Field, Schema, is_nested
from tablefmt.pipes.pipe_batch import (
    PIECE_ROWS,
    CountedRows,
    Transform,
    applied,
    counted,
    pieces,
    transformed,
)

DELETED = "__tablefmt_gone"
"""Column of the MERGE's source: True if the row of this key is deleted."""

FRESH = "__tablefmt_fresh"
"""Column of the MERGE's source: True if no row of this key was deleted, so the key is new."""

SHOWN = 10
"""Most keys that an error names."""


def known_keys(keys: str | Sequence[str]) -> list[str]:
    """Return key column names: at least one, without repetition. Raises InvalidArgumentError."""
    names = [keys] if isinstance(keys, str) else list(keys) if isinstance(keys, Iterable) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"keys={keys!r}: expected a column name or a list of them")
    twice = _repeated(names)
    if twice:
        raise InvalidArgumentError(
            f"keys={keys!r}: {twice[0]!r} is named twice. Name each column once."
        )
    return names


def merge_by(
    keys: Sequence[str], columns: Sequence[str], signed: Collection[str] = ()
) -> MergeStatement:
    """Return the MERGE for rows with the column `DELETED`.

    Args:
        keys: key columns, named as in `columns`.
        columns: columns of the rows, without `DELETED` and `FRESH`.
        signed: keys that are updated too: 0.0 equals -0.0, and the target gets the incoming value.
    """
    on = " AND ".join(f"t.{quote_name(k)} = s.{quote_name(k)}" for k in keys)
    values = {quote_name(name): f"s.{quote_name(name)}" for name in columns}
    news = {quote_name(n): f"s.{quote_name(n)}" for n in columns if n not in keys or n in signed}
    deleted = f"s.{quote_name(DELETED)}"
    clauses = [Clause(Side.MATCHED, Action.DELETE, deleted)]
    if news:
        clauses.append(Clause(Side.MATCHED, Action.UPDATE, None, news))
    clauses.append(Clause(Side.NOT_MATCHED, Action.INSERT, f"NOT {deleted}", values))
    return MergeStatement(on=on, clauses=tuple(clauses))


def named(keys: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the key columns under the rows' spelling of their names.

    Raises:
        SchemaMismatchError: a key is not a column, or two columns differ only in case.
    """
    twice = _repeated(names)
    if twice:
        raise SchemaMismatchError(
            f"the rows have several columns called {', '.join(map(repr, twice))}. Column names "
            "must differ by more than case; rename one.",
            twice,
        )
    by_name = {folded(name): name for name in names}
    missing = [key for key in keys if folded(key) not in by_name]
    if missing:
        raise SchemaMismatchError(
            f"the rows have no key columns {', '.join(map(repr, missing))}; "
            f"{there_are(missing[0], names)}",
            missing,
        )
    return [by_name[folded(key)] for key in keys]


def check_copied(names: Sequence[str], target: Sequence[str], uri: str) -> None:
    """Refuse rows with columns that the target lacks, before the MERGE starts.

    Args:
        names: column names of the rows.
        target: column names of the target.
        uri: address of the target.

    Raises:
        SchemaMismatchError: names the columns, and the remedy.
    """
    there = {folded(name) for name in target}
    lacking = [name for name in names if folded(name) not in there]
    if lacking:
        raise SchemaMismatchError(
            f"the rows have columns that the target {uri} lacks: {', '.join(map(repr, lacking))}. "
            "Add them there with alter.add_column(), or rename_column() if they were "
            "renamed in the source. Or drop them with `transform`.",
            lacking,
        )


def check_comparable(keys: Iterable[Field]) -> None:
    """Refuse key columns that a MERGE cannot compare. Raises SchemaMismatchError."""
    nested = [key.name for key in keys if is_nested(key.type)]
    if nested:
        raise SchemaMismatchError(
            f"the keys {', '.join(map(repr, nested))} are nested or variant columns, which "
            "cannot be compared. Convert them to flat columns with `transform`.",
            nested,
        )


def _repeated(names: Sequence[str]) -> list[str]:
    """Return the names that repeat an earlier name, ignoring case."""
    lowered = [folded(name) for name in names]
    return [name for at, name in enumerate(names) if lowered.index(lowered[at]) < at]


def several_rows(keys: Sequence[str], shown: list[dict[str, Any]]) -> MergeCardinalityError:
    """Return the error for keys with several rows in the source."""
    return MergeCardinalityError(
        f"the source has several rows with the same key ({', '.join(keys)}), and the target "
        "already holds one of them. Keys of a pipe must identify rows of the source. The target is "
        "unchanged; make the keys unique in the source, then run the pipe again",
        shown,
    )


@dataclass(slots=True)
class _Keys:
    """Keys of the rows that were read, and their bytes."""

    columns: list[str]
    tables: list[pa.Table] = field(default_factory=list)
    bytes: list[pa.LargeBinaryArray] = field(default_factory=list)

    def take(self, piece: pa.Table) -> None:
        """Record the keys of some rows. Raises ConstraintViolationError: a key is NULL."""
        keys = _typed(piece.select(self.columns))
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            if column.null_count:
                raise ConstraintViolationError(
                    f"the key {name!r} is NULL in {column.null_count} rows, but keys must identify "
                    "rows. Exclude these rows with `where` or `transform`."
                )
        arrays = [_plain(column) for column in keys.columns]
        self.tables.append(keys)
        self.bytes.append(row_keys(arrays, keys.num_rows))

    def all(self) -> pa.ChunkedArray:
        """Return the bytes of all keys."""
        return pa.chunked_array(self.bytes, pa.large_binary())


def _typed(keys: pa.Table) -> pa.Table:
    """Convert keys to column types of tables. Raises SchemaMismatchError."""
    columns = zip(keys.columns, map(from_arrow_field, keys.schema), strict=True)
    return pa.table([cast_column(*each) for each in columns], names=keys.column_names)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return one array in which -0.0 is 0.0, because SQL compares them as equal."""
    values = column.combine_chunks()
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


@dataclass(frozen=True, slots=True)
class Upserts:
    """Incoming rows, and the keys of deleted rows, in one stream."""

    counted_rows: CountedRows
    """The stream, with the columns `DELETED` and `FRESH` at the end."""
    columns: pa.Schema
    """Schema of the incoming rows."""
    keys: list[str]

    @property
    def signed(self) -> list[str]:
        """The floating-point keys."""
        return [k for k in self.keys if pa.types.is_floating(self.columns.field(k).type)]

    def came(self) -> CountedRows:
        """Return the stream without `DELETED` and `FRESH`, for a target without rows to delete."""
        batches = (
            pa.RecordBatch.from_arrays(batch.columns[:-2], schema=self.columns)
            for batch in self.counted_rows.reader
        )
        return counted(self.columns, batches)


def _check_fit(batch: pa.RecordBatch, target: Schema) -> None:
    """Refuse values that the target's columns do not hold: a MERGE would round them (SQL-3).

    Raises:
        SchemaMismatchError: SCH-5, as an append.
    """
    columns = {folded(field.name): field for field in target.fields}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        field = columns.get(folded(name))
        if field is None or values.type == arrow_type(field.type):
            continue
        there = cast_column(pa.chunked_array([values]), field)
        if (
            pa.types.is_timestamp(values.type)
            and pa.types.is_date(there.type)
            and not pc.all(pc.equal(there.cast(values.type), values)).as_py()
        ):
            raise SchemaMismatchError(
                f"column {field.name!r}: a time of day does not fit a date without loss. Nothing "
                "was written; widen the target's column, or convert the data with `transform`.",
                [field.name],
            )


@contextmanager
def upserts(
    rows: BatchSource,
    transform: Transform | None,
    keys: Sequence[str],
    empty: pa.Schema | None,
    target: Schema | None = None,
) -> Iterator[Upserts]:
    """Yield the rows for `merge_by`, valid within the block.

    The rows are kept in memory, on disk beyond a limit, and their keys in memory.

    Args:
        rows: inserts; with the column KIND, deletes before them.
        transform: as for `transformed`; applied to deletes and inserts separately.
        keys: columns of its result.
        empty: as for `transformed`.
        target: columns that must hold the rows; None: they are made of the rows.

    Raises:
        SchemaMismatchError: while the rows are read, SCH-5.
        ConstraintViolationError: a key is NULL.
        MergeCardinalityError: two inserts have the same key.
        CommitRejectedError: the disk is full.
        As `transformed`.
    """
    new = _Came(rows, transform, keys) if KIND in rows.schema.names else rows
    counted_rows = transformed(new, transform, empty)
    shape = counted_rows.reader.schema
    names = named(keys, shape.names)
    check_comparable(from_arrow_field(shape.field(name)) for name in names)
    here = _Keys(names)
    with Kept(counted_rows.reader) as kept:
        for piece in pieces(kept.reader(), kept.schema):
            here.take(piece)
        if kept.lost:
            raise CommitRejectedError(
                "cannot write the rows to a temporary file: the disk is full or failed. Free some "
                "space."
            )
        _check_distinct(here)
        went = _went(new.deleted, here) if isinstance(new, _Came) else None
        lost = None if went is None else _without(went, here)
        fresh = None if not isinstance(new, _Came) else _fresh(here, went)
        # Incoming rows determine the types of the keys. Without any, the deleted rows do.
        own = lost.schema if lost is not None and not here.tables else pa.schema([])
        types = [own.field(f.name).type if f.name in own.names else f.type for f in shape]
        # Only the key of a deleted row is known.
        fields = [pa.field(f.name, t) for f, t in zip(shape, types, strict=True)]
        marks = [pa.field(name, pa.bool_()) for name in (DELETED, FRESH)]
        schema = pa.schema([*fields, *marks])

        def batches() -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in kept.reader():
                if target is not None:
                    _check_fit(batch, target)
                no = pa.repeat(pa.scalar(False), batch.num_rows)
                is_fresh = no if fresh is None else fresh.slice(start, batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, no, is_fresh], schema=schema)
                start += batch.num_rows
            if lost is not None:
                yield from _padded(lost, schema)

        yield Upserts(counted(schema, batches()), shape, names)


class _Came(BatchSource):
    """The inserts of rows with KIND. The keys of the deletes are recorded while reading.

    Rows can be read once.
    """

    def __init__(self, rows: BatchSource, transform: Transform | None, keys: Sequence[str]) -> None:
        self._rows, self._transform, self._keys = rows, transform, keys
        self._schema = rows.schema.remove(rows.schema.get_field_index(KIND))
        self.deleted: list[pa.Table] = []
        """Keys of the transformed deletes."""

    @property
    def schema(self) -> pa.Schema:
        """The schema without KIND."""
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the inserts."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._rows.to_batches():
            came = pc.equal(batch.column(batch.schema.get_field_index(KIND)), INSERT)
            batch = batch.select(self._schema.names)
            held.append(batch.filter(pc.invert(came)))
            rows += held[-1].num_rows
            if rows >= PIECE_ROWS:
                self._note(held)
                held, rows = [], 0
            yield batch.filter(came)
        self._note(held)

    def _note(self, held: list[pa.RecordBatch]) -> None:
        for piece in pieces(held, self._schema):
            left = piece if self._transform is None else applied(self._transform, piece)
            if left.num_rows:
                self.deleted.append(left.select(named(self._keys, left.schema.names)))


def _went(deleted: Sequence[pa.Table], here: _Keys) -> _Keys | None:
    """Return the keys of deleted rows; None if there are none."""
    left = _Keys(here.columns)
    for piece in deleted:
        left.take(_as_keys(piece, left if left.tables else here))
    return left if left.tables else None


def _fresh(here: _Keys, went: _Keys | None) -> pa.BooleanArray:
    """Return for each incoming row whether no row of its key was deleted."""
    came = here.all().combine_chunks()
    if went is None:
        return pa.repeat(pa.scalar(True), len(came))
    return pc.invert(pc.is_in(came, value_set=went.all().combine_chunks()))


def _without(left: _Keys, here: _Keys) -> pa.Table | None:
    """Return the distinct keys of deleted rows without an incoming row; None if there are none."""
    keys, known = left.all().combine_chunks(), here.all()
    places = pc.index_in(keys.unique(), value_set=keys)
    places = places.filter(pc.invert(pc.is_in(keys.take(places), value_set=known)))
    return pa.concat_tables(left.tables).take(places) if len(places) else None


def _as_keys(piece: pa.Table, here: _Keys) -> pa.Table:
    """Return the keys of deleted rows in the types of the earlier keys."""
    try:
        keys = _typed(piece.rename_columns(here.columns))
        return keys.cast(here.tables[0].schema) if here.tables else keys
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise SchemaMismatchError(
            "transform returned other key types for deleted rows than for new rows: "
            f"{str(error).splitlines()[0]}"
        ) from None


def _check_distinct(here: _Keys) -> None:
    keys = here.all()
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys.combine_chunks())
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[:SHOWN]
    places = pc.index_in(twice, value_set=keys.combine_chunks())
    shown = pa.concat_tables(here.tables).take(places).to_pylist()
    raise MergeCardinalityError(
        f"several new rows have the same key ({', '.join(here.columns)}). Keys of a pipe must "
        "identify rows of the source; make them unique or choose other keys",
        shown,
    )


def repeated_keys(candidates: pa.Table, pieces: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """Return keys that several rows of some pieces have, at most SHOWN.

    Args:
        candidates: the distinct keys to check.
        pieces: rows with the same columns.
    """
    asked = _Keys(candidates.column_names)
    asked.take(candidates)
    known = asked.all().combine_chunks()
    counts = np.zeros(len(known), np.int64)
    for piece in pieces:
        seen = _Keys(asked.columns)
        seen.take(_as_keys(piece.select(asked.columns), asked))
        places = pc.index_in(seen.all().combine_chunks(), value_set=known).drop_null()
        counts += np.bincount(places.to_numpy(), minlength=len(known))
    twice = np.flatnonzero(counts > 1)[:SHOWN]
    keys: list[dict[str, Any]] = asked.tables[0].take(pa.array(twice)).to_pylist()
    return keys


def _padded(keys: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return rows with keys only, and NULL in all other columns."""
    columns = [
        keys[f.name].cast(f.type) if f.name in keys.column_names else pa.nulls(len(keys), f.type)
        for f in schema
    ]
    columns[-2:] = (pa.repeat(pa.scalar(mark), len(keys)) for mark in (True, False))
    return list(pa.Table.from_arrays(columns, schema=schema).to_batches())
