"""The commit protocol as one pure function: what to do next after every reply of the store.

Rule 1: no I/O, clock, sleep or randomness in this file. The driver owns those.
Rule 2: a version that a put was sent for is not left until the store has decided it.

The driver keeps to these terms. The bytes it puts are a function of the transaction and the
version alone: a repeated `Put` carries the same bytes. It answers every `Put` and `Get` with
exactly one reply, and it may answer `Expired` instead of making the request, never after having
begun it: a request that was interrupted is `NoAnswer`. How an attempt can end is a value here too;
raising is left to the table.

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
    """ID version of the entry."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The entry is not in the log and never will be. The writer may delete its files."""

    reason: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """An entry that won does not let ours on top. Ours is not in the log and never will be."""

    conflict: Conflict
    """The verdict on that entry."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The entry may be in the log, or may still arrive. The writer keeps its files."""

    version: int
    """The only ID version at which the entry can be. From a lookup without a version: the least."""
    reason: str


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """What a lookup says of a transaction whose last contested version another entry holds."""

    version: int


@dataclass(frozen=True, slots=True)
class Untold:
    """What a lookup says where the entries that would tell are not kept any more: never more."""

    version: int
    """ID version of the first that is kept."""


# Evaluated at run time, so the unions are spelt for Python 3.10's typing.
Outcome: TypeAlias = Union[  # noqa: UP007
    Committed, AlreadyApplied, Rejected, Conflicted, Overtaken, Unknown
]
Resolution: TypeAlias = Union[Committed, NotCommitted, Unknown, Untold]  # noqa: UP007


BACKOFF_BASE_SECONDS: Final = 0.01
"""Longest wait before the first repetition; about one round trip to a near object store."""
BACKOFF_CAP_SECONDS: Final = 2.0
"""Longest wait ever: short against any sensible deadline, so a recovered store is found soon."""
RACE_CAP_SECONDS: Final = 0.32
"""Longest wait after a lost race. Of 32 writers on a store that takes 30 ms for a put, each then
sends 7 puts a commit instead of 20, and all together commit as fast as before."""
FREE_RACES: Final = 1
"""Races lost without a wait: the first one may only say that the head was an old one."""
_DOUBLINGS_MAX: Final = 16
"""Past this the cap holds anyway; it keeps the power small."""

DEADLINE: Final = "deadline"
"""The reason given when time ran out."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One entry of the log at or above the contested version, judged by the conflict rules."""

    version: int
    transaction: str
    verdict: Verdict = None
    """Not looked at if the transaction is our own."""


@dataclass(frozen=True, slots=True)
class Found:
    """The reply to a `Get` that found the contested version taken."""

    concurrent_commits: tuple[Judged, ...]
    """At least one. Versions are the contested one and on from there, without a gap.

    The driver may read fewer than there are.
    """


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of the entries that a lookup reads: the first of them were removed (RET-9)."""

    concurrent_commits: tuple[Judged, ...]
    """At least one, from the first that is kept on."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The reply to a `Get` that found nothing at the contested version.

    To a look, a `Get` before anything was sent, it says that the version is free.
    """


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The reply to a `Get` that found the contested version taken, by what nobody can judge here.

    It is damaged, or a newer version's; in any case other bytes than were put for this version.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Given instead of making the request: the caller's time is up, or it gives up."""


@dataclass(frozen=True, slots=True)
class Put:
    """Put the entry of this version if the key is absent."""

    version: int
    backoff: bool = False
    """True: wait `wait_seconds(attempt, ...)` first; the bytes were sent before."""


@dataclass(frozen=True, slots=True)
class Get:
    """Read the log from this version on; as many entries as the driver likes."""

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
    """The contested ID version. Every lower one is decided against this transaction."""
    reading: bool = False
    """True if the request under way is a `Get`, False if it is a `Put`."""
    maybe_sent: bool = False
    """True if a put at `version` may have been applied or may still arrive."""
    unanswered: bool = False
    """True if a put at `version` had no answer."""
    backoffs: int = 0
    """How often a request was repeated at `version`."""
    races: int = 0
    """Versions lost after a put was sent for them."""
    requests: int = 0
    """Requests answered so far, at all versions."""


def start(transaction: str, version: int, *, probe: bool = False) -> tuple[Attempt, Put | Get]:
    """Contest `version` (>= 0) with the entry of `transaction` (not empty). Spec: CMT-2.

    With `probe`, the log is read from that version on before anything is sent.
    """
    assert transaction, "a transaction has a nonce"
    assert version >= 0, version
    attempt = Attempt(transaction=transaction, version=version, reading=probe)
    return attempt, Get(version) if probe else Put(version)


