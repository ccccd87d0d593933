"""The files of a log: columns up to a version, and the entries that wait to become columns. Pure.

Whoever holds one sees to it that changes come one at a time. A change that is broken off anywhere
is put right by `put_right`.
"""

from __future__ import annotations

import itertools

from tablefmt.errors import CorruptEntryError, CorruptTableError
from tablefmt.model.entry import SideFile, StoredEntry
from tablefmt.snapshot.base import Base
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.folding import fold

UNFOLDED_MAX = 256
"""Entries held as they were read until somebody asks for files; more become columns."""

HELD_MAX = 1024
"""The same behind one that has a side file: then they are let go of, and got again by who asks. If
many were read at once it is more of them, for who reads them is about to ask."""

GONE_MAX = 1 << 16
"""Files kept though they are not live, for older versions; beyond it no more than are live."""


class FoldedFiles:
    """Files of a log from its base on."""

    def __init__(self, base: Base, *, whole: bool = False) -> None:
        self.history: FileHistory = base.files
        """Of the versions of late."""
        self.older: FileHistory = base.files
        """Of the last version asked for that `history` did not answer for."""
        self.damage: CorruptTableError | None = None
        """What was found in the files' rules or a side file. It stays: who asks is told again."""
        self.unfolded: list[StoredEntry] = []
        """Entries read that `history` lacks, in order; the first may have been let go of."""
        self._whole = whole
        self._held_max = HELD_MAX

    def stand_on(self, base: Base) -> None:
        """Begin anew on another base, with the entries that are held."""
        self.history = self.older = base.files

    def hold(self, count: int) -> None:
        """Somebody is about to take in so many entries at once, and to ask for files."""
        if count > UNFOLDED_MAX:
            self._held_max = HELD_MAX + 2 * (len(self.unfolded) + count)

    def take(self, stored: StoredEntry) -> None:
        """Take in the next entry."""
        if len(self.unfolded) >= UNFOLDED_MAX:
            self._fold_early()
        self.unfolded.append(stored)

    def put_right(self, version: int) -> None:
        """Forget what a change that was broken off left: entries after `version`, or folded."""
        while self.unfolded and self.unfolded[-1].version > version:
            self.unfolded.pop()
        known = self.history.version
        if self.unfolded and self.unfolded[0].version <= known:
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]

    def waiting(self) -> list[StoredEntry]:
        """Entries held that come right after the files; none if others come before them."""
        held = self.unfolded
        return list(held) if held and held[0].version == self.history.version + 1 else []

    def replace(self, known: FileHistory, later: FileHistory) -> None:
        """Go on from `known` to `later`, unless somebody did meanwhile."""
        if self.history is known:
            self.history = later if self._whole else bounded(later)
            self.put_right(later.version)

    def _fold_early(self) -> None:
        """Turn entries into columns before they pile up; reads nothing.

        Damage is kept for who asks for files: an append does not need them. What cannot be turned
        without reading a side file, or a checkpoint, is let go of, and got again by who asks.
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
                    # It may be the checkpoint's fault: who asks for files finds out (CKP-6).
                    self.unfolded = []
                else:
                    self.damage = error
            known = self.history.version
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]
        if len(self.unfolded) >= self._held_max or self.damage is not None:
            self.unfolded = []


def bounded(history: FileHistory) -> FileHistory:
    """The same without those of its files that went first, if they are too many."""
    while history.gone > max(GONE_MAX, history.live):
        history = history.halved()
    return history


def has_sides(stored: StoredEntry) -> bool:
    """Whether columns of an entry are in a side file."""
    return isinstance(stored.entry.add, SideFile) or isinstance(stored.entry.delete, SideFile)
