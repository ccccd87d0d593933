"""Reader of entries from the store: contiguous, or an error that says why one is missing.

No function lists the log on a warm path. The reader finds new entries by requesting the versions
after a known one. The hint names a recent head version; it is never trusted. Spec: LOG-2, LOG-4 ..
LOG-6, LOG-8.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import orjson

from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    LogGapError,
    TablefmtError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import decode, digest, document_of, entry_headers
from tablefmt.log.object_names import (
    ENTRIES,
    HINT,
    LOG,
    VERSION_MAX,
    entry_key,
    entry_version,
    root_version,
)
from tablefmt.model.log_entry import StoredEntry
from tablefmt.store.object_store import HINT_BYTES_MAX, KeyNotFoundError, Store, length_of

SHOWN = 4
"""Maximum number of objects that an error names."""


def gap_error(store: Store, missing: int, found: int) -> TablefmtError:
    """Return the error for a missing version `missing` below the existing version `found`.

    The newest entry records the earliest kept version, if the log has expired. Then the missing
    version is no longer available. The newest entry may also need a newer reader, or be damaged;
    that error comes first. Any other gap is damage. A missing version 0 is always damage.
    """
    try:
        oldest, newest = kept_range(store, missing, found)
    except UnsupportedFeatureError as error:
        return error
    except CorruptEntryError as error:
        return error if missing else LogGapError(missing, found)
    if 0 < missing < oldest:
        return VersionNotFoundError(f"version {missing}", oldest, newest)
    return LogGapError(missing, found)


def kept_range(store: Store, after: int, known: int) -> tuple[int, int]:
    """Return the earliest kept version, by the newest entry, and the newest entry's version.

    Args:
        store: the table's root.
        after: a listing of entries after this version finds the newest.
        known: a version that exists.

    Raises:
        CorruptEntryError, UnsupportedFeatureError: from that entry.
    """
    newest, body = newest_entry(store, after, known)
    return oldest_of(newest, body), newest


def newest_entry(store: Store, after: int, known: int) -> tuple[int, bytes | None]:
    """Return the newest version, and its entry's bytes; None if the entry is missing.

    Args:
        store: the table's root.
        after: a listing of entries after this version finds the newest.
        known: a version that existed. It is the newest if the listing is empty.
    """
    listed = (entry_version(each.key) for each in store.list_after(ENTRIES, entry_key(after)))
    newest = max((version for version in listed if version is not None), default=known)
    newest = max(newest, known)
    (body,) = store.get_many([entry_key(newest)])
    return newest, body


def oldest_of(newest: int, body: bytes | None) -> int:
    """Return the earliest version that is kept, by this entry. Raises as `kept_range`."""
    try:
        document = {} if body is None else document_of(body, newest)
    except CorruptEntryError as error:
        raise CorruptEntryError(error.detail, key=entry_key(newest), rule=error.rule) from None
    totals = document.get("totals")
    oldest = totals.get("oldest") if isinstance(totals, dict) else None
    return oldest if isinstance(oldest, int) else 0


def is_followed(store: Store, version: int, digest: str) -> bool | None:
    """Return whether the log still has the entry with this digest at `version` (LOG-1, LOG-8).

    Returns:
        True: no entry follows it, or the next entry names its digest. False: the next entry names
        another digest, so the version was reused after expiry. None: the next version is missing,
        so entries cannot decide.

    Raises:
        CorruptEntryError, UnsupportedFeatureError: from the next entry.
    """
    following = (entry_version(each.key) for each in store.list_after(ENTRIES, entry_key(version)))
    nearest = next((each for each in following if each is not None), None)
    if nearest is None:
        return True
    (body,) = store.get_many([entry_key(version + 1)])
    if body is None:
        return None
    return document_of(body, version + 1).get("previous") == digest


def no_state(oldest: object, lost: Mapping[str, str] | None = None) -> CorruptTableError:
    """Return the error for a log without its first entries and without a sound checkpoint.

    Args:
        oldest: the earliest version that is kept.
        lost: keys of unsound checkpoint objects, and the reasons, in the order they were found.
    """
    known = [f"{key}: {reason}" for key, reason in (lost or {}).items()]
    return CorruptTableError(
        f"entries below version {oldest} were removed, and no checkpoint with the "
        f"state of the table can be read{': ' if known else ''}{'; '.join(known[:SHOWN])}",
        key=next(iter(lost)) if lost else LOG,
        rule="LOG-8",
    )


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hint:
    """Content of a hint."""

    version: int
    """Version of the newest entry at that time."""
    checkpoint: str | None = None
    """Name of a checkpoint's root."""


