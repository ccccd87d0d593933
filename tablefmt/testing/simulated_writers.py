"""Writers of a simulated log: what each does, and the real protocol asking for one move at a time.

Spec: CMT-1 .. CMT-9 (spec/commit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias, Union

from tablefmt.commit import protocol
from tablefmt.commit.protocol import Attempt, Found, Get, Next, Put, Reply, Unreadable, Winner
from tablefmt.commit.results import Committed, Outcome


class Entry(NamedTuple):
    """What a simulated put carries: enough to judge the log afterwards."""

    transaction: str
    version: int
    previous: str | None
    """Transaction of the entry below; None at version 0."""
    base: int
    """Version that the writer had read; everything between was judged by it."""


class PutEntry(NamedTuple):
    """Put `entry` at its version if absent. Answered by Written, Exists or NoAnswer."""

    entry: Entry


class ReadLog(NamedTuple):
    """Read entries from `version` on. Answered by a tuple of Entry (>= 1), Missing or NoAnswer."""

    version: int
    whole: bool = False
    """True: the answer is one moment's listing. False: newer entries may be missing from it."""


Request: TypeAlias = Union[PutEntry, ReadLog]  # noqa: UP007
Outcomes: TypeAlias = dict[str, Outcome]
Writer: TypeAlias = Generator[Request, Any, None]
Step: TypeAlias = Callable[[Attempt, Reply], tuple[Attempt, Next]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPlan:
    """What one writer does, as data that can go to another process."""

    transactions: tuple[str, ...]
    """Nonces, committed one after the other; the first that is not Committed ends it."""
    conflicts_with: frozenset[str] = frozenset()
    """Transactions that, met as winners, stand in the way. Empty: a blind INSERT."""
    same_application: frozenset[str] = frozenset()
    """Transactions that, met as winners, are this one's content already applied."""
    cannot_read: frozenset[str] = frozenset()
    """Transactions whose entries are a newer version's to it, or damaged: its own may be, too."""
    run: Callable[[WriterPlan, Entry | None, Outcomes], Writer] = field(
        default_factory=lambda: protocol_writer
    )
    """Makes the generator from the plan, the entry at the head, and where outcomes go."""
    step: Step = protocol.step
    looks: bool = False
    """True: each transaction begins with a look at the log."""

    def can_read(self, entry: Entry) -> bool:
        """Whether this writer can judge an entry."""
        return entry.transaction not in self.cannot_read

    def verdict(self, winner: str) -> object:
        """What the conflict engine of this writer says of a winner."""
        if winner in self.conflicts_with:
            return winner
        return protocol.ALREADY_APPLIED if winner in self.same_application else None


def _judged(plan: WriterPlan, entries: list[Entry]) -> Found | Unreadable:
    winners = [Winner(e.version, e.transaction, plan.verdict(e.transaction)) for e in entries]
    return Found(tuple(winners)) if winners else Unreadable("nothing that is known here")


def protocol_writer(plan: WriterPlan, head: Entry | None, outcomes: Outcomes) -> Writer:
    """Drive the protocol's step function, with `plan.step` in its place for mutants."""
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
