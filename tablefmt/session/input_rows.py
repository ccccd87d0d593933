"""The rows a statement is given: how they are read, again if need be, and what of the table they
themselves were read from.

Rows of this table at the version a handle was at are a read of that version to the conflict rules;
of a version that somebody asked for by number or time they are a constant. Spec: CFL-5, CFL-22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.commit.concurrent_commits import ConflictResolver
from tablefmt.commit.transaction_plan import Plan, Staged, pending_of
from tablefmt.conflict.conflict_matrix import SERIAL
from tablefmt.conflict.read_write_sets import Read
from tablefmt.conflict.verdict import Conflict
from tablefmt.data.arrow_results import BatchSource
from tablefmt.data.input_data import as_reader, is_python_rows
from tablefmt.data.spill_buffers import Kept
from tablefmt.expressions.predicate import any_of
from tablefmt.model.log_entry import Metadata, Operation, OperationClass, Scope
from tablefmt.model.schema import Schema
from tablefmt.session.statement_scope import (
    AnalyzedCondition,
    condition_of,
    partitions_of,
    scope_of,
)
from tablefmt.session.table_scan import ReadableTable, Scan
from tablefmt.session.transaction_snapshot import TransactionSnapshot, live_rows
from tablefmt.snapshot.log_view import LogView


@dataclass(frozen=True, slots=True)
class Repeatable:
    """Rows that can be read more than once."""

    rows: Callable[[], Any]
    """All rows from the first one on, as a source; of several readers only the last may be read."""
    kept: Kept | None = None
    """Where rows of a stream are kept that can be read only once."""

    @property
    def lost(self) -> bool:
        """They cannot be read again after all: the disk would not take them."""
        return self.kept is not None and self.kept.lost


def is_in_memory(source: Any) -> bool:
    """Whether whoever gave the rows holds all of them as Arrow data."""
    return isinstance(source, pa.Table | pa.RecordBatch)


def without_handles(source: Any) -> Any:
    """The same; but for a handle on a table, the scan of all its rows that it stands for."""
    return source.scan() if isinstance(source, ReadableTable) else source


def source_reader(source: Any, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Rows as a stream: tabular data, a table, or a scan or changes of any table.

    Args:
        source: the rows.
        schema: of the table that they are for: Python's values become its types where they fit.

    Raises:
        SchemaMismatchError: it is none of these.
    """
    source = without_handles(source)
    # Not by the stream protocol: what goes wrong would lose its class on the way.
    return source.to_reader() if isinstance(source, BatchSource) else as_reader(source, schema)


@contextmanager
def repeatable(source: Any) -> Iterator[Repeatable]:
    """Rows that can be read more than once, while the block lasts.

    What somebody holds in memory, or can be scanned again, is not kept here. Of a stream it is what
    was read, on disk beyond a limit. Raises as `source_reader`.
    """
    source = without_handles(source)
    if isinstance(source, BatchSource):
        yield Repeatable(source.to_reader)
    elif is_python_rows(source):
        yield Repeatable(lambda: source)
    elif is_in_memory(source) or hasattr(source, "__dataframe__"):
        table = source if isinstance(source, pa.Table) else as_reader(source).read_all()
        yield Repeatable(lambda: table)
    else:
        with Kept(as_reader(source)) as kept:
            yield Repeatable(kept.reader, kept)


def own_scan(view: LogView, source: Any) -> Scan | None:
    """The scan that a source is, if it is one of this table at a version that nobody asked for.

    A copy of the table counts as the table as far as their logs are one.
    """
    if not isinstance(source, Scan) or source.asked:
        return None
    snapshot = source.snapshot
    if snapshot.table_id != view.head.table:
        return None
    if snapshot.version > view.head.version:
        view.refresh()
    version = snapshot.version
    known = view.head.totals.oldest <= version <= view.head.version
    return source if known and view.timestamp_at(version) == snapshot.timestamp else None


