"""Input rows of a statement: how they are read, maybe twice, and what they read of the table
itself.

Input rows may come from this table. At the version of the handle, the conflict rules count them as
a read of that version. At a version that was requested by number or time, they are constants.
Spec: CFL-5, CFL-22.
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
    """Gives all rows from the first one on. Of several readers, read only from the last."""
    kept: Kept | None = None
    """Spill buffer for a stream that can be read only once."""

    @property
    def lost(self) -> bool:
        """Return whether the rows cannot be read again, because the disk refused them."""
        return self.kept is not None and self.kept.lost


def is_in_memory(source: Any) -> bool:
    """Return whether the caller holds all rows as Arrow data."""
    return isinstance(source, pa.Table | pa.RecordBatch)


def without_handles(source: Any) -> Any:
    """Return the source. For a handle, return the scan of all its rows."""
    return source.scan() if isinstance(source, ReadableTable) else source


def source_reader(source: Any, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Return a stream of rows from tabular data, a table, or a scan or changes of any table.

    Args:
        source: the rows.
        schema: of the target table. Python values become its types where they fit.

    Raises:
        SchemaMismatchError: it is none of these.
    """
    source = without_handles(source)
    # Not through the stream protocol, because an error would lose its class on the way.
    return source.to_reader() if isinstance(source, BatchSource) else as_reader(source, schema)


@contextmanager
def repeatable(source: Any) -> Iterator[Repeatable]:
    """Provide rows that can be read more than once within the context.

    Rows in memory, and scans, are not copied. The rows of a stream are kept as they are read, on
    disk beyond a limit. Raises as `source_reader`.
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
    """Return the source if it is a scan of this table at a version that was not requested
    explicitly.

    A copy of the table counts as the table up to the version where their logs differ.
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
    """Return a scan of the table as a read of the transaction's version, for the conflict rules.

    Raises:
        ConcurrentModificationException: the scan is of another version, and a commit between the
            two versions changes its result.
    """
    target = condition_of(scan.selection)
    # Its rows become values of other rows, so a new value of any column matters.
    if scan.version <= txn.version:
        read = replace(target.read(scan.survivors), columns=None)
    elif scan.snapshot.metadata == txn.metadata:
        files = txn.snapshot.matching(target.predicate)
        read = replace(target.read(files), columns=None)
    else:
        # The change of metadata conflicts, so the columns of the condition do not matter.
        read = Read(by_row=False)
    if scan.version == txn.version:
        return read
    first, last = sorted((scan.version, txn.version))
    followed = _unchanged(txn, read, first, last)
    return followed if first == scan.version else read


def read_of_all(txn: TransactionSnapshot) -> Read:
    """Return a query that read every row of the table as a read, for the conflict rules."""
    return Read(by_row=False, files=np.sort(txn.snapshot.files["id"].to_numpy()))


def check_unchanged(txn: TransactionSnapshot, version: int) -> None:
    """Check that a query of every row of a newer version counts as one of the transaction's.

    Raises:
        ConcurrentModificationException: a commit between the two versions changed rows.
    """
    if version > txn.version:
        if version > txn.view.head.version:
            txn.view.refresh()
        _unchanged(txn, read_of_all(txn), txn.version, version)


def _unchanged(txn: TransactionSnapshot, read: Read, first: int, last: int) -> Read:
    """Return the read of version `first` as a read of `last`.

    The statement reads two versions. No order of commits explains an insert that only one of the
    reads saw, so the commits between them are judged as at Serializable.
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
    """Return the work of an operation that read the table: INSERT and OVERWRITE become UPDATE.

    An OVERWRITE then keeps its removals at the transaction's version.
    """
    operation, replacing = staged.operation, staged.replacing
    # With other columns, concurrently added rows would stay without the new columns.
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
        # A concurrent compaction has moved rows to files that are unknown here.
        replacing=replacing if replaces_columns else None,
        reads=tuple(all_reads),
        removes=removes,
        adds_constraints=staged.adds_constraints or replaces_columns,
    )


def _scope_of_reads(reads: Sequence[Read], staged: Staged, metadata: Metadata) -> Scope:
    """Return the partitions that were read or written."""
    conditions = [read.predicate for read in reads]
    if staged.add is not None and metadata.partition_by:
        conditions.append(partitions_of(staged.add, staged.metadata or metadata))
    known = [predicate for predicate in conditions if predicate is not None]
    return scope_of(None if len(known) < len(conditions) else any_of(known), metadata)
