"""What it means that an entry is not there while later ones are. Spec: LOG-2, LOG-8."""

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
"""Objects that an error names, at most."""


def gap_error(store: Store, missing: int, found: int) -> TablefmtError:
    """The error of who does not find version `missing` though it does find `found`.

    A log whose beginning was given up says so in its newest entry: then there is no such version
    any more. So does one that needs what this version lacks. A newest entry that is damaged says
    nothing, and is what is wrong. Any other gap is damage, and so is one where version 0 was.
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
    """The earliest version that is kept, as the newest entry says, and that entry's version.

    Args:
        store: the table's root.
        after: a listing of what comes after this version finds the newest.
        known: a version that is there.

    Raises:
        CorruptEntryError, UnsupportedFeatureError: of that entry.
    """
    newest, body = newest_entry(store, after, known)
    return oldest_of(newest, body), newest


def newest_entry(store: Store, after: int, known: int) -> tuple[int, bytes | None]:
    """Return the newest version, and its entry's bytes; None if there is no such entry.

    Args:
        store: the table's root.
        after: a listing of what comes after this version finds the newest.
        known: a version that was there: the newest, if none comes after.
    """
    listed = (entry_version(each.key) for each in store.list_after(ENTRIES, entry_key(after)))
    newest = max((version for version in listed if version is not None), default=known)
    newest = max(newest, known)
    (body,) = store.get_many([entry_key(newest)])
    return newest, body


def oldest_of(newest: int, body: bytes | None) -> int:
    """Return the earliest version that is kept, as its entry says. Raises as `kept_range`."""
    try:
        document = {} if body is None else document_of(body, newest)
    except CorruptEntryError as error:
        raise CorruptEntryError(error.detail, key=entry_key(newest), rule=error.rule) from None
    totals = document.get("totals")
    oldest = totals.get("oldest") if isinstance(totals, dict) else None
    return oldest if isinstance(oldest, int) else 0


def is_followed(store: Store, version: int, digest: str) -> bool | None:
    """Return whether the log has the entry with this digest at `version` (LOG-1, LOG-8).

    Returns:
        True: nothing is above it, or what is lies on it. False: what is above it lies on another
        one, so its place was given up before it came. None: the next version is gone, so nobody
        can tell by entries.

    Raises:
        CorruptEntryError, UnsupportedFeatureError: of the entry above it.
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
    """The error of who finds neither entries from the beginning nor a sound checkpoint.

    Args:
        oldest: the earliest version that is kept.
        lost: objects of checkpoints that were not sound, and why; the last one found comes last.
    """
    known = [f"{key}: {reason}" for key, reason in (lost or {}).items()]
    return CorruptTableError(
        f"entries below version {oldest} were removed, and none of the checkpoints that hold the "
        f"state of the table can be read{': ' if known else ''}{'; '.join(known[:SHOWN])}",
        key=next(iter(lost)) if lost else LOG,
        rule="LOG-8",
    )
