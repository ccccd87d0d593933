"""Opening of a log: from a usable checkpoint, else from its beginning.

Spec: LOG-5, CKP-5, CKP-6.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import decode
from tablefmt.log.compacted_log import read_compacted
from tablefmt.log.log_reader import (
    FIRST_WINDOW,
    FirstRound,
    Hint,
    Progress,
    first_round,
    gap_error,
    is_unbroken,
    no_state,
    read_from,
    read_whole,
    with_listing,
    write_hint,
)
from tablefmt.log.object_names import VERSION_MAX, root_version
from tablefmt.model.log_entry import StoredEntry
from tablefmt.snapshot.checkpoint_base import NOTHING, Base
from tablefmt.snapshot.checkpoint_reader import TRIED_MAX, base_of, sound_root, usable_bases
from tablefmt.snapshot.head import Head
from tablefmt.store.clocks import Moment, moment_of
from tablefmt.store.location_checks import not_found
from tablefmt.store.object_store import Store

logger = logging.getLogger(__name__)

_View = TypeVar("_View")

HINT_DISTANCE_MAX = 8
"""Distance between hint and head from which a reader writes a better hint."""

LONG_LOG = 1024
"""Log length from which it is worth listing checkpoints if the hint names none."""


BaseAndTail: TypeAlias = tuple[Base, list[StoredEntry]]
"""Base, and the entries after it up to the head."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of reading a log."""

    hint: Hint | None
    base: Base
    entries: list[StoredEntry]
    """Entries after the base, up to the head."""
    asked: Moment
    """Time at which the first request was sent."""


def open_view(
    store: Store,
    view_of: Callable[..., _View],
    progress: Progress | None = None,
    *,
    whole: bool = False,
    explain: bool = False,
) -> tuple[Opened, _View]:
    """Return the log up to its head, and a view of it on a checkpoint that fits its entries
    (CKP-6).

    Args:
        store: the table's root.
        view_of: creates a view of entries on a base. `asked` is the time of the first request. It
            raises CorruptEntryError if an entry does not follow.
        progress: as `open_log`; so are the others.
        whole: as `open_log`.
        explain: as `open_log`.

    Raises: as `open_log`, and the errors of `view_of`.
    """
    opened = open_log(store, progress, whole=whole, explain=explain)
    try:
        return opened, view_of(opened.entries, opened.base, asked=opened.asked)
    except CorruptEntryError as error:
        if not opened.base.key:
            raise
        logger.warning("skipping a checkpoint: %s: %s", opened.base.key, error)
    opened = open_log(store, progress, whole=whole, without=opened.base.key)
    return opened, view_of(opened.entries, opened.base, asked=opened.asked)


def open_log(
    store: Store,
    progress: Progress | None = None,
    *,
    whole: bool = False,
    compacted: bool = False,
    explain: bool = False,
    without: str | None = None,
) -> Opened:
    """Return the log up to its head.

    Args:
        store: the table's root.
        progress: called with the number of entries read, if the whole log is read.
        whole: read all entries and ignore checkpoints.
        compacted: with `whole`, read entries from compacted log segments (HIS-2).
        explain: as `LogView.open`.
        without: the name of a root that must not be used.

    Raises:
        TableNotFoundError: LOG-7, there is no entry 0. LogGapError: LOG-2.
        CorruptEntryError, UnsupportedFeatureError: the codec's rules.
    """
    asked = moment_of(store)
    probe = first_round(store)
    if not probe.known:
        raise not_found(store) if explain else TableNotFoundError(store.uri)
    if not whole and 0 in probe.known:
        if probe.hint is None and len(probe.known) == FIRST_WINDOW:
            probe = with_listing(store, probe)
        for base, entries in _on_checkpoints(store, probe, without):
            return Opened(probe.hint, base, entries, asked)
    if len(probe.known) < FIRST_WINDOW and probe.listed is None:
        probe = with_listing(store, probe)
    listed = probe.listed or ()
    missing = next((v for v in range(FIRST_WINDOW) if v not in probe.known), None)
    try:
        if missing is not None and max(listed, default=0) > missing:
            gap = gap_error(store, missing, max(listed))
            if isinstance(gap, VersionNotFoundError):
                raise gap
            # Otherwise they may have been written meanwhile.
        first = _compacted(store, probe, 0) if compacted and missing is None else []
        entries = read_whole(store, probe, progress, first)
    except VersionNotFoundError as gap:
        base, entries = _expired(store, probe, gap, whole, compacted, without)
        return Opened(probe.hint, base, entries, asked)
    return Opened(probe.hint, NOTHING, entries, asked)