def has_entry(store: Store, version: int) -> bool:
    """Return whether the log has the entry of a version, now.

    While a table is written, derived objects may be of later versions than a check has read.
    """
    try:
        store.size(entry_key(version))
    except KeyNotFoundError:
        return False
    return True


def read_hint(body: bytes | None) -> Hint | None:
    """Return the content of a hint, or None for bytes that are not a hint. Pure."""
    if body is None or length_of(body) > HINT_BYTES_MAX:
        return None
    try:
        document = orjson.loads(body)
        version, checkpoint = document["version"], document.get("checkpoint")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        return None
    usable = type(checkpoint) is str and root_version(checkpoint) is not None
    return Hint(version, checkpoint if usable else None)


def write_hint(store: Store, table: str, hint: Hint) -> None:
    """Write a hint for later readers of the table. Ignore failures, since readers may lack
    permission.
    """
    document: dict[str, str | int] = {"table": table, "version": hint.version}
    if hint.checkpoint is not None:
        document["checkpoint"] = hint.checkpoint
    try:
        store.put(HINT, orjson.dumps(document))
    except TablefmtError as error:
        logger.debug("no hint written: %s", error)


FIRST_WINDOW = 8
"""Versions requested at once when a log is opened, and after the first new version."""

EXPECTED_MAX = 16
"""Maximum number of versions requested speculatively. Each missing one costs a request."""

WINDOW_MAX = 512
"""Maximum number of entries in flight: it bounds memory while a known range is read."""

LIKELY_MAX = 8192
"""Maximum trusted version of a hint, which may be garbage. The listing finds versions above it."""

Progress = Callable[[int, int], None]
"""Function called with the number of entries done and the number of all entries."""


def read_range(store: Store, first: int, last: int) -> Iterator[StoredEntry]:
    """Yield versions first to last, both inclusive, in order.

    Raises:
        LogGapError: LOG-2, one of them is missing.
        CorruptEntryError: the codec's rules.
    """
    for start in range(first, last + 1, WINDOW_MAX):
        versions = range(start, min(start + WINDOW_MAX, last + 1))
        bodies = store.get_many([entry_key(v) for v in versions])
        for version, body in zip(versions, bodies, strict=True):
            if body is None:
                raise gap_error(store, version, last)
            yield decode(body, version)


def read_each(store: Store, progress: Progress | None = None) -> Iterator[StoredEntry]:
    """Yield every entry from version 0 on, one by one, so that a damaged entry ends a usable
    prefix.

    This is for a dump; `open_log` needs fewer rounds. LOG-2, LOG-4.

    Raises:
        TableNotFoundError: LOG-7, there is no entry at all.
        LogGapError: LOG-2. CorruptEntryError: the codec's rules.
    """
    version, window = 0, FIRST_WINDOW
    while True:
        versions = range(version, version + window)
        for body in store.get_many([entry_key(v) for v in versions]):
            if body is None:
                break
            yield decode(body, version)
            version += 1
        if version < versions.stop:
            known = _listed(store, version)
            if not known:
                break
            if store.get_many([entry_key(version)]) == [None]:
                raise gap_error(store, version, min(known))
        if progress is not None:
            progress(version, max(version, versions.stop))
        window = min(window * 8, WINDOW_MAX)
    if version == 0:
        raise TableNotFoundError(store.uri)


def kept_from(store: Store, last: int) -> int:
    """Return the first version of the unbroken run of entries up to `last`: 0 if no entry was
    expired.
    """
    return unbroken_from(frozenset(_listed(store, 0)), last)


def unbroken_from(versions: Collection[int], last: int) -> int:
    """Return the first version from which all entries up to `last` are among `versions`.

    Version 0 is not listed. It counts as there if version 1 is.
    """
    first = last
    while first - 1 in versions:
        first -= 1
    return 0 if first <= 1 else first


def read_tail(store: Store, first: int) -> list[StoredEntry]:
    """Return all entries from version `first` to the head; empty if `first` does not exist yet.

    Raises:
        LogGapError: LOG-2.
        CorruptEntryError: the codec's rules.
    """
    bodies = itertools.chain.from_iterable(tail_windows(store, first))
    return [decode(body, version) for version, body in enumerate(bodies, first)]


def tail_windows(
    store: Store, first: int, expected: int = 1, following: int = FIRST_WINDOW
) -> Iterator[list[bytes]]:
    """Yield the bytes of new entries, at most WINDOW_MAX entries at a time; no window is empty.

    The first request asks for `expected` entries, the next for `following`. From there on windows
    grow, so k new entries take O(log k) rounds. With the default, it is one request if there are no
    new entries.

    Raises:
        LogGapError: LOG-2.
    """
    window, ended = min(expected, EXPECTED_MAX), False
    while not ended:
        fresh, ended = read_window(store, first, window)
        if fresh:
            yield fresh
        first += len(fresh)
        window, following = following, min(following * 4, WINDOW_MAX)


