"""Table handle with maintenance methods: verify, checkpoint, restore, vacuum, expire the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablefmt.maintenance.ages import Retention
from tablefmt.maintenance.checkpoint import CheckpointReport, checkpoint
from tablefmt.maintenance.expire import ExpiryReport, expire_log
from tablefmt.maintenance.layout import LayoutHandle
from tablefmt.maintenance.maintain import SECONDS, MaintenanceReport, maintain
from tablefmt.maintenance.vacuum import VacuumReport, vacuum
from tablefmt.maintenance.verify import Report, verify
from tablefmt.model.times import Time
from tablefmt.operations.restore import restore
from tablefmt.session.commit_result import Commit
from tablefmt.session.options import CommitKeywords, commit_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
