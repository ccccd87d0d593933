"""Table handle with maintenance methods: compact, cluster, verify, checkpoint, restore, vacuum,
expire the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from tablefmt.data.selection import Condition
from tablefmt.maintenance.log_expiry import ExpiryReport, expire_log
from tablefmt.maintenance.maintain import SECONDS, MaintenanceReport, maintain
from tablefmt.maintenance.manual_checkpoint import CheckpointReport, checkpoint
from tablefmt.maintenance.retention import Retention
from tablefmt.maintenance.vacuum import VacuumReport, vacuum
from tablefmt.maintenance.verify import Report, verify
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.times import Time
from tablefmt.operations.auto_compact import watch
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, Progress, compact, plan_of
from tablefmt.operations.compact_plan import LayoutPlan
from tablefmt.operations.restore import restore
from tablefmt.session.commit_options import CommitKeywords, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import ReadableHandle

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


class MaintainedHandle(LayoutHandle):
    """The part of a table that maintains its log and its files."""

    def verify(self, *, deep: bool = False) -> Report:
        """Check the log, and that every live file exists; with `deep`, read every page of them.

        Damage is reported, not raised (DAT-5, DEL-4, LIN-2).

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: the table needs a newer reader.
        """
        return verify(self.context.store, deep=deep)

    def checkpoint(self) -> CheckpointReport:
        """Write a checkpoint of the newest version, so that the table opens faster (CKP-1).

        Commits also write one every `checkpointInterval` versions.

        Raises:
            StoreError: the checkpoint cannot be written.
            CorruptTableError: the log is damaged.
        """
        return checkpoint(self.context)

    def maintain(self, *, dry_run: bool = False, seconds: float = SECONDS) -> MaintenanceReport:
        """Run the maintenance that is due: compact, checkpoint, vacuum, expire the log.

        Call it from cron, or beside a stream. A failed task is in the report, and the other tasks
        still run.

        Args:
            dry_run: report the tasks that are due, and change nothing.
            seconds: begin no new work after this time; at most half of it goes to compactions.

        Raises:
            InvalidRangeError: `seconds` is not a number of 0 or more.
            StoreError, CorruptTableError: the log cannot be read.
        """
        return maintain(self.context, dry_run=dry_run, seconds=seconds)

    def restore(
        self,
        version: int | None = None,
        *,
        timestamp: Time | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Restore an older version by a new commit. The history stays (RET-1).

        Rows, columns, partitioning and constraints are restored. Properties and application
        transaction versions are not. If nothing differs, no version is made.

        Args:
            version: a kept ID version.
            timestamp: alternative to `version`: the version as of a time (TIM-4), aware, or ISO
                text.
            commit: options that every writing method takes.

        Raises:
            InvalidRangeError: both or none of them are given, or the value is not a version or
                time.
            VersionNotFoundError: the version does not exist or is no longer kept; the error names
                the versions that can be restored (RET-2).
            ConstraintViolationError: the table is append-only.
        """
        return restore(self.context, version, timestamp, commit_options(commit))

    def vacuum(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> VacuumReport:
        """Drop versions older than `retention`, and remove the files that only they need.

        Files of the newest version, of kept versions and of running transactions stay. Objects that
        do not match this table's naming scheme stay too. Vacuum first commits the new retention
        horizon. The report has the reason for each file (RET-4, RET-6).

        Args:
            retention: how long a version stays after the next one: text such as "7 days", a
                timedelta, or seconds. By default deletedFileRetentionDuration.
            dry_run: report the files that would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property. Readers of
                those versions fail, and running transactions may lose their files.

        Raises:
            InvalidRangeError: the retention is not a duration, or too short.
            UnsupportedFeatureError: the table is a whole bucket, or needs a newer writer.
            CommitRejectedError, CommitUnknownError: no file was removed.
        """
        return vacuum(
            self.context,
            retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )

    def expire_log(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> ExpiryReport:
        """Drop versions older than `retention`, and remove their log entries (RET-9).

        First, two checkpoints of the oldest kept version are written and verified. From then on,
        the table needs a reader that knows the feature logExpiry.

        Args:
            retention: how long an entry stays after the next one, as for `vacuum`. By default
                logRetentionDuration.
            dry_run: report the entries that would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property, or than twice
                the longest transaction.

        Raises:
            InvalidRangeError: the retention is not a duration, or too short.
            UnsupportedFeatureError: the table is a whole bucket, or needs a newer writer.
            CommitRejectedError, CommitUnknownError: no entry was removed.
        """
        return expire_log(
            self.context,
            retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )
