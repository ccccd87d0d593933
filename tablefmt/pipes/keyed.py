"""Net changes as a MERGE by keys: rows that are new or have new values, and rows that are gone.

Keys tell rows of the source apart. Spec: PIP-5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.columns import KIND
from tablefmt.changes.commit_rows import INSERT
from tablefmt.data.batch_source import BatchSource
from tablefmt.data.cast import cast_column
from tablefmt.data.row_keys import row_keys
from tablefmt.data.spool import Kept
from tablefmt.errors import (
    CommitRejectedError,
    ConstraintViolationError,
    InvalidRangeError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.expressions.clauses import Action, Clause, MergeStatement, Side
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow_field
from tablefmt.model.near_names import there_are
from tablefmt.model.schema import Field, is_nested
from tablefmt.pipes.rows import PIECE_ROWS, Taken, Transform, applied, counted, pieces, transformed

GONE = "__tablefmt_gone"
"""A column of the source of the MERGE: the row of this key is gone."""

FRESH = "__tablefmt_fresh"
"""Another: no row of this key went, so no row of before had it."""

SHOWN = 10
"""Most keys that an error names."""


def known_keys(keys: str | Sequence[str]) -> list[str]:
    """Names of columns, at least one, none twice. Raises InvalidRangeError."""
    names = [keys] if isinstance(keys, str) else list(keys) if isinstance(keys, Iterable) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidRangeError(f"keys={keys!r} names no columns")
    twice = _repeated(names)
    if twice:
        raise InvalidRangeError(f"keys={keys!r} names {twice[0]!r} twice")
    return names


def merge_by(
    keys: Sequence[str], columns: Sequence[str], signed: Collection[str] = ()
) -> MergeStatement:
    """The MERGE of rows with the column GONE.

    Args:
        keys: columns that tell rows apart, as they are called in `columns`.
        columns: of the rows, neither GONE nor FRESH among them.
        signed: keys that are set too: 0.0 equals -0.0, and the target gets the one that came.
    """
    on = " AND ".join(f"t.{quote_name(k)} = s.{quote_name(k)}" for k in keys)
    values = {quote_name(name): f"s.{quote_name(name)}" for name in columns}
    news = {quote_name(n): f"s.{quote_name(n)}" for n in columns if n not in keys or n in signed}
    gone = f"s.{quote_name(GONE)}"
    clauses = [Clause(Side.MATCHED, Action.DELETE, gone)]
    if news:
        clauses.append(Clause(Side.MATCHED, Action.UPDATE, None, news))
    clauses.append(Clause(Side.NOT_MATCHED, Action.INSERT, f"NOT {gone}", values))
    return MergeStatement(on=on, clauses=tuple(clauses))


def named(keys: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that the keys are, as the rows call them.

    Raises:
        SchemaMismatchError: there is none of a name, or two columns of the rows have one.
    """
    twice = _repeated(names)
    if twice:
        raise SchemaMismatchError(
            f"the rows have several columns called {', '.join(map(repr, twice))}: names differ by "
            "more than case",
            twice,
        )
    by_name = {name.casefold(): name for name in names}
    missing = [key for key in keys if key.casefold() not in by_name]
    if missing:
        raise SchemaMismatchError(
            f"the keys {', '.join(map(repr, missing))} are no columns of the rows; "
            f"{there_are(missing[0], names)}",
            missing,
        )
    return [by_name[key.casefold()] for key in keys]


def check_taken(names: Sequence[str], target: Sequence[str], uri: str) -> None:
    """Refuse rows with columns that the target lacks, before anything is merged.

    Args:
        names: of the rows.
        target: names of the target's columns.
        uri: the target's.

    Raises:
        SchemaMismatchError: it names them, and what to do.
    """
    there = {name.casefold() for name in target}
    lacking = [name for name in names if name.casefold() not in there]
    if lacking:
        raise SchemaMismatchError(
            f"the rows have columns that the target {uri} lacks: {', '.join(map(repr, lacking))}. "
            "Add them there with alter.add_column() (or rename_column(), where the source's were "
            "renamed), or leave them out with `transform`",
            lacking,
        )


