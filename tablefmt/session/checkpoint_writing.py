"""Checkpoints of what a view knows, written on demand or aside after commits, and their hint.

No commit waits for a checkpoint. Spec: CKP-7, CKP-8.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from tablefmt.commit.environment import Environment
from tablefmt.errors import LostCheckpointError, TablefmtError
from tablefmt.log.compacted_log import write_blocks
from tablefmt.log.log_reader import Hint, read_hint, read_range, write_hint
from tablefmt.log.object_names import HINT, entry_key, root_version
from tablefmt.model.properties import get_property
from tablefmt.snapshot.checkpoint_base import NOTHING
from tablefmt.snapshot.checkpoint_reader import usable_bases
from tablefmt.snapshot.checkpoint_writer import Checkpoint, Known, State, known_of, write_checkpoint
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.clocks import Moment
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.object_store import Store

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
    if view.freshness.age > REUSED_SECONDS:
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


MANY_FILES = 1 << 16
"""An entry that adds so many files is followed by a checkpoint at once."""

LATE_STEPS = 4
"""Into so many parts an interval is cut to say who writes a checkpoint that is late."""

REST = 10
"""A writer rests so many times as long as its last checkpoint took: it has other work."""


def is_due(version: int, last: int, interval: int, added: int) -> bool:
    """Whether the writer of a version should write a checkpoint. Pure.

    Of many writers it is the one whose version is a multiple of the interval. If that writer did
    not, a checkpoint is late once as many versions again have gone by. Then it is the writer of
    every LATE_STEPS-th part of the interval: all who commit at that moment would write one each.

    Args:
        version: that was committed.
        last: of the newest checkpoint that is known; 0: of none.
        interval: `checkpointInterval`.
        added: files that the version added.
    """
    if added >= MANY_FILES:
        return version > last
    lag = version - last
    step = interval if lag < 2 * interval else max(1, interval // LATE_STEPS)
    return lag >= interval and version % step == 0


class Checkpointer:
    """Writes the checkpoints that are due by the commits of one handle, one at a time."""

    def __init__(self) -> None:
        self._last = 0
        self._known: Known | None = None
        self._known_at: Moment | None = None
        self._rests_until = float("-inf")
        self._busy = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Whatever the parent is writing, it goes on writing there."""
        self._busy = threading.Lock()

    def committed(self, view: LogView, version: int, added: int, environment: Environment) -> None:
        """See to it that a checkpoint is written if the commit of a version makes one due.

        Args:
            view: of the log, up to the version.
            version: that was committed.
            added: files that it added.
            environment: what works aside, and a clock.
        """
        last = max(self._last, view.base.version)
        interval = int(get_property(view.head.metadata.properties, "checkpointInterval"))
        if not is_due(version, last, interval, added):
            return
        if environment.monotonic() < self._rests_until:
            return
        if self._busy.acquire(blocking=False):
            busy = self._busy
            try:
                due = partial(is_due, version, interval=interval, added=added)
                environment.aside(lambda: self._write(view, busy, due, environment))
            except RuntimeError as error:
                # The interpreter is about to end and starts no thread any more.
                logger.debug("no checkpoint: %s", error)
                busy.release()

    def write(self, view: LogView, environment: Environment) -> Checkpoint:
        """Write one of the newest version that a view knows, on what this handle wrote before.

        Raises: as `checkpoint_of`.
        """
        known = self._known
        freshness, began = view.freshness, view.freshness.now()
        at = self._known_at
        long_ago = at is None or freshness.seconds_since(at) > REUSED_SECONDS
        if known is not None and (long_ago or known.root.head.version < view.base.version):
            known = None
        written = checkpoint_of(view, environment.nonce, known)
        self._last, self._known, self._known_at = written.version, written.known, began
        return written

    def _write(
        self,
        view: LogView,
        busy: threading.Lock,
        due: Callable[[int], bool],
        environment: Environment,
    ) -> None:
        began = environment.monotonic()
        try:
            self._last = max(self._last, newest_checkpoint(view))
            # Only here a writer among many learns of the last one. It asks again, or all of them
            # would write one while that of the writer whose turn it is has not been told of.
            if not due(self._last):
                return
            written = self.write(view, environment)
            logger.info("checkpoint of version %d: %s", written.version, written.path)
        except (TablefmtError, OSError, RuntimeError) as error:
            # The table is what it is without one, and the next commit that makes one due tries.
            logger.warning("no checkpoint was written: %s", error)
        finally:
            now = environment.monotonic()
            self._rests_until = now + REST * (now - began)
            busy.release()


def newest_checkpoint(view: LogView) -> int:
    """The version of the newest checkpoint that a view stands on, or that the hint names: others
    write them too. 0 for none. One request; two if the hint names one above the view's head.
    """
    (body,) = view.store.get_many([HINT])
    hinted = checkpoint_named(view.store, read_hint(body), view.head.version)
    return max(view.base.version, 0, min(hinted, view.head.version))
