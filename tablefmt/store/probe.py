"""Does this store honour put-if-absent? Asked before the first write to a table.

One create after another is not enough: a server that looks first and puts then, with no lock
between, answers it as it should, and tells several writers who come at once that they have won.

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
"""A server may take another path for a body that does not fit into its first read."""

_SERVER_RACES = tuple(product(range(ROUNDS), BODY_BYTES))
_DISK_RACES = ((0, BODY_BYTES[0]),)
"""A kernel makes the names of one directory one after another, whatever their length. More races
within one machine show nothing more, and each create of them waits for the disk."""

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.05
_SAFE: set[str] = set()
"""Scopes that passed in this process. A child of a fork keeps what its parent knew."""


def ensure_safe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Probe `store` unless a store of the same `probe_scope` passed in this process."""
    if store.probe_scope not in _SAFE:
        probe(store, nonce, sleep)
        _SAFE.add(store.probe_scope)


def probe(store: Store, nonce: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Let 4 creators at once race for each of 10 keys, `_log/.probe-<nonce>-…`, half of them large;
    on a file system for one key.

    One at most may win a key, its body has to stay, and one who comes later has to be refused.
    An answer that is lost, or asks to try again, is nobody's victory and no proof of anything.

    That is 10 rounds of 4 creates, one create, 10 reads and 10 deletes, in 13 round trips; on a
    file system one round of 4 creates, one create, one read and one delete.
    `nonce` is new for every call: 1 to 58 characters fit for a key. A key that cannot be deleted
    is logged, since credentials without the right to delete may still commit.

    Raises:
        UnsafeStoreError: the condition is not honoured, and the store is not
            `unsafe_single_writer`.
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
    danger = f"the store at {store.uri} {fault}: two writers would overwrite each other's commits"
    if not store.unsafe_single_writer:
        raise UnsafeStoreError(
            f"{danger}. Use a store that honours If-None-Match, or pass the storage option "
            "unsafe_single_writer=True if there is never more than one writer."
        )
    _log.warning("%s. Going on, because unsafe_single_writer is set.", danger)


@dataclass(slots=True)
class Contest:
    """What happened to one key.

    Attributes:
        key: The key.
        bodies: What each creator sends.
        replies: What each was answered, and again if nobody was told anything.
    """

    key: str
    bodies: tuple[bytes, ...]
    replies: list[tuple[int, PutReply]] = field(default_factory=list)

    def winners(self) -> list[int]:
        """Creators who were told that the object is theirs."""
        return [creator for creator, reply in self.replies if isinstance(reply, Written)]

    def is_decided(self) -> bool:
        """Whether the object is there, by what the creators were told."""
        return any(isinstance(reply, (Written, Exists)) for _, reply in self.replies)

    def may_exist(self) -> bool:
        """Whether it may be there."""
        return any(not isinstance(reply, Refused) for _, reply in self.replies)

    def fault(self, kept: bytes | None) -> str:
        """What `kept`, the body that stayed, shows of a store that breaks STO-3; "" if nothing."""
        winners = self.winners()
        if len(winners) > 1:
            return f"told {len(winners)} of {CREATORS} writers at once that one object is theirs"
        # With no winner an answer was lost, or refused by a re-send of one's own: any body is fine.
        expected = [self.bodies[winners[0]]] if winners else self.bodies
        return "" if kept in expected else "ignores the condition of put-if-absent"


def _fault(
    store: Store,
    nonce: str,
    contests: list[Contest],
    pool: ThreadPoolExecutor,
    sleep: Callable[[float], None],
) -> str:
    # One key at a time: eight creates at once come too far apart from each other.
    for number, size in _races(store):
        contest = _contest(f"_log/.probe-{nonce}-{number}-{size}", size)
        contests.append(contest)
        _race(store, contest, pool, sleep)
        if len(contest.winners()) > 1:
            return contest.fault(None)
    late = b"late"
    if not isinstance(_insist(lambda: store.put_if_absent(contests[0].key, late), sleep), Exists):
        return "ignores the condition of put-if-absent"
    try:
        kept = store.get_many([one.key for one in contests])
    except StoreError as error:
        raise CommitRejectedError(f"what was written cannot be read: {error}") from None
    faults = (one.fault(body) for one, body in zip(contests, kept, strict=True))
    return next(filter(None, faults), "")


def _races(store: Store) -> Sequence[tuple[int, int]]:
    """Number and length of body of each race that the store is worth."""
    return _DISK_RACES if store.has_folders else _SERVER_RACES


def _contest(key: str, size: int) -> Contest:
    bodies = (f"{creator} {key} ".encode().ljust(size, b".") for creator in range(CREATORS))
    return Contest(check_key(key), tuple(bodies))


def _race(
    store: Store, contest: Contest, pool: ThreadPoolExecutor, sleep: Callable[[float], None]
) -> None:
    """All creators at once; again while the key's fate is unknown to everybody.

    Raises:
        CommitRejectedError: it was refused to all, or nobody got an answer 5 times.
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
        _log.warning("the probe %s stays: %s", key, error)
