"""What a MERGE found and wrote, on whatever engine; and its plan. Spec: MRG-5, CFL-10, CFL-18."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.commit.plan import Staged
from tablefmt.conflict.facts import Keys
from tablefmt.expressions.predicate import to_sql
from tablefmt.model.entry import AddedFiles
from tablefmt.session.change_plan import Changed, CopyRows, stage_changes
from tablefmt.session.condition import TEXT_MAX, AnalyzedCondition
from tablefmt.session.merge_analysis import NAME, MergeAnalysis
from tablefmt.session.merge_pairs import DELETED, KEPT, NO_SOURCE, UPDATED, Pairs
from tablefmt.session.row_changes import copy_rows
from tablefmt.session.snapshot import TransactionSnapshot, live_rows


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
    pinned: TransactionSnapshot,
    analysis: MergeAnalysis,
    result: MergeResult,
    carry: CopyRows = copy_rows,
) -> Staged:
    """The commit of it; empty if no row was changed and none came.

    Args:
        pinned: the version that was read.
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
    return stage_changes(pinned, NAME, changed, carry)


def explanation(pinned: TransactionSnapshot, looked_at: AnalyzedCondition, source_rows: int) -> str:
    """How many files of how many a MERGE opens, and why, for people.

    Args:
        pinned: the version that would be read.
        looked_at: as of `MergeAnalysis.looked_at`.
        source_rows: how many the source has.
    """
    total, rows, size = pinned.snapshot.totals
    files = pinned.snapshot.matching(looked_at.predicate)
    if looked_at.predicate is None:
        why = "nothing is known of the rows that can match"
    else:
        why = f"pruned by {to_sql(looked_at.predicate)[:TEXT_MAX]}"
    return (
        f"version {pinned.version}: {files.num_rows} of {total} files, "
        f"{live_rows(files)} of {rows} rows, {pc.sum(files['size']).as_py() or 0} of {size} bytes; "
        f"{why}; source {source_rows} rows"
    )
