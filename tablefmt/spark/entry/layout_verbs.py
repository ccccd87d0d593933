"""The verbs of `SparkTable` that write files again: the same rows, in other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from tablefmt.expressions.filter_tuples import Filters
from tablefmt.model.arguments import check_flags
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, compact, plan_of
from tablefmt.operations.compact_plan import LayoutPlan
from tablefmt.session.commit_result import Commit
from tablefmt.session.options import CommitKeywords, commit_options
from tablefmt.spark.statements.layout import cluster_by, compact_by, files_where
from tablefmt.table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LayoutVerbs:
    """What of a table and a session puts files together, and rows in order."""

    spark: Any
    table: Table

    @overload
    def compact(
        self,
        kind: str = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def compact(
        self,
        kind: str = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def compact(
        self,
        kind: str = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Put small files together, in a task for every group of them. No row goes through the JVM:
        Arrow in the workers reads and writes. Arguments as of `Table.compact`.

        Raises:
            InvalidPredicateError, InvalidRangeError, CorruptDataError: as `Table.compact`.
            UnsupportedFeatureError: memory://, which the workers do not see.
        """
        check_flags(dry_run=dry_run)
        options, context = commit_options(commit), self.table.context
        condition = files_where(self.spark, context, where)
        asked = Compaction(kind=kind, where=condition, target_file_size=target_file_size)
        if dry_run:
            return plan_of(context, asked.plan)
        work = compact_by(self.spark)
        return compact(context, asked, options, commit_every=commit_every, rewrite=work)

    @overload
    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: str | Filters | None = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: str | Filters | None = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: str | Filters | None = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Put the rows of each partition in order: Spark brings them to the task that writes their
        range, as bytes that it does not look into. Arguments and errors as of `Table.cluster`, and
        UnsupportedFeatureError as of `compact`.
        """
        check_flags(dry_run=dry_run)
        options, context = commit_options(commit), self.table.context
        condition = files_where(self.spark, context, where)
        asked = Cluster(by=by, curve=curve, where=condition, target_file_size=target_file_size)
        if dry_run:
            return plan_of(context, asked.plan)
        work = cluster_by(self.spark)
        return cluster(context, asked, options, commit_every=commit_every, rewrite=work)
