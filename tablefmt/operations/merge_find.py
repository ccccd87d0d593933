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
from pyroaring import BitMap64

from tablefmt.data.engine import Engine
from tablefmt.data.read import RowFilter, locate_rows
from tablefmt.data.selection import filter_of
from tablefmt.errors import MergeCardinalityError
from tablefmt.expressions.clauses import Action, Side, Step, in_clause, when
from tablefmt.expressions.duckdb_types import is_integer
from tablefmt.expressions.merge_condition import EquatedWith, MergeCondition, bound_of
from tablefmt.expressions.names import Relation
from tablefmt.expressions.predicate import TRUE, Predicate, all_of, any_of
from tablefmt.expressions.source_bounds import Equated, SourceValues, derived_predicate, values_of
from tablefmt.expressions.sql_to_duckdb import Translated, translate_condition
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.display import shown_value
from tablefmt.model.schema import Field
from tablefmt.model.schema_views import same_type
from tablefmt.session.snapshot import TransactionSnapshot

CHUNK_ROWS = 1_000_000
"""Target rows that are joined at once."""

CHUNK_PARTS = 8
"""A chunk's columns take at most this part of the memory there is."""

KEYS_SHOWN = 10

NONE = -1
"""The clause of a row that none applies to."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source's rows, read once."""

    relation: Relation
    rows: pa.Table
    """Columns by their handles."""

    def of(self, columns: Sequence[str]) -> pa.Table:
        """Some columns, and the rows' numbers as `r`."""
        chosen = self.rows.select(list(columns))
        return chosen.append_column("r", pa.array(np.arange(self.rows.num_rows)))


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Pairs of rows, and target rows without a source row that a clause applies to; by file, then
    position. Arrays of one length."""

    file: NDArray[np.int32]
    """Place among the files opened."""
    position: NDArray[np.int64]
    source: NDArray[np.int64]
    """Row of the source; -1: none matches."""
    clause: NDArray[np.int16]
    """Index among all clauses of the statement; NONE."""

    def __len__(self) -> int:
        return len(self.file)

    def where(self, mask: NDArray[np.bool_]) -> Match:
        """Some of them, in order."""
        return Match(self.file[mask], self.position[mask], self.source[mask], self.clause[mask])

    def rows(self, ids: Sequence[int]) -> dict[int, BitMap64]:
        """The target rows, by file id."""
        starts = np.flatnonzero(np.diff(self.file, prepend=NONE))
        parts = np.split(self.position, starts[1:])
        places = self.file[starts].tolist()
        return {ids[place]: BitMap64(part) for place, part in zip(places, parts, strict=False)}


def target_predicate(
    on: MergeCondition, steps: Sequence[Step], target: Relation, source: Source, engine: Engine
) -> Predicate:
    """TRUE for every target row that the MERGE can be about; TRUE for all if nothing is known."""
    matching = all_of([p for p in (on.target, derived(on, source, engine)) if p != TRUE])
    rest = [s.clause.condition for s in steps if s.clause.side is Side.NOT_MATCHED_BY_SOURCE]
    if not rest:
        return matching
    bound = bound_of(rest, target)
    return TRUE if bound is None or matching == TRUE else any_of([matching, bound])


def derived(on: MergeCondition, source: Source, engine: Engine) -> Predicate:
    """What the values that the source holds say of target rows."""
    known = []
    for part in on.equated:
        column = key_column(part, source, engine)
        values = SourceValues() if column is None else values_of(column, part.field)
        known.append(Equated(part.field, values, part.null_safe))
    return derived_predicate(known)


def key_column(part: EquatedWith, source: Source, engine: Engine) -> pa.ChunkedArray | None:
    """What the target's column is equated with, in its own type; NULL where none can be equal.

    None if the two types are not compared value by value.
    """
    kind, value = part.field.type, part.value
    if value.type is None:
        return None
    same = same_type(value.type, kind)
    if not same and not (is_integer(kind) and is_integer(value.type)):
        return None
    if value.column is not None:
        column = source.rows[value.column]
    else:
        (column,) = engine.evaluate(source.rows, [value])
    if same:
        return column
    wide, target = column.cast(pa.int64()), arrow_type(kind)
    half = 1 << (target.bit_width - 1)
    fits = pc.and_(pc.greater_equal(wide, -half), pc.less_equal(wide, half - 1))
    return pc.if_else(fits, wide, pa.scalar(None, pa.int64())).cast(target)


@dataclass(frozen=True, slots=True, eq=False)
class Finder:
    """What is looked for, ready to run over chunks of the target."""

    on: MergeCondition
    steps: tuple[Step, ...]
    conditions: tuple[Translated | None, ...]
    """Of each step."""
    target: Relation
    source: Source
    engine: Engine
    memory_limit: int

    def matches(self, pinned: TransactionSnapshot, files: pa.Table, predicate: Predicate) -> Match:
        """Look through the live files given (with their vectors).

        Raises:
            MergeCardinalityError: MRG-4. InvalidPredicateError: a condition without a result.
            CorruptDataError: DAT-5.
        """
        found = [
            self._joined(chunk) for chunk in self._chunks(pinned, files, self._filter(predicate))
        ]
        if not found:
            return _empty()
        return Match(
            *(
                np.concatenate([getattr(each, name) for each in found])
                for name in ("file", "position", "source", "clause")
            )
        )

    def _filter(self, predicate: Predicate) -> RowFilter | None:
        if predicate == TRUE:
            return None
        whole = filter_of(predicate, self.target.schema)
        # What is pushed is wider than the condition, and the join decides.
        return RowFilter(whole.pushed)

    def _chunks(
        self, pinned: TransactionSnapshot, files: pa.Table, wanted: RowFilter | None
    ) -> Iterator[pa.Table]:
        """Target rows, columns by handles, with `f` their file's place and `p` their position."""
        columns = self._columns()
        limit = max(1, self.memory_limit // CHUNK_PARTS)
        held: list[pa.RecordBatch] = []
        rows = size = 0
        handles = [self.target.handle(self.target.schema.fields.index(c)) for c in columns]
        names = [*handles, "f", "p"]
        found = locate_rows(pinned.store, files, self.target.schema, columns, wanted)
        for part in pinned.measured.reported(found, "MERGE", files.num_rows):
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

    def _columns(self) -> list[Field]:
        """Of the target, what conditions look at."""
        looked = [self.on.whole, *(c for c in self._target_conditions() if c is not None)]
        used = frozenset().union(*(each.columns for each in looked))
        fields = enumerate(self.target.schema.fields)
        return [field for at, field in fields if self.target.handle(at) in used]

    def _target_conditions(self) -> list[Translated | None]:
        pairs = zip(self.steps, self.conditions, strict=True)
        return [c for step, c in pairs if step.clause.side is not Side.NOT_MATCHED]

    def _joined(self, chunk: pa.Table) -> Match:
        both = [self.on.whole, *(c for c in self._target_conditions() if c is not None)]
        used = frozenset().union(*(each.columns for each in both))
        needed = sorted(h for h in used if h.startswith(self.source.relation.prefix))
        outer = any(s.clause.side is Side.NOT_MATCHED_BY_SOURCE for s in self.steps)
        clause = self._chosen(Side.MATCHED)
        if outer:
            rest = self._chosen(Side.NOT_MATCHED_BY_SOURCE)
            clause = f"CASE WHEN r IS NULL THEN {rest} ELSE {clause} END"
        text = (
            f"SELECT f, p, coalesce(r, -1) AS r, CAST({clause} AS SMALLINT) AS c "
            f"FROM target {'LEFT' if outer else 'INNER'} JOIN source ON {self.on.whole.sql}"
        )
        found = self.engine.query(text, target=chunk, source=self.source.of(needed))
        columns = [found[n].to_numpy() for n in ("f", "p", "r", "c")]
        match = Match(*columns)
        match = match.where((match.source >= 0) | (match.clause != NONE))
        order = np.lexsort((match.source, match.position, match.file))
        match = Match(*(getattr(match, n)[order] for n in ("file", "position", "source", "clause")))
        return self._checked(match, chunk)

    def _chosen(self, side: Side) -> str:
        """The first clause of a side whose condition holds."""
        return first_clause(self.steps, self.conditions, side)

    def _checked(self, match: Match, chunk: pa.Table) -> Match:
        """Refuse several source rows for one target row, or leave one where that is allowed."""
        changing = match.where((match.clause != NONE) & (match.source >= 0))
        same = (changing.file[1:] == changing.file[:-1]) & (
            changing.position[1:] == changing.position[:-1]
        )
        if not same.any():
            return match
        matched = [s.clause for s in self.steps if s.clause.side is Side.MATCHED]
        if len(matched) == 1 and matched[0].action is Action.DELETE and not matched[0].condition:
            return match
        raise self._too_many(changing.where(np.append(same, False)), chunk)

    def _too_many(self, twice: Match, chunk: pa.Table) -> MergeCardinalityError:
        rows = np.unique(np.stack([twice.file, twice.position]), axis=1)
        shown = [
            chunk.filter((pc.field("f") == int(file)) & (pc.field("p") == int(position)))
            for file, position in rows[:, :KEYS_SHOWN].T
        ]
        prefix, fields = self.target.prefix, self.target.schema.fields
        on = sorted(h for h in self.on.whole.columns if h.startswith(prefix))
        keys: list[dict[str, Any]] = [
            {fields[int(h.removeprefix(prefix))].name: shown_value(row[h][0]) for h in on}
            for row in shown
        ]
        said = "; ".join(", ".join(f"{n}={v!r:.100}" for n, v in key.items()) for key in keys)
        return MergeCardinalityError(
            f"{rows.shape[1]} rows of the table or more match several source rows that would "
            f"change them: {said}. Nothing was changed; let the source have one row for each",
            keys,
        )


def first_clause(steps: Sequence[Step], conditions: Sequence[Translated | None], side: Side) -> str:
    """The index of the first clause of a side whose condition holds, as the engine's text."""
    chosen = [
        f"WHEN {'TRUE' if condition is None else condition.sql} THEN {at}"
        for at, (step, condition) in enumerate(zip(steps, conditions, strict=True))
        if step.clause.side is side
    ]
    return f"CASE {' '.join(chosen)} ELSE {NONE} END" if chosen else str(NONE)


def clause_conditions(
    steps: Sequence[Step], target: Relation, source: Relation, now_us: int
) -> tuple[Translated | None, ...]:
    """Each clause's condition over the rows that it is about.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `translate`.
    """
    sides = sides_of(target, source)
    found: list[Translated | None] = []
    for clause in (step.clause for step in steps):
        if clause.condition is None:
            found.append(None)
            continue
        with in_clause(when(clause)):
            found.append(translate_condition(clause.condition, sides[clause.side], now_us))
    return tuple(found)


def sides_of(target: Relation, source: Relation) -> dict[Side, tuple[Relation, ...]]:
    """What the expressions of each kind of clause may name."""
    return {
        Side.MATCHED: (target, source),
        Side.NOT_MATCHED: (source,),
        Side.NOT_MATCHED_BY_SOURCE: (target,),
    }


def _empty() -> Match:
    return Match(
        np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int16)
    )