def read_of(scan: Scan, txn: TransactionSnapshot) -> Read:
    """What the conflict rules learn of a scan of the table, as a read of the pinned version.

    Raises:
        ConcurrentModificationException: the scan is of another version, and between the two there
            is a commit that makes a difference to it.
    """
    target = condition_of(scan.selection)
    # What its rows hold goes on into others: a new value matters in any column of theirs.
    if scan.version <= txn.version:
        read = replace(target.read(scan.survivors), columns=None)
    elif scan.snapshot.metadata == txn.metadata:
        files = txn.snapshot.matching(target.predicate)
        read = replace(target.read(files), columns=None)
    else:
        # Its columns are not those of the condition: the change of metadata is in the way.
        read = Read(by_row=False)
    if scan.version == txn.version:
        return read
    first, last = sorted((scan.version, txn.version))
    followed = _unchanged(txn, read, first, last)
    return followed if first == scan.version else read


def read_of_all(txn: TransactionSnapshot) -> Read:
    """Return what the conflict rules learn of a query that read the table: every row of it."""
    return Read(by_row=False, files=np.sort(txn.snapshot.files["id"].to_numpy()))


def _unchanged(txn: TransactionSnapshot, read: Read, first: int, last: int) -> Read:
    """The read of version `first` as one of `last`.

    Who reads two versions at once stands between them, so no order of commits explains an insert
    that one of the reads saw and the other did not: judged as at Serializable.
    """
    view = txn.view
    scanned = Staged(
        transaction=txn.transaction,
        operation=Operation(name="SCAN", cls=OperationClass.UPDATE),
        written_under=view.metadata_at(first),
        read_version=first,
        reads=(read,),
    )
    pending = pending_of(
        scanned,
        granularity=txn.property("conflictGranularity"),
        isolation=SERIAL,
        delete_mode=txn.property("deleteMode"),
        next_id=view.totals_at(first).next_id,
    )
    plan = Plan(staged=scanned, pending=pending)
    resolver = ConflictResolver(txn.store, plan)
    for stored in view.entries_after(first):
        if stored.version > last:
            break
        verdict = resolver.judge(stored.entry)
        if isinstance(verdict, Conflict):
            raise verdict.exception()
        assert verdict is None, verdict
    return resolver.pending.reads[0]


def with_reads(staged: Staged, reads: Sequence[Read], txn: TransactionSnapshot) -> Staged:
    """The work of an operation whose source read the table: INSERT and OVERWRITE become UPDATE.

    An OVERWRITE then keeps the removals it has at the pinned version.
    """
    operation, replacing = staged.operation, staged.replacing
    # Rows that came meanwhile would stay, and have none of the new columns.
    replaces_columns = staged.metadata is not None and replacing is not None
    removes, metrics, all_reads = staged.removes, dict(operation.metrics), [*staged.reads, *reads]
    if replacing is not None:
        target = AnalyzedCondition("", replacing.predicate, None, True)
        files = txn.snapshot.in_scope(target.predicate)
        removes = np.sort(files["id"].to_numpy())
        metrics["numDeletedRows"] = live_rows(files)
        all_reads.append(target.read_nothing())
    if operation.cls in (OperationClass.INSERT, OperationClass.OVERWRITE):
        operation = replace(operation, cls=OperationClass.UPDATE, metrics=metrics)
    scope = None
    if operation.cls is OperationClass.UPDATE and not replaces_columns:
        scope = _scope_of_reads(all_reads, staged, txn.metadata)
    return replace(
        staged,
        operation=operation,
        scope=scope,
        blind=False,
        # A compaction meanwhile has put rows that go into files that are not known here.
        replacing=replacing if replaces_columns else None,
        reads=tuple(all_reads),
        removes=removes,
        adds_constraints=staged.adds_constraints or replaces_columns,
    )


def _scope_of_reads(reads: Sequence[Read], staged: Staged, metadata: Metadata) -> Scope:
    """The partitions that were read or written."""
    conditions = [read.predicate for read in reads]
    if staged.add is not None and metadata.partition_by:
        conditions.append(partitions_of(staged.add, staged.metadata or metadata))
    known = [predicate for predicate in conditions if predicate is not None]
    return scope_of(None if len(known) < len(conditions) else any_of(known), metadata)
