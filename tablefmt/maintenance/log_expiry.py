"""Log expiry: removes old entries, which kept checkpoints replace.

Spec: ENT-13, RET-4, RET-9, LOG-8.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidRangeError, LostCheckpointError
from tablefmt.log.log_reader import FIRST_WINDOW, unbroken_from
from tablefmt.log.object_names import CHECKPOINTS, LOG, entry_version
from tablefmt.maintenance.manual_checkpoint import verified
from tablefmt.maintenance.retention import (
    before_us,
    commit_retention_horizon,
    kept_by_log,
    kept_for_exports,
    last_old,
    log_seconds,
    now_of,
    whole_view,
)
from tablefmt.maintenance.stored_objects import bytes_of
from tablefmt.maintenance.vacuum import check_place, remove
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.features import EXPIRY
from tablefmt.model.log_entry import (
    KeptCheckpoint,
    LogRetentionHorizon,
    Metadata,
)
from tablefmt.model.properties import Retention, duration_text, retention_seconds
from tablefmt.model.tags import kept_for_tags
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.checkpoint_writing import checkpoint_at
from tablefmt.session.staging import require_features
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store, StoredObject
from tablefmt.telemetry import log_event

logger = logging.getLogger(__name__)

NAME = "EXPIRE LOG"

SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReport(ArrowReport):
    """Entries that would be or were removed, with the reason for each."""

    uri: str
    dry_run: bool
    version: int
    """The newest version when it was decided, or the expiry's own version if it made one."""
    oldest: int
    """The earliest version that can be read after the run."""
    log_start: int
    """First version from which all entries stay. Below it stay version 0 and the entries that
    define the metadata. 0: no entry may go, and none ever went.
    """
    retention_seconds: float
    entries: pa.Table = field(repr=False)
    """The candidates: version, path, size, reason."""
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Reason by path for each entry that could not be removed. Run the expiry again."""

    def to_arrow(self) -> pa.Table:
        """Return a row for each entry: version, path, size, reason."""
        return self.entries

    def __str__(self) -> str:
        count = self.entries.num_rows if self.dry_run else self.deleted
        would = "would remove" if self.dry_run else "removed"
        size = bytes_of(self.entries, self.failures)
        lines = [
            f"{self.uri}: {would} {number_of(count, 'entry', 'entries')}, {size} bytes; the log "
            f"then covers versions {self.log_start} to {self.version}, and versions from "
            f"{self.oldest} on are readable (retention {duration_text(self.retention_seconds)})"
        ]
        lines += [f"  not removed: {path}: {why}" for path, why in self.failures.items()]
        if self.dry_run:
            lines.append("nothing was removed: this was a dry run")
        return printable_lines(lines)


def expire_log(
    context: TableContext,
    retention: Retention | None = None,
    *,
    dry_run: bool = True,
    breaks_running_transactions: bool = False,
) -> ExpiryReport:
    """Expire old versions, and remove their entries.

    Args:
        context: the table.
        retention: how long an entry stays after the next one; by default the property
            logRetentionDuration, and at least twice the longest transaction.
        dry_run: report the entries that would go, and change nothing.
        breaks_running_transactions: allow a shorter retention. A stalled writer may then take a
            freed name, and lose its data.

    Raises:
        InvalidRangeError: the retention is not a duration or too short, or a flag is not a bool.
        UnsupportedFeatureError: the table is a whole bucket.
        StoreError: the store does not answer.
        CorruptTableError: a checkpoint does not match what was written; no entry was removed.
        CommitRejectedError, CommitUnknownError: raised by the commit; no entry was removed.
    """
    check_flags(dry_run=dry_run, breaks_running_transactions=breaks_running_transactions)
    store = context.store
    check_place(store)
    view = whole_view(store)
    seconds = _seconds(view.head.metadata, retention, breaks_running_transactions)
    listed = _listed(store)
    start = _start(view, listed, now_of(context), seconds)
    if start > 0:
        start = kept_for_exports(context, start, catch_up=not dry_run)
        start = kept_for_tags(view.head.metadata, now_of(context), start, view.head.totals.oldest)
    oldest = max(view.head.totals.oldest, start)
    entries = _going(listed, start, _needed(view, oldest) if start > 0 else frozenset())
    planned = ExpiryReport(
        uri=store.uri,
        dry_run=dry_run,
        version=view.head.version,
        oldest=oldest if entries.num_rows else view.head.totals.oldest,
        log_start=start if entries.num_rows else unbroken_from(listed, view.head.version),
        retention_seconds=seconds,
        entries=entries,
    )
    if dry_run or entries.num_rows == 0:
        return planned
    require_features(context, lambda known: known.plus([EXPIRY], [EXPIRY]))
    kept, needed = _checkpoints(context, oldest)
    (first,) = view.entries_after(start - 1, start)
    assert first.entry.previous is not None
    log = LogRetentionHorizon(start, first.entry.previous, kept)
    metrics = {"numEntriesToDelete": entries.num_rows}
    parameters = {"logStart": start, "retentionCheckEnabled": not breaks_running_transactions}
    commit = commit_retention_horizon(context, NAME, oldest, parameters, metrics, log)
    _check_there(store, needed)
    deleted, failures = _remove(store, entries)
    log_event(
        logger,
        "log expiry",
        store.uri,
        version=commit.version,
        oldest=oldest,
        removed=deleted,
        failed=len(failures),
    )
    return replace(planned, version=commit.version, deleted=deleted, failures=failures)


def _remove(store: Store, entries: pa.Table) -> tuple[int, dict[str, str]]:
    """Remove entries, those of the first versions before all others.

    While one of the first versions exists, a reader that opens the log assumes that the others
    exist too (RET-9). Returns the number of removed entries, and the failures by path.
    """
    opened_by = pc.less(entries["version"], FIRST_WINDOW)
    deleted = 0
    for some in (entries.filter(opened_by), entries.filter(pc.invert(opened_by))):
        failures = remove(store, some["path"].to_pylist())
        deleted += some.num_rows - len(failures)
        if failures:
            break
    return deleted, failures


def _seconds(metadata: Metadata, given: Retention | None, dangerous: bool) -> float:
    safe = log_seconds(metadata)
    if given is None:
        return safe
    seconds = retention_seconds(given)
    if not dangerous and seconds < safe:
        raise InvalidRangeError(
            f"a retention of {duration_text(seconds)} is shorter than the required "
            f"{duration_text(safe)} (logRetentionDuration or twice the longest transaction). "
            "Running writers and slow readers would fail. Change the properties, or pass "
            "breaks_running_transactions=True if nothing is running."
        )
    return seconds


def _start(view: LogView, listed: Mapping[int, StoredObject], now_us: int, seconds: float) -> int:
    """Return the first version whose entry stays; 0 if all entries stay.

    Both the times of the log and the store's times of the entries must be old (RET-4).
    """
    kept = kept_by_log(view, now_us, seconds)
    if seconds == 0:
        return kept
    # Entries that an earlier expiry left below are already behind its retention horizon.
    below = max(unbroken_from(listed, view.head.version), 1) - 1
    times = ((version, listed[version].modified_us) for version in sorted(listed))
    last = last_old(times, below, max(kept, below), before_us(now_us, seconds))
    return last if last > below else 0


def _listed(store: Store) -> dict[int, StoredObject]:
    """Return the existing entries by version, without version 0."""
    found = ((entry_version(one.key), one) for one in store.list_after(LOG))
    return {version: one for version, one in found if version}


def _needed(view: LogView, oldest: int) -> frozenset[int]:
    """Return the entries that define the metadata of the oldest version; they stay (RET-9)."""
    needed: set[int] = set()
    at = view.totals_at(oldest).metadata_version
    described = view.metadata_version_at(oldest)
    while at > described:
        needed |= {at, at - 1}
        at = view.totals_at(at - 1).metadata_version
    return frozenset({*needed, described})


def _going(listed: Mapping[int, StoredObject], start: int, needed: frozenset[int]) -> pa.Table:
    going = [version for version in sorted(listed) if version < start and version not in needed]
    reason = f"expired: the log is kept from version {start} on"
    columns = {
        "version": going,
        "path": [listed[version].key for version in going],
        "size": [listed[version].size for version in going],
        "reason": [reason] * len(going),
    }
    return pa.table(columns, schema=SCHEMA)


def _checkpoints(
    context: TableContext, oldest: int
) -> tuple[tuple[KeptCheckpoint, ...], frozenset[str]]:
    """Write two checkpoints of the oldest kept version, without common parts, and verify both.

    Returns them with the keys of all their objects.
    """
    kept, objects = [], set()
    for afresh in (False, True):
        written = checkpoint_at(context.store, oldest, context.environment.nonce, afresh=afresh)
        root, sha256, size = verified(context.store, written.path)
        objects |= {written.path, *(part.path for part in (*root.segments, *root.deletes))}
        kept.append(KeptCheckpoint(written.path, sha256, size, oldest))
    return tuple(kept), frozenset(objects)


def _check_there(store: Store, needed: frozenset[str]) -> None:
    """Check that all objects exist. A vacuum may have removed one before the commit."""
    lost = needed - {one.key for one in store.list_after(CHECKPOINTS)}
    if lost:
        raise LostCheckpointError(
            "it was removed meanwhile. No entry was removed; run the expiry again",
            key=min(lost),
            rule="RET-9",
        )
