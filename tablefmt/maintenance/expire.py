"""Expiry of the log: entries that are old enough are removed, behind checkpoints that are kept.

Spec: ENT-13, RET-4, RET-9, LOG-8.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.plan import Staged
from tablefmt.data.arrow_report import ArrowReport
from tablefmt.errors import InvalidRangeError, LostCheckpointError
from tablefmt.log.names import CHECKPOINTS, LOG, entry_version
from tablefmt.log.reader import FIRST_WINDOW
from tablefmt.maintenance.ages import (
    Retention,
    before_us,
    kept_by_log,
    last_old,
    log_seconds,
    now_of,
    retention_seconds,
)
from tablefmt.maintenance.checkpoint import verified
from tablefmt.maintenance.horizon import commit_horizon
from tablefmt.maintenance.listing import bytes_of
from tablefmt.maintenance.vacuum import check_place, remove
from tablefmt.maintenance.whole import whole_view
from tablefmt.model.arguments import check_flags
from tablefmt.model.entry import (
    KeptCheckpoint,
    LogHorizon,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
)
from tablefmt.model.features import EXPIRY
from tablefmt.printable import printable_lines
from tablefmt.session.checkpoint import checkpoint_at
from tablefmt.session.context import TableContext
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import commit_anew
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store, StoredObject

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
    """Which entries would go, or went; with the reason for each."""

    uri: str
    dry_run: bool
    version: int
    """The newest version when it was decided; the expiry's own, if it made one."""
    oldest: int
    """The earliest version that can be read, once this was run."""
    log_start: int
    """The first of the entries that all stay, up to the newest; below it stay version 0 and those
    that say what the metadata is. 0: nothing of the log may go, or ever went."""
    retention_seconds: float
    entries: pa.Table = field(repr=False)
    """What may go: version, path, size, reason."""
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """By path, why an entry that should go is still there. Run it again."""

    def to_arrow(self) -> pa.Table:
        """A row an entry: version, path, size, reason."""
        return self.entries

    def __str__(self) -> str:
        count = self.entries.num_rows if self.dry_run else self.deleted
        would = "would remove" if self.dry_run else "removed"
        size = bytes_of(self.entries, self.failures)
        lines = [
            f"{self.uri}: {would} {count} entries, {size} bytes; the log goes from version "
            f"{self.log_start} to {self.version} then, and versions from {self.oldest} on can be "
            f"read ({self.retention_seconds:.0f} s)"
        ]
        lines += [f"  still there: {path}: {why}" for path, why in self.failures.items()]
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
    """Give up old versions with their entries, and remove these.

    Args:
        context: the table.
        retention: how long an entry stays after another one came; by default the property
            logRetentionDuration, and never shorter than twice the longest transaction.
        dry_run: say what would go, and change nothing.
        breaks_running_transactions: allow a shorter one: a writer that stalls may then take a name
            that is free again, and lose what it wrote.

    Raises:
        InvalidRangeError: a retention that is no time, or too short; neither True nor False.
        UnsupportedFeatureError: the table is a whole bucket. StoreError: the store does not answer.
        CorruptTableError: a checkpoint is not what was written; no entry was removed.
        CommitRejectedError, CommitUnknownError: of the horizon; no entry was removed.
    """
    check_flags(dry_run=dry_run, breaks_running_transactions=breaks_running_transactions)
    store = context.store
    check_place(store)
    view = whole_view(store)
    seconds = _seconds(view.head.metadata, retention, breaks_running_transactions)
    listed = _listed(store)
    start = _start(view, listed, now_of(context), seconds)
    oldest = max(view.head.totals.oldest, start)
    entries = _going(listed, start, _needed(view, oldest) if start > 0 else frozenset())
    report = ExpiryReport(
        uri=store.uri,
        dry_run=dry_run,
        version=view.head.version,
        oldest=oldest if entries.num_rows else view.head.totals.oldest,
        log_start=start if entries.num_rows else _whole_from(listed, view.head.version),
        retention_seconds=seconds,
        entries=entries,
    )
    if dry_run or entries.num_rows == 0:
        return report
    _enable(context)
    kept, needed = _checkpoints(context, oldest)
    (first,) = view.entries_after(start - 1, start)
    assert first.entry.previous is not None
    log = LogHorizon(start, first.entry.previous, kept)
    metrics = {"numEntriesToDelete": entries.num_rows}
    parameters = {"logStart": start, "retentionCheckEnabled": not breaks_running_transactions}
    commit = commit_horizon(context, NAME, oldest, parameters, metrics, log)
    _check_there(store, needed)
    deleted, failures = _remove(store, entries)
    return replace(report, version=commit.version, deleted=deleted, failures=failures)