def check_comparable(keys: Iterable[Field]) -> None:
    """Refuse columns that no MERGE compares. Raises SchemaMismatchError."""
    nested = [key.name for key in keys if is_nested(key.type)]
    if nested:
        raise SchemaMismatchError(
            f"the keys {', '.join(map(repr, nested))} have parts, or a type in each value, and are "
            "not compared; make plain columns of them with `transform`",
            nested,
        )


def _repeated(names: Sequence[str]) -> list[str]:
    """Those that another one before them equals but for case."""
    folded = [name.casefold() for name in names]
    return [name for at, name in enumerate(names) if folded.index(folded[at]) < at]


def several_rows(keys: Sequence[str], shown: list[dict[str, Any]]) -> MergeCardinalityError:
    """Return the error for keys of which the source has several rows."""
    return MergeCardinalityError(
        f"the source has several rows of one key, {', '.join(keys)}, and the target holds one of "
        "them already: the keys of a pipe tell the rows of its source apart. The target is as it "
        "was; once the source has one row of each key, run the pipe again",
        shown,
    )


@dataclass(slots=True)
class _Keys:
    """Keys that went by, and their bytes."""

    columns: list[str]
    tables: list[pa.Table] = field(default_factory=list)
    bytes: list[pa.LargeBinaryArray] = field(default_factory=list)

    def take(self, piece: pa.Table) -> None:
        """Note the keys of some rows. Raises ConstraintViolationError: one is NULL."""
        keys = _typed(piece.select(self.columns))
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            if column.null_count:
                raise ConstraintViolationError(
                    f"the key {name!r} is NULL in {column.null_count} rows: a row without a key "
                    "cannot be told from others. Leave such rows out with `where` or `transform`"
                )
        arrays = [_plain(column) for column in keys.columns]
        self.tables.append(keys)
        self.bytes.append(row_keys(arrays, keys.num_rows))

    def all(self) -> pa.ChunkedArray:
        """The bytes of all of them."""
        return pa.chunked_array(self.bytes, pa.large_binary())


def _typed(keys: pa.Table) -> pa.Table:
    """The same in the types that columns of tables have. Raises SchemaMismatchError."""
    columns = zip(keys.columns, map(from_arrow_field, keys.schema), strict=True)
    return pa.table([cast_column(*each) for each in columns], names=keys.column_names)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, in which zero is zero: -0.0 equals 0.0 in a condition."""
    values = column.combine_chunks()
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


@dataclass(frozen=True, slots=True)
class Upserts:
    """Rows that come, and the keys of those that go, in one stream."""

    taken: Taken
    """With the columns GONE and FRESH at the end."""
    columns: pa.Schema
    """Of rows that come."""
    keys: list[str]

    @property
    def signed(self) -> list[str]:
        """The keys that are floating-point numbers."""
        return [k for k in self.keys if pa.types.is_floating(self.columns.field(k).type)]

    def came(self) -> Taken:
        """The stream where no row goes, since none is there: without GONE and FRESH."""
        batches = (
            pa.RecordBatch.from_arrays(batch.columns[:-2], schema=self.columns)
            for batch in self.taken.reader
        )
        return counted(self.columns, batches)


@contextmanager
def upserts(
    rows: BatchSource, transform: Transform | None, keys: Sequence[str], empty: pa.Schema | None
) -> Iterator[Upserts]:
    """Rows for `merge_by`, while the block lasts.

    The rows are kept, on disk beyond a limit, and their keys in memory.

    Args:
        rows: inserts; with the column KIND deletes before them.
        transform: as of `transformed`; asked of deletes and of inserts by themselves.
        keys: columns of what it gives.
        empty: as of `transformed`.

    Raises:
        ConstraintViolationError: a key is NULL. MergeCardinalityError: two inserts have one key.
        CommitRejectedError: the disk is full.
        As `transformed`.
    """
    new = _Came(rows, transform, keys) if KIND in rows.schema.names else rows
    taken = transformed(new, transform, empty)
    shape = taken.reader.schema
    names = named(keys, shape.names)
    check_comparable(from_arrow_field(shape.field(name)) for name in names)
    here = _Keys(names)
    with Kept(taken.reader) as kept:
        for piece in pieces(kept.reader(), kept.schema):
            here.take(piece)
        if kept.lost:
            raise CommitRejectedError("the disk would not take the rows, which have to be kept")
        _check_distinct(here)
        went = _went(new.gone, here) if isinstance(new, _Came) else None
        lost = None if went is None else _without(went, here)
        fresh = None if not isinstance(new, _Came) else _fresh(here, went)
        # Rows that came say in what types keys are; where none did, those that are gone do.
        own = lost.schema if lost is not None and not here.tables else pa.schema([])
        types = [own.field(f.name).type if f.name in own.names else f.type for f in shape]
        # Of a row that is gone there is nothing but its key.
        fields = [pa.field(f.name, t) for f, t in zip(shape, types, strict=True)]
        marks = [pa.field(name, pa.bool_()) for name in (GONE, FRESH)]
        schema = pa.schema([*fields, *marks])

        def batches() -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in kept.reader():
                no = pa.repeat(pa.scalar(False), batch.num_rows)
                is_fresh = no if fresh is None else fresh.slice(start, batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, no, is_fresh], schema=schema)
                start += batch.num_rows
            if lost is not None:
                yield from _padded(lost, schema)

        yield Upserts(counted(schema, batches()), shape, names)


class _Came(BatchSource):
    """The inserts of rows that say which they are; of the deletes their keys are noted on the way.

    Rows are read once.
    """

    def __init__(self, rows: BatchSource, transform: Transform | None, keys: Sequence[str]) -> None:
        self._rows, self._transform, self._keys = rows, transform, keys
        self._schema = rows.schema.remove(rows.schema.get_field_index(KIND))
        self.gone: list[pa.Table] = []
        """Keys of what the function makes of the deletes."""

    @property
    def schema(self) -> pa.Schema:
        """Without KIND."""
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The inserts."""
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
                self.gone.append(left.select(named(self._keys, left.schema.names)))


