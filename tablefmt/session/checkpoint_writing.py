"""Checkpoints of the known state of a table, written on demand or in the background after commits.

No commit waits for a checkpoint. The hint names the newest one. Spec: CKP-7, CKP-8.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tablefmt.commit.environment import Environment
from tablefmt.errors import LostCheckpointError, TablefmtError
from tablefmt.log.compacted_log import write_log_segments
from tablefmt.log.log_reader import Hint, read_hint, read_range, write_hint
from tablefmt.log.object_names import HINT, entry_key, root_version
from tablefmt.model.properties import get_property
from tablefmt.session.background_work import BackgroundWork
from tablefmt.snapshot.checkpoint_base import NOTHING
from tablefmt.snapshot.checkpoint_reader import usable_bases
from tablefmt.snapshot.checkpoint_writer import Checkpoint, Known, State, known_of, write_checkpoint
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.clocks import Moment
from tablefmt.store.object_store import Store
from tablefmt.telemetry import log_event, span

logger = logging.getLogger(__name__)

REUSED_SECONDS = 3600.0
"""Longest time for which a new checkpoint reuses parts of a known one. Later, vacuum may have
removed them (RET-10).
"""

Nonce = Callable[[], str]


def checkpoint_of(
    view: LogView, nonce: Nonce, before: Known | None = None, *, afresh: bool = False
) -> Checkpoint:
    """Write a checkpoint of the newest version that a view knows, and name it in the hint.

    Args:
        view: of the log.
        nonce: gives 32 hex digits, never the same twice.
        before: the last checkpoint that was written; by default the checkpoint base of the view.
        afresh: write every part anew, so that it shares no object with any other checkpoint.

    Raises:
        StoreError: a request failed.
        CorruptTableError: the log is damaged.
    """
    head = view.read_head
    version = head.version
    files = view.snapshot(version).history
    described = view.metadata_version_at(version)
    with span("checkpoint", view.store.uri, version=version):
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
        write_newer_hint(view.store, head.table, written)
        since = view.base.version if before is None else before.root.head.version
        _pack(view.store, max(since, head.totals.oldest - 1), version)
    log_event(logger, "checkpoint", view.store.uri, version=version, path=written.path)
    return written


def _earlier(view: LogView) -> Known | None:
    """Return the newest known checkpoint. If the view is old, look for the newest one in the
    store."""
    base = view.base
    if view.freshness.age > REUSED_SECONDS:
        base = next(usable_bases(view.store, view.read_head.version), NOTHING)
    return None if base.root is None else known_of(base.files, base.root)


def _pack(store: Store, since: int, last: int) -> None:
    """Write compacted log segments for the entries since the last checkpoint (HIS-3). Best
    effort."""
    try:
        write_log_segments(store, since, last)
    except TablefmtError as error:
        logger.warning("could not write compacted log segments: %s", error)


def checkpoint_at(store: Store, version: int, nonce: Nonce, *, afresh: bool = False) -> Checkpoint:
    """Write a checkpoint of any version that still has its entries.

    Arguments and errors are those of `checkpoint_of`.
    """
    base = next(usable_bases(store, version), NOTHING)
    entries = list(read_range(store, base.version + 1, version))
    return checkpoint_of(LogView(store, entries, base), nonce, afresh=afresh)


def write_newer_hint(store: Store, table: str, written: Checkpoint) -> None:
    """Name a checkpoint in the hint, unless the hint names a newer one."""
    hint = read_hint(store.get_many([HINT])[0])
    if checkpoint_named(store, hint, written.version) < written.version:
        version = written.version if hint is None else max(hint.version, written.version)
        write_hint(store, table, Hint(version, written.path))


def checkpoint_named(store: Store, hint: Hint | None, known: int) -> int:
    """Return the version of the checkpoint that a hint names; -1 for none.

    A hint may be wrong (LOG-6). If it names a version above the newest known one, one request
    checks that the log has this version. Otherwise there is no request.
    """
    version = -1 if hint is None or hint.checkpoint is None else root_version(hint.checkpoint)
    if version is None or (version > known and store.get_many([entry_key(version)]) == [None]):
        return -1
    return version


MANY_FILES = 1 << 10
"""An entry that adds at least this many files is followed by a checkpoint at once. It takes less
time than to write the files, and spares each reader the columns of all files.
"""

LATE_STEPS = 4
"""Parts of an interval. The writer of each part's last version may write a late checkpoint."""


def is_due(version: int, last: int, interval: int, added: int) -> bool:
    """Return whether the writer of a version should write a checkpoint. Pure.

    It is the writer of every version that is a multiple of the interval. A checkpoint is late after
    a further interval without one. Then it is the writer of every LATE_STEPS-th part of the
    interval. So the many writers that commit at that moment do not write one each.

    Args:
        version: the committed version.
        last: version of the newest known checkpoint; 0 for none.
        interval: `checkpointInterval`.
        added: number of files that the version added.
    """
    if added >= MANY_FILES:
        return version > last
    lag = version - last
    step = interval if lag < 2 * interval else max(1, interval // LATE_STEPS)
    return lag >= interval and version % step == 0


class Checkpointer:
    """Writes the checkpoints that commits of one handle make due, one at a time."""

    def __init__(self) -> None:
        self._last = 0
        self._known: Known | None = None
        self._known_at: Moment | None = None
        self._background = BackgroundWork("could not write a checkpoint")

    def committed(self, view: LogView, version: int, added: int, environment: Environment) -> None:
        """Write a checkpoint in the background if the commit of a version makes one due.

        Args:
            view: of the log, up to the version.
            version: the committed version.
            added: number of files that it added.
            environment: runs background work, and has a clock.
        """
        last = max(self._last, view.base.version)
        interval = int(get_property(view.head.metadata.properties, "checkpointInterval"))
        if is_due(version, last, interval, added):
            due = partial(is_due, version, interval=interval, added=added)
            self._background.start(environment, lambda: self._write(view, due, environment))

    def write(self, view: LogView, environment: Environment) -> Checkpoint:
        """Write a checkpoint of the newest version that a view knows. Reuse parts of this handle's
        last one.

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

    def _write(self, view: LogView, due: Callable[[int], bool], environment: Environment) -> None:
        self._last = max(self._last, newest_checkpoint(view))
        # The hint may name a checkpoint of another writer. Check again, or every one of many
        # writers would write a checkpoint before the first one is in the hint.
        if due(self._last):
            self.write(view, environment)


def newest_checkpoint(view: LogView) -> int:
    """Return the version of the newest checkpoint of the view or the hint; 0 for none.

    The hint counts because other writers write checkpoints too. It costs one request, or two if the
    hint names a version above the view's head.
    """
    (body,) = view.store.get_many([HINT])
    hinted = checkpoint_named(view.store, read_hint(body), view.head.version)
    return max(view.base.version, 0, min(hinted, view.head.version))
