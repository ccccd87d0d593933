"""CLUSTER: order rows of a partition by some columns, so that files have tight bounds.

Spec: CMP-3 .. CMP-6, CMP-8, CFL-2, CFL-10, CFL-11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.clustering_order import CURVES, HILBERT, LINEAR, ZORDER
from tablefmt.data.file_rewrite import Clustering
from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, SchemaMismatchError
from tablefmt.model.argument_checks import checked_names
from tablefmt.model.clustering_columns import clustering_fields, clustering_of
from tablefmt.model.log_entry import AddedFiles, Metadata, OperationClass
from tablefmt.model.schema import Field
from tablefmt.operations.clustering_plan import plan_clustering, plan_ordering
from tablefmt.operations.compact import (
    Progress,
    check_target,
    commit_layout,
    files_chosen,
    groups_of,
    partition_columns,
    rewrite_groups,
    rewriting,
    shown_where,
    staged_rewrites,
    target_of,
)
from tablefmt.operations.compact_plan import LayoutPlan, PlannedGroup
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot

Rewrite = Callable[[TransactionSnapshot, "tuple[PlannedGroup, ...]", "Cluster"], Staged]
"""Rewrites groups, as in `compact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A request to cluster, checked as far as possible without a table."""

    by: str | Sequence[str] | None = None
    """Names of columns, kept as a tuple. None: the clustering order of the table, applied to the
    files that need it (CMP-8)."""
    curve: str | None = None
    """One of CURVES; None: zorder, and hilbert for the order of the table."""
    where: Condition = None
    target_file_size: int | None = None
    """Bytes; None: the table's property."""

    def __post_init__(self) -> None:
        if self.by is not None:
            by = tuple(checked_names(self.by, "by"))
            if not by:
                raise SchemaMismatchError("no column to cluster by; name at least one")
            object.__setattr__(self, "by", by)
        if self.curve is not None and self.curve not in CURVES:
            raise InvalidArgumentError(
                f"curve {self.curve!r:.100} is not one of {', '.join(CURVES)}"
            )
        check_target(self.target_file_size)

    def fields(self, metadata: Metadata) -> tuple[Field, ...]:
        """Return the columns to cluster by.

        Raises:
            SchemaMismatchError: a column is missing, nested, named twice, or a partition column;
                no columns were named, and the table has no order.
        """
        if self.by is not None:
            return clustering_fields(self.by, metadata.schema, metadata.partition_by)
        fields = clustering_of(metadata)
        if not fields:
            raise SchemaMismatchError(
                "the table has no clustering order; name the columns to cluster by, or set an "
                "order with alter.set_clustering"
            )
        return fields

    def plan(self, txn: TransactionSnapshot) -> LayoutPlan:
        """Return the plan for a version. Raises as `fields` and `files_chosen`."""
        fields = self.fields(txn.metadata)
        files = files_chosen(txn, self.where)
        named = partition_columns(txn.metadata, files)
        target = target_of(self.target_file_size, txn)
        if self.by is not None:
            return plan_clustering(files, named, txn.version, target)
        return plan_ordering(files, named, fields, txn.version, target)

    @property
    def curve_in_force(self) -> str:
        """The given curve, or the default."""
        return self.curve or (HILBERT if self.by is None else ZORDER)

    def parameters(self, txn: TransactionSnapshot) -> dict[str, str]:
        """Return the parameters for the history."""
        names = [field.name for field in self.fields(txn.metadata)]
        size = str(target_of(self.target_file_size, txn))
        shown = {
            "clusterBy": ", ".join(names),
            "curve": self.curve_in_force,
            "targetFileSize": size,
        }
        return {**shown, **shown_where(self.where, txn.metadata)}


def cluster(
    context: TableContext,
    asked: Cluster,
    options: CommitOptions,
    *,
    commit_every: int | None = None,
    progress: Progress | None = None,
    rewrite: Rewrite | None = None,
) -> Commit:
    """Cluster in one commit or in several. Arguments and errors as in `compact`."""
    work = rewrite or order_here(progress)
    return commit_layout(
        context, options, commit_every, asked.plan, lambda c: cluster_statement(asked, work, c)
    )


def cluster_statement(
    asked: Cluster, rewrite: Rewrite, chosen: tuple[PlannedGroup, ...] | None = None
) -> Statement:
    """Return the statement of a clustering. Arguments as in `compact_statement`."""

    def stage(txn: TransactionSnapshot, rows: Any) -> Staged:
        return rewrite(txn, groups_of(txn, asked.plan, chosen), asked)

    def text(metadata: Metadata) -> tuple[str, ...]:
        names = [field.name for field in asked.fields(metadata)] if asked.by is None else asked.by
        shown = shown_where(asked.where, metadata).get("predicate", "None")
        return shown, str(asked.target_file_size), asked.curve_in_force, *names

    return Statement(name="CLUSTER", stage=stage, text=text)


def clustering(txn: TransactionSnapshot, asked: Cluster) -> Clustering:
    """Return a writer that orders rows of the transaction snapshot."""
    fields = asked.fields(txn.metadata)
    # With one column, every curve is the same order.
    curve = LINEAR if len(fields) == 1 else asked.curve_in_force
    return Clustering(rewriting(txn), fields, curve)


def order_here(progress: Progress | None = None) -> Rewrite:
    """Return a rewrite in which threads of this process write the files."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: Cluster
    ) -> Staged:
        writer = clustering(txn, asked)

        def work(at: int, files: pa.Table, prefix: str) -> AddedFiles | None:
            return writer.write(files, prefix, groups[at].rows_max)

        done = rewrite_groups(txn, [group.files for group in groups], work, progress)
        cls = OperationClass.CLUSTER
        return staged_rewrites(txn, cls, done, asked.parameters(txn))

    return rewrite
