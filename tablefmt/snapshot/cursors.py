"""How far a table has taken what it takes from others: state that entries move. Pure.

Spec: RPL-7, ENT-15, ENT-16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tablefmt.errors import CorruptEntryError
from tablefmt.log.names import entry_key
from tablefmt.model.entry import CursorBack, DerivedFrom, Entry

Key = tuple[str, str]
"""The id of a source, and the name of a pipe."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far one pipe has come."""

    to: int | None
    """The last version of the source that was taken; None: nothing is taken, a restore saw to it.
    """
    digest: str | None
    """SHA-256 of the source's entry `to`."""
    at: int
    """The version that moved it last."""
    location: str | None = None
    """Where the source was."""


@dataclass(frozen=True, slots=True)
class Move:
    """What an entry says of cursors, and nothing else of it."""

    version: int
    derived_from: DerivedFrom | None
    cursors: tuple[CursorBack, ...]
    ends: bool


Cursors = Mapping[Key, Cursor]

NO_CURSORS: Cursors = {}


def move_of(entry: Entry) -> Move | None:
    """What an entry does to cursors; None: nothing."""
    if not entry.moves_cursors and not entry.ends:
        return None
    return Move(entry.version, entry.derived_from, tuple(entry.cursors), entry.ends)


def moved(before: Cursors, entry: Entry | Move) -> Cursors:
    """The cursors after one more entry; the same object where it moves none.

    Raises:
        CorruptEntryError: RPL-7, `from` is not where the cursor was, or a cursor that there is not
            is taken back.
    """
    derived = entry.derived_from
    if derived is not None:
        if derived.start != position(before, derived.key):
            raise _bad(entry, "takes up a source elsewhere than where it was left")
        location = derived.location or _location(before.get(derived.key))
        return {**before, derived.key: Cursor(derived.to, derived.digest, entry.version, location)}
    if not entry.cursors:
        return before
    unknown = [back for back in entry.cursors if back.key not in before]
    if unknown:
        raise _bad(entry, f"takes back a cursor that there is not: {unknown[0].key!r:.200}")
    back = {
        each.key: replace(before[each.key], to=each.to, digest=each.digest, at=entry.version)
        for each in entry.cursors
    }
    return {**before, **back}


def position(cursors: Cursors, key: Key) -> int | None:
    """The last version taken; None: nothing was."""
    cursor = cursors.get(key)
    return None if cursor is None else cursor.to


def taken_back(now: Cursors, then: Cursors) -> tuple[CursorBack, ...]:
    """What makes the cursors of now those of an older version (RET-3)."""
    back = []
    for key, cursor in sorted(now.items()):
        old = then.get(key)
        to, digest = (None, None) if old is None else (old.to, old.digest)
        if (to, digest) != (cursor.to, cursor.digest):
            back.append(CursorBack(*key, to, digest))
    return tuple(back)


def after(before: Cursors, entries: Iterable[Entry | Move]) -> Cursors:
    """The cursors after entries that follow, a table that begins anew among them.

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


def _bad(entry: Entry | Move, message: str) -> CorruptEntryError:
    return CorruptEntryError(f"it {message}", key=entry_key(entry.version), rule="RPL-7")
