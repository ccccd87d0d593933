"""The second look of a MERGE: new versions of matched rows, and rows that are new, written.

Only files with rows to update are read again, whole rows of them; the source's are at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.assignment import NewValue, computed
from tablefmt.data.cast import default_column
from tablefmt.data.read import locate_rows
from tablefmt.expressions.clauses import Side
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.entry import AddedFiles
from tablefmt.model.key_hashes import KEYS_MAX
from tablefmt.model.schema import Field, Schema
from tablefmt.operations.merge_find import Match
from tablefmt.operations.merge_join import first_clauses
from tablefmt.operations.merge_prepare import NONE, PreparedMerge
from tablefmt.session.merge_keys import key_hashes
from tablefmt.session.selected_rows import files_ahead

INSERT_ROWS = 65_536
"""Source rows that are worked out at once."""

UPDATE_ROWS = 65_536
"""The same of rows that are matched, where nothing of the table's is read."""


@dataclass(slots=True)
class Inserted:
    """Rows that came in."""

    files: AddedFiles | None = None
    hashes: NDArray[np.uint64] | None = None
    """Of their keys, ascending, each once; None if there are too many, or no key."""


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """Works out new rows and writes them."""

    merge: PreparedMerge

    def update(self, files: pa.Table, match: Match) -> AddedFiles | None:
        """Write the new versions of the rows matched; every one has a clause that updates.

        Args:
            files: the live files looked at, with their vectors.
            match: each target row once.
        """
        if not len(match):
            return None
        shape = _shape(self.merge.pinned.target.schema)
        rows = (batch for part in self._updated(files, match) for batch in part.to_batches())
        return self.merge.pinned.write(pa.RecordBatchReader.from_batches(shape, rows))

    def insert(self, numbers: NDArray[np.int64]) -> Inserted:
        """Write what the clauses make of source rows without a match.

        Args:
            numbers: of these rows, ascending.
        """
        inserted, keys = Inserted(), self.merge.analysis.key_fields
        hashed: list[NDArray[np.uint64]] | None = [] if keys else None

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal hashed
            for part in self._inserted(numbers):
                if hashed is not None:
                    hashed.append(key_hashes([part[key.name] for key in keys], keys))
                    if sum(map(len, hashed)) > KEYS_MAX:
                        hashed = None
                yield from part.to_batches()

        shape = _shape(self.merge.pinned.target.schema)
        inserted.files = self.merge.pinned.write(pa.RecordBatchReader.from_batches(shape, rows()))
        if hashed is not None:
            inserted.hashes = np.unique(np.concatenate([*hashed, np.zeros(0, np.uint64)]))
        return inserted

    def _updated(self, files: pa.Table, match: Match) -> Iterator[pa.Table]:
        columns = self._columns_read(match)
        if not columns:
            for start in range(0, len(match), UPDATE_ROWS):
                here = slice(start, start + UPDATE_ROWS)
                none = pa.table({"none": pa.nulls(len(match.source[here]))})
                yield self._changed(none, match.source[here], match.clause[here])
            return
        places = np.unique(match.file)
        schema, chosen = self.merge.target.schema, files.take(pa.array(places))
        ahead, handles = files_ahead(chosen), list(map(self._handle, columns))
        for part in locate_rows(self.merge.pinned.store, chosen, schema, columns, readahead=ahead):
            begin, end = np.searchsorted(match.file, [places[part.file], places[part.file] + 1])
            positions = match.position[begin:end]
            low, high = np.searchsorted(positions, [part.positions[0], part.positions[-1] + 1])
            if low == high:
                continue
            at = np.searchsorted(part.positions, positions[low:high])
            here = slice(int(begin + low), int(begin + high))
            old = pa.Table.from_batches([part.rows.take(pa.array(at))]).rename_columns(handles)
            yield self._changed(old, match.source[here], match.clause[here])

    def _handle(self, column: Field) -> str:
        return self.merge.target.handle(self.merge.target.schema.fields.index(column))

    def _columns_read(self, match: Match) -> list[Field]:
        """Of the target, what some clause does not set, or sets to something it looks at."""
        clauses = [self.merge.clauses[step].values for step in np.unique(match.clause).tolist()]
        looked_at = frozenset[str]().union(*(v.value.columns for vs in clauses for v in vs))
        set_always = frozenset.intersection(
            *(frozenset(value.field.id for value in values) for values in clauses)
        )
        return [
            column
            for column in self.merge.target.schema.fields
            if column.id not in set_always or self._handle(column) in looked_at
        ]

    def _changed(
        self, old: pa.Table, source: NDArray[np.int64], clause: NDArray[np.int16]
    ) -> pa.Table:
        """New rows for old ones, in order.

        Args:
            old: the columns that were read, by their handles.
            source: rows of the source, as many.
            clause: what applies to each.
        """
        parts, order = [], []
        for step in np.unique(clause).tolist():
            at = np.flatnonzero(clause == step)
            rows = old.take(pa.array(at)) if len(at) < len(clause) else old
            values = self.merge.clauses[step].values
            both = self._beside(rows, source[at], values)
            new = computed(self.merge.engine, both, values)
            parts.append(self._row(rows, new))
            order.append(at)
        if len(parts) == 1:
            return parts[0]
        whole = pa.concat_tables(parts)
        return whole.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))

    def _beside(
        self, old: pa.Table, source: NDArray[np.int64], values: Sequence[NewValue]
    ) -> pa.Table:
        """Both sides' columns that the values look at, by their handles."""
        used = frozenset().union(*(value.value.columns for value in values))
        columns = {name: old[name] for name in old.column_names if name in used}
        needed = sorted(h for h in used if h.startswith(self.merge.source.relation.prefix))
        if needed:
            taken = self.merge.source.rows.select(needed).take(pa.array(source))
            columns |= {handle: taken[handle] for handle in needed}
        return pa.table(columns) if columns else pa.table({"none": pa.nulls(old.num_rows)})

    def _row(self, old: pa.Table, new: dict[int, pa.ChunkedArray]) -> pa.Table:
        """Whole rows: what is set, else what was there."""
        fields = [(column, self._handle(column)) for column in self.merge.target.schema.fields]
        there = {c.id: old[handle] for c, handle in fields if handle in old.column_names}
        return self._whole(there | new, old.num_rows)

    def _inserted(self, numbers: NDArray[np.int64]) -> Iterator[pa.Table]:
        for start in range(0, len(numbers), INSERT_ROWS):
            rows = self.merge.source.rows.take(pa.array(numbers[start : start + INSERT_ROWS]))
            clause = self._clause_of(rows)
            parts, order = [], []
            for step in np.unique(clause[clause != NONE]).tolist():
                at = np.flatnonzero(clause == step)
                chosen = rows.take(pa.array(at)) if len(at) < len(clause) else rows
                new = computed(self.merge.engine, chosen, self.merge.clauses[step].values)
                parts.append(self._whole(new, chosen.num_rows))
                order.append(at)
            if parts:
                whole = pa.concat_tables(parts)
                at = np.argsort(np.concatenate(order), kind="stable")
                yield whole if len(parts) == 1 else whole.take(pa.array(at))

    def _clause_of(self, rows: pa.Table) -> NDArray[np.int16]:
        """Of each source row, the clause that inserts it; NONE."""
        by_arrow = first_clauses(self.merge, Side.NOT_MATCHED, rows)
        if by_arrow is not None:
            return by_arrow
        conditions = self.merge.conditions(Side.NOT_MATCHED)
        used = sorted(frozenset().union(*(condition.columns for condition in conditions)))
        text = self.merge.first_clause(Side.NOT_MATCHED)
        looked = rows.select(used) if used else pa.table({"none": pa.nulls(rows.num_rows)})
        answer = self.merge.engine().query(
            f"SELECT CAST({text} AS SMALLINT) AS c FROM rows", rows=looked
        )
        clauses: NDArray[np.int16] = answer["c"].to_numpy()
        return clauses

    def _whole(self, known: dict[int, pa.ChunkedArray], rows: int) -> pa.Table:
        schema = self.merge.pinned.target.schema
        columns = []
        for column in schema.fields:
            values = known.get(column.id)
            if values is None:
                columns.append(default_column(column, arrow_type(column.type), rows))
            elif values.type != arrow_type(column.type):
                columns.append(_as(values, column))
            else:
                columns.append(values)
        return pa.Table.from_arrays(columns, schema=_shape(schema))


def _as(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """The same values in the column's own type: nested nullability, or a type that was widened."""
    return values.cast(arrow_type(column.type))


def _shape(schema: Schema) -> pa.Schema:
    """The columns by name; NOT NULL is checked when they are written."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema.fields])
