"""What became of a commit whose answer was lost. Spec: CMT-9."""

from __future__ import annotations

from tablefmt.commit.protocol import Found, Missing, Remaining, Winner, resolve_found
from tablefmt.commit.results import Committed, NotCommitted, Untold
from tablefmt.errors import (
    CommitUnknownError,
    InvalidRangeError,
    StoreError,
    TableReplacedError,
    VersionNotFoundError,
)
from tablefmt.log.names import VERSION_MAX, is_transaction
from tablefmt.log.reader import kept_from, read_tail
from tablefmt.model.entry import StoredEntry
from tablefmt.model.integers import whole_from_0
from tablefmt.session.context import TableContext
from tablefmt.session.receipt import Commit, committed


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
        raise InvalidRangeError(f"{transaction!r} is no transaction: 32 hex digits are")
    given, version = version, None if version is None else whole_from_0(version)
    if given is not None and (version is None or version > VERSION_MAX):
        raise InvalidRangeError(f"version {given!r} is not a whole number from 0 to 2**63 - 1")
    try:
        entries, whole = _entries_from(context, version or 0)
    except StoreError as error:
        raise CommitUnknownError(transaction, version or 0, str(error).rstrip(".")) from error
    winners = tuple(Winner(s.version, s.entry.transaction) for s in entries)
    reply = (Found if whole else Remaining)(winners) if winners else Missing()
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
    if len(entries) > (version == 0):
        return entries, True
    # The end of the log, or a part of it that was given up: the head tells which.
    context.view.refresh()
    last = context.view.head.version
    if last < version + len(entries):
        return entries, True
    first = max(kept_from(context.store, last), version)
    # All there is, if the entry that was not there yet has come in between.
    return context.view.entries_after(first - 1), first == version


def _check_same(context: TableContext, own: StoredEntry) -> None:
    """Refuse to tell of another table that was at this place before."""
    if own.entry.table != context.view.head.table:
        raise TableReplacedError(
            f"transaction {own.entry.transaction} is version {own.version} of a table that was "
            "dropped, and this is another one in its place",
            advice="Its rows went with that table; write them again if they belong into this one.",
        )
