"""Vacuum: remove the files that no kept version needs. First the horizon, then the files.

Spec: RET-4 .. RET-7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_report import ArrowReport
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.log.names import is_part_key, root_version
from tablefmt.maintenance import derived
from tablefmt.maintenance.ages import (
    Retention,
    kept_by_log,
    kept_by_store,
    kept_seconds,
    now_of,
    retention_seconds,
)
from tablefmt.maintenance.horizon import commit_horizon
from tablefmt.maintenance.listing import bytes_of, listed
from tablefmt.maintenance.named import Named
from tablefmt.maintenance.vacuum_plan import DOOMED, FOLDERS, Limits, doomed, last_removal
from tablefmt.maintenance.whole import whole_view
from tablefmt.model.arguments import check_flags
from tablefmt.model.entry import Metadata
from tablefmt.model.properties import transaction_seconds
from tablefmt.printable import printable_lines
from tablefmt.session.context import TableContext
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store

NAME = "VACUUM"

DELETED_AT_ONCE = 4096
"""Objects removed between two reports of progress."""

SHOWN = 20
"""Files that the printed report names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport(ArrowReport):
    """What vacuum would remove, or did; with the reason for each file."""

    uri: str
    dry_run: bool
    version: int
    """The newest version when it was decided; the vacuum's own, if it made one."""
    oldest: int
    """The earliest version that can be read, once this was run."""
    retention_seconds: float
    listed: int
    """Objects looked at."""
    files: pa.Table = field(repr=False)
    """What may go: path, size, modified, removed_version, reason."""
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """By path, why one that should go is still there. Run it again."""

    @property
    def bytes(self) -> int:
        """Size of all files in the report."""
        return bytes_of(self.files)

    def to_arrow(self) -> pa.Table:
        """A row a file: path, size, modified, removed_version, reason."""
        return self.files

    def __str__(self) -> str:
        would = "would remove" if self.dry_run else "removed"
        count = self.files.num_rows if self.dry_run else self.deleted
        kept = "would be" if self.dry_run else "are"
        size = bytes_of(self.files, self.failures)
        lines = [
            f"{self.uri}: {would} {count} of {self.listed} files, {size} bytes; versions "
            f"{self.oldest} to {self.version} {kept} kept ({self.retention_seconds:.0f} s)"
        ]
        for row in self.files.slice(0, SHOWN).to_pylist():
            lines.append(f"  {row['path']}: {row['size']} bytes, {row['reason']}")
        if self.files.num_rows > SHOWN:
            lines.append(f"  and {self.files.num_rows - SHOWN} more")
        lines += [f"  still there: {path}: {why}" for path, why in self.failures.items()]
        if self.dry_run:
            lines.append("nothing was removed: this was a dry run")
        return printable_lines(lines)


