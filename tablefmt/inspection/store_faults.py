"""Faults of a store that a check can find, and the verdict that follows from them. Pure.

Spec: STO-28 (spec/store.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Safety = Literal["safe", "limited", "refused", "unsafe"]
"""Result of a check, from best to worst.

safe: tables may be written here. limited: they may, with a restriction. refused: the check could
not run, for lack of rights or answers. unsafe: commits can be lost or hidden.
"""

CheckName = Literal[
    "write", "create", "race", "read", "list", "ranges", "delete", "upload", "clock", "speed"
]

CHECKS: dict[CheckName, str] = {
    "write": "create, read, list and delete one object",
    "create": "refuse to create an object that exists",
    "race": "confirm one of many concurrent creators",
    "read": "show every object to every reader at once",
    "list": "list every object at once, in order, and none that was deleted",
    "ranges": "return the requested bytes of an object",
    "delete": "delete objects, and forgive absent ones",
    "upload": "show no object of an interrupted upload",
    "clock": "agree with the clock of this machine",
    "speed": "answer soon",
}
"""Checks in order, with what the store must do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    check: CheckName
    verdict: Safety
    """The best verdict for a store with this fault."""
    meaning: str
    """Consequence for tables, as a clause."""
    advice: str
    """Change that would mend it, as a sentence."""


_CONDITION = (
    "Use a store and an endpoint that honour If-None-Match. For MinIO, Ceph and proxies, update to "
    "a release with conditional writes, or bypass the proxy. With a single writer only, pass the "
    "storage option unsafe_single_writer=True."
)
_CACHE = "Bypass caches and proxies, and use a strongly consistent store, endpoint or mount."

FAULTS: dict[str, Fault] = {
    "wrong-credentials": Fault(
        "write",
        "refused",
        "the store rejects the credentials, so nothing can be read or written",
        "Check the key, the secret, the region and the endpoint, and that they belong together.",
    ),
    "expired-credentials": Fault(
        "write",
        "refused",
        "running jobs fail at their next request, and a commit without an answer stays unknown",
        "Renew the credentials. For long jobs, configure a provider that renews them by itself, "
        "not a fixed session token.",
    ),
    "no-place": Fault(
        "write",
        "refused",
        "no table can be created here",
        "Create the bucket or container, or check its name and the endpoint.",
    ),
    "wrong-clock": Fault(
        "write",
        "refused",
        "the store rejects every signed request, because its clock and this machine's differ",
        "Synchronize the clock of this machine with a time server (NTP).",
    ),
    "no-rights-to-write": Fault(
        "write",
        "refused",
        "no table can be created or changed here",
        "Grant these credentials the right to create objects (s3:PutObject, or write permission "
        "for the folder), or use an address where they have it. Reading needs no such right.",
    ),
    "no-rights-to-read": Fault(
        "write",
        "refused",
        "no table can be read here",
        "Grant these credentials the right to read objects (s3:GetObject).",
    ),
    "no-rights-to-list": Fault(
        "list",
        "refused",
        "absent objects look like refused ones, so tables cannot be opened",
        "Grant these credentials the right to list (s3:ListBucket).",
    ),
    "no-rights-to-delete": Fault(
        "delete",
        "limited",
        "commits work, but vacuum, expire-log and the cleanup after errors do not",
        "Grant the right to delete objects (s3:DeleteObject), at least to the job that maintains "
        "tables. Remove the objects that this check left.",
    ),
    "no-answer": Fault(
        "write",
        "refused",
        "nothing is known about this store",
        "Check the endpoint, the network and the credentials, and run the check again.",
    ),
    "no-conditional-put": Fault(
        "create", "unsafe", "a writer replaces the commit of another writer", _CONDITION
    ),
    "confirmed-twice": Fault(
        "race", "unsafe", "concurrent writers lose commits that were confirmed", _CONDITION
    ),
    "replaced-body": Fault(
        "race", "unsafe", "a commit that was confirmed is replaced by another one", _CONDITION
    ),
    "stale-read": Fault(
        "read", "unsafe", "readers and writers miss commits that were confirmed", _CACHE
    ),
    "late-listing": Fault(
        "list",
        "unsafe",
        "readers miss the newest versions, and vacuum works from an old listing",
        _CACHE,
    ),
    "deleted-still-listed": Fault(
        "list", "limited", "vacuum and orphan reports name objects that no longer exist", _CACHE
    ),
    "wrong-listing": Fault(
        "list",
        "unsafe",
        "readers take a whole log for one with a gap",
        "Use a store that lists keys once each and by their bytes. S3 directory buckets do not.",
    ),
    "wrong-range": Fault(
        "ranges",
        "unsafe",
        "data files cannot be read, or are read with wrong bytes",
        "Use a store or a proxy that supports range requests.",
    ),
    "deleted-still-read": Fault(
        "delete", "limited", "removed objects stay readable for a time", _CACHE
    ),
    "wrong-delete": Fault(
        "delete",
        "limited",
        "vacuum and expire-log fail",
        "Use a store that accepts the deletion of absent objects and of several objects at once.",
    ),
    "partial-upload": Fault(
        "upload",
        "unsafe",
        "a killed writer leaves half a file that looks whole",
        "Use a store where an object appears whole or not at all. A file system must support hard "
        "links; sync folders and most FUSE mounts of buckets do not.",
    ),
    "failed-upload": Fault(
        "upload",
        "limited",
        "large data files cannot be written",
        "Grant the rights for multipart uploads, or raise the limit of the proxy.",
    ),
    "skewed-clock": Fault(
        "clock",
        "limited",
        "commit times are wrong by that much, and so are time travel by timestamp and retention",
        "Synchronize the clock of this machine and of the store with a time server (NTP).",
    ),
    "slow-creates": Fault(
        "speed",
        "limited",
        "each commit takes at least that long, so concurrent writers wait for each other",
        "Run writers near the store, and check the network and the limits of the store.",
    ),
}
"""All faults by name."""

ORDER: tuple[Safety, ...] = get_args(Safety)

WORDS: dict[Safety, str] = {
    "safe": "several writers may write tables here",
    "limited": "tables may be written here, with a restriction",
    "refused": "tables cannot be used here with these rights, or the store does not answer",
    "unsafe": "do not write tables here: commits can be lost or hidden",
}


def verdict_of(faults: Iterable[str]) -> Safety:
    """Return the worst verdict of some faults; safe if there are none."""
    return max((FAULTS[name].verdict for name in faults), key=ORDER.index, default="safe")


def _check_tables() -> None:
    assert set(CHECKS) == set(get_args(CheckName))
    assert set(WORDS) == set(ORDER)
    assert {fault.check for fault in FAULTS.values()} == set(CHECKS)
    assert all(fault.verdict != "safe" for fault in FAULTS.values())


_check_tables()
