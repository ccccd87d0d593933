"""What the files of a log stand on, and what else they may when that turns out to be damaged.

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
"""After so many roots that did not go with the log its entries are read, without any checkpoint."""


class Standing:
    """The base of a view's files.

    Threads may use one beside each other, for none is to wait for what another one asks of a store.
    Where they overtake each other, a base that is no good may be in use again: who reads finds so.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self._lost: dict[str, str] = {}
        """Names of parts that could not be read, and of roots that did not go with the log; why."""
        self._blamed = 0
        """How many roots did not."""

    def another(self, store: Store, lost: LostCheckpointError, version: int) -> Base:
        """Another base without the part that could not be read, from here on the one in use.

        Args:
            store: the table's root.
            lost: says which part.
            version: of which files are asked for, or the base's if that is above: what the base was
                may have been given up since, with all before it.
        """
        self.without(lost)
        # The fault of an entry shows on every checkpoint: by the entries alone it is told apart.
        last = -1 if self._blamed >= BLAMED_MAX else max(version, self.base.version)
        base = self.base = self._usable(store, last)
        return base

    def without(self, lost: LostCheckpointError) -> None:
        """Use no checkpoint any more that needs a part that could not be read."""
        logger.warning("a checkpoint is given up: %s", lost)
        self._blamed += lost.key not in self._lost and root_version(lost.key) is not None
        self._lost = {**self._lost, lost.key: lost.detail}

    def older(self, store: Store, files: FileHistory, version: int) -> FileHistory:
        """The files of a version that those of late do not answer for, from the entries up to it.

        Args:
            store: the table's root.
            files: of some version before, perhaps.
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
        """The newest base up to a version, with nothing in it that is known to be lost."""
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
        """Where files of a version are looked for: it may have been given up since it was known, or
        its state was in checkpoints that are lost.

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
    """Whether some of the files, or of the rows that are gone from them, are in one part, or were
    read from one root.
    """
    segments = (s.files.path for s in files.segments if isinstance(s.files, StoredColumns))
    deltas = (d.path for d in files.deltas if isinstance(d, StoredDeltas))
    return key == files.checkpoint or key in segments or key in deltas