def _went(gone: Sequence[pa.Table], here: _Keys) -> _Keys | None:
    """The keys of rows that are gone; None: none is."""
    left = _Keys(here.columns)
    for piece in gone:
        left.take(_as_keys(piece, left if left.tables else here))
    return left if left.tables else None


def _fresh(here: _Keys, went: _Keys | None) -> pa.BooleanArray:
    """Of each row that came, whether none of its key went."""
    came = here.all().combine_chunks()
    if went is None:
        return pa.repeat(pa.scalar(True), len(came))
    return pc.invert(pc.is_in(came, value_set=went.all().combine_chunks()))


def _without(left: _Keys, here: _Keys) -> pa.Table | None:
    """The keys of rows that are gone and did not come with other values, each once; None: none."""
    keys, known = left.all().combine_chunks(), here.all()
    places = pc.index_in(keys.unique(), value_set=keys)
    places = places.filter(pc.invert(pc.is_in(keys.take(places), value_set=known)))
    return pa.concat_tables(left.tables).take(places) if len(places) else None


def _as_keys(piece: pa.Table, here: _Keys) -> pa.Table:
    """The keys of rows that are gone, as others before them."""
    try:
        keys = _typed(piece.rename_columns(here.columns))
        return keys.cast(here.tables[0].schema) if here.tables else keys
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise SchemaMismatchError(
            "the transform gave other keys of rows that are gone than of rows that came: "
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
        f"several rows that are new have one key, {', '.join(here.columns)}: the keys of a pipe "
        "tell the rows of its source apart",
        shown,
    )


def repeated_keys(candidates: pa.Table, pieces: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """Return keys that several rows of some pieces have, at most SHOWN.

    Args:
        candidates: the keys that are asked about, each once.
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
    """Rows with keys alone, all else NULL."""
    columns = [
        keys[f.name].cast(f.type) if f.name in keys.column_names else pa.nulls(len(keys), f.type)
        for f in schema
    ]
    columns[-2:] = (pa.repeat(pa.scalar(mark), len(keys)) for mark in (True, False))
    return list(pa.Table.from_arrays(columns, schema=schema).to_batches())