def _remove(store: Store, entries: pa.Table) -> tuple[int, dict[str, str]]:
    """Remove entries, the first versions before all others: while one of those is there, who opens
    the log believes that the others are (RET-9). Returns how many went, and what did not.
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
            f"a retention of {seconds:.0f} s is shorter than {safe:.0f} s, which is "
            "logRetentionDuration or twice the longest transaction: writers and readers that are "
            "behind would fail. Set the properties, or pass breaks_running_transactions=True if "
            "nothing is running"
        )
    return seconds


def _start(view: LogView, listed: Mapping[int, StoredObject], now_us: int, seconds: float) -> int:
    """Return the first version whose entry stays, by the times of the log and by those that the
    store gave the entries (RET-4); 0: all of them stay.
    """
    kept = kept_by_log(view, now_us, seconds)
    if seconds == 0:
        return kept
    # Those that an earlier expiry left below are behind its horizon already.
    below = max(_whole_from(listed, view.head.version), 1) - 1
    times = ((version, listed[version].modified_us) for version in sorted(listed))
    last = last_old(times, below, max(kept, below), before_us(now_us, seconds))
    return last if last > below else 0


def _listed(store: Store) -> dict[int, StoredObject]:
    """The entries that there are but version 0, by version."""
    found = ((entry_version(one.key), one) for one in store.list_after(LOG))
    return {version: one for version, one in found if version}


def _whole_from(listed: Collection[int], last: int) -> int:
    """The first of the versions up to one whose entries are all there."""
    first = last
    while first - 1 in listed:
        first -= 1
    return 0 if first <= 1 else first


def _needed(view: LogView, oldest: int) -> frozenset[int]:
    """Entries that say what the metadata of the oldest version is: they stay (RET-9)."""
    needed: set[int] = set()
    at = view.totals_at(oldest).metadata_version
    described = view.metadata_version_at(oldest)
    while at > described:
        needed |= {at, at - 1}
        at = view.totals_at(at - 1).metadata_version
    return frozenset({*needed, described})


def _going(listed: Mapping[int, StoredObject], start: int, needed: frozenset[int]) -> pa.Table:
    going = [version for version in sorted(listed) if version < start and version not in needed]
    reason = f"older than the log is kept, which goes from version {start} on"
    columns = {
        "version": going,
        "path": [listed[version].key for version in going],
        "size": [listed[version].size for version in going],
        "reason": [reason] * len(going),
    }
    return pa.table(columns, schema=SCHEMA)


def _enable(context: TableContext) -> None:
    """See to it that every reader knows that entries may be missing (VER-4)."""

    def stage(head: Head, pinned: TransactionSnapshot) -> Staged | None:
        if EXPIRY in head.protocol.reader:
            return None
        return Staged(
            transaction=pinned.transaction,
            operation=Operation(name="UPGRADE PROTOCOL", cls=OperationClass.PROTOCOL),
            written_under=pinned.metadata,
            read_version=pinned.version,
            protocol=ProtocolFeatures(
                reader=tuple(sorted({*head.protocol.reader, EXPIRY})),
                writer=tuple(sorted({*head.protocol.writer, EXPIRY})),
            ),
        )

    commit_anew(context, stage)


def _checkpoints(
    context: TableContext, oldest: int
) -> tuple[tuple[KeptCheckpoint, ...], frozenset[str]]:
    """Two checkpoints of the oldest version that is kept, each read back and found sound; they
    have no part in common. And the names of all their objects.
    """
    kept, objects = [], set()
    for afresh in (False, True):
        written = checkpoint_at(context.store, oldest, context.environment.nonce, afresh=afresh)
        root, sha256, size = verified(context.store, written.path)
        objects |= {written.path, *(part.path for part in (*root.segments, *root.deletes))}
        kept.append(KeptCheckpoint(written.path, sha256, size, oldest))
    return tuple(kept), frozenset(objects)


def _check_there(store: Store, needed: frozenset[str]) -> None:
    """Who was about to remove a checkpoint before the horizon named it may have done so."""
    gone = needed - {one.key for one in store.list_after(CHECKPOINTS)}
    if gone:
        raise LostCheckpointError(
            "it was removed meanwhile; no entry was. Run the expiry again",
            key=min(gone),
            rule="RET-9",
        )
