"""The commit protocol as one pure function: the next request for every reply of the store.

Rule 1: this file does no I/O and uses no clock, sleep or randomness. The driver does.
Rule 2: after a put was sent for a version, the protocol stays there until the store decides it.

The driver must keep these terms:

- The bytes of a put depend on the transaction and the version alone. A repeated `Put` sends the
  same bytes.
- Every `Put` and `Get` gets exactly one reply.
- The driver may answer `Expired` instead of making the request. It must not do so after the request
  began: an interrupted request is `NoAnswer`.

The ways in which an attempt can end are values here. The table raises the errors.

Spec: CMT-1 .. CMT-10 (spec/commit.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, Union

from tablefmt.conflict.verdict import AlreadyApplied as AlreadyApplied
from tablefmt.conflict.verdict import Conflict, Stop, Verdict
from tablefmt.conflict.verdict import Overtaken as Overtaken
from tablefmt.store.object_store import Exists, NoAnswer, PutReply, Refused, Written


@dataclass(frozen=True, slots=True)
class Committed:
    """The entry is in the log and stays there."""

    version: int
    """Version of the entry."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The entry is not in the log and never will be. The writer may delete its files."""

    reason: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """A concurrent commit conflicts with ours. Our entry is not in the log and never will be."""

    conflict: Conflict
    """The verdict on the concurrent commit."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The entry may be in the log, or may still arrive. The writer keeps its files."""

    version: int
    """The only version at which the entry can be. After a lookup without a version: the
    lowest."""
    reason: str


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """Another entry holds the last contested version: the transaction was not committed."""

    version: int


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """The log no longer keeps the entries that a lookup needs, so the answer is lost for good."""

    version: int
    """Version of the first entry that is kept."""


# Evaluated at run time, so the unions are spelt for Python 3.10's typing.
Outcome: TypeAlias = Union[  # noqa: UP007
    Committed, AlreadyApplied, Rejected, Conflicted, Overtaken, Unknown
]
Resolution: TypeAlias = Union[Committed, NotCommitted, Unknown, Unresolvable]  # noqa: UP007


BACKOFF_BASE_SECONDS: Final = 0.01
"""Upper bound of the wait before the first retry: about one round trip to a near object store."""
BACKOFF_CAP_SECONDS: Final = 2.0
"""Upper bound of every wait. Short against any sensible deadline, so the writer soon finds a
recovered store.
"""
RACE_CAP_SECONDS: Final = 0.32
"""Upper bound of the wait after a lost race.

With 32 writers on a store with puts of 30 ms, each sends 7 puts a commit instead of 20. Together
they commit as fast as without the bound.
"""
FREE_RACES: Final = 1
"""Races lost without a wait. The first lost race may only mean that the known head was old."""
_DOUBLINGS_MAX: Final = 16
"""Most doublings of the wait: a bound for the power. BACKOFF_CAP_SECONDS applies long before."""

DEADLINE: Final = "the deadline passed"
"""Reason of an outcome after the time ran out, if the driver does not give another."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One entry of the log at or above the contested version, with its verdict by the conflict
    rules."""

    version: int
    transaction: str
    verdict: Verdict = None
    """None for an entry of our own transaction, which is not judged."""


@dataclass(frozen=True, slots=True)
class Found:
    """The reply to a `Get` that found the contested version taken."""

    concurrent_commits: tuple[Judged, ...]
    """At least one. The versions begin at the contested one and have no gap.

    The driver may read fewer entries than there are.
    """


