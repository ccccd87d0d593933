"""Entries from the store: contiguous, or an error. Spec: LOG-2, LOG-4, LOG-5.

Nothing here lists the log on a warm path: what follows a known version is found by asking for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from tablefmt.errors import LogGapError
from tablefmt.log.codec import decode
from tablefmt.log.hint import read_hint
from tablefmt.log.names import HINT, LOG, entry_key, entry_version
from tablefmt.model.entry import StoredEntry
from tablefmt.store.protocol import Store, StoredObject

logger = logging.getLogger(__name__)

FIRST_WINDOW = 8
"""Versions asked for at once when a log is opened, and after the first one that was new."""

WINDOW_MAX = 512
"""Most entries in flight at once: bounds memory while a long log is read."""

Progress = Callable[[int, int], None]
"""Called with entries done and entries in all."""


def read_range(
    store: Store, first: int, last: int, progress: Progress | None = None
) -> Iterator[StoredEntry]:
    """Versions first to last, both inclusive, in order.

    Raises:
        LogGapError: LOG-2, one of them is missing.
        CorruptEntryError: the codec's rules.
    """
    total = last - first + 1
    for start in range(first, last + 1, WINDOW_MAX):
        wanted = range(start, min(start + WINDOW_MAX, last + 1))
        bodies = store.get_many([entry_key(v) for v in wanted])
        for version, body in zip(wanted, bodies, strict=True):
            if body is None:
                raise LogGapError(version, last)
            yield decode(body, version)
        if progress is not None:
            progress(wanted[-1] - first + 1, total)


def read_tail(store: Store, first: int) -> list[StoredEntry]:
    """Everything from version `first` to the head; empty if `first` is not there yet.

    One request if nothing is new. Otherwise windows that grow, so k new entries take
    O(log k) rounds.

    Raises:
        LogGapError: LOG-2.
        CorruptEntryError: the codec's rules.
    """
    found: list[StoredEntry] = []
    window = 1
    while True:
        start = first + len(found)
        fresh, ended = read_window(store, start, window)
        found.extend(fresh)
        if ended:
            return found
        window = min(max(window * 8, FIRST_WINDOW), WINDOW_MAX)


def read_window(store: Store, start: int, count: int) -> tuple[list[StoredEntry], bool]:
    """Up to `count` entries from `start`, and whether the log ends within or before them."""
    keys = [entry_key(start + i) for i in range(count)]
    bodies = store.get_many(keys)
    present = next((i for i, body in enumerate(bodies) if body is None), count)
    later = [i for i in range(present + 1, count) if bodies[i] is not None]
    while later:
        # Entries written while the window was read look like a gap. Only a second look tells.
        again = store.get_many(keys[present : later[-1]])
        bodies[present : later[-1]] = again
        missing = next((i for i in range(present, later[-1]) if bodies[i] is None), None)
        if missing is not None:
            raise LogGapError(start + missing, start + later[-1])
        present = later[-1] + 1
        later = []
    entries = [decode(body or b"", start + i) for i, body in enumerate(bodies[:present])]
    return entries, present < count


def open_log(
    store: Store, progress: Progress | None = None
) -> tuple[list[StoredEntry], int | None]:
    """The whole log in at most three dependent rounds (LOG-5).

    Returns:
        The entries from version 0 to the head (empty: there is no table), and the version of the
        hint that was found.

    Raises:
        LogGapError: LOG-2. CorruptEntryError: the codec's rules.
    """
    keys = [HINT, *(entry_key(v) for v in range(FIRST_WINDOW))]
    bodies = store.get_many(keys)
    hint = read_hint(bodies[0])
    known: dict[int, bytes] = {v: b for v, b in enumerate(bodies[1:]) if b is not None}
    if len(known) == FIRST_WINDOW:
        _look_further(store, hint, known)
    elif known and max(known) >= len(known):
        # Written while they were read, or a gap: the window reader looks twice.
        entries, _ = read_window(store, 0, FIRST_WINDOW)
        return entries, hint
    if not known:
        _refuse_headless(store)
        return [], hint
    entries = []
    for version in range(max(known) + 1):
        if version not in known:
            raise LogGapError(version, max(known))
        entries.append(decode(known.pop(version), version))
        if progress is not None and version % WINDOW_MAX == 0:
            progress(version + 1, version + 1 + len(known))
    return entries, hint


def _look_further(store: Store, hint: int | None, known: dict[int, bytes]) -> None:
    """Rounds two and three: what the hint promises and a listing names."""
    start = FIRST_WINDOW
    promised = range(start, hint + 1) if hint is not None else range(0)
    _get_into(store, promised, known)
    after = max(known)
    listed = {v for v in map(_version_of, store.list_after(LOG, entry_key(after))) if v is not None}
    top = max(listed, default=after)
    _get_into(store, [v for v in range(start, top + 1) if v not in known], known)


def _version_of(found: StoredObject) -> int | None:
    return entry_version(found.key)


def _get_into(store: Store, versions: range | list[int], known: dict[int, bytes]) -> None:
    for start in range(0, len(versions), WINDOW_MAX):
        wanted = versions[start : start + WINDOW_MAX]
        bodies = store.get_many([entry_key(v) for v in wanted])
        known.update((v, b) for v, b in zip(wanted, bodies, strict=True) if b is not None)


def _refuse_headless(store: Store) -> None:
    """LOG-7: entries without version 0 are a damaged table, not an empty place."""
    listed = [_version_of(found) for found in store.list_after(LOG)]
    versions = [v for v in listed if v is not None]
    if versions:
        raise LogGapError(0, min(versions))
