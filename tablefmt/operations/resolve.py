"""Resolution of a commit that ended with an unknown outcome. Spec: CMT-9."""

from __future__ import annotations

from tablefmt.commit.commit_protocol import (
    Committed,
    Found,
    Judged,
    Missing,
    NotCommitted,
    Remaining,
    Unresolvable,
    resolve_found,
)
from tablefmt.errors import (
    CommitUnknownError,
    InvalidArgumentError,
    InvalidRangeError,
    StoreError,
    TableReplacedError,
    VersionNotFoundError,
)
from tablefmt.log.log_reader import kept_from, newest_entry, read_tail
from tablefmt.log.object_names import VERSION_MAX, entry_key, is_transaction
from tablefmt.model.argument_checks import whole_from_0
from tablefmt.model.log_entry import StoredEntry
from tablefmt.session.commit_result import Commit, committed
from tablefmt.session.table_context import TableContext
from tablefmt.store.object_store import Store


def resolve(context: TableContext, transaction: str, version: int | None = None) -> Commit | None:
    """Return the commit of `transaction` if it is in the log; None if it can never be.

    Args:
        context: the table.
        transaction: the nonce in the CommitUnknownError.
        version: the version in the CommitUnknownError.

    Raises:
        CommitUnknownError: it is not in the log and may still arrive, or the log no longer has the
            entries that would tell.
        TableReplacedError: it belongs to a dropped table.
        InvalidRangeError: an invalid transaction or version.
    """
    if not is_transaction(transaction):
        raise InvalidArgumentError(f"expected a transaction of 32 hex digits, got {transaction!r}")
    given, version = version, None if version is None else whole_from_0(version)
    if given is not None and (version is None or version > VERSION_MAX):
        raise InvalidRangeError(f"version {given!r:.100} is not a whole number from 0 to 2**63 - 1")
    try:
        entries, whole = _entries_from(context, version or 0)
    except StoreError as error:
        raise CommitUnknownError(transaction, version or 0, str(error).rstrip(".")) from error
    found = tuple(Judged(s.version, s.entry.transaction) for s in entries)
    reply = (Found if whole else Remaining)(found) if found else Missing()
    result = resolve_found(transaction, version, reply)
    match result:
        case Committed():
            context.view.refresh()
            own = next(s for s in entries if s.version == result.version)
            _check_same(context, own)
            return committed(own)
        case NotCommitted():
            return None
        case Unresolvable():
            raise CommitUnknownError(transaction, version or 0, kept_from=result.version)
    raise CommitUnknownError(transaction, result.version, result.reason)


def _entries_from(context: TableContext, version: int) -> tuple[list[StoredEntry], bool]:
    """Return the kept entries from a version on, and whether they begin there.

    Raises:
        TableReplacedError: the log is not the one that was opened.
        StoreError: a request failed.
    """
    try:
        entries = read_tail(context.store, version)
    except VersionNotFoundError:
        entries = []
    if len(entries) > (version == 0) and not _ends_below(context.store, entries[-1].version):
        return _linked(entries, whole=True)
    # This is the end of the log, or a part of it was given up. The head decides.
    context.view.refresh()
    last = context.view.head.version
    if last < version + len(entries):
        return _linked(entries, whole=True)
    first = max(kept_from(context.store, last), version)
    # If the first missing entry arrived in the meantime, these are all entries.
    return _linked(context.view.entries_after(first - 1), whole=first == version)


def _ends_below(store: Store, version: int) -> bool:
    """Return whether the entry after a version is missing, so that earlier ones were given up
    (RET-9)."""
    newest, _ = newest_entry(store, version, version)
    return newest > version and store.get_many([entry_key(version + 1)]) == [None]


def _linked(entries: list[StoredEntry], *, whole: bool) -> tuple[list[StoredEntry], bool]:
    """Return the entries that the newest one follows. Others were put at versions that were given
    up."""
    first = len(entries) - 1
    while first > 0 and entries[first].entry.previous == entries[first - 1].digest:
        first -= 1
    return entries[max(first, 0) :], whole and first <= 0


def _check_same(context: TableContext, own: StoredEntry) -> None:
    """Refuse to report a commit of another table that was at this place before."""
    if own.entry.table != context.view.head.table:
        raise TableReplacedError(
            f"transaction {own.entry.transaction} is version {own.version} of a dropped table, and "
            "another table is in its place",
            advice="The dropped table had its rows; write them again if this table needs them.",
        )
