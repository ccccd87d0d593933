"""Matches of a MERGE: pairs of target and source rows, and the clause that applies to each.

It reads only the columns that conditions need, of files that may match, and writes nothing. Arrow
and numpy are enough for an ON that equates columns with source values, and for simple conditions.
Everything else goes to the engine.
Spec: MRG-2, MRG-3, MRG-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.row_reader import locate_rows
from tablefmt.data.selection import filter_of
from tablefmt.data.sql_evaluation import by_arrow
from tablefmt.errors import MergeCardinalityError
from tablefmt.expressions.merge_statement import Side
from tablefmt.model.scalar_values import shown_value
from tablefmt.model.schema import Field
from tablefmt.operations.prepared_merge import NONE, PreparedMerge
from tablefmt.session.merge_pairs import (
    ACTIONS,
    KEPT,
    KEYS_SHOWN,
    Pairs,
    must_not_change,
    several_changes,
)

PAIRS_MAX = 10_000_000
"""Most pairs for one chunk of the target. For more, the engine uses the disk."""

Rows = NDArray[np.int64]


class KeyJoin:
    """Index of the source's rows by their keys."""

    def __init__(self, columns: Sequence[tuple[str, pa.ChunkedArray]]) -> None:
        """Index the source's keys.

        Args:
            columns: for each part of the key, the handle of the target's column, and the value of
                every source row in that column's type. NULL equals nothing.
        """
        self._handles = [handle for handle, _ in columns]
        self._values: list[pa.Array] = []
        self._known: list[Rows] = []
        """For the second and later parts: the sorted numbers of the keys so far."""
        codes: Rows | None = None
        for _, values in columns:
            encoded = pc.dictionary_encode(_whole(values))
            here = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
            self._values.append(encoded.dictionary)
            if codes is None:
                codes = here
                continue
            both = _combined(codes, here, len(encoded.dictionary))
            known = np.unique(both[both >= 0])
            self._known.append(known)
            codes = np.where(both >= 0, np.searchsorted(known, both), -1)
        assert codes is not None, "ON equates something"
        order = np.argsort(codes, kind="stable")
        self._order = order[np.searchsorted(codes[order], 0) :]
        count = len(self._known[-1]) if self._known else len(self._values[0])
        self._counts = np.bincount(codes[codes >= 0], minlength=count)
        self._starts = np.cumsum(self._counts) - self._counts

    def pairs(self, chunk: pa.Table) -> tuple[Rows, Rows] | None:
        """Return rows of the target and of the source with the same key; None if there are too
        many.

        Args:
            chunk: the target's rows, columns by handles.
        """
        rows, codes = self._codes(chunk)
        counts = self._counts[codes]
        total = int(counts.sum())
        if total > PAIRS_MAX:
            return None
        target = np.repeat(rows, counts)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return target, self._order[np.repeat(self._starts[codes], counts) + within]

    def _codes(self, chunk: pa.Table) -> tuple[Rows, Rows]:
        """Return the target's rows with a key of the source, and the number of each key."""
        rows, codes = _found(chunk[self._handles[0]], self._values[0])
        rest = zip(self._handles[1:], self._values[1:], self._known, strict=True)
        for handle, values, known in rest:
            at, here = _found(chunk[handle].take(pa.array(rows)), values)
            both = _combined(codes[at], here, len(values))
            place = np.searchsorted(known, both)
            same = place < len(known)
            same[same] = known[place[same]] == both[same]
            rows, codes = rows[at][same], place[same]
        return rows, codes


def _found(column: pa.ChunkedArray, values: pa.Array) -> tuple[Rows, Rows]:
    """Return the rows that have one of the values, and the index of the value."""
    assert column.type == values.type, "equated values have the column's type"
    options = pc.SetLookupOptions(values, skip_nulls=True)
    places = _whole(pc.index_in(column, options=options))
    rows = pc.indices_nonzero(pc.is_valid(places)).to_numpy().astype(np.int64)
    return rows, pc.drop_null(places).to_numpy().astype(np.int64)


def _combined(one: Rows, other: Rows, count: int) -> Rows:
    """Return one number for each pair. The second number is below `count`. -1 if one of them is
    -1."""
    return np.where((one >= 0) & (other >= 0), one * count + other, -1)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def key_join(merge: PreparedMerge) -> KeyJoin | None:
    """Return the index of the source's keys; None if ON says more than that keys are equal."""
    if not merge.analysis.joins_by_keys:
        return None
    fields = merge.target.schema.fields
    return KeyJoin(
        [
            (merge.target.handle(fields.index(each.field)), merge.source.equated(each))
            for each in merge.analysis.equated
        ]
    )