def read_window(store: Store, start: int, count: int) -> tuple[list[bytes], bool]:
    """Return up to `count` entries from `start`, and whether the log ends within or before them.

    Raises:
        LogGapError: LOG-2.
    """
    count = min(count, VERSION_MAX + 1 - start)
    keys = [entry_key(start + i) for i in range(count)]
    bodies = store.get_many(keys)
    present = next((i for i, body in enumerate(bodies) if body is None), count)
    later = [i for i in range(present + 1, count) if bodies[i] is not None]
    if later:
        # Entries written while the window was read look like a gap, so read the gap again.
        again = store.get_many(keys[present : later[-1]])
        bodies[present : later[-1]] = again
        missing = next((i for i in range(present, later[-1]) if bodies[i] is None), None)
        if missing is not None:
            raise gap_error(store, start + missing, start + later[-1])
        present = later[-1] + 1
    return [body or b"" for body in bodies[:present]], present < count or count == 0


@dataclass(frozen=True, slots=True)
class FirstRound:
    """First round of requests when a log is opened."""

    hint: Hint | None
    known: dict[int, bytes]
    """Entries of the first versions. Empty: there is no table."""
    listed: Sequence[int] | None = None
    """Versions after the first ones, from a listing; None: there was no listing."""


def with_listing(store: Store, probe: FirstRound) -> FirstRound:
    """Return the first round, extended by a listing of later versions."""
    return replace(probe, listed=_listed(store, FIRST_WINDOW - 1))


def first_round(store: Store) -> FirstRound:
    """Return the hint and the first entries, from one round of requests (LOG-5).

    Raises:
        LogGapError: LOG-7, there are entries, but not version 0.
    """
    keys = [HINT, *(entry_key(v) for v in range(FIRST_WINDOW))]
    bodies = store.get_many(keys)
    known: dict[int, bytes] = {v: b for v, b in enumerate(bodies[1:]) if b is not None}
    if not known and _begun_meanwhile(store):
        return first_round(store)
    return FirstRound(read_hint(bodies[0]), known)


def read_whole(
    store: Store,
    probe: FirstRound,
    progress: Progress | None = None,
    compacted: Sequence[StoredEntry] = (),
) -> list[StoredEntry]:
    """Return all entries, in two rounds after the first (LOG-5).

    Args:
        store: the table's root.
        probe: the first round.
        progress: called with the number of entries read.
        compacted: the first entries, which are known already.

    Raises:
        LogGapError: LOG-2. CorruptEntryError: the codec's rules.
    """
    known = {version: body for version, body in probe.known.items() if version >= len(compacted)}
    # Also if the log seems to end here, since a gap would hide later entries.
    hinted = 0 if probe.hint is None else probe.hint.version
    above = _read_further(store, hinted, known, progress, probe.listed, len(compacted))
    bodies = _contiguous(store, known, len(compacted), above)
    return [
        *compacted,
        *(decode(body, version) for version, body in enumerate(bodies, len(compacted))),
    ]


def is_unbroken(known: Mapping[int, bytes]) -> bool:
    """Return True if no entry above the first versions was removed. Pure.

    Expiry removes the lowest entries first, and keeps at most one of two adjacent entries without
    metadata (RET-9). So two adjacent entries without metadata prove that expiry has not come this
    far.

    Args:
        known: entries of the first versions.
    """
    versions = (v for v in range(1, FIRST_WINDOW - 1) if {v - 1, v, v + 1} <= known.keys())
    return any(entry_headers([known[v], known[v + 1]], v, digest(known[v - 1])) for v in versions)


def read_from(
    store: Store,
    first: int,
    likely: int,
    others: Sequence[str] = (),
    *,
    may_be_broken: bool = True,
) -> tuple[list[bytes], list[bytes | None]]:
    """Return entries from one version on, in two rounds.

    The first round requests the promised versions and a few more. The second requests versions from
    a listing, if there may be more.

    Args:
        store: the table's root.
        first: the version of the first entry. If it is missing, there are no entries.
        likely: a version that the log probably has.
        others: names of other objects.
        may_be_broken: entries in the middle of the log may have been removed. Then only a listing
            tells if the first missing version ends the log.

    Returns:
        The entries' bytes up to the head, and the other objects, None for missing ones.

    Raises:
        LogGapError: LOG-2. VersionNotFoundError: LOG-8, the log expired from `first` to a version
            above the found entries.
    """
    top = min(max(first, likely), first + WINDOW_MAX) + FIRST_WINDOW
    if first > VERSION_MAX:
        return [], store.get_many(others)
    versions = range(first, min(top, VERSION_MAX) + 1)
    keys = [*others, *(entry_key(v) for v in versions)]
    with ThreadPoolExecutor(1) as pool:
        listing = pool.submit(_listed, store, versions[-1]) if may_be_broken else None
        bodies = store.get_many(keys)
    asked, bodies = bodies[: len(others)], bodies[len(others) :]
    known = {v: b for v, b in zip(versions, bodies, strict=True) if b is not None}
    if listing is not None:
        above = listing.result()
    else:
        above = _listed(store, versions[-1]) if len(known) == len(versions) else []
    if above or len(known) == len(versions):
        above = [*above, max([versions[-1], *above]) + 1]
    return _contiguous(store, known, first, above), asked