def vacuum(
    context: TableContext,
    retention: Retention | None = None,
    *,
    dry_run: bool = True,
    breaks_running_transactions: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> VacuumReport:
    """Give up versions that are older than the retention, and remove what only they need.

    Args:
        context: the table.
        retention: how long a version stays after another one took its place; by default the
            property deletedFileRetentionDuration.
        dry_run: say what would go, and change nothing.
        breaks_running_transactions: allow a retention that is shorter than the property says, or
            than a transaction may take: readers of those versions fail, and so may writers, whose
            files are taken for left-overs.
        progress: called with files removed and files in all.

    Raises:
        InvalidRangeError: a retention that is no time, or too short; neither True nor False.
        UnsupportedFeatureError: the table is a whole bucket. StoreError: the store does not answer.
        CommitRejectedError, CommitUnknownError: of the horizon; no file was removed.
    """
    check_flags(dry_run=dry_run, breaks_running_transactions=breaks_running_transactions)
    store = context.store
    check_place(store)
    view = whole_view(store)
    seconds, unnamed = _seconds(view.head.metadata, retention, breaks_running_transactions)
    # Before the log is read to its end: who is too old to commit by then is so after it (RET-6).
    now_us = now_of(context)
    listing = listed(store, (*FOLDERS, *derived.FOLDERS))
    # What landed since the log was read is in the listing, and not to be taken for left over.
    view.refresh()
    limits = Limits(oldest=kept_from(view, now_us, seconds), now_us=now_us, unnamed_seconds=unnamed)
    named = Named(view)
    files = _plan(view, listing, named, limits)
    # Older versions that lose no file stay.
    oldest = max(view.head.totals.oldest, pc.max(files["removed_version"]).as_py() or 0)
    report = VacuumReport(
        uri=store.uri,
        dry_run=dry_run,
        version=view.head.version,
        oldest=oldest,
        retention_seconds=seconds,
        listed=listing.num_rows,
        files=files,
    )
    if dry_run or files.num_rows == 0:
        return report
    asked = None if retention is None else seconds
    _commit(context, report, asked, checked=not breaks_running_transactions)
    # Only now is it decided: who committed first may have brought files back (RET-5).
    view.refresh()
    files = _plan(view, listing, named, replace(limits, oldest=view.head.totals.oldest))
    failures = _removed(store, files["path"].to_pylist(), progress)
    return replace(
        report,
        version=view.head.version,
        oldest=view.head.totals.oldest,
        files=files,
        deleted=files.num_rows - len(failures),
        failures=failures,
    )


def kept_from(view: LogView, now_us: int, seconds: float) -> int:
    """Return the earliest version that a vacuum keeps (RET-4). Of the store's times it asks only
    where the log says that files may go.

    Args:
        view: of the whole log, at the head.
        now_us: the store's clock.
        seconds: how long versions stay.
    """
    oldest = view.timeline.oldest
    kept = max(oldest, kept_by_log(view, now_us, seconds))
    last = last_removal(view.snapshot().history, oldest, kept) if kept > oldest else 0
    if last == 0:
        return kept
    stays = kept_by_store(view.store, oldest, last, now_us, seconds)
    return kept if stays == last else stays


def _commit(
    context: TableContext, report: VacuumReport, asked: float | None, *, checked: bool
) -> None:
    parameters = {
        "specifiedRetentionMillis": None if asked is None else round(asked * 1000),
        "retentionCheckEnabled": checked,
    }
    metrics = {"numFilesToDelete": report.files.num_rows, "sizeOfDataToDelete": report.bytes}
    commit_horizon(context, NAME, report.oldest, parameters, metrics)


def check_place(store: Store) -> None:
    """Refuse a table that everything else in a bucket, or on a disk, lies below."""
    _, _, path = store.uri.rpartition("://")
    is_bucket = store.uri.startswith("s3://") and "/" not in path
    if is_bucket or not path.strip("/"):
        raise UnsupportedFeatureError(
            f"{store.uri} is a whole bucket or disk, and vacuum cleans up tables in a folder of "
            "their own; remove what is not needed by hand",
            ["vacuum:root"],
        )


def _seconds(metadata: Metadata, given: Retention | None, dangerous: bool) -> tuple[float, float]:
    """How long versions stay, and files that no entry names."""
    kept = kept_seconds(metadata, "deletedFileRetentionDuration")
    safe = 2 * transaction_seconds(metadata.properties)
    if given is None:
        return kept, safe
    seconds = retention_seconds(given)
    if dangerous:
        return seconds, seconds
    if seconds < kept:
        raise InvalidRangeError(
            f"a retention of {seconds:.0f} s is shorter than deletedFileRetentionDuration "
            f"({kept:.0f} s): readers of older versions, and transactions under way, would fail. "
            "Set the property, or pass breaks_running_transactions=True if nothing is running"
        )
    return seconds, max(seconds, safe)


def _plan(view: LogView, listing: pa.Table, named: Named, limits: Limits) -> pa.Table:
    if not listing.num_rows:
        return DOOMED.empty_table()
    files = doomed(listing, view.snapshot().history, named.sides, limits)
    return pa.concat_tables([files, derived.unneeded(view, listing, named, limits)])


def _removed(
    store: Store, keys: list[str], progress: Callable[[int, int], None] | None
) -> dict[str, str]:
    """Remove what was planned, and no part of a checkpoint whose root could not be removed."""
    roots = [key for key in keys if root_version(key) is not None]
    if not roots:
        return remove(store, keys, progress)

    def after(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress(before + done, len(keys))

    failures = remove(store, roots, after(0))
    rest = [key for key in keys if root_version(key) is None]
    if failures:
        kept = [key for key in rest if is_part_key(key)]
        failures |= dict.fromkeys(kept, "the root of a checkpoint is still there")
        rest = [key for key in rest if not is_part_key(key)]
    return failures | remove(store, rest, after(len(roots)))


def remove(
    store: Store, keys: list[str], progress: Callable[[int, int], None] | None = None
) -> dict[str, str]:
    """Remove objects, and the folders that they leave empty; by key, why one is still there."""
    failures: dict[str, str] = {}
    for at in range(0, len(keys), DELETED_AT_ONCE):
        some = keys[at : at + DELETED_AT_ONCE]
        failures.update(store.delete_many(some))
        for folder in sorted({key.rpartition("/")[0] for key in some if key.startswith("data/")}):
            store.remove_empty(folder)
        if progress is not None:
            progress(at + len(some), len(keys))
    return failures
