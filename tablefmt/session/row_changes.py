"""Row changes of DELETE, UPDATE and MERGE: rows of live files selected, rewritten and planned.

Data files are read at the pinned version, and new ones written, in either delete mode; from then on
all is metadata. The plan is the one place that decides how rows taken out and rows written become a
commit, on whatever engine. Spec: DEL-1, LIN-1, ENT-9, ADD-8, CFL-17, CFL-18.
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
from tablefmt.expressions.predicate import Predicate, any_of
from tablefmt.model.content_hashes import KEYS_MAX, encode_hashes
from tablefmt.model.log_entry import (
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
    RowUpdate,
    Scope,
)
from tablefmt.model.positions import Marks, pack_positions, row_span
from tablefmt.model.schema import Field
from tablefmt.session.measurements import REWRITE, SCAN
from tablefmt.session.statement_scope import AnalyzedCondition, partitions_of, scope_of
from tablefmt.session.transaction_snapshot import TransactionSnapshot, joined

AHEAD_BYTES = 64 << 20
"""Of files, as they are stored, that are decoded ahead."""


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Live rows that a condition selects, found by reading."""

    target: AnalyzedCondition
    files: pa.Table
    """Every file opened, with the snapshot's columns."""
    rows: Mapping[int, BitMap64]
    """By file id; files without such rows are not there."""


def select(txn: TransactionSnapshot, target: AnalyzedCondition) -> Selected:
    """The live rows for which the condition is true; reads the files that may hold some.

    Raises:
        CorruptDataError: DAT-5. InvalidPredicateError: Arrow cannot evaluate the condition.
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
    """The same, and the rows themselves, in order.

    Args:
        txn: the version.
        target: the condition.
        columns: of the rows.

    Returns:
        What is selected, which is known when the last of the rows has come; and the rows.
    """
    if target.rows is None or txn.store.remote:
        # Bytes are dear: files without such rows give no more than what the condition looks at.
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
    """The rows of files that are selected; `rows` gets where they are."""
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
    """How many files are decoded ahead where whole rows are read: wide ones take much memory."""
    largest = pc.max(files["size"]).as_py() or 1
    return max(1, min(READAHEAD, AHEAD_BYTES // largest))


def live_files(txn: TransactionSnapshot, ids: Ids | Sequence[int]) -> pa.Table:
    """The live files of those ids, in that order."""
    files = txn.snapshot.files
    known, wanted = files["id"].to_numpy(), np.asarray(ids, np.int64)
    places = np.searchsorted(known, wanted)
    assert np.array_equal(known.take(places, mode="clip"), wanted), "every file is live"
    return files.take(pa.array(places))


COPY_ON_WRITE = "copy-on-write"

CHUNK_ROWS = 131_072
CHUNK_BYTES = 32 << 20
"""New values are worked out for so many rows at once, about."""

Change = Callable[[pa.Table], pa.Table]
"""New rows for old ones, one for one; columns by name."""


def change_rows(
    txn: TransactionSnapshot, old: Iterable[pa.RecordBatch], change: Change, shape: pa.Schema
) -> AddedFiles | None:
    """Write the new versions of rows, marked as such (ENT-9); None if there are no rows.

    Args:
        txn: the version that they are rows of.
        old: the rows, what `change` looks at of them.
        change: makes the new ones.
        shape: of what it gives.

    Raises:
        SchemaMismatchError, ConstraintViolationError: what `change` gives does not fit.
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
        added = txn.write(pa.RecordBatchReader.from_batches(shape, changed()))
    return None if added is None else flagged(added, updated=True)


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, not too few at once: to work out new values costs milliseconds a time."""
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
    """The files, said to hold new versions of older rows, or not."""
    return AddedFiles({**added.columns, "updated": [updated] * len(added)})


def runs_of(
    inputs: Iterable[tuple[int, int, BitMap64]], outputs: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """The runs of rows that each output is made of, if the rows of all inputs come in order. Pure.

    Args:
        inputs: id, rows as written, and the positions left out.
        outputs: rows of each output; together as many as the inputs have left.
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
            # Rows left out between two outputs belong to the earlier one.
            end = rows if taken == len(left) else left[taken]
            runs[at].append(Run(file, start, end - start, dropped & row_span(start, end)))
            start = end
    return tuple(map(tuple, runs))


