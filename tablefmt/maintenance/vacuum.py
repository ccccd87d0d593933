"""Vacuum: remove the files that no kept version needs. First the horizon, then the files.

Spec: RET-4 .. RET-7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.log.names import entry_key
from tablefmt.maintenance.ages import (
    Retention,
    kept_seconds,
    now_of,
    retention_seconds,
    version_kept_from,
)
from tablefmt.maintenance.horizon import commit_horizon
from tablefmt.maintenance.listing import bytes_of, listed
from tablefmt.maintenance.vacuum_plan import DOOMED, FOLDERS, Limits, doomed
from tablefmt.model.entry import Metadata
from tablefmt.model.properties import transaction_seconds
from tablefmt.session.context import TableContext
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store

NAME = "VACUUM"

DELETED_AT_ONCE = 4096
"""Objects removed between two reports of progress."""

SHOWN = 20
"""Files that the printed report names."""

_WINDOW = 512
_SIDE = re.compile(rb'"path":"((?:_log/side|deletes)/[0-9a-f]{32}\.parquet)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
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
    files: pa.Table
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
        return "\n".join(lines)


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
        InvalidRangeError: a retention that is no time, or too short.
        UnsupportedFeatureError: the table is a whole bucket. StoreError: the store does not answer.
        CommitRejectedError, CommitUnknownError: of the horizon; no file was removed.
    """
    store = context.store
    check_place(store)
    view = LogView.open(store, whole=True)
    seconds, unnamed = _seconds(view.head.metadata, retention, breaks_running_transactions)
    listing = listed(store, FOLDERS)
    # What landed since the log was read is in the listing, and not to be taken for left over.
    view.refresh()
    now_us = now_of(context, view)
    limits = Limits(
        oldest=max(view.timeline.oldest, version_kept_from(view.timeline, now_us, seconds)),
        now_us=now_us,
        unnamed_seconds=unnamed,
    )
    files = _plan(view, listing, limits)
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
    metrics = {"numFilesToDelete": files.num_rows, "sizeOfDataToDelete": report.bytes}
    parameters = {
        "specifiedRetentionMillis": None if retention is None else round(seconds * 1000),
        "retentionCheckEnabled": not breaks_running_transactions,
    }
    commit_horizon(context, NAME, oldest, parameters, metrics)
    # Only now is it decided: who committed first may have brought files back (RET-5).
    view.refresh()
    files = _plan(view, listing, replace(limits, oldest=view.head.totals.oldest))
    failures = remove(store, files["path"].to_pylist(), progress)
    return replace(
        report,
        version=view.head.version,
        oldest=view.head.totals.oldest,
        files=files,
        deleted=files.num_rows - len(failures),
        failures=failures,
    )


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


def _plan(view: LogView, listing: pa.Table, limits: Limits) -> pa.Table:
    if not listing.num_rows:
        return DOOMED.empty_table()
    history = view.snapshot().history
    return doomed(listing, history, _named_sides(view, listing, limits), limits)


def _named_sides(view: LogView, listing: pa.Table, limits: Limits) -> pa.Array:
    """Side files that an entry in the log names; those that are too young to go may be left out."""
    keys, modified = listing["key"], listing["modified_us"]
    sides = pc.match_substring_regex(keys, "^(_log/side|deletes)/")
    old = pc.less_equal(modified, limits.unnamed_before_us)
    asked = keys.filter(pc.and_(sides, old))
    if not len(asked):
        return pa.array([], pa.string())
    found = sorted({name for body in _bodies(view) for name in _SIDE.findall(body)})
    return pa.array([name.decode() for name in found], pa.string())


def _bodies(view: LogView) -> Iterator[bytes]:
    """The entries that there are."""
    for first in range(0, view.head.version + 1, _WINDOW):
        last = min(first + _WINDOW, view.head.version + 1)
        bodies = view.store.get_many([entry_key(version) for version in range(first, last)])
        yield from (body for body in bodies if body is not None)


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
