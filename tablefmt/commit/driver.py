"""The loop in which the commit protocol meets the store and the clock. Decides nothing itself.

Spec: CMT-1 .. CMT-10 (spec/commit.md), TIM-3.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tablefmt.commit.environment import Environment
from tablefmt.commit.plan import NOTHING, Plan, Removed, entry_on, removed_from
from tablefmt.commit.protocol import (
    ALREADY_APPLIED,
    Attempt,
    Expired,
    Found,
    Get,
    Missing,
    Next,
    Put,
    Reply,
    Winner,
    backoff_seconds,
    start,
    step,
)
from tablefmt.commit.results import (
    AlreadyApplied,
    Committed,
    Conflicted,
    Outcome,
    Rejected,
    Unknown,
)
from tablefmt.conflict.check import Mine, Same, check
from tablefmt.errors import CorruptTableError, StoreError, UnsupportedFeatureError
from tablefmt.log.codec import decode, digest, encode
from tablefmt.log.names import entry_key
from tablefmt.log.reader import read_tail
from tablefmt.model.entry import StoredEntry
from tablefmt.snapshot.head import advance, check_writable, same_table
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import NoAnswer, Refused, Store, Written

logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 600.0
"""How long a commit goes on by default when the store is silent or the table is contended."""

CLOCK_AHEAD_MAX_US = 600_000_000
"""TIM-3: ten minutes."""


SENT_WITHIN_US = 600_000_000
"""CMT-8, INC-2: ten minutes."""


@dataclass(slots=True)
class Done:
    """How it ended, and what the way there was."""

    outcome: Outcome
    entry: StoredEntry | None = None
    """The entry as committed; None unless `outcome` is Committed."""
    rebased_over: list[int] = field(default_factory=list)
    """Versions of the winners that this commit went on top of after losing to them."""


class Driver:
    """Brings one plan into the log."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        environment: Environment,
        view: LogView | None,
        deadline_seconds: float | None = None,
    ) -> None:
        self.store = store
        self.plan = plan
        self.environment = environment
        self.view = view
        self.mine: Mine = plan.mine()
        limit = DEADLINE_SECONDS if deadline_seconds is None else deadline_seconds
        self.expires = environment.monotonic() + limit
        self.rebased_over: list[int] = []
        self.written = False
        """The last put was answered with Written."""
        self.entries: dict[int, tuple[bytes, StoredEntry]] = {}

    def run(self) -> Done:
        """Contest versions until one is decided. See `commit`."""
        problem = self._far_clock()
        if problem is not None:
            return Done(Rejected(problem))
        if self.view is None:
            return self._contest(0)
        # Threads that share a handle take turns: they would only race each other for one version.
        with self.view.lock:
            early = self._overtaken(self.view)
            if early is not None:
                return Done(early)
            return self._contest(self.view.head.version + 1)

    def _overtaken(self, view: LogView) -> Outcome | None:
        """CMT-6: what this handle took in since the transaction read counts like a lost race."""
        if self.plan.read_version is None:
            return None
        try:
            entries = view.entries_after(self.plan.read_version)
        except StoreError as error:
            return Rejected(str(error).rstrip("."))
        for winner in self._judged(entries):
            if winner.verdict is ALREADY_APPLIED:
                return AlreadyApplied(winner.version)
            if winner.verdict is not None:
                return Conflicted(winner.verdict)
        return None

    def _contest(self, version: int) -> Done:
        following: Next
        attempt, following = start(self.plan.transaction, version)
        with ExitStack() as turn:
            raced = False
            while isinstance(following, Put | Get):
                if isinstance(following, Get) and not raced:
                    # A race is lost: read and create undisturbed where the store can (STO-14).
                    turn.enter_context(self.store.turn(entry_key(version)))
                    raced = True
                attempt, following = step(attempt, self._request(attempt, following))
        if not isinstance(following, Committed):
            return Done(following, None, self.rebased_over)
        try:
            return Done(following, self._committed(following.version), self.rebased_over)
        except StoreError as error:
            return Done(Unknown(following.version, str(error).rstrip(".")), None, self.rebased_over)

    def _request(self, attempt: Attempt, request: Put | Get) -> Reply:
        if request.backoff:
            pause = backoff_seconds(attempt.backoffs, self.environment.fraction())
            self.environment.sleep(
                min(pause, max(0.0, self.expires - self.environment.monotonic()))
            )
        if self.environment.monotonic() >= self.expires and attempt.requests > 0:
            return Expired()
        if isinstance(request, Put):
            if self._is_stale(request.version):
                if attempt.maybe_sent:
                    return Expired()
                self.entries.clear()
            try:
                body = self._bytes(request.version)
            except StoreError as error:
                return Refused(str(error).rstrip("."))
            reply = self.store.put_if_absent(entry_key(request.version), body)
            self.written = isinstance(reply, Written)
            if isinstance(reply, NoAnswer):
                logger.info("no answer for version %d: %s", request.version, reply.reason)
            return reply
        return self._winners(request.version)

    def _bytes(self, version: int) -> bytes:
        """The bytes of this version: made once, so that a repeated put sends the same (CMT-3)."""
        if version not in self.entries:
            head = self.view.head if self.view is not None else None
            if head is not None:
                check_writable(head)
            entry = entry_on(self.plan, head, self._removed(), self._now_us())
            assert entry.version == version, (entry.version, version)
            body = encode(entry)
            stored = StoredEntry(entry, digest(body))
            if head is not None:
                # Nothing is sent that a reader would refuse.
                advance(head, stored)
            self.entries = {version: (body, stored)}
        return self.entries[version][0]

    def _is_stale(self, version: int) -> bool:
        """CMT-8: an entry stamped long ago is not sent, or a settled range would grow (INC-2)."""
        known = self.entries.get(version)
        if known is None:
            return False
        return self._now_us() - known[1].entry.timestamp > SENT_WITHIN_US

    def _now_us(self) -> int:
        """The later of this clock and the store's: a slow clock must not write into the past."""
        return max(self.environment.now_us(), self.store.server_time_us() or 0)

    def _removed(self) -> Removed:
        if self.plan.replacing is None or self.view is None:
            return NOTHING
        return removed_from(self.view.snapshot().in_scope(self.plan.replacing.predicate))

    def _winners(self, version: int) -> Reply:
        try:
            entries = self._read(version)
        except StoreError as error:
            return NoAnswer(str(error)) if error.retryable else Refused(str(error).rstrip("."))
        if not entries:
            return Missing()
        winners = tuple(self._judged(entries))
        own = any(w.transaction == self.plan.transaction for w in winners)
        if not own and all(w.verdict is None for w in winners):
            self.rebased_over.extend(w.version for w in winners)
        return Found(winners)

    def _read(self, version: int) -> list[StoredEntry]:
        """The entries from `version` on, taken in by the view."""
        try:
            entries = read_tail(self.store, version)
            if self.view is not None and entries:
                same_table(self.view.head, entries[0])
                self.view.absorb(entries)
            return entries
        except (CorruptTableError, UnsupportedFeatureError):
            # What is ours is committed, whatever is wrong above it (CMT-4).
            known = self.entries.get(version)
            if known is None or self.store.get_many([entry_key(version)]) != [known[0]]:
                raise
            return [known[1]]

    def _judged(self, entries: Sequence[StoredEntry]) -> list[Winner]:
        judged = []
        for stored in entries:
            entry = stored.entry
            verdict: object = None
            if entry.transaction != self.plan.transaction:
                verdict = check(entry, self.mine)
            if verdict is Same.ALREADY_APPLIED:
                verdict = ALREADY_APPLIED
            judged.append(Winner(entry.version, entry.transaction, verdict))
        return judged

    def _committed(self, version: int) -> StoredEntry:
        known = self.entries.get(version)
        if known is not None and known[1].entry.version == version:
            stored = known[1]
        else:
            stored = decode(self.store.get(entry_key(version)), version)
        if not self.written:
            # Met, not answered: the name may be there and not durable yet (STO-3).
            self.store.sync([entry_key(version)])
        if self.view is not None:
            self.view.absorb([stored])
        return stored

    def _far_clock(self) -> str | None:
        """TIM-3: a clock far ahead of the store's would bind every later timestamp."""
        theirs = self.store.server_time_us()
        ahead = self.environment.now_us() - theirs if theirs is not None else 0
        if ahead <= CLOCK_AHEAD_MAX_US:
            return None
        return f"this machine's clock is {ahead // 1_000_000} s ahead of the store's; set it right"


def commit(
    store: Store,
    plan: Plan,
    environment: Environment,
    view: LogView | None,
    deadline_seconds: float | None = None,
) -> Done:
    """Bring `plan` into the log on top of what `view` knows, or find out why not.

    Args:
        store: where the log is.
        plan: the transaction; its data files exist already (ADD-5).
        environment: clock, nonces, waiting.
        view: the log as known; None to create version 0. It is brought up to the commit.
        deadline_seconds: give up after this long; by default DEADLINE_SECONDS.

    Returns:
        One of the outcomes of commit/results.py. Nothing is raised for what the store does.

    Raises:
        CorruptTableError: the log has damage where the winners are.
        UnsupportedFeatureError: ENT-7, a winner needs a feature this version lacks.
    """
    return Driver(store, plan, environment, view, deadline_seconds).run()
