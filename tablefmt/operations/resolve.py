"""What became of a commit whose answer was lost. Spec: CMT-9."""

from __future__ import annotations

from tablefmt.commit.protocol import Found, Missing, Winner, resolve_found
from tablefmt.commit.results import Committed, NotCommitted
from tablefmt.errors import CommitUnknownError, InvalidRangeError, StoreError, VersionNotFoundError
from tablefmt.log.names import VERSION_MAX, is_transaction
from tablefmt.log.reader import read_tail
from tablefmt.model.entry import StoredEntry
from tablefmt.model.integers import whole_from_0
from tablefmt.session.context import TableContext
from tablefmt.session.receipt import Commit, committed
from tablefmt.store.protocol import NoAnswer


def resolve(context: TableContext, transaction: str, version: int | None = None) -> Commit | None:
    """The commit of `transaction` if it is in the log; None if it can never be.

    Args:
        context: the table.
        transaction: the nonce that CommitUnknownError gave.
        version: the version that it gave.

    Raises:
        CommitUnknownError: it is not there, and may still arrive.
        InvalidRangeError: not a transaction, or not a version.
    """
    if not is_transaction(transaction):
        raise InvalidRangeError(f"{transaction!r} is no transaction: 32 hex digits are")
    given, version = version, None if version is None else whole_from_0(version)
    if given is not None and (version is None or version > VERSION_MAX):
        raise InvalidRangeError(f"version {given!r} is not a whole number from 0 to 2**63 - 1")
    reply: Found | Missing | NoAnswer = Missing()
    entries: list[StoredEntry] = []
    try:
        entries = read_tail(context.store, version or 0)
    except (StoreError, VersionNotFoundError) as error:
        reply = NoAnswer(str(error).rstrip("."))
    if entries:
        reply = Found(tuple(Winner(s.version, s.entry.transaction) for s in entries))
    result = resolve_found(transaction, version, reply)
    if isinstance(result, Committed):
        context.view.refresh()
        return next(committed(s) for s in entries if s.version == result.version)
    if isinstance(result, NotCommitted):
        return None
    raise CommitUnknownError(transaction, result.version, result.reason)