@dataclass(frozen=True, slots=True)
class Remaining:
    """The reply to a lookup whose first entries were removed (RET-9): the entries that are left."""

    concurrent_commits: tuple[Judged, ...]
    """At least one, beginning with the first entry that is kept."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The reply to a `Get` that found nothing at the contested version.

    After a head probe, a `Get` before any put, it means that the version is free.
    """


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The reply to a `Get` that found an entry which this writer cannot judge.

    The entry is damaged, or written by a newer version of the format. Its bytes differ from the
    bytes that were put for this version.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Given instead of making the request: the deadline passed, or the caller gives up."""

    reason: str = DEADLINE


@dataclass(frozen=True, slots=True)
class Put:
    """Put the entry of this version if the key is absent."""

    version: int
    backoff: bool = False
    """True: wait `wait_seconds(attempt, ...)` first. The same bytes were sent before."""


@dataclass(frozen=True, slots=True)
class Get:
    """Read the log from this version on. The driver chooses how many entries to read."""

    version: int
    backoff: bool = False
    """True: wait `wait_seconds(attempt, ...)` first."""


# Evaluated at run time, so the unions are spelt for Python 3.10's typing.
Reply: TypeAlias = Union[PutReply, Found, Missing, Unreadable, Expired]  # noqa: UP007
Next: TypeAlias = Union[Put, Get, Outcome]  # noqa: UP007


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Everything the protocol remembers between two requests of one transaction."""

    transaction: str
    """The nonce of the entry, the same at every version."""
    version: int
    """The contested version. Every lower one is decided against this transaction."""
    reading: bool = False
    """True if the current request is a `Get`, False if it is a `Put`."""
    maybe_sent: bool = False
    """True if a put at `version` may have been applied or may still arrive."""
    unanswered: bool = False
    """True if a put at `version` had no answer."""
    backoffs: int = 0
    """Number of repeated requests at `version`."""
    races: int = 0
    """Number of versions lost after a put was sent for them."""
    requests: int = 0
    """Number of requests answered so far, at all versions."""


def start(transaction: str, version: int, *, probe: bool = False) -> tuple[Attempt, Put | Get]:
    """Contest `version` (>= 0) with the entry of `transaction` (not empty). Spec: CMT-2.

    With `probe`, the first request reads the log from that version on.
    """
    assert transaction, "a transaction has a nonce"
    assert version >= 0, version
    attempt = Attempt(transaction=transaction, version=version, reading=probe)
    return attempt, Get(version) if probe else Put(version)


def step(attempt: Attempt, reply: Reply) -> tuple[Attempt, Next]:
    """Return the next request or the outcome after a reply to the current request. Spec: CMT-3 ..
    CMT-8.

    Returns:
        The attempt to pass with the next reply, and the next request or the outcome. After an
        outcome, do not call again.
    """
    if isinstance(reply, Expired):
        return attempt, _give_up(attempt, reply.reason)
    if isinstance(reply, Refused):
        return _answered(attempt), _give_up(attempt, reply.reason)
    if attempt.reading:
        return _after_get(attempt, reply)
    return _after_put(attempt, reply)


def _after_put(attempt: Attempt, reply: Reply) -> tuple[Attempt, Next]:
    version = attempt.version
    if isinstance(reply, Written):
        return _answered(attempt), Committed(version)
    if isinstance(reply, Exists):
        # The client library may have repeated the put by itself and found our own entry.
        return _answered(attempt, reading=True, maybe_sent=True), Get(version)
    assert isinstance(reply, NoAnswer), f"{reply} is not a reply to a put"
    attempt = _answered(attempt, maybe_sent=True, unanswered=True, backoffs=attempt.backoffs + 1)
    return attempt, Put(version, backoff=True)


def _after_get(attempt: Attempt, reply: Reply) -> tuple[Attempt, Next]:
    version = attempt.version
    if isinstance(reply, Found):
        return _after_lost_race(attempt, reply.concurrent_commits)
    if isinstance(reply, Unreadable):
        # If a put had no answer, the damaged entry may be our own.
        ended = Unknown(version, reply.reason) if attempt.unanswered else Rejected(reply.reason)
        return _answered(attempt), ended
    backoffs = attempt.backoffs + 1
    if isinstance(reply, Missing):
        if not attempt.maybe_sent:
            return _answered(attempt, reading=False), Put(version)
        return _answered(attempt, reading=False, backoffs=backoffs), Put(version, backoff=True)
    assert isinstance(reply, NoAnswer), f"{reply} is not a reply to a get"
    return _answered(attempt, backoffs=backoffs), Get(version, backoff=True)


