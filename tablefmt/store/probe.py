"""Check that a store honours put-if-absent, before the first write to a table.

Sequential creates do not prove it. A server that checks and then writes without a lock passes them.
It still tells several simultaneous writers that each of them created the object.

Spec: STO-12 (spec/store.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from threading import Barrier, BrokenBarrierError

from tablefmt.errors import CommitRejectedError, StoreError, UnsafeStoreError
from tablefmt.store.protocol import (
    Exists,
    NoAnswer,
    PutReply,
    Refused,
    Store,
    Written,
    check_key,
)

CREATORS = 4
ROUNDS = 5
BODY_BYTES = (100, 100_000)
"""Lengths of the bodies. A server may handle a body larger than its first read differently."""

_SERVER_RACES = tuple(product(range(ROUNDS), BODY_BYTES))
_DISK_RACES = ((0, BODY_BYTES[0]),)
"""A kernel serializes the creation of names in one directory, for any body length. More races
within one machine show nothing more, and each create waits for the disk.
"""

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.05
_SAFE: set[str] = set()
"""Scopes that passed in this process. A forked child inherits them."""


def ensure_safe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Probe `store`, unless a store of the same `probe_scope` passed in this process."""
    if store.probe_scope not in _SAFE:
        probe(store, nonce, sleep)
        _SAFE.add(store.probe_scope)


def probe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Check put-if-absent with 4 creators that race for each key `_log/.probe-<nonce>-…`.

    They race for 10 keys, half of them with a large body; on a file system for one key. At most one
    creator may win a key, its body must stay, and a later create must be refused. A lost answer, or
    an answer that asks for a retry, counts neither as a win nor as a proof.

    The cost is 10 rounds of 4 creates, one create, 10 reads and 10 deletes, in 13 round trips. On a
    file system it is one round of 4 creates, one create, one read and one delete. `nonce` must be
    new for every call: 1 to 58 characters that are valid in a key. A key that cannot be deleted is
    logged, because credentials without the right to delete may still commit.

    Raises:
        UnsafeStoreError: the store ignores the condition, and is not `unsafe_single_writer`.
        CommitRejectedError: the store refuses writes, or gave no answer 5 times.
    """
    contests: list[Contest] = []
    with ThreadPoolExecutor(max(CREATORS, len(_races(store)))) as pool:
        try:
            fault = _fault(store, nonce, contests, pool, sleep)
        finally:
            touched = [one.key for one in contests if one.may_exist()]
            list(pool.map(lambda key: _remove(store, key), touched))
    if not fault:
        return
    danger = f"the store at {store.uri} {fault}: two writers could overwrite each other's commits"
    if not store.unsafe_single_writer:
        raise UnsafeStoreError(
            f"{danger}. Use a store that honours If-None-Match, or pass the storage option "
            "unsafe_single_writer=True if there is only ever one writer."
        )
    _log.warning("%s. Continuing because unsafe_single_writer is set.", danger)


@dataclass(slots=True)
class Contest:
    """The race for one key.

    Attributes:
        key: the key.
        bodies: the body that each creator sends.
        replies: the replies by creator, for all rounds of the race.
    """

    key: str
    bodies: tuple[bytes, ...]
    replies: list[tuple[int, PutReply]] = field(default_factory=list)

    def winners(self) -> list[int]:
        """Return the creators that the store confirmed."""
        return [creator for creator, reply in self.replies if isinstance(reply, Written)]

    def is_decided(self) -> bool:
        """Return whether the replies prove that the object exists."""
        return any(isinstance(reply, (Written, Exists)) for _, reply in self.replies)

    def may_exist(self) -> bool:
        """Return whether the object may exist."""
        return any(not isinstance(reply, Refused) for _, reply in self.replies)

    def fault(self, kept: bytes | None) -> str:
        """Return how the stored body `kept` shows a violation of STO-3; "" if it does not."""
        winners = self.winners()
        if len(winners) > 1:
            return f"confirmed one object to {len(winners)} of {CREATORS} simultaneous writers"
        # Without a winner, an answer was lost, or the creator's own re-send was refused. Any of the
        # bodies is then correct.
        expected = [self.bodies[winners[0]]] if winners else self.bodies
        return "" if kept in expected else "ignores the put-if-absent condition"


def _fault(
    store: Store,
    nonce: str,
    contests: list[Contest],
    pool: ThreadPoolExecutor,
    sleep: Callable[[float], None],
) -> str:
    # One key at a time: eight simultaneous creates spread too far apart in time.
    for number, size in _races(store):
        contest = _contest(f"_log/.probe-{nonce}-{number}-{size}", size)
        contests.append(contest)
        _race(store, contest, pool, sleep)
        if len(contest.winners()) > 1:
            return contest.fault(None)
    late = b"late"
    if not isinstance(_insist(lambda: store.put_if_absent(contests[0].key, late), sleep), Exists):
        return "ignores the put-if-absent condition"
    try:
        kept = store.get_many([one.key for one in contests])
    except StoreError as error:
        raise CommitRejectedError(f"the probe's objects cannot be read back: {error}") from None
    faults = (one.fault(body) for one, body in zip(contests, kept, strict=True))
    return next(filter(None, faults), "")


def _races(store: Store) -> Sequence[tuple[int, int]]:
    """Return the number and the body length of each race for this store."""
    return _DISK_RACES if store.has_folders else _SERVER_RACES


def _contest(key: str, size: int) -> Contest:
    bodies = (f"{creator} {key} ".encode().ljust(size, b".") for creator in range(CREATORS))
    return Contest(check_key(key), tuple(bodies))


def _race(
    store: Store, contest: Contest, pool: ThreadPoolExecutor, sleep: Callable[[float], None]
) -> None:
    """Let all creators create at once, and repeat while no reply decides whether the key exists.

    Raises:
        CommitRejectedError: the store refused all creates, or gave no answer 5 times.
    """

    def once() -> PutReply:
        start = Barrier(CREATORS)

        def create(body: bytes) -> PutReply:
            with suppress(BrokenBarrierError):  # no more threads to be had: a weaker race
                start.wait(timeout=1)
            return store.put_if_absent(contest.key, body)

        asked = [pool.submit(create, body) for body in contest.bodies]
        contest.replies += enumerate(reply.result() for reply in asked)
        return Written() if contest.is_decided() else contest.replies[-1][1]

    _insist(once, sleep)


def _insist(ask: Callable[[], PutReply], sleep: Callable[[float], None]) -> PutReply:
    reason = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(_FIRST_WAIT_SECONDS * 2**attempt)
        reply = ask()
        if isinstance(reply, Refused):
            raise CommitRejectedError(reply.reason)
        if not isinstance(reply, NoAnswer):
            return reply
        reason = reply.reason
    raise CommitRejectedError(f"the store gave no answer {_ATTEMPTS} times: {reason}")


def _remove(store: Store, key: str) -> None:
    try:
        store.delete(key)
    except StoreError as error:
        _log.warning("could not delete the probe object %s: %s", key, error)
