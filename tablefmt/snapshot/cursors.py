"""Source cursors: how far pipes have copied each source table. Entries move them. Pure.

Spec: RPL-7, ENT-15, ENT-16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tablefmt.errors import CorruptEntryError
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import CursorBack, DerivedFrom, Entry

Key = tuple[str, str]
"""Id of a source, and name of a pipe."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Cursor of one pipe."""

    to: int | None
    """Last version taken from the source. None after a restore to a version without the cursor."""
    digest: str | None
    """SHA-256 of the source's entry `to`."""
    at: int
    """Version of this table that last moved the cursor."""
    location: str | None = None
    """Location of the source."""


@dataclass(frozen=True, slots=True)
class CursorMove:
    """Part of an entry that changes cursors."""

    version: int
    derived_from: DerivedFrom | None
    cursors: tuple[CursorBack, ...]
    ends: bool


Cursors = Mapping[Key, Cursor]

NO_CURSORS: Cursors = {}


def move_of(entry: Entry) -> CursorMove | None:
    """Return the changes of an entry to cursors; None if there are none."""
    if not entry.moves_cursors and not entry.ends:
        return None
    return CursorMove(entry.version, entry.derived_from, tuple(entry.cursors), entry.ends)


def moved(before: Cursors, entry: Entry | CursorMove) -> Cursors:
    """Return the cursors after one more entry; the same object if it moves none.

    Raises:
        CorruptEntryError: RPL-7, `from` differs from the cursor, or the entry moves back an
            unknown cursor.
    """
    derived = entry.derived_from
    if derived is not None:
        if derived.start != position(before, derived.key):
            raise _bad(entry, "has a `from` that differs from the cursor of its source")
        location = derived.location or _location(before.get(derived.key))
        return {**before, derived.key: Cursor(derived.to, derived.digest, entry.version, location)}
    if not entry.cursors:
        return before
    unknown = [back for back in entry.cursors if back.key not in before]
    if unknown:
        raise _bad(entry, f"moves back an unknown cursor: {unknown[0].key!r:.200}")
    back = {
        each.key: replace(before[each.key], to=each.to, digest=each.digest, at=entry.version)
        for each in entry.cursors
    }
    return {**before, **back}


def position(cursors: Cursors, key: Key) -> int | None:
    """Return the last version taken; None if none was."""
    cursor = cursors.get(key)
    return None if cursor is None else cursor.to


def taken_back(now: Cursors, then: Cursors) -> tuple[CursorBack, ...]:
    """Return the changes that turn the current cursors into those of an older version (RET-3)."""
    back = []
    for key, cursor in sorted(now.items()):
        old = then.get(key)
        to, digest = (None, None) if old is None else (old.to, old.digest)
        if (to, digest) != (cursor.to, cursor.digest):
            back.append(CursorBack(*key, to, digest))
    return tuple(back)


def after(before: Cursors, entries: Iterable[Entry | CursorMove]) -> Cursors:
    """Return the cursors after the entries, which may include the end of the table.

    Raises:
        CorruptEntryError: as `moved`.
    """
    for entry in entries:
        before = moved(before, entry)
        if entry.ends:
            before = NO_CURSORS
    return before


def _location(cursor: Cursor | None) -> str | None:
    return None if cursor is None else cursor.location


def _bad(entry: Entry | CursorMove, message: str) -> CorruptEntryError:
    return CorruptEntryError(f"it {message}", key=entry_key(entry.version), rule="RPL-7")
