"""A checkpoint of what a view knows, and the hint that tells of it. Spec: CKP-7, CKP-8."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tablefmt.errors import LostCheckpointError, TablefmtError
from tablefmt.log.hint import Hint, read_hint, write_hint
from tablefmt.log.names import HINT, entry_key, root_version
from tablefmt.log.packed import write_blocks
from tablefmt.log.reader import read_range
from tablefmt.snapshot.base import NOTHING
from tablefmt.snapshot.checkpoints.read import usable_bases
from tablefmt.snapshot.checkpoints.write import (
    Checkpoint,
    Known,
    State,
    known_of,
    write_checkpoint,
)
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)

REUSED_SECONDS = 3600.0
"""How long parts are named again of a checkpoint that is known: then they may be gone (RET-10)."""

Nonce = Callable[[], str]


def checkpoint_of(
    view: LogView, nonce: Nonce, before: Known | None = None, *, afresh: bool = False
) -> Checkpoint:
    """Write a checkpoint of the newest version that a view knows, and tell of it in the hint.

    Args:
        view: of the log.
        nonce: gives 32 hex digits that nobody else has.
        before: what was written last; by default what the view stands on.
        afresh: write every part anew, so that it shares no object with any other checkpoint.

    Raises:
        StoreError: the store does not do it. CorruptTableError: the log is damaged.
    """
    head = view.read_head
    version = head.version
    files = view.snapshot(version).history
    described = view.metadata_version_at(version)
    while True:
        try:
            if afresh:
                before = None
            elif before is None:
                before = _earlier(view)
            state = State(head, view.created, described, files)
            written = write_checkpoint(view.store, state, nonce, before)
            break
        except LostCheckpointError as lost:
            files, afresh = view.instead(lost, version), True
    tell_of(view.store, head.table, written)
    since = view.base.version if before is None else before.root.head.version
    _pack(view.store, max(since, head.totals.oldest - 1), version)
    return written


def _earlier(view: LogView) -> Known | None:
    """The newest checkpoint that is known, or that there is if that is known from long ago."""
    base = view.base
    if view.contact.age > REUSED_SECONDS:
        base = next(usable_bases(view.store, view.read_head.version), NOTHING)
    return None if base.root is None else known_of(base.files, base.root)


def _pack(store: Store, since: int, last: int) -> None:
    """Put the entries since the last checkpoint together (HIS-3); nobody needs it to be done."""
    try:
        write_blocks(store, since, last)
    except TablefmtError as error:
        logger.warning("entries were not put together: %s", error)


def checkpoint_at(store: Store, version: int, nonce: Nonce, *, afresh: bool = False) -> Checkpoint:
    """Write a checkpoint of any version whose entries are there.

    Arguments and errors as of `checkpoint_of`.
    """
    base = next(usable_bases(store, version), NOTHING)
    entries = list(read_range(store, base.version + 1, version))
    return checkpoint_of(LogView(store, entries, base), nonce, afresh=afresh)


def tell_of(store: Store, table: str, written: Checkpoint) -> None:
    """Name a checkpoint in the hint, unless that names a newer one."""
    hint = read_hint(store.get_many([HINT])[0])
    if checkpoint_named(store, hint, written.version) < written.version:
        version = written.version if hint is None else max(hint.version, written.version)
        write_hint(store, table, Hint(version, written.path))


def checkpoint_named(store: Store, hint: Hint | None, known: int) -> int:
    """The version of the checkpoint that a hint names; -1 for none.

    A hint is anybody's word (LOG-6): one above the newest version that is known counts only if the
    log has come so far. A request then, none otherwise.
    """
    version = -1 if hint is None or hint.checkpoint is None else root_version(hint.checkpoint)
    if version is None or (version > known and store.get_many([entry_key(version)]) == [None]):
        return -1
    return version
