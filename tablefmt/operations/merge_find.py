"""The first look of a MERGE: which target rows match which source rows, and which clause applies.

Reads the columns that conditions need, of the files that may match; nothing is written.
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

from tablefmt.data.matching import RowFilter
from tablefmt.data.read import locate_rows
from tablefmt.data.selection import filter_of
from tablefmt.errors import MergeCardinalityError
from tablefmt.expressions.clauses import Side
from tablefmt.model.display import shown_value
from tablefmt.model.schema import Field
from tablefmt.operations.merge_join import KeyJoin, clauses_of, key_join
from tablefmt.operations.merge_prepare import NONE, PreparedMerge
from tablefmt.session.merge_pairs import (
    ACTIONS,
    KEPT,
    KEYS_SHOWN,
    Pairs,
    must_not_change,
    several_changes,
)

CHUNK_ROWS = 1_000_000
"""Target rows that are joined at once."""

CHUNK_PARTS = 8
"""A chunk's columns take at most this part of the memory there is."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Pairs of rows, and target rows without a source row that a clause applies to; by file, then
    position, then source row. Arrays of one length."""

    file: NDArray[np.int32]
    """Place among the files opened."""
    position: NDArray[np.int64]
    source: NDArray[np.int64]
    """Row of the source; -1: none matches."""
    clause: NDArray[np.int16]
    """Index among all clauses of the statement; NONE."""

    def __len__(self) -> int:
        return len(self.file)

    def at(self, places: NDArray[Any]) -> Match:
        """Some of them: by a mask, or by their places in the order wanted."""
        return Match(
            self.file[places], self.position[places], self.source[places], self.clause[places]
        )

    @staticmethod
    def joined(parts: Sequence[Match]) -> Match:
        """All of several, one after the other."""
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
    """Look through live files for what the statement is about.

    Args:
        merge: the statement.
        files: the files that may hold such rows, with their vectors.

    Raises:
        MergeCardinalityError: MRG-4. InvalidPredicateError: a condition without a result.
        CorruptDataError: DAT-5.
    """
    keys, chunks = key_join(merge), _chunks(merge, files, _columns(merge))
    return Match.joined([_joined(merge, chunk, keys) for chunk in chunks])


def pairs_of(merge: PreparedMerge, match: Match) -> Pairs:
    """The same, with what becomes of each target row."""
    becomes = np.array([*(ACTIONS.get(c.action, KEPT) for c in merge.clauses), KEPT], np.int64)
    assert NONE == -1, "the last of them"
    return Pairs(match.file, match.position, match.source, becomes[match.clause])


def _columns(merge: PreparedMerge) -> list[Field]:
    """Of the target, what conditions look at."""
    fields = enumerate(merge.target.schema.fields)
    used = _used(merge)
    return [field for at, field in fields if merge.target.handle(at) in used]


def _used(merge: PreparedMerge) -> frozenset[str]:
    """Handles of the columns of both sides by which matches are found."""
    conditions = [merge.on, *merge.conditions(Side.MATCHED, Side.NOT_MATCHED_BY_SOURCE)]
    return frozenset().union(*(each.columns for each in conditions))


def _filter(merge: PreparedMerge) -> RowFilter | None:
    if merge.looked_at.predicate is None:
        return None
    # What is pushed is wider than the condition, and the join decides.
    return RowFilter(filter_of(merge.looked_at.predicate, merge.target.schema).pushed)


def _chunks(merge: PreparedMerge, files: pa.Table, columns: Sequence[Field]) -> Iterator[pa.Table]:
    """Target rows, columns by handles, with `f` their file's place and `p` their position."""
    pinned, schema = merge.pinned, merge.target.schema
    limit = max(1, merge.memory_limit // CHUNK_PARTS)
    names = [*(merge.target.handle(schema.fields.index(c)) for c in columns), "f", "p"]
    held: list[pa.RecordBatch] = []
    rows = size = 0
    located = locate_rows(pinned.store, files, schema, columns, _filter(merge))
    for part in pinned.measured.reported(located, "MERGE", files.num_rows):
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


def _joined(merge: PreparedMerge, chunk: pa.Table, keys: KeyJoin | None) -> Match:
    """All pairs of some target rows.

    Raises:
        MergeCardinalityError: MRG-4. All rows that match one of them are here, so it can be told.
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
    """The same, in no order; None if the engine has to be asked."""
    pairs = keys.pairs(chunk)
    if pairs is None:
        return None
    target, source = pairs
    if merge.analysis.looks_at_all_targets:
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
    outer = merge.analysis.looks_at_all_targets
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