def _compacted(store: Store, probe: FirstRound, first: int) -> list[StoredEntry]:
    """Return entries from one version up to the hint's checkpoint, from compacted log segments."""
    key = None if probe.hint is None else probe.hint.checkpoint
    last = -1 if key is None else root_version(key) or 0
    return read_compacted(store, first, last, last) or []


def _expired(
    store: Store,
    probe: FirstRound,
    gap: VersionNotFoundError,
    whole: bool,
    compacted: bool,
    without: str | None,
) -> BaseAndTail:
    """Return a log whose first entries expired, on the newest usable checkpoint.

    With `whole`, the checkpoint must not be above the oldest kept version (LOG-8).

    Raises:
        CorruptTableError: LOG-8, no checkpoint holds the state before the first entry.
    """
    oldest, newest = int(str(gap.oldest)), int(str(gap.latest))
    given_up = frozenset(() if without is None else (without,))
    for base in usable_bases(store, oldest if whole else newest, given_up):
        known = _compacted(store, probe, base.version + 1) if compacted else []
        try:
            bodies, _ = read_from(store, base.version + 1 + len(known), newest)
        except VersionNotFoundError:
            continue
        if base.version + len(known) + len(bodies) >= newest:
            return base, _entries(base, bodies, known)
    raise no_state(oldest)


def _on_checkpoints(store: Store, probe: FirstRound, given_up: str | None) -> Iterator[BaseAndTail]:
    hint = probe.hint
    key = None if hint is None else hint.checkpoint
    if hint is not None and key is not None:
        hinted = None if key == given_up else _at_hint(store, probe, hint, key)
        if hinted is not None:
            yield hinted
    elif (len(probe.listed or ()) if hint is None else hint.version) < LONG_LOG:
        return
    table = decode(probe.known[0], 0).entry.table
    without = frozenset(name for name in (key, given_up) if name is not None)
    for base in usable_bases(store, VERSION_MAX, without, TRIED_MAX):
        if base.head is None or not _of_log(base.head, table):
            continue
        likely = max(probe.listed or (base.version,)) if hint is None else hint.version
        try:
            bodies, _ = read_from(store, base.version + 1, likely)
        except VersionNotFoundError as expired:
            logger.warning("skipping a checkpoint: %s", expired)
            continue
        yield base, _entries(base, bodies)


def _at_hint(store: Store, probe: FirstRound, hint: Hint, key: str) -> BaseAndTail | None:
    """Return the base of the hint's root and the entries after it, from one round of requests."""
    version = root_version(key)
    assert version is not None
    try:
        broken = not is_unbroken(probe.known)
        bodies, (root_body,) = read_from(store, version, hint.version, [key], may_be_broken=broken)
        root = sound_root(root_body, bodies[0] if bodies else None, key)
        if not _of_log(root.head, decode(probe.known[0], 0).entry.table):
            raise TableReplacedError(
                "the checkpoint belongs to another table", key=key, rule="CKP-5"
            )
    except (CorruptTableError, UnsupportedFeatureError, VersionNotFoundError) as error:
        logger.warning("skipping a checkpoint: %s", error)
        return None
    base = base_of(store, root, key)
    return base, _entries(base, bodies[1:])


def _of_log(head: Head, first: str) -> bool:
    """Return True if the head may belong to the log whose version 0 is of table `first`.

    If the log never expired, no table was dropped, so only this table fits (ENT-14).
    """
    return head.table == first or head.totals.oldest > 0


def check_not_ended(store: Store, head: Head, allowed: bool) -> None:
    """Refuse a table that was dropped, unless that is allowed.

    Raises:
        TableNotFoundError: ENT-14.
    """
    if head.ended and not allowed:
        raise TableNotFoundError(store.uri, f"version {head.version} dropped it")


def put_hint_right(store: Store, opened: Opened, head: Head, *, whole: bool) -> None:
    """Write a better hint if the one read was far from the head (LOG-6)."""
    version, hint = head.version, opened.hint or Hint(0)
    known = hint.checkpoint if whole else opened.base.key or None
    # A hint beyond the head is wrong, and costs every reader extra requests.
    stale = version > hint.version + HINT_DISTANCE_MAX or hint.version > version
    if stale or known != hint.checkpoint:
        write_hint(store, head.table, Hint(version, known))


def _entries(
    base: Base, bodies: list[bytes], known: Sequence[StoredEntry] = ()
) -> list[StoredEntry]:
    """Return the entries after a base: known ones, and the decoded bytes of later ones."""
    first = base.version + 1 + len(known)
    later = (decode(body, version) for version, body in enumerate(bodies, first))
    return [*known, *later]