def _after_lost_race(
    attempt: Attempt, concurrent_commits: tuple[Judged, ...]
) -> tuple[Attempt, Next]:
    _check_contiguous(concurrent_commits, attempt.version)
    own = _version_of(attempt.transaction, concurrent_commits)
    if own is not None:
        return _answered(attempt), Committed(own)
    # The first concurrent commit holds the contested version, so our put can no longer land there.
    for concurrent in concurrent_commits:
        if concurrent.verdict is not None:
            return _answered(attempt), outcome_of(concurrent.verdict)
    version = concurrent_commits[-1].version + 1
    races = attempt.races + (1 if attempt.maybe_sent else 0)
    # A head probe just read these entries, so the version above them is probably free.
    probe = attempt.maybe_sent and races > FREE_RACES
    attempt = _answered(
        attempt,
        version=version,
        reading=probe,
        maybe_sent=False,
        unanswered=False,
        backoffs=0,
        races=races,
    )
    return attempt, Get(version, backoff=True) if probe else Put(version)


def outcome_of(verdict: Stop) -> Outcome:
    """Return the outcome of a commit that a verdict stops."""
    return Conflicted(verdict) if isinstance(verdict, Conflict) else verdict


def _answered(attempt: Attempt, **changes: Any) -> Attempt:
    return replace(attempt, requests=attempt.requests + 1, **changes)


def _give_up(attempt: Attempt, reason: str) -> Rejected | Unknown:
    return Unknown(attempt.version, reason) if attempt.maybe_sent else Rejected(reason)


def resolve_found(
    transaction: str, version: int | None, reply: Found | Remaining | Missing | NoAnswer
) -> Resolution:
    """Return the outcome of a transaction whose commit ended as Unknown. Spec: CMT-9.

    Args:
        transaction: its nonce.
        version: the version of the Unknown outcome. Every lower version was decided against the
            transaction. None if unknown: then absence proves nothing.
        reply: the result of a read from `version` on. Without a version, the read may begin at any
            version up to the first contested one.

    Returns:
        Committed if an entry carries the nonce. NotCommitted if another entry holds `version`.
        Unresolvable if the entry of `version` was removed from the log.
        Unknown otherwise: the entry may still arrive at the version in the outcome, or above it if
            `version` is None.
    """
    if isinstance(reply, NoAnswer):
        return Unknown(version or 0, reply.reason)
    if isinstance(reply, Missing):
        return Unknown(version or 0, "the version is still free")
    concurrent_commits = reply.concurrent_commits
    if isinstance(reply, Remaining):
        own = _version_of(transaction, concurrent_commits)
        return Unresolvable(concurrent_commits[0].version) if own is None else Committed(own)
    _check_contiguous(
        concurrent_commits, concurrent_commits[0].version if version is None else version
    )
    own = _version_of(transaction, concurrent_commits)
    if own is not None:
        return Committed(own)
    if version is None:
        return Unknown(concurrent_commits[-1].version + 1, "the contested version is not known")
    return NotCommitted(version)


def backoff_seconds(attempt_number: int, random_fraction: float) -> float:
    """Return the seconds to wait before a request is repeated: full jitter. Spec: CMT-10.

    Args:
        attempt_number: 1 for the first repetition at a version (`Attempt.backoffs`).
        random_fraction: uniform in [0, 1], drawn anew for every wait.

    Returns:
        Seconds, uniform between 0 and a bound. The bound doubles from BACKOFF_BASE_SECONDS up to
        BACKOFF_CAP_SECONDS.
    """
    assert attempt_number >= 1, attempt_number
    assert 0.0 <= random_fraction <= 1.0, random_fraction
    doublings = min(attempt_number - 1, _DOUBLINGS_MAX)
    return random_fraction * min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0**doublings)


def wait_seconds(attempt: Attempt, random_fraction: float) -> float:
    """Return the seconds to wait before a request of this attempt with `backoff`. Spec: CMT-10.

    Args:
        attempt: as returned with the request.
        random_fraction: uniform in [0, 1], drawn anew for every wait.
    """
    if attempt.backoffs:
        return backoff_seconds(attempt.backoffs, random_fraction)
    longest = backoff_seconds(attempt.races - FREE_RACES, 1.0)
    return random_fraction * min(RACE_CAP_SECONDS, longest)


def _version_of(transaction: str, concurrent_commits: tuple[Judged, ...]) -> int | None:
    for concurrent in concurrent_commits:
        if concurrent.transaction == transaction:
            return concurrent.version
    return None


def _check_contiguous(concurrent_commits: tuple[Judged, ...], version: int) -> None:
    assert concurrent_commits, "a read that found something has a concurrent commit"
    for expected, concurrent in enumerate(concurrent_commits, version):
        assert concurrent.version == expected, (version, concurrent_commits)
