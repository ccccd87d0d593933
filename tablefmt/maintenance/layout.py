"""Table handle with compaction and clustering, which rewrite files without changing their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from tablefmt.data.selection import Condition
from tablefmt.model.arguments import check_flags
from tablefmt.operations.auto_compact import watch
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, Progress, compact, plan_of
from tablefmt.operations.compact_plan import LayoutPlan
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitKeywords, commit_options
from tablefmt.session.readable import ReadableHandle

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LayoutHandle(ReadableHandle):
    """The part of a table that rewrites its files."""

    def __init__(self, context: TableContext) -> None:
        super().__init__(context)
        watch(context)

    @overload
    def compact(
        self,
        kind: str = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def compact(
        self,
        kind: str = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def compact(
        self,
        kind: str = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Compact small files, partition by partition, and drop deleted rows.

        No query result changes: rows keep their order, there is no new time version, and
        incremental reads do not see it. If nothing needs compaction, no version is made. Memory
        holds two row groups and their read-ahead for each of a few parallel groups, never a file.

        Args:
            kind: "minor" selects small files and files with many deleted rows (CMP-1); "major"
                selects all files of partitions that need work (CMP-2).
            where: as of `scan`: only files that may hold such rows; by partition columns, exactly
                the files of those partitions (CMP-3).
            target_file_size: desired bytes of a file; by default the property targetFileSize.
            dry_run: return the plan, which can be printed and read as Arrow, and write nothing.
            commit_every: commit after every `commit_every` groups, so that they stay if the rest
                fails. The result is the last commit, with the metrics of all.
            progress: called with the groups done, and their total.
            commit: see `Table`.

        Raises:
            InvalidArgumentError: an invalid kind, size or number; `commit_every` with an
                application version.
            InvalidPredicateError, UnsupportedFeatureError: `where` is invalid.
            CorruptDataError: DAT-5, a file is damaged.
            ConcurrentModificationException: only with conflictGranularity transaction, or
                deleteMode copy-on-write. Otherwise groups with a conflict are left out (CFL-15).
        """
        check_flags(dry_run=dry_run)
        options = commit_options(commit)
        asked = Compaction(kind=kind, where=where, target_file_size=target_file_size)
        if dry_run:
            return plan_of(self.context, asked.plan)
        return compact(self.context, asked, options, commit_every=commit_every, progress=progress)

    @overload
    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: Condition = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: Condition = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def cluster(
        self,
        by: str | Sequence[str],
        *,
        where: Condition = None,
        curve: str = "zorder",
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Sort the rows of each partition, so that files have tight bounds (CMP-5).

        No query result changes except the order of rows. Memory holds, for each of a few parallel
        partitions, 128 MB of rows and a sorted range of 64 MB. Other rows wait in temporary files.

        Args:
            by: flat columns that do not partition the table; with one column, every curve is
                `linear`.
            where: as for `compact`.
            curve: "zorder" or "hilbert" treat all columns alike (hilbert keeps close points closer,
                and takes longer); "linear" sorts by the first column, then the second, and so on.
            target_file_size: as for `compact`, like `dry_run`, `commit_every` and `progress`; a
                group is a partition.
            commit: see `Table`.

        Raises:
            SchemaMismatchError: no column is named, or one is missing, nested, named twice, or a
                partition column.
            InvalidArgumentError: an unknown curve; also as `compact`.
            ConcurrentDeleteDeleteException: a concurrent commit changed or removed rows (CFL-11).
            Other errors as `compact`.
        """
        check_flags(dry_run=dry_run)
        options = commit_options(commit)
        asked = Cluster(by=by, curve=curve, where=where, target_file_size=target_file_size)
        if dry_run:
            return plan_of(self.context, asked.plan)
        return cluster(self.context, asked, options, commit_every=commit_every, progress=progress)