def clauses_of(
    merge: PreparedMerge, chunk: pa.Table, target: Rows, source: Rows
) -> NDArray[np.int16] | None:
    """Return the first clause that applies to each pair, or NONE. Return None if Arrow cannot
    decide.

    Args:
        merge: the statement.
        chunk: the target's rows, columns by handles.
        target: for each pair, the row of the chunk.
        source: for each pair, the row of the source; -1: none.
    """
    clauses = np.full(len(target), NONE, np.int16)
    for side, places in (
        (Side.MATCHED, np.flatnonzero(source >= 0)),
        (Side.NOT_MATCHED_BY_SOURCE, np.flatnonzero(source < 0)),
    ):
        if len(places):
            both = _beside(merge, side, chunk, target[places], source[places])
            numbers = first_clauses(merge, side, both)
            if numbers is None:
                return None
            clauses[places] = numbers
    return clauses


def _beside(
    merge: PreparedMerge, side: Side, chunk: pa.Table, target: Rows, source: Rows
) -> pa.Table:
    """Return the columns that the conditions of a side use, for each pair."""
    used = frozenset[str]().union(*(c.columns for c in merge.conditions(side)))
    columns: dict[str, Any] = {}
    for rows, places in ((chunk, target), (merge.source.rows, source)):
        names = sorted(used.intersection(rows.column_names))
        if names:
            taken = rows.select(names).take(pa.array(places))
            columns |= {name: taken[name] for name in names}
    return pa.table(columns) if columns else pa.table({"none": pa.nulls(len(target))})


def first_clauses(merge: PreparedMerge, side: Side, rows: pa.Table) -> NDArray[np.int16] | None:
    """Return the first clause of a side that applies to each row, or NONE. None if Arrow cannot
    decide.

    Args:
        merge: the statement.
        side: of the clauses.
        rows: the columns that their conditions use, by handles.
    """
    numbers = np.full(rows.num_rows, NONE, np.int16)
    for at, clause in reversed(list(enumerate(merge.clauses))):
        if clause.side is not side:
            continue
        if clause.condition is None:
            numbers[:] = at
            continue
        truth = by_arrow(rows, [clause.condition])
        if truth is None:
            return None
        numbers[pc.fill_null(truth[0], False).to_numpy()] = at
    return numbers


CHUNK_ROWS = 1_000_000
"""Target rows that are joined at once."""

CHUNK_PARTS = 8
"""The columns of a chunk take at most this fraction (1/8) of the memory limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Pairs of rows as arrays of equal length, sorted by file, position and source row.

    A target row without a source row has a pair if a clause applies to it.
    """

    file: NDArray[np.int32]
    """Index of the file among the opened files."""
    position: NDArray[np.int64]
    source: NDArray[np.int64]
    """Row of the source; -1: none matches."""
    clause: NDArray[np.int16]
    """Index among all clauses of the statement, or NONE."""

    def __len__(self) -> int:
        return len(self.file)

    def at(self, places: NDArray[Any]) -> Match:
        """Return some of the pairs, by a mask or by indices in the desired order."""
        return Match(
            self.file[places], self.position[places], self.source[places], self.clause[places]
        )

    @staticmethod
    def joined(parts: Sequence[Match]) -> Match:
        """Return the pairs of all parts, one part after the other."""
        if not parts:
            none = np.zeros(0, np.int64)
            return Match(none.astype(np.int32), none, none, none.astype(np.int16))
        return Match(
            np.concatenate([part.file for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.clause for part in parts]),
        )


def find_matches(merge: PreparedMerge, files: pa.Table) -> Match:
    """Find the pairs of a MERGE in live files.

    Args:
        merge: the statement.
        files: the files that may hold matching rows, with their deletion vectors.

    Raises:
        MergeCardinalityError: MRG-4.
        InvalidPredicateError: a condition cannot be evaluated.
        CorruptDataError: DAT-5.
    """
    keys, chunks = key_join(merge), _chunks(merge, files, _columns(merge))
    return Match.joined([_pairs_of_chunk(merge, chunk, keys) for chunk in chunks])


def pairs_of(merge: PreparedMerge, match: Match) -> Pairs:
    """Return the pairs with the outcome of each target row."""
    becomes = np.array([*(ACTIONS.get(c.action, KEPT) for c in merge.clauses), KEPT], np.int64)
    assert NONE == -1, "the last element is for NONE"
    return Pairs(match.file, match.position, match.source, becomes[match.clause])


def _columns(merge: PreparedMerge) -> list[Field]:
    """Return the target columns that conditions use."""
    fields = enumerate(merge.target.schema.fields)
    used = _used(merge)
    return [field for at, field in fields if merge.target.handle(at) in used]