def copy_rows(
    txn: TransactionSnapshot, files: Ids, selected: Mapping[int, BitMap64]
) -> tuple[AddedFiles | None, tuple[Output, ...]]:
    """Write the live rows of files again but for those selected, each file's apart.

    Args:
        txn: the version they are read at.
        files: ids of live files; each has a row left.
        selected: positions that do not come along, for every one of the files.
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
            added = txn.write(pa.RecordBatchReader.from_batches(shape, batches), copied=True)
        assert added is not None, "a file that does not go whole has rows left"
        runs = runs_of([(file, one["rows"][0].as_py(), dropped)], added.columns["rows"])
        copied.extend(enumerate(runs, len(copied)))
        parts.append(flagged(added, updated=False))
    return joined(parts), tuple(copied)


Rows = Mapping[int, BitMap64]
"""Positions by file id. No set is empty."""

CopyRows = Callable[[TransactionSnapshot, Ids, Rows], tuple[AddedFiles | None, tuple[Output, ...]]]
"""Writes the live rows of files again, without the rows given; each file's apart.

Outputs are counted from 0, and every file given has a row left."""

HASHES_MAX = 1_000_000
"""Hashes of keys in one entry, all files together: 11 MB of text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changed:
    """What the statement read, what it takes out and what it wrote."""

    target: AnalyzedCondition
    """The rows it is about: text, pruning predicate, how far the condition is understood."""
    files: pa.Table
    """Every file opened: columns `id`, `rows`, `deleted` at least."""
    read: Rows | None = None
    """Rows that matched, whether anything became of them or not; None: those taken out."""
    deleted: Rows = field(default_factory=dict)
    updated: Rows = field(default_factory=dict)
    """Rows whose new versions are in `updated_files`; none is in `deleted`."""
    updated_files: AddedFiles | None = None
    inserted_files: AddedFiles | None = None
    set_columns: tuple[int, ...] | None = ()
    """Ids of the columns that were set to something new, ascending; None: any."""
    keys: Keys | None = None
    """Of the source: target rows with other keys were not looked at."""
    inserted_hashes: NDArray[np.uint64] | None = None
    """Of the keys (columns as in `keys`) of all rows inserted, ascending; None: not known."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the operation, besides `predicate`."""


@dataclass(frozen=True, slots=True)
class _Out:
    """How rows leave: fields of a plan."""

    removes: Ids
    deletes: Mapping[int, Marks]
    carried_files: AddedFiles | None = None
    copied: tuple[Output, ...] = ()


def stage_changes(
    txn: TransactionSnapshot, name: str, changed: Changed, carry: CopyRows = copy_rows
) -> Staged:
    """The commit of it; empty if no row was changed.

    Args:
        txn: the version that was read.
        name: DELETE, UPDATE or MERGE.
        changed: what was found out. A file of which every live row goes is removed.
        carry: called if the table's deleteMode is copy-on-write.
    """
    target = changed.target
    out = _taken_out(txn, changed, carry)
    updated, inserted = changed.updated_files, _keyed(changed)
    parts = [out.carried_files, updated, inserted]
    added = joined(
        [None if p is None else flagged(p, updated=p is updated) for p in parts]
        if updated is not None or inserted is not None
        else parts
    )
    says = updated is not None or inserted is not None
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
            metrics={**_metrics(name, changed, out), **txn.measured.span_metrics()},
        ),
        scope=written_scope(target.predicate, joined([updated, inserted]), txn.target),
        predicate=target.text,
        written_under=txn.metadata,
        read_version=txn.version,
        add=added,
        reads=(replace(read, keys=changed.keys),),
        removes=out.removes,
        deletes=out.deletes,
        copied=out.copied,
        update=RowUpdate(changed.set_columns, keys if hashed else ()) if says else None,
        metadata=txn.evolved,
    )


def written_scope(
    predicate: Predicate | None, added: AddedFiles | None, metadata: Metadata
) -> Scope:
    """The partitions read by a condition or written."""
    if predicate is None or added is None or not metadata.partition_by:
        return scope_of(predicate, metadata)
    return scope_of(any_of([predicate, partitions_of(added, metadata)]), metadata)


