"""Matches and clauses of a MERGE by Arrow's and numpy's functions, where these are enough.

Enough for an ON that equates columns with values of the source, and for conditions that Arrow works
out; for all else there is the engine. Spec: MRG-2, MRG-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.evaluation import by_arrow
from tablefmt.expressions.clauses import Side
from tablefmt.operations.merge_prepare import NONE, PreparedMerge

PAIRS_MAX = 10_000_000
"""Pairs of one chunk of the target. The engine puts more on disk."""

Rows = NDArray[np.int64]


class KeyJoin:
    """The source's rows by their keys."""

    def __init__(self, columns: Sequence[tuple[str, pa.ChunkedArray]]) -> None:
        """Look at the source's keys.

        Args:
            columns: for each part of the key, the handle of the target's column and the value of
                every source row, of that column's type; NULL is equal to nothing.
        """
        self._handles = [handle for handle, _ in columns]
        self._values: list[pa.Array] = []
        self._known: list[Rows] = []
        """Sorted, for the second part and those that follow: the numbers that keys have so far."""
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
        """Rows of the target and of the source with the same key; None if they are too many.

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
        """The target's rows whose keys the source has, and the number of each key."""
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
    """Where one of the values is, and which."""
    assert column.type == values.type, "what is equated is of the column's type"
    options = pc.SetLookupOptions(values, skip_nulls=True)
    places = _whole(pc.index_in(column, options=options))
    rows = pc.indices_nonzero(pc.is_valid(places)).to_numpy().astype(np.int64)
    return rows, pc.drop_null(places).to_numpy().astype(np.int64)


def _combined(one: Rows, other: Rows, count: int) -> Rows:
    """One number for each pair of numbers, of which the second is below `count`; -1 if one is."""
    return np.where((one >= 0) & (other >= 0), one * count + other, -1)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def key_join(merge: PreparedMerge) -> KeyJoin | None:
    """What finds matches; None if ON says more than that keys are the same."""
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
    """Of each pair the first clause that applies, or NONE; None if the engine has to be asked.

    Args:
        merge: the statement.
        chunk: the target's rows, columns by handles.
        target: of each pair, the row of the chunk.
        source: of each pair, the row of the source; -1: there is none.
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
    """What the conditions of a side look at, for each pair."""
    used = frozenset[str]().union(*(c.columns for c in merge.conditions(side)))
    columns: dict[str, Any] = {}
    for rows, places in ((chunk, target), (merge.source.rows, source)):
        names = sorted(used.intersection(rows.column_names))
        if names:
            taken = rows.select(names).take(pa.array(places))
            columns |= {name: taken[name] for name in names}
    return pa.table(columns) if columns else pa.table({"none": pa.nulls(len(target))})


def first_clauses(merge: PreparedMerge, side: Side, rows: pa.Table) -> NDArray[np.int16] | None:
    """Of each row the first clause of a side that applies, or NONE; None: the engine has to say.

    Args:
        merge: the statement.
        side: whose clauses.
        rows: what their conditions look at, columns by handles.
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
