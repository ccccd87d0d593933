"""Current checkpoint base of a log's files, and its replacement when it turns out to be damaged.

Spec: CKP-6.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import LostCheckpointError, VersionNotFoundError
from tablefmt.log.gaps import no_state
from tablefmt.log.names import root_version
from tablefmt.snapshot.base import NOTHING, Base
from tablefmt.snapshot.checkpoints.read import usable_bases
from tablefmt.snapshot.checkpoints.stored import StoredColumns, StoredDeltas
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.replay import replay
from tablefmt.snapshot.trust import blamed
from tablefmt.store.protocol import Store

logger = logging.getLogger(__name__)

BLAMED_MAX = 2
"""Maximum number of roots that contradicted the log. After that, the entries alone are read."""


class CheckpointBase:
    """Checkpoint base of a view's files.

    Threads may use it concurrently, and none waits for another one's store requests. A race can
    bring a damaged base back into use. The next reader then detects the damage again.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self._lost: dict[str, str] = {}
        """Names of unreadable parts and of roots that contradict the log, with the reasons."""
        self._blamed = 0
        """Number of roots that contradicted the log."""

    def another(self, store: Store, lost: LostCheckpointError, version: int) -> Base:
        """Replace the base by one without the unreadable part, and return it.

        Args:
            store: the table's root.
            lost: the error that names the part.
            version: the version whose files are needed. A higher version of the current base counts
                instead, because earlier versions may have expired since.
        """
        self.without(lost)
        # A damaged entry contradicts every checkpoint. Reading entries alone shows the difference.
        last = -1 if self._blamed >= BLAMED_MAX else max(version, self.base.version)
        base = self.base = self._usable(store, last)
        return base

    def without(self, lost: LostCheckpointError) -> None:
        """Stop using checkpoints that need an unreadable part."""
        logger.warning("a checkpoint is no longer used: %s", lost)
        self._blamed += lost.key not in self._lost and root_version(lost.key) is not None
        self._lost = {**self._lost, lost.key: lost.detail}

    def older(self, store: Store, files: FileHistory, version: int) -> FileHistory:
        """Return the files of an older version, from a checkpoint and the entries up to it.

        Args:
            store: the table's root.
            files: a cached history that may start at or before the version.
            version: a known one.

        Raises:
            CorruptTableError: as `replay`.
        """
        while True:
            if not files.first <= version:
                files = self._usable(store, version).files
            try:
                with blamed(files):
                    return replay(store, files, version, self.base.version)
            except LostCheckpointError as lost:
                self.without(lost)
                last = -1 if self._blamed >= BLAMED_MAX else version
                files = self._usable(store, last).files

    def _usable(self, store: Store, last: int) -> Base:
        """Return the newest base up to a version without any lost part."""
        if last < 0:
            return NOTHING
        if 0 <= self.base.version <= last and not self._is_lost(self.base):
            return self.base
        bases = (b for b in usable_bases(store, last) if not self._is_lost(b))
        return next(bases, NOTHING)

    def _is_lost(self, base: Base) -> bool:
        return any(names_part(base.files, key) for key in self._lost)

    @contextmanager
    def state_kept_at(self, version: int) -> Iterator[None]:
        """Run work that needs the state of a version, and report expired or lost state.

        The version may have expired since it was known. Its state may also have been in lost
        checkpoints.

        Raises:
            VersionNotFoundError, CorruptTableError: LOG-8.
        """
        try:
            yield
        except VersionNotFoundError as gone:
            if isinstance(gone.oldest, int) and gone.oldest <= version:
                raise no_state(gone.oldest, self._lost) from gone
            raise


def names_part(files: FileHistory, key: str) -> bool:
    """Return True if some files or deleted rows come from this part, or from this root."""
    segments = (s.files.path for s in files.segments if isinstance(s.files, StoredColumns))
    deltas = (d.path for d in files.deltas if isinstance(d, StoredDeltas))
    return key == files.checkpoint or key in segments or key in deltas
