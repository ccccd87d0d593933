"""Row changes of DELETE, UPDATE and MERGE: selected rows of live files, rewritten and planned.

Data files are read at the transaction's version, and new ones are written, in either delete mode.
After that, only metadata is used. This plan alone decides how deleted and written rows become a
commit, on every engine.
Spec: DEL-1, LIN-1, ENT-9, ADD-8, CFL-17, CFL-18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.read_write_sets import Ids, Keys, Output, Run
from tablefmt.data.arrow_scanner import READAHEAD
from tablefmt.data.row_reader import answer_schema, locate_rows, read_files
from tablefmt.data.value_conversion import relabelled
from tablefmt.expressions.generated_columns import recomputed_columns
from tablefmt.expressions.predicate import Predicate, any_of
from tablefmt.model.content_hashes import KEYS_MAX, encode_hashes
from tablefmt.model.log_entry import (
    PARTITIONING,
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    RowUpdate,
    Scope,
)
from tablefmt.model.positions import DeletionVector, pack_positions, row_span
from tablefmt.model.schema import Field
from tablefmt.session.measurements import REWRITE, SCAN
from tablefmt.session.statement_scope import AnalyzedCondition, partitions_of, scope_of
from tablefmt.session.transaction_snapshot import TransactionSnapshot, joined

AHEAD_BYTES = 64 << 20
"""Most bytes of stored files that are decoded ahead."""


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Live rows that a condition selects, found by reading."""

    target: AnalyzedCondition
    files: pa.Table
    """Every opened file, with the snapshot's columns."""
    rows: Mapping[int, BitMap64]
    """Positions by file id, without files that have none."""


def select(txn: TransactionSnapshot, target: AnalyzedCondition) -> Selected:
    """Select the live rows for which the condition is true. Read the files that may hold such rows.

    Raises:
        CorruptDataError: DAT-5.
        InvalidPredicateError: Arrow cannot evaluate the condition.
    """
    snapshot = txn.snapshot
    files = snapshot.matching(target.predicate)
    if target.rows is None:
        counts = zip(files["id"].to_pylist(), files["rows"].to_pylist(), strict=True)
        live = {file: row_span(rows) - snapshot.positions(file) for file, rows in counts}
        return Selected(target, files, {file: rows for file, rows in live.items() if rows})
    rows: dict[int, BitMap64] = {}
    with txn.measured.timed(SCAN):
        for _ in _located(txn, files, target, [], rows):
            pass
    return Selected(target, files, rows)


def select_and_read(
    txn: TransactionSnapshot, target: AnalyzedCondition, columns: Sequence[Field]
) -> tuple[Selected, Iterator[pa.RecordBatch]]:
    """Select as `select`, and return the rows too, in order.

    Args:
        txn: the version.
        target: the condition.
        columns: of the returned rows.

    Returns:
        The selection, which is complete after the last row was read; and the rows.
    """
    if target.rows is None or txn.store.traits.remote:
        # Reading bytes is expensive: read only the condition's columns of files without such rows.
        selected = select(txn, target)
        files = live_files(txn, sorted(selected.rows))
        return selected, _located(txn, files, target, columns, {})
    files = txn.snapshot.matching(target.predicate)
    rows: dict[int, BitMap64] = {}
    return Selected(target, files, rows), _located(txn, files, target, columns, rows)


def _located(
    txn: TransactionSnapshot,
    files: pa.Table,
    target: AnalyzedCondition,
    columns: Sequence[Field],
    rows: dict[int, BitMap64],
) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows of files, and add their positions to `rows`."""
    ids, looked = files["id"].to_pylist(), txn.snapshot.with_vectors(files)
    parts = locate_rows(
        txn.store,
        looked,
        txn.snapshot.schema,
        columns,
        target.rows,
        readahead=files_ahead(files) if columns else READAHEAD,
    )
    for part in txn.measured.reported(parts, "rows of a condition", len(ids)):
        rows.setdefault(ids[part.file], BitMap64()).update(part.positions)
        yield part.rows


def files_ahead(files: pa.Table) -> int:
    """Return how many files to decode ahead when whole rows are read. Large files take much
    memory."""
    largest = pc.max(files["size"]).as_py() or 1
    return max(1, min(READAHEAD, AHEAD_BYTES // largest))


def partitioning_of(file: pa.Table) -> int | None:
    """Return the number of a file's partitioning; None if all files have the current one."""
    if PARTITIONING not in file.column_names:
        return None
    number: int = file[PARTITIONING][0].as_py()
    return number


