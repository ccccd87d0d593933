"""Which files a MERGE by Spark has to look into, and that said for people. Spec: MRG-3."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.predicate import Predicate, all_of, any_of, to_sql
from tablefmt.session.condition import TEXT_MAX, AnalyzedCondition
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.statements.merge_clauses import Merge
from tablefmt.spark.statements.source_rows import SourceRows


def opened_files(
    pinned: TransactionSnapshot, merge: Merge, source: SourceRows
) -> tuple[AnalyzedCondition, pa.Table]:
    """What the rows looked at have in common, and the files that may hold them (MRG-3)."""
    derived = source.predicate()
    known = [p for p in (merge.where.target.predicate, derived) if p is not None]
    predicate: Predicate | None = all_of(known) if known else None
    target = replace(merge.where.target, predicate=predicate, exact=False)
    if merge.by_source is not None:
        other = merge.by_source
        both = [predicate, other.predicate]
        columns = (
            None
            if target.columns is None or other.columns is None
            else target.columns | other.columns
        )
        target = replace(
            target,
            predicate=None if None in both else any_of([p for p in both if p is not None]),
            reasoned=bool(target.reasoned and other.reasoned),
            columns=columns,
        )
    return target, pinned.snapshot.matching(target.predicate)


def explained(pinned: TransactionSnapshot, merge: Merge) -> str:
    """How many files of how many a MERGE would open, and why. Reads the source once."""
    with SourceRows.stored(merge.source, merge.bind_source, merge.equated) as source:
        target, files = opened_files(pinned, merge, source)
    every = pinned.snapshot.files
    by = (
        "every file may hold rows of it"
        if target.predicate is None
        else to_sql(target.predicate)[:TEXT_MAX]
    )
    size = pc.sum(files["size"]).as_py() or 0
    return (
        f"MERGE opens {files.num_rows} of {every.num_rows} files ({size} bytes) of version "
        f"{pinned.version}: {by}; the source has {source.count} rows"
    )
