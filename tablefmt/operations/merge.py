"""MERGE: change the table by the rows of a source, clause by clause (class UPDATE).

`stage_merge_result` makes a plan of the files that a MERGE wrote, on every engine. The rest is the
MERGE by Arrow; Spark's is in `spark.statements`. The source is read once and kept. The target is
read in the files that may hold a match. First, matching rows are found. Then new versions of
matched rows, and new rows, are written. Only files with rows to update are read again.
Spec: MRG-1 .. MRG-5, CFL-10, CFL-18.
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
from tablefmt.expressions.generated_columns import recomputed_columns
from tablefmt.expressions.merge_statement import Action, MergeStatement, Side
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.content_hashes import KEYS_MAX
from tablefmt.model.identity_columns import identity_ids
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema
from tablefmt.operations.merge_matches import Match, find_matches, first_clauses, pairs_of
from tablefmt.operations.prepared_merge import NONE, PreparedMerge, prepare_merge
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.input_rows import source_reader
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
    """Result of running a MERGE."""

    read_condition: AnalyzedCondition
    """The condition from `MergeAnalysis.read_condition`."""
    files: pa.Table
    """Live files that may hold such rows, which were opened."""
    pairs: Pairs
    """Checked: no row is changed twice."""
    source_rows: int
    keys: Keys | None
    """Keys of the source, from `source_keys`."""
    updated_files: AddedFiles | None = None
    """New versions of the updated rows."""
    inserted_files: AddedFiles | None = None
    inserted_hashes: NDArray[np.uint64] | None = None
    """Hashes of the keys of all inserted rows, ascending and unique; None: unknown."""


def stage_merge_result(
    txn: TransactionSnapshot,
    analysis: MergeAnalysis,
    result: MergeResult,
    copy: CopyRows = copy_rows,
) -> Staged:
    """Return the commit of a MERGE. It is empty if no row was changed or inserted.

    Args:
        txn: the version that was read.
        analysis: the statement.
        result: of running it.
        copy: as in `stage_changes`.
    """
    pairs, ids = result.pairs, result.files["id"].to_numpy()
    updated = pairs.action == UPDATED
    changed = Changed(
        target=result.read_condition,
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
    return stage_changes(txn, NAME, changed, copy)


def explanation(
    txn: TransactionSnapshot, read_condition: AnalyzedCondition, source_rows: int
) -> str:
    """Return a text about the files and rows that a MERGE opens, and the reason.

    Args:
        txn: the version that would be read.
        read_condition: as in `MergeAnalysis.read_condition`.
        source_rows: number of source rows.
    """
    total, rows, size = txn.snapshot.totals
    files = txn.snapshot.matching(read_condition.predicate)
    if read_condition.predicate is None:
        why = "no file can be ruled out"
    else:
        why = f"pruned by {to_sql(read_condition.predicate)[:TEXT_MAX]}"
    return (
        f"version {txn.version}: opens {files.num_rows} of {total} files, "
        f"{live_rows(files)} of {rows} rows, {pc.sum(files['size']).as_py() or 0} of {size} bytes; "
        f"{why}; source {source_rows} rows"
    )


INSERT_ROWS = 65_536
"""Source rows for which new values are computed at once."""

UPDATE_ROWS = 65_536
"""Matched rows for which new values are computed at once, if no column of the table is read."""


@dataclass(slots=True)
class Inserted:
    """Rows that were inserted."""

    files: AddedFiles | None = None
    hashes: NDArray[np.uint64] | None = None
    """Hashes of their keys, ascending and unique; None if there are too many, or no key."""


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """Computes new rows and writes them."""

    merge: PreparedMerge

    def update(self, files: pa.Table, match: Match) -> AddedFiles | None:
        """Write the new versions of matched rows, each of which has an UPDATE clause.

        Args:
            files: the opened live files, with their deletion vectors.
            match: each target row once.
        """
        if not len(match):
            return None
        shape = _shape(self.merge.txn.target.schema)
        rows = (batch for part in self._updated(files, match) for batch in part.to_batches())
        reader = pa.RecordBatchReader.from_batches(shape, rows)
        return self.merge.txn.write(reader, updates=True)

    def insert(self, numbers: NDArray[np.int64]) -> Inserted:
        """Insert the source rows without a match, as the clauses say.

        Args:
            numbers: of these rows, ascending.
        """
        inserted, keys = Inserted(), self.merge.analysis.key_fields
        if identity_ids(self.merge.txn.target) & {key.id for key in keys}:
            # The rows get their numbers when they are written, so their keys are unknown here.
            keys = ()
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
        """Return the target columns that some clause does not set, or uses in a value."""
        clauses = [self.merge.clauses[step].values for step in np.unique(match.clause).tolist()]
        used = frozenset[str]().union(*(v.value.columns for vs in clauses for v in vs))
        set_always = frozenset.intersection(
            *(frozenset(value.field.id for value in values) for values in clauses)
        )
        return [
            column
            for column in self.merge.target.schema.fields
            if column.id not in set_always or self._handle(column) in used
        ]

    def _changed(
        self, old: pa.Table, source: NDArray[np.int64], clause: NDArray[np.int16]
    ) -> pa.Table:
        """Return new rows for old ones, in order.

        Args:
            old: the columns that were read, by their handles.
            source: the source row of each.
            clause: the clause that applies to each.
        """
        parts, order = [], []
        for step in np.unique(clause).tolist():
            at = np.flatnonzero(clause == step)
            rows = old.take(pa.array(at)) if len(at) < len(clause) else old
            values = self.merge.clauses[step].values
            both = self._beside(rows, source[at], values)
            new = computed(self.merge.engine, both, values)
            parts.append(self._row(rows, new, self._computed(values)))
            order.append(at)
        if len(parts) == 1:
            return parts[0]
        whole = pa.concat_tables(parts)
        return whole.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))

    def _beside(
        self, old: pa.Table, source: NDArray[np.int64], values: Sequence[NewValue]
    ) -> pa.Table:
        """Return the columns of both sides that the values use, by their handles."""
        used = frozenset().union(*(value.value.columns for value in values))
        columns = {name: old[name] for name in old.column_names if name in used}
        needed = sorted(h for h in used if h.startswith(self.merge.source.relation.prefix))
        if needed:
            taken = self.merge.source.rows.select(needed).take(pa.array(source))
            columns |= {handle: taken[handle] for handle in needed}
        return pa.table(columns) if columns else pa.table({"none": pa.nulls(old.num_rows)})

    def _computed(self, values: Sequence[NewValue]) -> frozenset[int]:
        """Return the generated columns that change with the columns which an UPDATE sets."""
        return recomputed_columns(self.merge.txn.target, {value.field.id for value in values})

    def _row(
        self, old: pa.Table, new: dict[int, pa.ChunkedArray], generated: frozenset[int]
    ) -> pa.Table:
        """Return whole rows: new values where they are set or generated, else old ones."""
        fields = [(column, self._handle(column)) for column in self.merge.target.schema.fields]
        there = {c.id: old[handle] for c, handle in fields if handle in old.column_names}
        return self._whole(there | new, old.num_rows, generated)

    def _inserted(self, numbers: NDArray[np.int64]) -> Iterator[pa.Table]:
        for start in range(0, len(numbers), INSERT_ROWS):
            rows = self.merge.source.rows.take(pa.array(numbers[start : start + INSERT_ROWS]))
            clause = self._clause_of(rows)
            parts, order = [], []
            for step in np.unique(clause[clause != NONE]).tolist():
                at = np.flatnonzero(clause == step)
                chosen = rows.take(pa.array(at)) if len(at) < len(clause) else rows
                new = computed(self.merge.engine, chosen, self.merge.clauses[step].values)
                left = self.merge.generated.ids - new.keys()
                parts.append(self._whole(new, chosen.num_rows, left))
                order.append(at)
            if parts:
                whole = pa.concat_tables(parts)
                at = np.argsort(np.concatenate(order), kind="stable")
                yield whole if len(parts) == 1 else whole.take(pa.array(at))

    def _clause_of(self, rows: pa.Table) -> NDArray[np.int16]:
        """Return the clause that inserts each source row, or NONE."""
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

    def _whole(
        self, known: dict[int, pa.ChunkedArray], rows: int, generated: frozenset[int]
    ) -> pa.Table:
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
        whole = pa.Table.from_arrays(columns, schema=_shape(schema))
        return self.merge.generated.filled(whole, generated)


def _as(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return the values in the column's own type, which may differ in nested nullability or
    width."""
    return values.cast(arrow_type(column.type))