def live_files(txn: TransactionSnapshot, ids: Ids | Sequence[int]) -> pa.Table:
    """Return the live files of those ids, in that order."""
    files = txn.snapshot.files
    known, wanted = files["id"].to_numpy(), np.asarray(ids, np.int64)
    places = np.searchsorted(known, wanted)
    assert np.array_equal(known.take(places, mode="clip"), wanted), "every file is live"
    return files.take(pa.array(places))


COPY_ON_WRITE = "copy-on-write"

CHUNK_ROWS = 131_072
CHUNK_BYTES = 32 << 20
"""Compute new values for about this many rows or bytes at once."""

Change = Callable[[pa.Table], pa.Table]
"""Function from old rows to new rows, one for one, with columns by name."""


def change_rows(
    txn: TransactionSnapshot, old: Iterable[pa.RecordBatch], change: Change, shape: pa.Schema
) -> AddedFiles | None:
    """Write the new versions of rows, flagged as updated (ENT-9). Return None if there are no rows.

    Args:
        txn: the version that the rows are read at.
        old: the rows, with the columns that `change` uses.
        change: makes the new rows.
        shape: schema of the new rows.

    Raises:
        SchemaMismatchError, ConstraintViolationError: the new rows do not fit.
    """

    def changed() -> Iterator[pa.RecordBatch]:
        for rows in _in_chunks(old):
            new_rows = change(rows)
            columns = [
                relabelled(column, field.type)
                for column, field in zip(new_rows.columns, shape, strict=True)
            ]
            yield from pa.Table.from_arrays(columns, schema=shape).to_batches()

    with txn.measured.timed(REWRITE):
        added = txn.write(pa.RecordBatchReader.from_batches(shape, changed()), updates=True)
    return None if added is None else flagged(added, updated=True)


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the same rows in larger pieces, because each evaluation costs milliseconds."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def flagged(added: AddedFiles, *, updated: bool) -> AddedFiles:
    """Return the files, flagged as new versions of older rows or not."""
    return AddedFiles({**added.columns, "updated": [updated] * len(added)})