def _contiguous(
    store: Store, known: dict[int, bytes], first: int, above: Sequence[int] = ()
) -> list[bytes]:
    """Return the entries from the first on, with no gap.

    Args:
        store: the table's root.
        known: some of the entries, by version. The function empties it.
        first: the version of the first.
        above: higher versions that probably exist, and the version after them.

    Raises:
        LogGapError, VersionNotFoundError: one is missing.
    """
    top = max([*known, *above[:-1]], default=first - 1)
    named = frozenset(above)
    while True:
        # A hole is a gap, or an entry written while the others were read. Read it again to find
        # out, before any entry above the gap is read.
        absent = (v for v in range(first, top) if v not in known and v not in named)
        holes = list(itertools.islice(absent, WINDOW_MAX))
        if not holes:
            break
        _get_into(store, holes, known, None)
        for version in holes:
            if version not in known:
                raise gap_error(store, version, top)
    _get_into(store, above, known, None)
    top = max(known, default=first - 1)
    for version in range(first, top + 1):
        if version not in known:
            raise gap_error(store, version, top)
    return [known.pop(version) for version in range(first, top + 1)]


def _read_further(
    store: Store,
    hint: int,
    known: dict[int, bytes],
    progress: Progress | None,
    listed: Sequence[int] | None,
    first: int,
) -> Sequence[int]:
    """Read the versions up to the hint, then the listed ones: requests of rounds two and three.

    The function does not request entries below `first`.

    Returns:
        Versions that were not requested, as `_contiguous` takes them. They are empty unless the log
        has so many holes that it probably ends far below its highest name.
    """
    likely = range(max(FIRST_WINDOW, first), min(hint, LIKELY_MAX + first) + 2)
    if likely:
        with ThreadPoolExecutor(1) as pool:
            listing = pool.submit(_listed, store, likely[-1] - 1)
            _get_into(store, likely, known, progress)
            listed = listing.result()
    elif listed is None:
        listed = _listed(store, max(FIRST_WINDOW, first) - 1)
    top = max([*listed, *known, first - 1])
    if top + 1 - first - len({*listed, *known}) > WINDOW_MAX:
        return [*(v for v in listed if v not in known), top + 1]
    # A listing does not prove the end (LOG-4), so request the version after the last one too.
    asked = top + 1 < FIRST_WINDOW or top + 1 in likely
    versions = range(first, top + 1 if asked else top + 2)
    _get_into(store, [v for v in versions if v not in known], known, progress)
    return ()


def _listed(store: Store, after: int) -> list[int]:
    """Return the versions above `after` from a listing."""
    named = (entry_version(entry.key) for entry in store.list_after(ENTRIES, entry_key(after)))
    return [version for version in named if version is not None]


def _get_into(
    store: Store, versions: Sequence[int], known: dict[int, bytes], progress: Progress | None
) -> None:
    """Read entries into `known`: all at once, or by windows if there is a progress callback.

    All entries stay in memory until the log is complete, so windows would save no memory.
    """
    # Nothing follows the last possible version (KEY-1), whose name anybody may store.
    versions = [version for version in versions if version <= VERSION_MAX]
    window = len(versions) if progress is None else WINDOW_MAX
    for start in range(0, len(versions), max(window, 1)):
        window_versions = versions[start : start + window]
        bodies = store.get_many([entry_key(v) for v in window_versions])
        known.update((v, b) for v, b in zip(window_versions, bodies, strict=True) if b is not None)
        if progress is not None:
            progress(start + len(window_versions), len(versions))


def _begun_meanwhile(store: Store) -> bool:
    """Return True if a log was created since the request for its first entries, which found none.

    Raises:
        LogGapError: LOG-7, entries without version 0 are a damaged table, not an empty place.
    """
    listed = _listed(store, 0)
    if listed and store.get_many([entry_key(0)]) == [None]:
        raise gap_error(store, 0, listed[0])
    return bool(listed)
