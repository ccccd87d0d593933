"""Missing entries: find out why an entry is missing while later ones exist. Spec: LOG-2, LOG-8."""

from __future__ import annotations

from collections.abc import Mapping

from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    LogGapError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import document_of
from tablefmt.log.names import ENTRIES, LOG, entry_key, entry_version
from tablefmt.store.protocol import Store

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
