"""A handle on a table that can be kept in order: what is run from time to time, and its reports."""

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
from tablefmt.session.options import CommitKeywords, commit_options
from tablefmt.session.receipt import Commit

if TYPE_CHECKING:
    from typing_extensions import Unpack


class MaintainedHandle(LayoutHandle):
    """The part of a table that looks after its log and its files."""

    def verify(self, *, deep: bool = False) -> Report:
        """Check the log, and that every live file is there; with `deep` every page of them.

        Damage is in the report, and not raised (DAT-5, DEL-4, LIN-2).

        Raises:
            TableNotFoundError: there is no table. UnsupportedFeatureError: it needs a newer reader.
        """
        return verify(self.context.store, deep=deep)

    def checkpoint(self) -> CheckpointReport:
        """Write a checkpoint of the newest version, for those who open the table next (CKP-1).

        After commits it comes by itself, every `checkpointInterval` versions.

        Raises:
            StoreError: it cannot be written. CorruptTableError: the log is damaged.
        """
        return checkpoint(self.context)

    def maintain(self, *, dry_run: bool = False, seconds: float = SECONDS) -> MaintenanceReport:
        """Do what is due by the table's properties: compact, checkpoint, vacuum, expire the log.

        For cron, or beside a stream. What fails is in the report, and keeps nothing else from being
        done.

        Args:
            dry_run: say what is due, and change nothing.
            seconds: after so many nothing new is begun; half of them at most go to compactions.

        Raises:
            InvalidRangeError: `seconds` is no number from 0 on. StoreError, CorruptTableError: the
                log cannot be read.
        """
        return maintain(self.context, dry_run=dry_run, seconds=seconds)

    def restore(
        self,
        version: int | None = None,
        *,
        timestamp: Time | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Make an older version the newest one, by a commit on top: history stays (RET-1).

        Rows, columns, partitioning and constraints come back; properties and application versions
        stay. If nothing differs, no version is made.

        Args:
            version: an ID version that is kept.
            timestamp: the version as of a time (TIM-4), in place of it: aware, or ISO text.
            commit: as of every method that writes.

        Raises:
            InvalidRangeError: both are given, or none, or one that is no version or time.
            VersionNotFoundError: there is no such version, or no longer; it names those that can be
                restored (RET-2).
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
        """Give up versions that are older than `retention`, and remove what only they need.

        Files of the newest version, of versions that are kept and of transactions under way stay,
        and so does everything that is not called as this table's files are. What is given up is
        said by a commit of its own first; the report has the reason for each file (RET-4, RET-6).

        Args:
            retention: how long a version stays after another one took its place: text such as
                "7 days", a timedelta, or seconds. By default deletedFileRetentionDuration.
            dry_run: report what would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property: readers of
                those versions fail, and transactions that are under way may lose their files.

        Raises:
            InvalidRangeError: a retention that is no time, or is too short.
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
        """Give up versions that are older than `retention`, and remove their entries (RET-9).

        Two checkpoints of the oldest version that stays are written and read back first; from then
        on the table needs a reader that knows the feature logExpiry.

        Args:
            retention: how long an entry stays after another one came: as of `vacuum`. By default
                logRetentionDuration.
            dry_run: report what would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property, or than twice
                the longest transaction.

        Raises:
            InvalidRangeError: a retention that is no time, or is too short.
            UnsupportedFeatureError: the table is a whole bucket, or needs a newer writer.
            CommitRejectedError, CommitUnknownError: no entry was removed.
        """
        return expire_log(
            self.context,
            retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )
