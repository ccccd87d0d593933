"""Replay: read entries from the store and apply them to the files of an earlier version."""

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
    """Return the files after the next entries, with their overflow metadata files.

    Raises:
        CorruptTableError: RPL-2, RPL-3, ADD-1, DEL-1, VAL-1; an overflow metadata file is damaged.
    """
    sides = read_sides(store, entries)
    return fold(files, [stored.entry for stored in entries], *sides)


def replay(store: Store, files: FileHistory, version: int, packed_to: int = -1) -> FileHistory:
    """Return the files of a later version, without removed files above the limit.

    Args:
        store: the table's root.
        files: the files of a version.
        version: the later one.
        packed_to: entries up to this version are in compacted log segments (HIS-3).

    Raises:
        CorruptTableError: as `fold_stored`; an entry is missing.
    """
    while files.version < version:
        first = files.version + 1
        # Read whole compacted log segments, so that none is read twice.
        together = WINDOW_MAX if first > packed_to else SIZES[0] - first % SIZES[0]
        last = min(version, first + together - 1)
        entries = read_entries(store, first, last, packed_to)
        files = bounded(fold_stored(store, files, entries))
    return files