def _used(merge: PreparedMerge) -> frozenset[str]:
    """Return the handles of the columns of both sides that decide about matches."""
    conditions = [merge.on, *merge.conditions(Side.MATCHED, Side.NOT_MATCHED_BY_SOURCE)]
    return frozenset().union(*(each.columns for each in conditions))


def _filter(merge: PreparedMerge) -> RowFilter | None:
    if merge.read_condition.predicate is None:
        return None
    # The pushed filter selects more rows than the condition, and the join decides.
    return RowFilter(filter_of(merge.read_condition.predicate, merge.target.schema).pushed)


def _chunks(merge: PreparedMerge, files: pa.Table, columns: Sequence[Field]) -> Iterator[pa.Table]:
    """Yield target rows, with columns by handles, the index of their file `f` and their position
    `p`."""
    txn, schema = merge.txn, merge.target.schema
    limit = max(1, merge.memory_limit // CHUNK_PARTS)
    names = [*(merge.target.handle(schema.fields.index(c)) for c in columns), "f", "p"]
    held: list[pa.RecordBatch] = []
    rows = size = 0
    located = locate_rows(txn.store, files, schema, columns, _filter(merge))
    for part in txn.measured.reported(located, "MERGE", files.num_rows):
        count = len(part.positions)
        place = pa.array(np.full(count, part.file, np.int32))
        arrays = [*part.rows.columns, place, pa.array(part.positions)]
        held.append(pa.RecordBatch.from_arrays(arrays, names=names))
        rows, size = rows + count, size + held[-1].nbytes
        if rows >= CHUNK_ROWS or size >= limit:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _pairs_of_chunk(merge: PreparedMerge, chunk: pa.Table, keys: KeyJoin | None) -> Match:
    """Return all pairs of some target rows.

    Raises:
        MergeCardinalityError: MRG-4. It can be detected here because all pairs of a target row are
            in one chunk.
    """
    match = None if keys is None else _by_keys(merge, chunk, keys)
    if match is None:
        match = _by_engine(merge, chunk)
    match = match.at((match.source >= 0) | (match.clause != NONE))
    match = match.at(np.lexsort((match.source, match.position, match.file)))
    twice = must_not_change(merge.analysis, pairs_of(merge, match))
    if len(twice):
        raise _several_changes(merge, match.at(twice), chunk)
    return match


def _by_keys(merge: PreparedMerge, chunk: pa.Table, keys: KeyJoin) -> Match | None:
    """Return the pairs in any order; None if the engine has to find them."""
    pairs = keys.pairs(chunk)
    if pairs is None:
        return None
    target, source = pairs
    if merge.analysis.reads_all_targets:
        alone = np.ones(chunk.num_rows, np.bool_)
        alone[target] = False
        target = np.concatenate([target, np.flatnonzero(alone)])
        source = np.concatenate([source, np.full(len(target) - len(source), -1)])
    clause = clauses_of(merge, chunk, target, source)
    if clause is None:
        return None
    file, position = (chunk[name].to_numpy()[target] for name in ("f", "p"))
    return Match(file, position, source, clause)


def _by_engine(merge: PreparedMerge, chunk: pa.Table) -> Match:
    needed = sorted(h for h in _used(merge) if h.startswith(merge.source.relation.prefix))
    outer = merge.analysis.reads_all_targets
    clause = merge.first_clause(Side.MATCHED)
    if outer:
        rest = merge.first_clause(Side.NOT_MATCHED_BY_SOURCE)
        clause = f"CASE WHEN r IS NULL THEN {rest} ELSE {clause} END"
    text = (
        f"SELECT f, p, coalesce(r, -1) AS r, CAST({clause} AS SMALLINT) AS c "
        f"FROM target {'LEFT' if outer else 'INNER'} JOIN source ON {merge.on.sql}"
    )
    rows = merge.engine().query(text, target=chunk, source=merge.source.of(needed))
    return Match(*(rows[name].to_numpy() for name in ("f", "p", "r", "c")))


def _several_changes(merge: PreparedMerge, twice: Match, chunk: pa.Table) -> MergeCardinalityError:
    prefix, fields = merge.target.prefix, merge.target.schema.fields
    compared = sorted(h for h in merge.on.columns if h.startswith(prefix))
    places = zip(twice.file[:KEYS_SHOWN], twice.position[:KEYS_SHOWN], strict=True)
    rows = [
        chunk.filter((pc.field("f") == int(file)) & (pc.field("p") == int(position)))
        for file, position in places
    ]
    keys: list[dict[str, Any]] = [
        {fields[int(h.removeprefix(prefix))].name: shown_value(row[h][0]) for h in compared}
        for row in rows
    ]
    return several_changes(len(twice), keys)
