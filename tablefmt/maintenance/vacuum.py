"""Vacuum: commits the retention horizon, then removes files that no kept version needs.

Checkpoints and compacted log segments that are no longer needed go too.
Spec: RET-4 .. RET-7, RET-10.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.export.table_export import kept_for_copies
from tablefmt.log.log_reader import read_hint
from tablefmt.log.object_names import CHECKPOINTS, HINT, HISTORY, is_part_key, root_version
from tablefmt.maintenance.removal_plan import (
    CANDIDATES,
    FOLDERS,
    Needed,
    RetentionLimits,
    adopted_imports,
    last_removal,
    roots_that_stay,
    superseded,
    vacuum_candidates,
)
from tablefmt.maintenance.retention import (
    before_us,
    commit_retention_horizon,
    kept_by_log,
    kept_by_store,
    kept_seconds,
    now_of,
    whole_view,
)
from tablefmt.maintenance.stored_objects import Named, bytes_of, listed, parts_of
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.log_entry import Metadata
from tablefmt.model.properties import (
    Retention,
    duration_text,
    retention_seconds,
    transaction_seconds,
)
from tablefmt.model.tags import kept_for_tags
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tablefmt.telemetry import log_event

logger = logging.getLogger(__name__)

DERIVED_FOLDERS = (CHECKPOINTS, HISTORY)

DERIVED_SECONDS = 7200.0
"""Age in seconds at which unneeded checkpoint objects may go. A writer of a checkpoint reuses no
part whose newest checkpoint is older than half of this.
"""

MANY_CHECKPOINTS = 40
"""Number of old checkpoints that makes a vacuum due. A vacuum leaves about half as many, even of
the longest log.
"""


def many_checkpoints(store: Store, now_us: int) -> bool:
    """Return whether there are many old checkpoints. Takes one page of a listing."""
    roots = (one for one in store.list_after(f"{CHECKPOINTS}0") if root_version(one.key))
    before = before_us(now_us, DERIVED_SECONDS)
    return (
        sum(0 < one.modified_us <= before for one in islice(roots, 2 * MANY_CHECKPOINTS))
        >= MANY_CHECKPOINTS
    )


def unneeded(view: LogView, listing: pa.Table, named: Named, limits: RetentionLimits) -> pa.Table:
    """Return the vacuum candidates in the listing: `CANDIDATES`, roots before their parts.

    Args:
        view: a view at the head.
        listing: listing of FOLDERS, made before the view.
        named: objects that entries name.
        limits: the limits of what is kept.

    Raises:
        StoreError: the store does not answer.
    """
    (hint_body,) = view.store.get_many([HINT])
    hint = read_hint(hint_body)
    hinted = () if hint is None or hint.checkpoint is None else (hint.checkpoint,)
    log = named.log_retention_horizon
    needed = Needed(
        head=view.head.version,
        oldest=limits.oldest,
        log_start=0 if log is None else log.version,
        named=frozenset((*hinted, *(() if log is None else (k.path for k in log.checkpoints)))),
        before_us=before_us(limits.now_us, DERIVED_SECONDS),
    )
    times = zip(listing["key"].to_pylist(), listing["modified_us"].to_pylist(), strict=True)
    # A root without a time counts as young.
    roots = {k: modified or limits.now_us for k, modified in times if root_version(k) is not None}
    stay = roots_that_stay(roots, needed)
    lines = superseded(listing, stay, parts_of(view.store, sorted(stay)), needed)
    chosen = listing.take(pa.array([at for at, _ in lines], pa.int64()))
    columns = [
        chosen["key"],
        chosen["size"],
        chosen["modified_us"].cast(pa.timestamp("us", "UTC")),
        pa.nulls(len(lines), pa.int64()),
        pa.array([reason for _, reason in lines], pa.string()),
    ]
    return pa.table(columns, schema=CANDIDATES)


NAME = "VACUUM"

DELETED_AT_ONCE = 4096
"""Objects removed between two reports of progress."""

SHOWN = 20
"""Files that the printed report lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport(ArrowReport):
    """Files that vacuum would remove or did remove, with the reason for each."""

    uri: str
    dry_run: bool
    version: int
    """The newest version when it was decided, or the vacuum's own version if it made one."""
    oldest: int
    """The earliest version that can be read after the run."""
    retention_seconds: float
    listed: int
    """Number of objects in the listing."""
    files: pa.Table = field(repr=False)
    """The candidates: path, size, modified, removed_version, reason."""
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Reason by path for each object that could not be removed. Run vacuum again."""

    @property
    def bytes(self) -> int:
        """Total size of all files in the report."""
        return bytes_of(self.files)

    def to_arrow(self) -> pa.Table:
        """Return a row for each file: path, size, modified, removed_version, reason."""
        return self.files

    def __str__(self) -> str:
        would = "would remove" if self.dry_run else "removed"
        count = self.files.num_rows if self.dry_run else self.deleted
        kept = "would be" if self.dry_run else "are"
        size = bytes_of(self.files, self.failures)
        lines = [
            f"{self.uri}: {would} {count} of {number_of(self.listed, 'file')}, {size} bytes; "
            f"versions {self.oldest} to {self.version} {kept} kept (retention "
            f"{duration_text(self.retention_seconds)})"
        ]
        for row in self.files.slice(0, SHOWN).to_pylist():
            lines.append(f"  {row['path']}: {row['size']} bytes, {row['reason']}")
        if self.files.num_rows > SHOWN:
            lines.append(f"  and {self.files.num_rows - SHOWN} more")
        lines += [f"  not removed: {path}: {why}" for path, why in self.failures.items()]
        if self.dry_run:
            lines.append("nothing was removed: this was a dry run")
        return printable_lines(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVersions:
    """Limits of what a vacuum keeps: the earliest version that must stay, by what needs it."""

    readable: int
    """The earliest version that can be read now."""
    retention: int
    """The one that the retention keeps (RET-4)."""
    exports: int | None
    """The one that copies in other formats show (XPT-12); None without a copy."""
    tags: int | None
    """The earliest one that a tag keeps (TAG-2); None without a tag."""

    @property
    def oldest(self) -> int:
        """Return the earliest version that stays."""
        limits = (self.retention, self.exports, self.tags)
        return max(self.readable, min(each for each in limits if each is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """Decision of a vacuum, and all it was made from."""

    view: LogView
    """The whole log, at the head."""
    listing: pa.Table
    named: Named
    kept: KeptVersions
    limits: RetentionLimits
    seconds: float
    """The retention."""
    files: pa.Table
    """CANDIDATES."""

    @property
    def oldest(self) -> int:
        """Return the earliest version that can be read afterwards.

        Older versions that lose no file stay readable.
        """
        return max(self.kept.readable, pc.max(self.files["removed_version"]).as_py() or 0)


def plan_vacuum(
    context: TableContext,
    retention: Retention | None = None,
    *,
    dangerous: bool = False,
    catch_up: bool = False,
    view: LogView | None = None,
) -> VacuumPlan:
    """Decide what a vacuum would remove now.

    Args:
        context: the table.
        retention: how long a version stays; None: by the table's property.
        dangerous: allow a shorter retention than that property.
        catch_up: bring copies in other formats up to the head first.
        view: a view of the whole log (`whole_view`), to read it only once.

    Raises:
        InvalidRangeError, UnsupportedFeatureError, StoreError: as `vacuum`.
    """
    store = context.store
    check_place(store)
    view = whole_view(store) if view is None else view
    seconds, unnamed = _seconds(view.head.metadata, retention, dangerous)
    # Read the clock before the log's end: a transaction too old to commit by then stays so (RET-6).
    now_us = now_of(context)
    adopted = adopted_imports(view.head.metadata)
    listing = listed(store, _folders(adopted))
    # Refresh, so that concurrently committed files in the listing do not count as left over.
    view.refresh()
    kept = _kept_versions(context, view, now_us, seconds, catch_up=catch_up)
    limits = RetentionLimits(
        oldest=kept.oldest, now_us=now_us, unnamed_seconds=unnamed, adopted=adopted
    )
    named = Named(view)
    return VacuumPlan(
        view=view,
        listing=listing,
        named=named,
        kept=kept,
        limits=limits,
        seconds=seconds,
        files=_plan(view, listing, named, limits),
    )


def vacuum(
    context: TableContext,
    retention: Retention | None = None,
    *,
    dry_run: bool = True,
    breaks_running_transactions: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> VacuumReport:
    """Drop versions older than the retention, and remove the files that only they need.

    Args:
        context: the table.
        retention: how long a version stays after the next one; by default the property
            deletedFileRetentionDuration.
        dry_run: report the files that would go, and change nothing.
        breaks_running_transactions: allow a retention shorter than the property or than a
            transaction. Readers of those versions fail, and writers may lose their files as
            left-overs.
        progress: called with files removed, and their total.

    Raises:
        InvalidRangeError: the retention is not a duration or too short, or a flag is not a bool.
        UnsupportedFeatureError: the table is a whole bucket.
        StoreError: the store does not answer.
        CommitRejectedError, CommitUnknownError: raised by the commit; no file was removed.
    """
    check_flags(dry_run=dry_run, breaks_running_transactions=breaks_running_transactions)
    plan = plan_vacuum(
        context, retention, dangerous=breaks_running_transactions, catch_up=not dry_run
    )
    store, view, files = context.store, plan.view, plan.files
    planned = VacuumReport(
        uri=store.uri,
        dry_run=dry_run,
        version=view.head.version,
        oldest=plan.oldest,
        retention_seconds=plan.seconds,
        listed=plan.listing.num_rows,
        files=files,
    )
    if dry_run or files.num_rows == 0:
        return planned
    asked = None if retention is None else plan.seconds
    _commit(context, planned, asked, checked=not breaks_running_transactions)
    # Decide again after the commit: an earlier concurrent commit may have restored files (RET-5).
    view.refresh()
    limits = replace(plan.limits, oldest=view.head.totals.oldest)
    files = _plan(view, plan.listing, plan.named, limits)
    failures = _remove_planned(store, files["path"].to_pylist(), progress)
    return _finished(planned, view, files, failures)


def _finished(
    planned: VacuumReport, view: LogView, files: pa.Table, failures: dict[str, str]
) -> VacuumReport:
    """Return the report of removed files, and log it."""
    done = replace(
        planned,
        version=view.head.version,
        oldest=view.head.totals.oldest,
        files=files,
        deleted=files.num_rows - len(failures),
        failures=failures,
    )
    log_event(
        logger,
        "vacuum",
        done.uri,
        version=done.version,
        oldest=done.oldest,
        listed=done.listed,
        removed=done.deleted,
        failed=len(done.failures),
    )
    return done


def _kept_versions(
    context: TableContext, view: LogView, now_us: int, seconds: float, *, catch_up: bool
) -> KeptVersions:
    """Return what stays, also for tags and for copies in other formats.

    Spec: RET-4, TAG-2, XPT-12.
    """
    readable = view.head.totals.oldest
    kept = oldest_kept_version(view, now_us, seconds)
    shown = None
    if kept > readable:
        shown = kept_for_copies(context.store, view, context.environment, catch_up=catch_up)
    tagged = kept_for_tags(view.head.metadata, now_us, view.head.version + 1, readable)
    tags = None if tagged > view.head.version else tagged
    return KeptVersions(readable=readable, retention=kept, exports=shown, tags=tags)


def _folders(adopted: frozenset[int]) -> Sequence[str]:
    """Return the prefixes of the keys to examine. Adopted files may be in any folder."""
    return ("",) if adopted else (*FOLDERS, *DERIVED_FOLDERS)


def oldest_kept_version(view: LogView, now_us: int, seconds: float) -> int:
    """Return the earliest version that a vacuum keeps (RET-4).

    It asks for the store's times only if files may go by the log's times.

    Args:
        view: view of the whole log, at the head.
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
    commit_retention_horizon(context, NAME, report.oldest, parameters, metrics)


