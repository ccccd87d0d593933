"""A handle on a table whose files can be put in order: what they hold stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from tablefmt.data.selection import Condition
from tablefmt.model.arguments import check_flags
from tablefmt.operations.auto_compact import watch
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, Progress, compact, plan_of
from tablefmt.operations.compact_plan import LayoutPlan
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitKeywords, commit_options
from tablefmt.session.readable import ReadableHandle
from tablefmt.session.receipt import Commit

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LayoutHandle(ReadableHandle):
    """The part of a table that writes its files again."""

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
        """Put small files together, partition by partition; rows that are gone are left out.

        No answer changes: rows keep their order, there is no new time version, and incremental
        reads do not see it. Nothing to do: no version is made. In memory are, a group at a time and
        a few groups at once, two row groups and what is read ahead; never a file.

        Args:
            kind: "minor" takes small files, and those of which many rows are gone (CMP-1);
                "major" all files of the partitions in which there is something to do (CMP-2).
            where: as of `scan`: only files that may hold such rows; by partition columns exactly
                the files of those partitions (CMP-3).
            target_file_size: bytes wanted in a file; by default the property targetFileSize.
            dry_run: give the plan, which can be printed and read as Arrow, and write nothing.
            commit_every: commit whenever so many groups are done, so that these stay if the rest
                fails; the receipt is that of the last commit, with the metrics of all.
            progress: called with groups done, and how many there are.
            commit: see `Table`.

        Raises:
            InvalidRangeError: a kind, a size or a number that is none; `commit_every` with an
                application version. InvalidPredicateError, UnsupportedFeatureError: `where`.
            CorruptDataError: DAT-5. ConcurrentModificationException: only with conflictGranularity
                transaction, or deleteMode copy-on-write; else groups that others were faster with
                are left out (CFL-15).
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
        """Put the rows of each partition in order, so that files have tight bounds (CMP-5).

        No answer changes but for the order of rows. In memory are, of each of a few partitions at
        once, 128 MB of rows and a range of 64 MB that is sorted; the rest waits in temporary files.

        Args:
            by: columns, flat and not those that partition the table; with one, every curve is
                `linear`.
            where: as of `compact`.
            curve: "zorder" or "hilbert" treat the columns alike (hilbert keeps neighbours closer,
                and takes longer); "linear" sorts by the first, then the second, and so on.
            target_file_size: as of `compact`, like `dry_run`, `commit_every` and `progress`; a
                group is a partition.
            commit: see `Table`.

        Raises:
            SchemaMismatchError: no column, or one that is not there, nested, named twice, or a
                partition column. InvalidRangeError: another curve; as `compact`.
            ConcurrentDeleteDeleteException: others changed or removed rows meanwhile (CFL-11). And
                as `compact`.
        """
        check_flags(dry_run=dry_run)
        options = commit_options(commit)
        asked = Cluster(by=by, curve=curve, where=where, target_file_size=target_file_size)
        if dry_run:
            return plan_of(self.context, asked.plan)
        return cluster(self.context, asked, options, commit_every=commit_every, progress=progress)
