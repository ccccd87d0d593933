"""MERGE: rows of a source put into the table, clause by clause (class UPDATE).

The source is read once and kept; the table is looked at in the files that may hold a match. First
the rows that match are found. Then new versions of matched rows, and rows that are new, are
written: only files with rows to update are read again, whole rows of them. What was found and
written becomes a plan here, on whatever engine. Spec: MRG-1 .. MRG-5, CFL-10, CFL-18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.read_write_sets import Keys
from tablefmt.data.assigned_values import NewValue, computed
from tablefmt.data.column_cast import default_column
from tablefmt.data.row_reader import locate_rows
from tablefmt.data.sql_evaluation import MEMORY_BYTES
from tablefmt.expressions.merge_statement import Action, MergeStatement, Side
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.content_hashes import KEYS_MAX
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema
from tablefmt.operations.merge_matches import Match, find_matches, first_clauses, pairs_of
from tablefmt.operations.prepared_merge import NONE, PreparedMerge, prepared
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import REWRITE, SCAN
from tablefmt.session.merge_analysis import NAME, MergeAnalysis, check_may_change, merge_fingerprint
from tablefmt.session.merge_pairs import DELETED, KEPT, NO_SOURCE, UPDATED, Pairs, key_hashes
from tablefmt.session.row_changes import Changed, CopyRows, copy_rows, files_ahead, stage_changes
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import TEXT_MAX, AnalyzedCondition
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, live_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeResult:
    """What came of a MERGE."""

    looked_at: AnalyzedCondition
    """As of `MergeAnalysis.looked_at`."""
    files: pa.Table
    """Live files that may hold such rows: those opened."""
    pairs: Pairs
    """Checked: no row is changed twice."""
    source_rows: int
    keys: Keys | None
    """Of the source, as of `source_keys`."""
    updated_files: AddedFiles | None = None
    """New versions of the rows updated."""
    inserted_files: AddedFiles | None = None
    inserted_hashes: NDArray[np.uint64] | None = None
    """Of the keys of all rows inserted, ascending, each once; None: not known."""


def stage_merge_result(
    txn: TransactionSnapshot,
    analysis: MergeAnalysis,
    result: MergeResult,
    carry: CopyRows = copy_rows,
) -> Staged:
    """The commit of it; empty if no row was changed and none came.

    Args:
        txn: the version that was read.
        analysis: the statement.
        result: what came of it.
        carry: as of `stage_changes`.
    """
    pairs, ids = result.pairs, result.files["id"].to_numpy()
    updated = pairs.action == UPDATED
    changed = Changed(
        target=result.looked_at,
        files=result.files,
        read=pairs.target_rows((pairs.source != NO_SOURCE) | (pairs.action != KEPT), ids),
        deleted=pairs.target_rows(pairs.action == DELETED, ids),
        updated=pairs.target_rows(updated, ids),
        updated_files=result.updated_files,
        inserted_files=result.inserted_files,
        set_columns=analysis.set_columns if updated.any() else (),
        keys=result.keys,
        inserted_hashes=result.inserted_hashes,
        metrics={"numSourceRows": result.source_rows},
        parameters=analysis.parameters,
    )
    return stage_changes(txn, NAME, changed, carry)


def explanation(txn: TransactionSnapshot, looked_at: AnalyzedCondition, source_rows: int) -> str:
    """How many files of how many a MERGE opens, and why, for people.

    Args:
        txn: the version that would be read.
        looked_at: as of `MergeAnalysis.looked_at`.
        source_rows: how many the source has.
    """
    total, rows, size = txn.snapshot.totals
    files = txn.snapshot.matching(looked_at.predicate)
    if looked_at.predicate is None:
        why = "nothing is known of the rows that can match"
    else:
        why = f"pruned by {to_sql(looked_at.predicate)[:TEXT_MAX]}"
    return (
        f"version {txn.version}: {files.num_rows} of {total} files, "
        f"{live_rows(files)} of {rows} rows, {pc.sum(files['size']).as_py() or 0} of {size} bytes; "
        f"{why}; source {source_rows} rows"
    )


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
        shape = _shape(self.merge.txn.target.schema)
        rows = (batch for part in self._updated(files, match) for batch in part.to_batches())
        return self.merge.txn.write(pa.RecordBatchReader.from_batches(shape, rows))

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

        shape = _shape(self.merge.txn.target.schema)
        inserted.files = self.merge.txn.write(pa.RecordBatchReader.from_batches(shape, rows()))
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
        for part in locate_rows(self.merge.txn.store, chosen, schema, columns, readahead=ahead):
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
        schema = self.merge.txn.target.schema
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


@dataclass(frozen=True, slots=True)
class MatchCheck:
    """Looks at the source rows that match a row of the table, before anything is written."""

    columns: Sequence[str]
    """Of the source, that are looked at."""
    check: Callable[[pa.Table], None]
    """Raises what refuses the MERGE. Each row comes once."""


def merge(
    context: TableContext,
    source: Any,
    statement: MergeStatement,
    options: CommitOptions,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Commit:
    """Carry a MERGE out in one commit; with nothing to do and no application version, in none.

    Args:
        context: the table.
        source: as of `source_reader`.
        statement: what to do.
        options: what every commit takes.
        memory_limit, check: as of `stage_merge`.

    Raises: as `MergeBuilder.execute`; what `check` raises.
    """
    return autocommit(context, merge_statement(source, statement, memory_limit, check), options)


def merge_statement(
    source: Any,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Statement:
    """A MERGE. Arguments as of `merge`."""

    def text(metadata: Metadata) -> tuple[str, ...]:
        check_may_change(metadata, statement.clauses)
        return merge_fingerprint(statement)

    return Statement(
        name=NAME,
        text=text,
        stage=lambda txn, rows: stage_merge(txn, rows, statement, memory_limit, check),
        takes_rows=True,
        source=source,
    )


def stage_merge(
    txn: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Staged:
    """The MERGE at the pinned version; with nothing to do, a plan that is empty.

    Args:
        txn: the version, and where files go.
        source: read to its end, once.
        statement: what to do.
        memory_limit: bytes, about: for the source and for the join, not for the files written.
        check: what else may refuse it.

    Raises: as `MergeBuilder.execute`, but for what a commit raises; what `check` raises.
    """
    check_may_change(txn.metadata, statement.clauses)
    with prepared(txn, source, statement, memory_limit) as merge:
        return _staged(merge, check)


def explain_merge(
    txn: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
) -> str:
    """How many files of how many a MERGE opens, and why. Arguments and errors as `stage_merge`."""
    with prepared(txn, source, statement, memory_limit) as merge:
        return explanation(txn, merge.looked_at, merge.source.rows.num_rows)


def _staged(merge: PreparedMerge, check: MatchCheck | None) -> Staged:
    txn = merge.txn
    files = txn.snapshot.with_vectors(txn.snapshot.matching(merge.looked_at.predicate))
    with txn.measured.timed(SCAN):
        match = find_matches(merge, files)
    if check is not None:
        check.check(_matched_rows(merge, match, check.columns))
    updates = np.array([*(c.action is Action.UPDATE for c in merge.clauses), False])
    assert NONE == -1, "the last of them"
    writer = Writer(merge)
    with txn.measured.timed(REWRITE):
        updated = writer.update(files, match.at(updates[match.clause]))
        inserted = _inserted(merge, writer, match)
    result = MergeResult(
        looked_at=merge.looked_at,
        files=files,
        pairs=pairs_of(merge, match),
        source_rows=merge.source.rows.num_rows,
        keys=merge.source.keys(merge.analysis),
        updated_files=updated,
        inserted_files=inserted.files,
        inserted_hashes=inserted.hashes,
    )
    return stage_merge_result(txn, merge.analysis, result)


def _inserted(merge: PreparedMerge, writer: Writer, match: Match) -> Inserted:
    if not merge.analysis.of(Side.NOT_MATCHED):
        return Inserted()
    matched = np.zeros(merge.source.rows.num_rows, np.bool_)
    matched[match.source[match.source >= 0]] = True
    return writer.insert(np.flatnonzero(~matched))


def _matched_rows(merge: PreparedMerge, match: Match, names: Sequence[str]) -> pa.Table:
    """Return columns of the source rows that match, each row once."""
    known = merge.source.relation.schema.names
    handles = [merge.source.relation.handle(known.index(name)) for name in names]
    numbers = np.unique(match.source[match.source >= 0])
    rows = merge.source.rows.select(handles).take(pa.array(numbers, pa.int64()))
    return rows.rename_columns(list(names))