def check_place(store: Store) -> None:
    """Refuse a table whose root is a whole bucket or disk."""
    if not store.traits.path:
        raise UnsupportedFeatureError(
            f"{store.uri} is a whole bucket or disk, but vacuum needs a table in its own folder. "
            "Remove unneeded files by hand.",
            ["vacuum:root"],
        )


def _seconds(metadata: Metadata, given: Retention | None, dangerous: bool) -> tuple[float, float]:
    """Return how long versions stay, and files that no entry names, in seconds."""
    kept = kept_seconds(metadata, "deletedFileRetentionDuration")
    safe = 2 * transaction_seconds(metadata.properties)
    if given is None:
        return kept, safe
    seconds = retention_seconds(given)
    if dangerous:
        return seconds, seconds
    if seconds < kept:
        raise InvalidRangeError(
            f"a retention of {duration_text(seconds)} is shorter than deletedFileRetentionDuration "
            f"({duration_text(kept)}). Readers of older versions and running transactions would "
            "fail. Change the property, or pass breaks_running_transactions=True if nothing is "
            "running."
        )
    return seconds, max(seconds, safe)


def _plan(view: LogView, listing: pa.Table, named: Named, limits: RetentionLimits) -> pa.Table:
    if not listing.num_rows:
        return CANDIDATES.empty_table()
    files = vacuum_candidates(listing, view.snapshot().history, named.sides, limits)
    return pa.concat_tables([files, unneeded(view, listing, named, limits)])


