"""Materialized file state: columns up to a version, and the entries not yet folded into them. Pure.

The owner must serialize changes. `put_right` repairs the state after an interrupted change.
"""

from __future__ import annotations

import itertools

from tablefmt.errors import CorruptEntryError, CorruptTableError
from tablefmt.model.entry import SideFile, StoredEntry
from tablefmt.snapshot.base import Base
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.folding import fold

UNFOLDED_MAX = 256
"""Maximum number of entries held unfolded until a caller needs files. Further ones are folded."""

HELD_MAX = 1024
"""Maximum behind an entry with an overflow metadata file. Beyond it, entries are dropped and read
again on demand. The limit grows if many entries are read at once, because their reader will need
the files next.
"""

REMOVED_MAX = 1 << 16
"""Maximum number of removed files kept for older versions, unless more files are live."""


class MaterializedFiles:
    """Materialized file state of a log from its base on."""

    def __init__(self, base: Base, *, whole: bool = False) -> None:
        self.history: FileHistory = base.files
        """Files of recent versions."""
        self.older: FileHistory = base.files
        """Files of the last requested version that `history` does not include."""
        self.damage: CorruptTableError | None = None
        """Damage found in the files or an overflow metadata file. It is permanent and raised on
        each access.
        """
        self.unfolded: list[StoredEntry] = []
        """Entries read that `history` lacks, in order. The first ones may have been dropped."""
        self._whole = whole
        self._held_max = HELD_MAX

    def stand_on(self, base: Base) -> None:
        """Restart on another base, with the held entries."""
        self.history = self.older = base.files

    def hold(self, count: int) -> None:
        """Prepare for this many entries at once, after which the caller will need files."""
        if count > UNFOLDED_MAX:
            self._held_max = HELD_MAX + 2 * (len(self.unfolded) + count)

    def take(self, stored: StoredEntry) -> None:
        """Add the next entry."""
        if len(self.unfolded) >= UNFOLDED_MAX:
            self._fold_early()
        self.unfolded.append(stored)

    def put_right(self, version: int) -> None:
        """Undo an interrupted change: drop entries after `version`, and folded ones."""
        while self.unfolded and self.unfolded[-1].version > version:
            self.unfolded.pop()
        known = self.history.version
        if self.unfolded and self.unfolded[0].version <= known:
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]

    def waiting(self) -> list[StoredEntry]:
        """Return the held entries that directly follow the files; none if there is a gap."""
        held = self.unfolded
        return list(held) if held and held[0].version == self.history.version + 1 else []

    def replace(self, known: FileHistory, later: FileHistory) -> None:
        """Replace `known` by `later`, unless another thread replaced it meanwhile."""
        if self.history is known:
            self.history = later if self._whole else bounded(later)
            self.put_right(later.version)

    def _fold_early(self) -> None:
        """Fold entries into columns before they accumulate; this reads nothing.

        Damage is kept and raised when a caller needs files, because an append does not need them.
        Entries that need an overflow metadata file or a checkpoint are dropped. They are read again
        on demand.
        """
        plain: list[StoredEntry] = []
        if self.history.is_held:
            plain.extend(itertools.takewhile(lambda one: not has_sides(one), self.waiting()))
        if plain and self.damage is None:
            try:
                folded = fold(self.history, [stored.entry for stored in plain])
                self.history = folded if self._whole else bounded(folded)
            except CorruptEntryError as error:
                if self.history.checkpoint:
                    # The checkpoint may be at fault; the next access to files finds out (CKP-6).
                    self.unfolded = []
                else:
                    self.damage = error
            known = self.history.version
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]
        if len(self.unfolded) >= self._held_max or self.damage is not None:
            self.unfolded = []


def bounded(history: FileHistory) -> FileHistory:
    """Return the history without the files removed first, if it keeps too many."""
    while history.gone > max(REMOVED_MAX, history.live):
        history = history.halved()
    return history


def has_sides(stored: StoredEntry) -> bool:
    """Return True if columns of an entry are in an overflow metadata file."""
    return isinstance(stored.entry.add, SideFile) or isinstance(stored.entry.delete, SideFile)
