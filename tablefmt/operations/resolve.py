"""What became of a commit whose answer was lost. Spec: CMT-9."""

from __future__ import annotations

from tablefmt.commit.commit_protocol import (
    Committed,
    Found,
    Judged,
    Missing,
    NotCommitted,
    Remaining,
    Untold,
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
    """The commit of `transaction` if it is in the log; None if it can never be.

    Args:
        context: the table.
        transaction: the nonce that CommitUnknownError gave.
        version: the version that it gave.

    Raises:
        CommitUnknownError: it is not there, and may still arrive; or the entries that would tell
            are not kept any more. TableReplacedError: it is of a table that was dropped.
        InvalidRangeError: not a transaction, or not a version.
    """
    if not is_transaction(transaction):
        raise InvalidArgumentError(f"{transaction!r} is no transaction: 32 hex digits are")
    given, version = version, None if version is None else whole_from_0(version)
    if given is not None and (version is None or version > VERSION_MAX):
        raise InvalidRangeError(f"version {given!r} is not a whole number from 0 to 2**63 - 1")
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
        case Untold():
            raise CommitUnknownError(transaction, version or 0, kept_from=result.version)
    raise CommitUnknownError(transaction, result.version, result.reason)


def _entries_from(context: TableContext, version: int) -> tuple[list[StoredEntry], bool]:
    """Entries from a version on, as far as they are kept, and whether those are all.

    Raises:
        TableReplacedError: there is another log than the one that was opened. StoreError.
    """
    try:
        entries = read_tail(context.store, version)
    except VersionNotFoundError:
        entries = []
    if len(entries) > (version == 0) and not _ends_below(context.store, entries[-1].version):
        return _linked(entries, whole=True)
    # The end of the log, or a part of it that was given up: the head tells which.
    context.view.refresh()
    last = context.view.head.version
    if last < version + len(entries):
        return _linked(entries, whole=True)
    first = max(kept_from(context.store, last), version)
    # All there is, if the entry that was not there yet has come in between.
    return _linked(context.view.entries_after(first - 1), whole=first == version)


def _ends_below(store: Store, version: int) -> bool:
    """Return whether the entry after a version is gone: what is up to it was given up (RET-9)."""
    newest, _ = newest_entry(store, version, version)
    return newest > version and store.get_many([entry_key(version + 1)]) == [None]


def _linked(entries: list[StoredEntry], *, whole: bool) -> tuple[list[StoredEntry], bool]:
    """Return those on which the newest one lies: others were put in a place that was given up."""
    first = len(entries) - 1
    while first > 0 and entries[first].entry.previous == entries[first - 1].digest:
        first -= 1
    return entries[max(first, 0) :], whole and first <= 0


def _check_same(context: TableContext, own: StoredEntry) -> None:
    """Refuse to tell of another table that was at this place before."""
    if own.entry.table != context.view.head.table:
        raise TableReplacedError(
            f"transaction {own.entry.transaction} is version {own.version} of a table that was "
            "dropped, and this is another one in its place",
            advice="Its rows went with that table; write them again if they belong into this one.",
        )