def _shape(schema: Schema) -> pa.Schema:
    """Return the columns by name. NOT NULL is checked when they are written."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema.fields])


@dataclass(frozen=True, slots=True)
class MatchCheck:
    """Checks the source rows that match a row of the table, before anything is written."""

    columns: Sequence[str]
    """Columns of the source to check."""
    check: Callable[[pa.Table], None]
    """Raises the error that refuses the MERGE. Each row comes once."""


def merge(
    context: TableContext,
    source: Any,
    statement: MergeStatement,
    options: CommitOptions,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Commit:
    """Run a MERGE in one commit. Without changes and application version, no version is made.

    Args:
        context: the table.
        source: as in `source_reader`.
        statement: the MERGE.
        options: of the commit.
        memory_limit, check: as in `stage_merge`.

    Raises: as `MergeBuilder.execute`, and any error of `check`.
    """
    return autocommit(context, merge_statement(source, statement, memory_limit, check), options)


def merge_statement(
    source: Any,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Statement:
    """Return the statement of a MERGE. Arguments as in `merge`."""

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
    """Stage the MERGE on the transaction snapshot. Without changes, the work is empty.

    Args:
        txn: the version to read, and the folder for the files.
        source: read to its end, once.
        statement: the MERGE.
        memory_limit: approximate bytes for the source and the join, but not for writing files.
        check: a further check of the source rows.

    Raises: as `MergeBuilder.execute`, except for errors of the commit; any error of `check`.
    """
    check_may_change(txn.metadata, statement.clauses)
    with prepare_merge(txn, source, statement, memory_limit) as merge:
        return _staged(merge, check)


def explain_merge(
    txn: TransactionSnapshot, source: Any, statement: MergeStatement, memory_limit: int
) -> str:
    """Return a text about the files that a MERGE opens. Arguments as in `merge`, errors as in
    `stage_merge`."""
    rows = source_reader(source, txn.target.schema)
    with prepare_merge(txn, rows, statement, memory_limit) as merge:
        return explanation(txn, merge.read_condition, merge.source.rows.num_rows)


def _staged(merge: PreparedMerge, check: MatchCheck | None) -> Staged:
    txn = merge.txn
    files = txn.snapshot.with_vectors(txn.snapshot.matching(merge.read_condition.predicate))
    with txn.measured.timed(SCAN):
        match = find_matches(merge, files)
    if check is not None:
        check.check(_matched_rows(merge, match, check.columns))
    updates = np.array([*(c.action is Action.UPDATE for c in merge.clauses), False])
    assert NONE == -1, "the last element is for NONE"
    writer = Writer(merge)
    with txn.measured.timed(REWRITE):
        updated = writer.update(files, match.at(updates[match.clause]))
        inserted = _inserted(merge, writer, match)
    result = MergeResult(
        read_condition=merge.read_condition,
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
