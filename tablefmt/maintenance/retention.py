"""Retention: periods, the versions they keep, and the commit of the retention horizon.

Versions are kept by the times of the log and of the store. The retention horizon is the earliest
version that a table keeps. Spec: RET-4, RET-5, RET-6, ENT-13, HIS-2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import CommitRejectedError
from tablefmt.export.table_export import kept_for_copies
from tablefmt.log.object_names import ENTRIES, entry_key, entry_version
from tablefmt.model.log_entry import (
    LogRetentionHorizon,
    Metadata,
    Operation,
    OperationClass,
    PartitionScope,
    RetentionHorizon,
    StoredEntry,
)
from tablefmt.model.properties import duration_seconds, get_property, transaction_seconds
from tablefmt.model.tags import kept_for_tags
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import commit_with_retries
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.log_opening import check_not_ended, open_log
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

_MICROS = 1_000_000


def kept_seconds(metadata: Metadata, name: str) -> float:
    """Return the duration of a table property, in seconds."""
    return float(duration_seconds(get_property(metadata.properties, name)))


def log_seconds(metadata: Metadata) -> float:
    """Return how long entries stay by the table's properties, in seconds.

    The result is at least twice the longest transaction.
    """
    safe = 2 * transaction_seconds(metadata.properties)
    return max(kept_seconds(metadata, "logRetentionDuration"), safe)


def kept_by_log(view: LogView, now_us: int, seconds: float) -> int:
    """Return the earliest version that must stay by the log's own times (RET-4).

    It is the version that was the newest one `seconds` ago. Writers' clocks made these times, so
    they may be wrong; `kept_by_store` decides in the end.

    Args:
        view: a view at the head; below its checkpoint base, entries are read.
        now_us: the store's clock. A later head counts as now, because times of a log only rise.
        seconds: how long versions stay.

    Returns:
        At most the head; 0 if no known version is that old.
    """
    timeline = view.timeline
    newest_then = timeline.last_by(before_us(max(now_us, view.head.timestamp), seconds))
    return newest_then if newest_then >= min(timeline.oldest, timeline.first) else 0


def kept_by_store(store: Store, oldest: int, kept: int, now_us: int, seconds: float) -> int:
    """Return the earliest version that must stay by the store's times of entries (RET-4).

    Takes one listing, read up to `kept`. An entry that is missing or has no time counts as young.

    Args:
        store: the table's root.
        oldest: the earliest version that is kept now; every later one has its entry.
        kept: the result by the log.
        now_us: the store's clock.
        seconds: how long versions stay.

    Returns:
        A version from `oldest` to `kept`.
    """
    if kept <= oldest or seconds == 0:
        return kept
    listing = store.list_after(ENTRIES, entry_key(oldest))
    times = ((entry_version(one.key), one.modified_us) for one in listing)
    return last_old(times, oldest, kept, before_us(now_us, seconds))


def last_old(
    times: Iterable[tuple[int | None, int]], oldest: int, kept: int, cutoff_us: int
) -> int:
    """Return the last version above `oldest`, up to `kept`, to which all versions are old. Pure.

    Args:
        times: version and write time of each entry by the store, in µs since 1970 UTC, ascending by
            version. An object without a version is not an entry.
        oldest: the result if the next version is young.
        kept: the result if all are old.
        cutoff_us: an entry written later is young.
    """
    last = oldest
    times = iter(times)
    while last < kept:
        version, modified_us = next(times, (kept + 1, 0))
        if version is None or version <= last:
            continue
        if version != last + 1 or not 0 < modified_us <= cutoff_us:
            break
        last = version
    return last


def kept_for_exports(context: TableContext, kept: int, *, catch_up: bool) -> int:
    """Return the earliest version that must stay, at most `kept`: one that a copy shows (XPT-12).

    Args:
        context: the table.
        kept: the result by the retention.
        catch_up: bring the copies up to the head first.
    """
    shown = kept_for_copies(context.store, context.view, context.environment, catch_up=catch_up)
    return kept if shown is None else min(kept, shown)


def now_of(context: TableContext) -> int:
    """Return the time from which ages are counted, in µs since 1970 UTC.

    It is the earlier of the store's clock and this machine's, because a clock that is ahead would
    make everything old (RET-4).
    """
    return min(context.store.clock_us(), context.environment.now_us())


def before_us(now_us: int, seconds: float) -> int:
    """Return the time that was `seconds` ago, in µs since 1970 UTC."""
    return now_us - round(min(seconds, 1e12) * _MICROS)


def commit_retention_horizon(
    context: TableContext,
    name: str,
    oldest: int,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    log: LogRetentionHorizon | None = None,
) -> Commit:
    """Set the retention horizon to `oldest`. If it is already there, only record the run.

    The class is MINOR_COMPACT: the commit changes no row, so no writer conflicts with it (ENT-13).

    Args:
        context: the table.
        name: name of the operation.
        oldest: the earliest version that is kept.
        parameters, metrics: of the operation.
        log: the retention horizon of the log, if entries may go too.

    Raises:
        CommitRejectedError, CommitUnknownError, ConcurrentModificationException: CMT-1.
    """
    now_us = now_of(context)
    operation = Operation(
        name=name,
        cls=OperationClass.MINOR_COMPACT,
        parameters=dict(parameters),
        metrics=dict(metrics),
    )

    def stage(head: Head, txn: TransactionSnapshot) -> Staged:
        # A tag that was set since the plan was made conflicts with this commit, so it is seen here.
        least = kept_for_tags(head.metadata, now_us, oldest, head.totals.oldest)
        if log is not None and least < oldest:
            raise CommitRejectedError(
                f"a tag that was set meanwhile keeps version {least}, so no entry was removed; run "
                "the expiry again"
            )
        return Staged(
            transaction=txn.transaction,
            operation=operation,
            scope=PartitionScope(()),
            written_under=txn.metadata,
            read_version=txn.version,
            horizon=RetentionHorizon(least, log) if least > 0 else None,
            recorded=True,
        )

    return commit_with_retries(context, stage)


def whole_view(store: Store, *, ended: bool = False) -> LogView:
    """Return a view that knows every file of all existing entries.

    It reads compacted log segments where they exist, because their bytes are equivalent. A check
    for damage reads the entries themselves (`LogView.open(whole=True)`).

    Args:
        store: the table's root.
        ended: accept the log of a dropped table too.

    Raises:
        As `LogView.open`.
    """
    return whole_log(store, ended=ended)[0]


def whole_log(store: Store, *, ended: bool = False) -> tuple[LogView, Sequence[StoredEntry]]:
    """Return the view of `whole_view`, and the entries that it was made of, to read them once.

    After an expiry, entries at and before the view's base may exist too. Args: as `whole_view`.
    """
    opened = open_log(store, whole=True, compacted=True)
    view = LogView(store, opened.entries, opened.base, whole=True, asked=opened.asked)
    check_not_ended(store, view.head, ended)
    view.begins_anew = ended
    return view, opened.entries
