"""Where a pipe into a table was left, looked up in the log of its source. Spec: PIP-7."""

from __future__ import annotations

from tablefmt.pipes.taking import Left, check_digest, left_at
from tablefmt.snapshot.cursors import Cursors
from tablefmt.snapshot.load import LogView


def left_in(source: LogView, cursors: Cursors, name: str) -> Left:
    """Where a pipe was left; the log is the one that was taken from.

    Of the log one entry is asked for, the first that is new, if there is one.

    Args:
        source: up to its newest version.
        cursors: of the table that rows go into.
        name: of the pipe.

    Raises:
        TableReplacedError, ChangesExpiredError: PIP-7. CorruptTableError: the entry.
    """
    left = left_at(source.head, source.store.uri, cursors, name)
    if left.start is None:
        return left
    digest: str | None = source.head.digest
    if not left.is_current:
        (after,) = source.entries_after(left.start, left.start + 1)
        digest = after.entry.previous
    check_digest(left, digest)
    return left