def _remove_planned(
    store: Store, keys: list[str], progress: Callable[[int, int], None] | None
) -> dict[str, str]:
    """Remove the planned objects, but no part of a checkpoint whose root could not be removed."""
    roots = [key for key in keys if root_version(key) is not None]
    if not roots:
        return remove(store, keys, progress)

    def after(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress(before + done, len(keys))

    failures = remove(store, roots, after(0))
    rest = [key for key in keys if root_version(key) is None]
    if failures:
        kept = [key for key in rest if is_part_key(key)]
        failures |= dict.fromkeys(kept, "a checkpoint root could not be removed")
        rest = [key for key in rest if not is_part_key(key)]
    return failures | remove(store, rest, after(len(roots)))


def remove(
    store: Store, keys: list[str], progress: Callable[[int, int], None] | None = None
) -> dict[str, str]:
    """Remove objects, and folders left empty. Return the failures by key."""
    failures: dict[str, str] = {}
    for at in range(0, len(keys), DELETED_AT_ONCE):
        some = keys[at : at + DELETED_AT_ONCE]
        failures.update(store.delete_many(some))
        for folder in sorted({key.rpartition("/")[0] for key in some if key.startswith("data/")}):
            store.remove_empty(folder)
        if progress is not None:
            progress(at + len(some), len(keys))
    return failures
