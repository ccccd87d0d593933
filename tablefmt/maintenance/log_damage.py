"""A log that cannot be replayed as a whole: the runs of versions that still can, and the damage.

A run starts at version 0 or at a checkpoint, and ends before the next damage. An entry that is
missing or damaged may be in a compacted log segment; the chain of digests proves its bytes.
Spec: VFY-2 (spec/verify.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    LogGapError,
    UnsupportedFeatureError,
)
from tablefmt.log.codec import decode, digest
from tablefmt.log.compacted_log import unpack
from tablefmt.log.log_reader import WINDOW_MAX
from tablefmt.log.object_names import (
    ENTRIES,
    HISTORY,
    entry_key,
    entry_version,
    log_segment_range,
    root_version,
)
from tablefmt.model.log_entry import OverflowFile, StoredEntry
from tablefmt.snapshot.checkpoint_base import NOTHING, Base
from tablefmt.snapshot.checkpoint_reader import listed_roots, read_base
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import KeyNotFoundError, Store


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place of the log."""

    version: int
    key: str
    rule: str
    detail: str
    kind: str
    """A kind of `finding_kinds.KINDS`."""


@dataclass(slots=True)
class DamagedLog:
    """The damage, and what is left."""

    oldest: int
    """Oldest version that the log should have."""
    head: int
    """Newest version with an entry."""
    damage: list[Damage] = field(default_factory=list)
    runs: list[LogView] = field(default_factory=list)
    """Views of versions that can be replayed, in order. Each starts at `base.first`."""
    lost: dict[int, bytes] = field(default_factory=dict)
    """Bytes of entries that are missing or damaged, from compacted log segments."""


def inspect_log(store: Store) -> DamagedLog:
    """Read every entry that exists, and build a view of each run that can be replayed.

    Raises:
        UnsupportedFeatureError: an entry needs a newer reader. StoreError: no answer.
    """
    listed = (entry_version(one.key) for one in store.list_after(ENTRIES))
    versions = sorted(version for version in listed if version is not None)
    sound: dict[int, StoredEntry] = {}
    found: dict[int, Damage] = {}
    for start in range(0, len(versions), WINDOW_MAX):
        some = versions[start : start + WINDOW_MAX]
        for version, body in zip(some, store.get_many(list(map(entry_key, some))), strict=True):
            try:
                sound[version] = decode(body or b"", version)
            except CorruptEntryError as error:
                key = entry_key(version)
                found[version] = Damage(version, key, error.rule, error.detail, "damaged-entry")
    newest = max(sound, default=None)
    oldest = 0 if newest is None else sound[newest].entry.totals.oldest
    log = DamagedLog(oldest, max(versions, default=-1))
    _add_gaps(found, versions, oldest)
    _add_broken_links(found, sound)
    log.lost = _restorable(store, found, sound)
    log.damage = [
        Damage(d.version, d.key, d.rule, d.detail, "restorable-entry") if v in log.lost else d
        for v, d in sorted(found.items())
    ]
    _add_runs(store, log, sound)
    return log


def _add_gaps(found: dict[int, Damage], versions: Sequence[int], oldest: int) -> None:
    """Add the missing versions. A wide gap counts as one damage at its first version. Pure."""
    known = [oldest - 1, *(version for version in versions if version >= oldest)]
    for before, after in itertools.pairwise(known):
        last = after if after - before <= WINDOW_MAX else before + 2
        for version in range(before + 1, last):
            gap = LogGapError(version, after)
            found[version] = Damage(
                version, entry_key(version), "LOG-2", gap.detail, "missing-entry"
            )


def _add_broken_links(found: dict[int, Damage], sound: dict[int, StoredEntry]) -> None:
    """Add the entries that do not follow the one before, and remove them from `sound`. Pure."""
    broken = [
        version
        for version, stored in sound.items()
        if version - 1 in sound
        and (stored.entry.previous, stored.entry.table)
        != (sound[version - 1].digest, sound[version - 1].entry.table)
        and not sound[version - 1].entry.ends
    ]
    for version in broken:
        detail = "it does not follow the entry before it: one of the two was replaced"
        key = entry_key(version)
        found[version] = Damage(version, key, "LOG-1", detail, "damaged-entry")
        del sound[version]


def _restorable(
    store: Store, wanted: Collection[int], sound: Mapping[int, StoredEntry]
) -> dict[int, bytes]:
    """Return the bytes of entries from compacted log segments that the chain proves (HIS-2)."""
    proven: dict[int, bytes] = {}
    if not wanted:
        return proven
    for one in store.list_after(HISTORY):
        span = log_segment_range(one.key)
        if span is None or not any(span[0] <= version <= span[1] for version in wanted):
            continue
        try:
            bodies = unpack(store.get(one.key), span[1] - span[0] + 1)
        except (CorruptTableError, KeyNotFoundError):
            continue
        following = sound.get(span[1] + 1)
        expected = None if following is None else following.entry.previous
        for version in range(span[1], span[0] - 1, -1):
            body = bodies[version - span[0]]
            here = sound.get(version)
            expected = here.digest if here is not None else expected
            if expected is None or digest(body) != expected:
                expected = None
                continue
            if version in wanted:
                proven[version] = body
            expected = decode(body, version).entry.previous
    return proven


def _add_runs(store: Store, log: DamagedLog, sound: Mapping[int, StoredEntry]) -> None:
    """Build a view of each run. Entries that contradict the ones before end a run."""
    waiting = _sequences(sound)
    named = ((root_version(key), key) for key in listed_roots(store))
    roots = sorted((version, key) for version, key in named if version is not None)
    while waiting:
        entries = waiting.pop(0)
        first, last = entries[0].version, entries[-1].version
        for base in _bases(store, first, last, roots):
            kept = [stored for stored in entries if stored.version > base.version]
            try:
                view = LogView(store, kept, base, whole=True)
                view.snapshot()
            except UnsupportedFeatureError:
                raise
            except CorruptTableError as error:
                version = _version_of(error, kept)
                if version is None:
                    # The checkpoint is at fault; another one may do.
                    continue
                kind = "damaged-entry" if error.key == entry_key(version) else "damaged-overflow"
                log.damage.append(Damage(version, error.key, error.rule, error.detail, kind))
                parts = (
                    [s for s in entries if s.version < version],
                    [s for s in entries if s.version > version],
                )
                waiting = [*filter(None, parts), *waiting]
            else:
                log.runs.append(view)
            break


def _sequences(sound: Mapping[int, StoredEntry]) -> list[list[StoredEntry]]:
    """Return the unbroken runs of entries. Pure."""
    runs: list[list[StoredEntry]] = []
    for version in sorted(sound):
        if not runs or runs[-1][-1].version != version - 1:
            runs.append([])
        runs[-1].append(sound[version])
    return runs


def _bases(store: Store, first: int, last: int, roots: Sequence[tuple[int, str]]) -> Iterator[Base]:
    """Yield the states at which a run may start, the earliest first."""
    if first == 0:
        yield NOTHING
    for version, key in roots:
        if first <= version <= last:
            try:
                yield read_base(store, key)
            except (CorruptTableError, UnsupportedFeatureError):
                continue


def _version_of(error: CorruptTableError, entries: Sequence[StoredEntry]) -> int | None:
    """Return the version of the entry that an error names, or whose overflow file it names."""
    for stored in entries:
        named = [c.path for c in (stored.entry.add, stored.entry.delete)
                 if isinstance(c, OverflowFile)]  # fmt: skip
        if error.key in (entry_key(stored.version), *named):
            return stored.version
    return None