def _taken_out(txn: TransactionSnapshot, changed: Changed, carry: CopyRows) -> _Out:
    leaving = _union(changed.deleted, changed.updated)
    live = _live_rows(changed.files, leaving)
    touched = np.array(sorted(leaving), np.int64)
    whole = np.array([f for f in sorted(leaving) if len(leaving[f]) == live[f]], np.int64)
    rewrites = txn.property("deleteMode") == COPY_ON_WRITE
    # A row that goes with its file is deleted unless something else is said of it.
    unsaid = () if rewrites else [f for f in whole.tolist() if f not in changed.updated]
    nothing = BitMap64()
    marks = {
        file: Marks(changed.deleted.get(file, nothing), changed.updated.get(file, nothing))
        for file in touched.tolist()
        if file not in unsaid
    }
    if not rewrites:
        return _Out(whole, marks)
    stays = np.setdiff1d(touched, whole)
    files, outputs = carry(txn, stays, leaving) if len(stays) else (None, ())
    return _Out(touched, marks, files, outputs)


def _live_rows(files: pa.Table, leaving: Rows) -> dict[int, int]:
    """By file that rows go of, how many it has."""
    ids, rows, deleted = (files[n].to_numpy() for n in ("id", "rows", "deleted"))
    here = np.isin(ids, np.fromiter(leaving, np.int64, len(leaving)))
    live = dict(zip(ids[here].tolist(), (rows - deleted)[here].tolist(), strict=True))
    assert live.keys() == leaving.keys(), "rows go of files that were opened"
    return live


def _union(one: Rows, other: Rows) -> dict[int, BitMap64]:
    both = dict(one)
    for file, rows in other.items():
        both[file] = both[file] | rows if file in both else rows
    return both


def _keyed(changed: Changed) -> AddedFiles | None:
    """The inserted files; every one with the keys of all of them: more than it holds is allowed."""
    files, hashes = changed.inserted_files, changed.inserted_hashes
    if files is None or hashes is None or "keys" in files.columns:
        return files
    if len(hashes) > KEYS_MAX or len(hashes) * len(files) > HASHES_MAX:
        return files
    return AddedFiles({**files.columns, "keys": [encode_hashes(hashes)] * len(files)})


def _metrics(name: str, changed: Changed, out: _Out) -> dict[str, int]:
    """Delta's names; what a caller gives stands."""
    deleted = sum(map(len, changed.deleted.values()))
    updated = sum(map(len, changed.updated.values()))
    copied = 0 if out.carried_files is None else out.carried_files.rows
    inserted = 0 if changed.inserted_files is None else changed.inserted_files.rows
    metrics = target_rows(inserted, updated, deleted, copied)
    if name == "MERGE":
        metrics["numTargetFilesAdded"] = sum(
            len(part)
            for part in (out.carried_files, changed.updated_files, changed.inserted_files)
            if part is not None
        )
        metrics["numTargetFilesRemoved"] = len(out.removes)
    else:
        delta_name = (
            ("numUpdatedRows", updated) if name == "UPDATE" else ("numDeletedRows", deleted)
        )
        metrics |= dict([delta_name, ("numCopiedRows", copied)])
    return {**metrics, **_vector_metrics(changed.files, out), **changed.metrics}


def target_rows(inserted: int, updated: int, deleted: int, copied: int) -> dict[str, int]:
    """What every operation of class UPDATE says of rows, beside Delta's own names for it."""
    return {
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsCopied": copied,
    }


def _vector_metrics(files: pa.Table, out: _Out) -> dict[str, int]:
    """Files of which rows were gone before: more are now, which counts as a vector in place of
    another, or the file goes with its vector.
    """
    had = files["id"].to_numpy()[files["deleted"].to_numpy() > 0]
    marked = np.fromiter(out.deletes, np.int64, len(out.deletes))
    more = np.setdiff1d(np.intersect1d(had, marked), out.removes)
    return {
        "numDeletionVectorsUpdated": len(more),
        "numDeletionVectorsRemoved": len(more) + len(np.intersect1d(had, out.removes)),
    }
