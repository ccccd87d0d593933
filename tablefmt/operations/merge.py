"""MERGE: rows of a source put into the table, clause by clause (class UPDATE).

The source is read once and kept; the table is looked at in the files that may hold a match. First
the rows that match are found, then new rows are written. Spec: MRG-1 .. MRG-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.commit.plan import Staged
from tablefmt.data.engine import MEMORY_BYTES
from tablefmt.expressions.clauses import Action, MergeStatement, Side
from tablefmt.model.entry import Metadata
from tablefmt.operations.merge_find import Match, find_matches, pairs_of
from tablefmt.operations.merge_prepare import NONE, PreparedMerge, prepared
from tablefmt.operations.merge_write import Inserted, Writer
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.measurements import REWRITE, SCAN
from tablefmt.session.merge_analysis import NAME, check_may_change, merge_fingerprint
from tablefmt.session.merge_plan import MergeResult, explanation, stage_merge_result
from tablefmt.session.options import CommitOptions
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement


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
        stage=lambda pinned, rows: stage_merge(pinned, rows, statement, memory_limit, check),
        takes_rows=True,
        source=source,
    )


def stage_merge(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
    check: MatchCheck | None = None,
) -> Staged:
    """The MERGE at the pinned version; with nothing to do, a plan that is empty.

    Args:
        pinned: the version, and where files go.
        source: read to its end, once.
        statement: what to do.
        memory_limit: bytes, about: for the source and for the join, not for the files written.
        check: what else may refuse it.

    Raises: as `MergeBuilder.execute`, but for what a commit raises; what `check` raises.
    """
    check_may_change(pinned.metadata, statement.clauses)
    with prepared(pinned, source, statement, memory_limit) as merge:
        return _staged(merge, check)


def explain_merge(
    pinned: TransactionSnapshot,
    source: pa.RecordBatchReader,
    statement: MergeStatement,
    memory_limit: int = MEMORY_BYTES,
) -> str:
    """How many files of how many a MERGE opens, and why. Arguments and errors as `stage_merge`."""
    with prepared(pinned, source, statement, memory_limit) as merge:
        return explanation(pinned, merge.looked_at, merge.source.rows.num_rows)


def _staged(merge: PreparedMerge, check: MatchCheck | None) -> Staged:
    pinned = merge.pinned
    files = pinned.snapshot.with_vectors(pinned.snapshot.matching(merge.looked_at.predicate))
    with pinned.measured.timed(SCAN):
        match = find_matches(merge, files)
    if check is not None:
        check.check(_matched_rows(merge, match, check.columns))
    updates = np.array([*(c.action is Action.UPDATE for c in merge.clauses), False])
    assert NONE == -1, "the last of them"
    writer = Writer(merge)
    with pinned.measured.timed(REWRITE):
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
    return stage_merge_result(pinned, merge.analysis, result)


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
