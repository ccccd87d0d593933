"""Simulated writers: their plans, and the real protocol driven one move at a time.

Spec: CMT-1 .. CMT-9 (spec/commit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias, Union

from tablefmt.commit import protocol
from tablefmt.commit.protocol import Attempt, Found, Get, Judged, Next, Put, Reply, Unreadable
from tablefmt.commit.results import Committed, Outcome
from tablefmt.conflict.verdict import AlreadyApplied, Conflict, Verdict
from tablefmt.errors import ConcurrentModificationException


class Entry(NamedTuple):
    """The content of a simulated put, enough to check the log afterwards."""

    transaction: str
    version: int
    previous: str | None
    """Transaction of the entry below; None at version 0."""
    base: int
    """Version that the writer had read; it judged every entry above."""


class PutEntry(NamedTuple):
    """Request to put `entry` at its version if absent. Answers: Written, Exists or NoAnswer."""

    entry: Entry


class ReadLog(NamedTuple):
    """Request to read entries from `version` on. Answers: a tuple of one or more Entry, Missing,
    NoAnswer.
    """

    version: int
    whole: bool = False
    """True: the answer is an atomic listing. False: it may lack newer entries."""


Request: TypeAlias = Union[PutEntry, ReadLog]  # noqa: UP007
Outcomes: TypeAlias = dict[str, Outcome]
Writer: TypeAlias = Generator[Request, Any, None]
Step: TypeAlias = Callable[[Attempt, Reply], tuple[Attempt, Next]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPlan:
    """The work of one writer, as data that can be sent to another process."""

    transactions: tuple[str, ...]
    """Nonces of transactions, committed in order; the first that is not Committed ends the plan."""
    conflicts_with: frozenset[str] = frozenset()
    """Concurrent transactions that conflict with this writer. Empty: a blind INSERT."""
    same_application: frozenset[str] = frozenset()
    """Concurrent transactions that already applied this one's content."""
    cannot_read: frozenset[str] = frozenset()
    """Transactions whose entries this writer cannot read: they are newer or damaged. Its own may
    be, too.
    """
    run: Callable[[WriterPlan, Entry | None, Outcomes], Writer] = field(
        default_factory=lambda: protocol_writer
    )
    """Creates the generator from the plan, the head entry, and the dict of outcomes."""
    step: Step = protocol.step
    looks: bool = False
    """True: each transaction begins with a head probe."""

    def can_read(self, entry: Entry) -> bool:
        """Return whether this writer can judge an entry."""
        return entry.transaction not in self.cannot_read

    def verdict(self, winner: str, version: int) -> Verdict:
        """Return the verdict of this writer on a transaction that holds a version."""
        if winner in self.conflicts_with:
            return Conflict(
                error=ConcurrentModificationException,
                rule="CFL-1",
                reason=winner,
                winner_version=version,
                winner_operation="",
            )
        return AlreadyApplied(version) if winner in self.same_application else None


def _judged(plan: WriterPlan, entries: list[Entry]) -> Found | Unreadable:
    winners = [
        Judged(e.version, e.transaction, plan.verdict(e.transaction, e.version)) for e in entries
    ]
    return Found(tuple(winners)) if winners else Unreadable("nothing that is known here")


def protocol_writer(plan: WriterPlan, head: Entry | None, outcomes: Outcomes) -> Writer:
    """Run the transactions with the protocol's step function, or with `plan.step` for mutants."""
    for transaction in plan.transactions:
        base = head.version if head else -1
        below = head.transaction if head else None
        attempt, request = protocol.start(transaction, base + 1, look=plan.looks)
        decision: Next = request
        while True:
            if isinstance(decision, Put):
                entry = Entry(transaction, decision.version, below, base)
                reply = yield PutEntry(entry)
            elif isinstance(decision, Get):
                reply = yield ReadLog(decision.version)
                if type(reply) is tuple:
                    readable = list(takewhile(plan.can_read, reply))
                    below = readable[-1].transaction if readable else below
                    reply = _judged(plan, readable)
            else:
                break
            attempt, decision = plan.step(attempt, reply)
        outcomes[transaction] = decision
        if not isinstance(decision, Committed):
            return
        head = entry
