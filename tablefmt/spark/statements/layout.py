"""Compaction and clustering by Spark: planned here, carried out by tasks, one commit.

Spec: CMP-1 .. CMP-6.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablefmt.commit.plan import Staged
from tablefmt.expressions.filter_tuples import Filters
from tablefmt.model.entry import AddedFiles, OperationClass
from tablefmt.operations import cluster, compact
from tablefmt.operations.compact_plan import PlannedGroup
from tablefmt.session.compaction import Rewritten, files_of_groups, rewriting, staged_rewrites
from tablefmt.session.context import TableContext
from tablefmt.session.measurements import REWRITE
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.backends.choice import check_shared
from tablefmt.spark.backends.regrouping import cluster_groups, compact_groups
from tablefmt.spark.columns.conditions import analyzed_text, session_zone, without_filters
from tablefmt.spark.runtime.frames import Session
from tablefmt.spark.runtime.jobs import job_description


def compact_by(spark: Session) -> compact.Rewrite:
    """Spark's tasks write the groups of a compaction."""

    def rewrite(
        pinned: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: compact.Compaction
    ) -> Staged:
        files = _files(pinned, groups)
        with pinned.measured.timed(REWRITE), job_description(spark, _step(asked.kind, files)):
            rows_max = [group.rows_max for group in groups]
            added = compact_groups(spark, rewriting(pinned), files, rows_max) if files else []
        done = _rewritten(groups, added)
        return staged_rewrites(pinned, asked.cls, done, asked.parameters(pinned))

    return rewrite


def cluster_by(spark: Session) -> cluster.Rewrite:
    """Spark's tasks write the groups of a clustering."""

    def rewrite(
        pinned: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: cluster.Cluster
    ) -> Staged:
        files, writer = _files(pinned, groups), cluster.clustering(pinned, asked)
        with pinned.measured.timed(REWRITE), job_description(spark, _step("cluster", files)):
            outputs = [group.outputs for group in groups]
            added = cluster_groups(spark, writer, files, outputs) if files else []
        done = _rewritten(groups, added)
        cls = OperationClass.CLUSTER
        return staged_rewrites(pinned, cls, done, asked.parameters(pinned))

    return rewrite


def files_where(spark: Session, context: TableContext, where: str | Filters | None) -> str | None:
    """A condition that chooses files, with the session's zone in it (SQL-4).

    Raises:
        InvalidPredicateError: it makes no sense.
        UnsupportedFeatureError: memory://, which Spark's workers do not see.
    """
    check_shared(context.store)
    if where is None:
        return None
    context.view.refresh()
    schema = context.view.head.metadata.schema
    text = without_filters(where, schema)
    target = analyzed_text(text, schema, session_zone(spark))
    return target.text if target.exact else text


def _files(pinned: TransactionSnapshot, groups: Sequence[PlannedGroup]) -> list[pa.Table]:
    return list(files_of_groups(pinned, [group.files for group in groups]))


def _rewritten(
    groups: Sequence[PlannedGroup], added: Sequence[AddedFiles | None]
) -> list[Rewritten]:
    return [Rewritten(group.files, one) for group, one in zip(groups, added, strict=True)]


def _step(what: str, files: Sequence[pa.Table]) -> str:
    count = sum(group.num_rows for group in files)
    return f"{what}: {count} files in {len(files)} groups"