def step(attempt: Attempt, reply: Reply) -> tuple[Attempt, Next]:
    """Decide what follows a reply to the request under way. Spec: CMT-3 .. CMT-8.

    Returns:
        The attempt to pass in with the next reply, and the next request or the outcome. After an
        outcome there is nothing more to feed.
    """
    if isinstance(reply, Expired):
        return attempt, _give_up(attempt, DEADLINE)
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
        # The client library may have repeated the put by itself and met our own entry.
        return _answered(attempt, reading=True, maybe_sent=True), Get(version)
    assert isinstance(reply, NoAnswer), f"{reply} is no reply to a put"
    attempt = _answered(attempt, maybe_sent=True, unanswered=True, backoffs=attempt.backoffs + 1)
    return attempt, Put(version, backoff=True)


def _after_get(attempt: Attempt, reply: Reply) -> tuple[Attempt, Next]:
    version = attempt.version
    if isinstance(reply, Found):
        return _after_lost_race(attempt, reply.concurrent_commits)
    if isinstance(reply, Unreadable):
        # What is damaged may be our own, if one was sent of which we do not know what came of it.
        ended = Unknown(version, reply.reason) if attempt.unanswered else Rejected(reply.reason)
        return _answered(attempt), ended
    backoffs = attempt.backoffs + 1
    if isinstance(reply, Missing):
        if not attempt.maybe_sent:
            return _answered(attempt, reading=False), Put(version)
        return _answered(attempt, reading=False, backoffs=backoffs), Put(version, backoff=True)
    assert isinstance(reply, NoAnswer), f"{reply} is no reply to a get"
    return _answered(attempt, backoffs=backoffs), Get(version, backoff=True)


def _after_lost_race(
    attempt: Attempt, concurrent_commits: tuple[Judged, ...]
) -> tuple[Attempt, Next]:
    _check_contiguous(concurrent_commits, attempt.version)
    own = _version_of(attempt.transaction, concurrent_commits)
    if own is not None:
        return _answered(attempt), Committed(own)
    # The first winner holds the contested version, so no put of ours can land there any more.
    for concurrent in concurrent_commits:
        if concurrent.verdict is not None:
            return _answered(attempt), outcome_of(concurrent.verdict)
    version = concurrent_commits[-1].version + 1
    races = attempt.races + (1 if attempt.maybe_sent else 0)
    # What a look found is new: nobody is known to be after the version above it.
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
    """Return how a commit ends that may not go on top of a concurrent one."""
    return Conflicted(verdict) if isinstance(verdict, Conflict) else verdict


def _answered(attempt: Attempt, **changes: Any) -> Attempt:
    return replace(attempt, requests=attempt.requests + 1, **changes)


def _give_up(attempt: Attempt, reason: str) -> Rejected | Unknown:
    return Unknown(attempt.version, reason) if attempt.maybe_sent else Rejected(reason)


def resolve_found(
    transaction: str, version: int | None, reply: Found | Remaining | Missing | NoAnswer
) -> Resolution:
    """Say what became of a transaction whose commit ended as Unknown. Spec: CMT-9.

    Args:
        transaction: Its nonce.
        version: The version of the Unknown outcome; every lower one was decided against the
            transaction. None if that is not known: then absence proves nothing.
        reply: What a read from `version` on gave; without a version, from any version not above
            the first one contested.

    Returns:
        Committed if an entry read carries the nonce. NotCommitted if another holds `version`.
        Untold if that entry was removed. Else Unknown: the entry may still arrive at the version
        named, or above it if `version` is None.
    """
    if isinstance(reply, NoAnswer):
        return Unknown(version or 0, reply.reason)
    if isinstance(reply, Missing):
        return Unknown(version or 0, "the version is still free")
    concurrent_commits = reply.concurrent_commits
    if isinstance(reply, Remaining):
        own = _version_of(transaction, concurrent_commits)
        return Untold(concurrent_commits[0].version) if own is None else Committed(own)
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
    """How long to wait before a request is repeated: full jitter. Spec: CMT-10.

    Args:
        attempt_number: 1 for the first repetition at a version (`Attempt.backoffs`).
        random_fraction: Uniform in [0, 1], drawn anew for every wait.

    Returns:
        Seconds, uniform between 0 and a bound that doubles from BACKOFF_BASE_SECONDS up to
        BACKOFF_CAP_SECONDS.
    """
    assert attempt_number >= 1, attempt_number
    assert 0.0 <= random_fraction <= 1.0, random_fraction
    doublings = min(attempt_number - 1, _DOUBLINGS_MAX)
    return random_fraction * min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0**doublings)


def wait_seconds(attempt: Attempt, random_fraction: float) -> float:
    """How long to wait before a request with `backoff` of this attempt. Spec: CMT-10.

    Args:
        attempt: as returned with the request.
        random_fraction: Uniform in [0, 1], drawn anew for every wait.
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
    assert concurrent_commits, "a read that found something has a winner"
    for expected, concurrent in enumerate(concurrent_commits, version):
        assert concurrent.version == expected, (version, concurrent_commits)
