"""Cursor of a pipe, verified in the log of its source. Spec: PIP-7."""

from __future__ import annotations

from tablefmt.pipes.taking import Left, check_digest, left_at
from tablefmt.snapshot.cursors import Cursors
from tablefmt.snapshot.load import LogView


def left_in(source: LogView, cursors: Cursors, name: str) -> Left:
    """Return the cursor of a pipe, after a check that the source still has the same log.

    It reads one entry of the log, the first new one, if there is one.

    Args:
        source: the source, at its newest version.
        cursors: cursors of the target.
        name: name of the pipe.

    Raises:
        TableReplacedError, ChangesExpiredError: PIP-7.
        CorruptTableError: the entry is damaged.
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
