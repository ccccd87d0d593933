"""Compactions of the file groups that a test chooses. The public calls choose groups themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.row_reader import read_files
from tablefmt.model.log_entry import AddedFiles, OperationClass
from tablefmt.operations.compact import rewrite_groups, rewriting, staged_rewrites
from tablefmt.session.statement import Stage
from tablefmt.session.transaction_snapshot import TransactionSnapshot

MINOR, MAJOR, CLUSTER = (
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
    OperationClass.CLUSTER,
)

Choose = Callable[[pa.Table], Iterable[Sequence[int]]]
"""The live files of a snapshot; gives the groups to compact, as ids in the order of their rows."""

Sort = Callable[[pa.Table], pa.Table]


def compact(cls: OperationClass, choose: Choose, sort: Sort | None = None) -> Stage:
    """One commit of a MINOR or MAJOR compaction, or with `sort` of a clustering."""
    return lambda txn: stage_compact(txn, cls, list(choose(txn.snapshot.files)), sort)


def stage_compact(
    txn: TransactionSnapshot,
    cls: OperationClass,
    groups: Sequence[Sequence[int]],
    sort: Sort | None = None,
) -> Staged:
    """Stage the rewrite of groups of files at the read version.

    Each group succeeds or fails alone.
    """
    assert (cls is OperationClass.CLUSTER) == (sort is not None)

    def work(at: int, files: pa.Table, prefix: str) -> AddedFiles | None:
        if sort is None:
            return rewriting(txn).in_order(files, prefix)
        schema = txn.snapshot.schema
        rows = pa.Table.from_batches(read_files(txn.store, files, schema, schema.fields))
        return txn.write(sort(rows).to_reader(), copied=True)

    return staged_rewrites(txn, cls, rewrite_groups(txn, groups, work))
