"""The files of a version from those of an earlier one and the entries between. Reads the store."""

from __future__ import annotations

from collections.abc import Sequence

from tablefmt.log.packed import SIZES, read_entries
from tablefmt.log.reader import WINDOW_MAX
from tablefmt.log.side_files import read_sides
from tablefmt.model.entry import StoredEntry
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.folded import bounded
from tablefmt.snapshot.folding import fold
from tablefmt.store.protocol import Store


def fold_stored(store: Store, files: FileHistory, entries: Sequence[StoredEntry]) -> FileHistory:
    """The files after entries that follow, with what these have in side files.

    Raises:
        CorruptTableError: RPL-2, RPL-3, ADD-1, DEL-1, VAL-1; a side file is damaged.
    """
    sides = read_sides(store, entries)
    return fold(files, [stored.entry for stored in entries], *sides)


def replay(store: Store, files: FileHistory, version: int, packed_to: int = -1) -> FileHistory:
    """The files of a later version, without those of before that are too many.

    Args:
        store: the table's root.
        files: of a version.
        version: the later one.
        packed_to: entries up to it are to be had many at a time (HIS-3).

    Raises:
        CorruptTableError: as `fold_stored`; an entry is not there any more.
    """
    while files.version < version:
        first = files.version + 1
        # No block is read twice.
        together = WINDOW_MAX if first > packed_to else SIZES[0] - first % SIZES[0]
        last = min(version, first + together - 1)
        entries = read_entries(store, first, last, packed_to)
        files = bounded(fold_stored(store, files, entries))
    return files