def runs_of(
    inputs: Iterable[tuple[int, int, BitMap64]], outputs: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """Return the runs of rows of each output, if all inputs are written in order. Pure.

    Args:
        inputs: id, number of rows as written, and dropped positions of each input.
        outputs: rows of each output. Their sum is the number of rows that are not dropped.
    """
    runs: list[list[Run]] = [[] for _ in outputs]
    at, budget = 0, outputs[0] if outputs else 0
    for file, rows, dropped in inputs:
        left = row_span(rows) - dropped
        start = taken = 0
        if rows and not left and outputs:
            runs[at].append(Run(file, 0, rows, dropped))
        while taken < len(left):
            while budget == 0:
                at += 1
                budget = outputs[at]
            count = min(budget, len(left) - taken)
            taken, budget = taken + count, budget - count
            # Rows dropped between two outputs belong to the earlier one.
            end = rows if taken == len(left) else left[taken]
            runs[at].append(Run(file, start, end - start, dropped & row_span(start, end)))
            start = end
    return tuple(map(tuple, runs))


def copy_rows(
    txn: TransactionSnapshot, files: Ids, selected: Mapping[int, BitMap64]
) -> tuple[AddedFiles | None, tuple[Output, ...]]:
    """Write the live rows of files again without the selected rows. Each file gets its own output.

    Args:
        txn: the version that the files are read at.
        files: ids of live files. Each has a row left.
        selected: positions to leave out, for every one of the files.
    """
    snapshot = txn.snapshot
    columns = snapshot.schema.fields
    shape = answer_schema(columns)
    parts: list[AddedFiles | None] = []
    copied: list[Output] = []
    for file in files.tolist():
        one = live_files(txn, [file])
        dropped = snapshot.positions(file) | selected[file]
        one = one.append_column("vector", pa.array([pack_positions(dropped)], pa.large_binary()))
        batches = read_files(txn.store, one, snapshot.schema, columns)
        with txn.measured.timed(REWRITE):
            # Under its own partitioning, all rows are one file's, in their order.
            added = txn.write(
                pa.RecordBatchReader.from_batches(shape, batches),
                copied=True,
                partitioning=partitioning_of(one),
            )
        assert added is not None, "a file that is not removed has rows left"
        runs = runs_of([(file, one["rows"][0].as_py(), dropped)], added.columns["rows"])
        copied.extend(enumerate(runs, len(copied)))
        parts.append(flagged(added, updated=False))
    return joined(parts), tuple(copied)


Rows = Mapping[int, BitMap64]
"""Positions by file id. No set is empty."""

CopyRows = Callable[[TransactionSnapshot, Ids, Rows], tuple[AddedFiles | None, tuple[Output, ...]]]
"""Writes the live rows of files again without the given rows, each file separately.

Outputs are counted from 0. Every given file has a row left.
"""

HASHES_MAX = 1_000_000
"""Most hashes of keys in one entry, for all files together: 11 MB of text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changed:
    """Rows that a statement read, deleted and wrote."""

    target: AnalyzedCondition
    """The condition of the statement, as far as it is understood."""
    files: pa.Table
    """Every opened file, with at least the columns `id`, `rows` and `deleted`."""
    read: Rows | None = None
    """Rows that matched, changed or not; None: the deleted and updated rows."""
    deleted: Rows = field(default_factory=dict)
    updated: Rows = field(default_factory=dict)
    """Rows with new versions in `updated_files`. None of them is in `deleted`."""
    updated_files: AddedFiles | None = None
    inserted_files: AddedFiles | None = None
    set_columns: tuple[int, ...] | None = ()
    """Ids of the columns that were set to a new value, ascending; None: any column."""
    keys: Keys | None = None
    """Keys of the source. Target rows with other keys were not read."""
    inserted_hashes: NDArray[np.uint64] | None = None
    """Hashes of the keys (columns as in `keys`) of all inserted rows, ascending; None: unknown."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the operation, besides `predicate`."""


@dataclass(frozen=True, slots=True)
class _Removals:
    """Removed rows and files: fields of a plan."""

    removes: Ids
    deletes: Mapping[int, DeletionVector]
    copied_files: AddedFiles | None = None
    copied: tuple[Output, ...] = ()


def stage_changes(
    txn: TransactionSnapshot, name: str, changed: Changed, copy: CopyRows = copy_rows
) -> Staged:
    """Return the commit of the changes. It is empty if no row changed.

    Args:
        txn: the version that was read.
        name: DELETE, UPDATE or MERGE.
        changed: the rows. A file without a remaining live row is removed.
        copy: called if the table's deleteMode is copy-on-write.
    """
    target = changed.target
    removals = _removals(txn, changed, copy)
    updated, inserted = changed.updated_files, _keyed(changed)
    parts = [removals.copied_files, updated, inserted]
    added = joined(
        [None if p is None else flagged(p, updated=p is updated) for p in parts]
        if updated is not None or inserted is not None
        else parts
    )
    writes = updated is not None or inserted is not None
    keys = changed.keys.columns if changed.keys is not None else ()
    hashed = inserted is not None and "keys" in inserted.columns
    rows = _union(changed.deleted, changed.updated) if changed.read is None else changed.read
    read = target.read(changed.files, rows)
    return Staged(
        transaction=txn.transaction,
        operation=Operation(
            name=name,
            cls=OperationClass.UPDATE,
            parameters={"predicate": target.text, **changed.parameters},
            metrics={**_metrics(name, changed, removals), **txn.measured.span_metrics()},
        ),
        scope=written_scope(target.predicate, joined([updated, inserted]), txn.target),
        predicate=target.text,
        written_under=txn.metadata,
        read_version=txn.version,
        add=added,
        reads=(replace(read, keys=changed.keys),),
        removes=removals.removes,
        deletes=removals.deletes,
        copied=removals.copied,
        update=RowUpdate(_changing(txn, changed), keys if hashed else ()) if writes else None,
        metadata=txn.evolved,
    )


def _changing(txn: TransactionSnapshot, changed: Changed) -> tuple[int, ...] | None:
    """Return the columns that were set or computed again (GEN-4), ascending; None: any column."""
    given = changed.set_columns
    if given is None:
        return None
    return tuple(sorted({*given, *recomputed_columns(txn.target, given)}))


def written_scope(
    predicate: Predicate | None, added: AddedFiles | None, metadata: Metadata
) -> Scope:
    """Return the partitions that a condition reads, or that were written."""
    if predicate is None or added is None or not metadata.partition_by:
        return scope_of(predicate, metadata)
    return scope_of(any_of([predicate, partitions_of(added, metadata)]), metadata)


def _removals(txn: TransactionSnapshot, changed: Changed, copy: CopyRows) -> _Removals:
    leaving = _union(changed.deleted, changed.updated)
    live = _live_rows(changed.files, leaving)
    touched = np.array(sorted(leaving), np.int64)
    whole = np.array([f for f in sorted(leaving) if len(leaving[f]) == live[f]], np.int64)
    rewrites = txn.property("deleteMode") == COPY_ON_WRITE
    # A row of a removed file counts as deleted if the entry does not list it.
    unlisted = () if rewrites else [f for f in whole.tolist() if f not in changed.updated]
    nothing = BitMap64()
    marks = {
        file: DeletionVector(changed.deleted.get(file, nothing), changed.updated.get(file, nothing))
        for file in touched.tolist()
        if file not in unlisted
    }
    if not rewrites:
        return _Removals(whole, marks)
    stays = np.setdiff1d(touched, whole)
    files, outputs = copy(txn, stays, leaving) if len(stays) else (None, ())
    return _Removals(touched, marks, files, outputs)


def _live_rows(files: pa.Table, leaving: Rows) -> dict[int, int]:
    """Return the number of live rows of each file that loses rows."""
    ids, rows, deleted = (files[n].to_numpy() for n in ("id", "rows", "deleted"))
    here = np.isin(ids, np.fromiter(leaving, np.int64, len(leaving)))
    live = dict(zip(ids[here].tolist(), (rows - deleted)[here].tolist(), strict=True))
    assert live.keys() == leaving.keys(), "removed rows are in opened files"
    return live


def _union(one: Rows, other: Rows) -> dict[int, BitMap64]:
    both = dict(one)
    for file, rows in other.items():
        both[file] = both[file] | rows if file in both else rows
    return both


def _keyed(changed: Changed) -> AddedFiles | None:
    """Return the inserted files, each with the keys of all of them. Extra keys are allowed."""
    files, hashes = changed.inserted_files, changed.inserted_hashes
    if files is None or hashes is None or "keys" in files.columns:
        return files
    if len(hashes) > KEYS_MAX or len(hashes) * len(files) > HASHES_MAX:
        return files
    return AddedFiles({**files.columns, "keys": [encode_hashes(hashes)] * len(files)})


def _metrics(name: str, changed: Changed, removals: _Removals) -> dict[str, int]:
    """Return metrics by Delta's names. The statement's own metrics take precedence."""
    deleted = sum(map(len, changed.deleted.values()))
    updated = sum(map(len, changed.updated.values()))
    copied = 0 if removals.copied_files is None else removals.copied_files.rows
    inserted = 0 if changed.inserted_files is None else changed.inserted_files.rows
    metrics = target_rows(inserted, updated, deleted, copied)
    if name == "MERGE":
        metrics["numTargetFilesAdded"] = sum(
            len(part)
            for part in (removals.copied_files, changed.updated_files, changed.inserted_files)
            if part is not None
        )
        metrics["numTargetFilesRemoved"] = len(removals.removes)
    else:
        delta_name = (
            ("numUpdatedRows", updated) if name == "UPDATE" else ("numDeletedRows", deleted)
        )
        metrics |= dict([delta_name, ("numCopiedRows", copied)])
    return {**metrics, **_vector_metrics(changed.files, removals), **changed.metrics}


def target_rows(inserted: int, updated: int, deleted: int, copied: int) -> dict[str, int]:
    """Return the row counts that every operation of class UPDATE has besides Delta's own
    metrics."""
    return {
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsCopied": copied,
    }


def _vector_metrics(files: pa.Table, removals: _Removals) -> dict[str, int]:
    """Return the counts of changed and removed deletion vectors.

    A file with deleted rows that loses more rows counts as a vector replaced by another. A removed
    file counts as a removed vector.
    """
    had = files["id"].to_numpy()[files["deleted"].to_numpy() > 0]
    marked = np.fromiter(removals.deletes, np.int64, len(removals.deletes))
    more = np.setdiff1d(np.intersect1d(had, marked), removals.removes)
    return {
        "numDeletionVectorsUpdated": len(more),
        "numDeletionVectorsRemoved": len(more) + len(np.intersect1d(had, removals.removes)),
    }
