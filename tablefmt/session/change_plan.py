"""What a DELETE, an UPDATE or a MERGE found out and wrote, on whatever engine; and its plan.

The one place that decides how rows taken out and rows written become a commit. Spec: DEL-1, LIN-1,
ENT-9, ADD-8, CFL-17, CFL-18.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.commit.plan import Staged
from tablefmt.conflict.facts import Ids, Keys, Output
from tablefmt.expressions.predicate import Predicate, any_of
from tablefmt.model.entry import AddedFiles, Metadata, Operation, OperationClass, RowUpdate, Scope
from tablefmt.model.key_hashes import KEYS_MAX, encode_hashes
from tablefmt.model.positions import Marks
from tablefmt.session.condition import AnalyzedCondition
from tablefmt.session.partitions import partitions_of, scope_of
from tablefmt.session.row_changes import COPY_ON_WRITE, copy_rows, flagged
from tablefmt.session.snapshot import TransactionSnapshot, joined

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
    carried: tuple[Output, ...] = ()


def stage_changes(
    pinned: TransactionSnapshot, name: str, changed: Changed, carry: CopyRows = copy_rows
) -> Staged:
    """The commit of it; empty if no row was changed.

    Args:
        pinned: the version that was read.
        name: DELETE, UPDATE or MERGE.
        changed: what was found out. A file of which every live row goes is removed.
        carry: called if the table's deleteMode is copy-on-write.
    """
    target = changed.target
    out = _taken_out(pinned, changed, carry)
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
        transaction=pinned.transaction,
        operation=Operation(
            name=name,
            cls=OperationClass.UPDATE,
            parameters={"predicate": target.text, **changed.parameters},
            metrics={**_metrics(name, changed, out), **pinned.measured.span_metrics()},
        ),
        scope=written_scope(target.predicate, joined([updated, inserted]), pinned.target),
        predicate=target.text,
        written_under=pinned.metadata,
        read_version=pinned.version,
        add=added,
        reads=(replace(read, keys=changed.keys),),
        removes=out.removes,
        deletes=out.deletes,
        carried=out.carried,
        update=RowUpdate(changed.set_columns, keys if hashed else ()) if says else None,
        metadata=pinned.evolved,
    )


def written_scope(
    predicate: Predicate | None, added: AddedFiles | None, metadata: Metadata
) -> Scope:
    """The partitions read by a condition or written."""
    if predicate is None or added is None or not metadata.partition_by:
        return scope_of(predicate, metadata)
    return scope_of(any_of([predicate, partitions_of(added, metadata)]), metadata)


def _taken_out(pinned: TransactionSnapshot, changed: Changed, carry: CopyRows) -> _Out:
    leaving = _union(changed.deleted, changed.updated)
    live = _live_rows(changed.files, leaving)
    touched = np.array(sorted(leaving), np.int64)
    whole = np.array([f for f in sorted(leaving) if len(leaving[f]) == live[f]], np.int64)
    rewrites = pinned.property("deleteMode") == COPY_ON_WRITE
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
    files, outputs = carry(pinned, stays, leaving) if len(stays) else (None, ())
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
