"""One schedule of a few writers on a simulated put-if-absent store, with its invariants.

Writers have plans, and drive the real protocol one move at a time. Every choice of the simulation
is explicit: the next writer, the fault of its request, the length of a read. A request and its
answer are one indivisible move. Between two requests a writer touches no shared state, so a slower
answer makes no other history. Choices that repeat another history are left out. For example, at a
taken key a lost or late put equals a lost answer.

Spec: CMT-1 .. CMT-9 (spec/commit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias, Union

from tablefmt.commit import commit_protocol
from tablefmt.commit.commit_protocol import (
    AlreadyApplied,
    Attempt,
    Committed,
    Conflicted,
    Expired,
    Found,
    Get,
    Judged,
    Missing,
    Next,
    NotCommitted,
    Outcome,
    Put,
    Rejected,
    Reply,
    Resolution,
    Unknown,
    Unreadable,
)
from tablefmt.conflict.verdict import Conflict, Verdict
from tablefmt.errors import ConcurrentModificationException
from tablefmt.store.object_store import Exists, NoAnswer, Refused, Written


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
    step: Step = commit_protocol.step
    looks: bool = False
    """True: each transaction begins with a head probe."""

    def can_read(self, entry: Entry) -> bool:
        """Return whether this writer can judge an entry."""
        return entry.transaction not in self.cannot_read

    def verdict(self, concurrent: str, version: int) -> Verdict:
        """Return the verdict of this writer on a transaction that holds a version."""
        if concurrent in self.conflicts_with:
            return Conflict(
                error=ConcurrentModificationException,
                rule="CFL-1",
                reason=concurrent,
                winner_version=version,
                winner_operation="",
            )
        return AlreadyApplied(version) if concurrent in self.same_application else None


def _judged(plan: WriterPlan, entries: list[Entry]) -> Found | Unreadable:
    concurrent_commits = [
        Judged(e.version, e.transaction, plan.verdict(e.transaction, e.version)) for e in entries
    ]
    return (
        Found(tuple(concurrent_commits))
        if concurrent_commits
        else Unreadable("nothing that is known here")
    )


def protocol_writer(plan: WriterPlan, head: Entry | None, outcomes: Outcomes) -> Writer:
    """Run the transactions with the protocol's step function, or with `plan.step` for mutants."""
    for transaction in plan.transactions:
        base = head.version if head else -1
        below = head.transaction if head else None
        attempt, request = commit_protocol.start(transaction, base + 1, probe=plan.looks)
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


MOVES_MAX = 200
"""A schedule with more moves than this counts as endless."""


class Fault(Enum):
    """A fault of one request. Each uses up one of the schedule's faults."""

    LOST_ANSWER = "applied, no answer"
    LATE_PUT = "no answer; applied at any later point"
    SDK_RETRY = "applied, repeated by the client library, answered Exists"
    LOST_REQUEST = "no answer; never applied"
    REFUSED = "refused, never applied"
    CRASH = "the writer dies before the request"
    CRASH_SENT = "the writer dies after the put was applied, before its answer"


CONTRACT_FAULTS = tuple(Fault)
_AT_TAKEN_KEY = (Fault.LOST_ANSWER, Fault.REFUSED, Fault.CRASH)
_AT_READ = (Fault.LOST_ANSWER, Fault.REFUSED, Fault.CRASH)

Resolve: TypeAlias = Callable[[str, "int | None", "Found | Missing | NoAnswer"], Resolution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario to explore. All its fields can be pickled."""

    name: str
    writers: tuple[WriterPlan, ...]
    faults: int = 0
    """Most faults in one schedule."""
    kinds: tuple[Fault, ...] = CONTRACT_FAULTS
    """Kinds of faults, in the order in which they are tried."""
    deadlines: int = 0
    """Most requests of one schedule that hit the deadline instead of being sent."""
    created: bool = True
    """False: the table does not exist yet, and all writers race for version 0."""
    resolve: Resolve = commit_protocol.resolve_found


_WRITTEN = Written()
_EXISTS = Exists()
_MISSING = Missing()
_EXPIRED = Expired()
_NO_ANSWER = NoAnswer("timeout")
_REFUSED = Refused("permission")
_GENESIS = Entry("genesis", 0, None, -1)


class ViolationError(AssertionError):
    """An invariant is broken in the current schedule."""


class Simulation:
    """One schedule, from the empty start until no event is left."""

    def __init__(
        self, scenario: Scenario, pick: Callable[[int], int], story: list[str] | None
    ) -> None:
        self.scenario = scenario
        self.pick = pick
        self.story = story
        self.log: dict[int, Entry] = {0: _GENESIS} if scenario.created else {}
        self.outcomes: Outcomes = {}
        self.in_flight: list[Entry] = []
        self.sent: dict[tuple[str, int], Entry] = {}
        self.faults_left = scenario.faults
        self.deadlines_left = scenario.deadlines
        self.disturbed: set[int] = set()
        self.crashed: set[int] = set()
        self.watched: list[tuple[str, int]] = []
        self.answered: dict[str, Resolution] = {}
        self.known = 0
        self.heard: dict[int, tuple[object, ...]] = {}
        """The replies to each writer; a crash counts as one."""
        self.live: dict[int, tuple[Writer, Request]] = {}
        head = _GENESIS if scenario.created else None
        for index, plan in enumerate(scenario.writers):
            writer = plan.run(plan, head, self.outcomes)
            self.live[index] = (writer, next(writer))

    def run(
        self,
        known: Callable[[Hashable], bool] | None = None,
        ids: dict[Hashable, int] | None = None,
    ) -> bool:
        """Play the schedule. Raises ViolationError.

        Args:
            known: called at every state; True ends the schedule there.
            ids: short names of the replies that writers received, shared by all simulations of a
                scenario.

        Returns:
            False if it ended at a known state, without a check of its end.
        """
        moves = 0
        while self.live or self.in_flight:
            if known is not None and known(self._state({} if ids is None else ids)):
                return False
            moves += 1
            if moves > MOVES_MAX:
                raise ViolationError("the schedule does not end")
            width = len(self.live) + len(self.in_flight)
            choice = self.pick(width) if width > 1 else 0
            entries = len(self.log)
            # The first writer comes first, then late requests, so that the search finds the
            # tightest races early.
            late = len(self.in_flight)
            if self.live and (choice == 0 or choice > late):
                self._move(list(self.live)[choice - late if choice else 0])
            else:
                self._deliver(choice - 1 if self.live else choice)
            if len(self.outcomes) != self.known:
                self._check_new_outcomes()
            elif self.watched and len(self.log) != entries:
                self._check_lookups()
        self._check_end()
        return True

    def _state(self, ids: dict[Hashable, int]) -> Hashable:
        """Return everything on which the rest of the schedule and its checks depend.

        Writers are generators that know only the replies to them. So the replies determine a
        writer, its requests, and the outcomes of its transactions.
        """
        heard = tuple(
            ids.setdefault(self.heard.get(index, ()), len(ids))
            for index in range(len(self.scenario.writers))
        )
        return (
            heard,
            tuple(sorted(self.log.items())),
            tuple(self.in_flight),
            self.faults_left,
            self.deadlines_left,
            frozenset(self.disturbed),
            tuple(sorted((name, repr(answer)) for name, answer in self.answered.items())),
        )

    def _deliver(self, place: int) -> None:
        entry = self.in_flight.pop(place)
        holder = self.log.setdefault(entry.version, entry)
        if self.story is not None:
            self.story.append(f"late: {entry} arrives, {holder} is there")

    def _move(self, index: int) -> None:
        writer, request = self.live[index]
        event = self._event(request)
        if event is not None:
            self.disturbed.add(index)
        if event is Fault.CRASH or event is Fault.CRASH_SENT:
            if event is Fault.CRASH_SENT and type(request) is PutEntry:
                self.log.setdefault(request.entry.version, request.entry)
            if self.story is not None:
                self.story.append(f"writer {index}: {request} -> {event}")
            self.crashed.add(index)
            self.heard[index] = (*self.heard.get(index, ()), event)
            del self.live[index]
            return
        if event is _EXPIRED:
            reply: object = event
        elif isinstance(request, PutEntry):
            reply = self._put(request.entry, event)
        else:
            reply = self._read(request, event)
        if self.story is not None:
            self.story.append(f"writer {index}: {request} -> {event or 'no fault'} -> {reply}")
        self.heard[index] = (*self.heard.get(index, ()), reply)
        try:
            self.live[index] = (writer, writer.send(reply))
        except StopIteration:
            del self.live[index]

    def _event(self, request: Request) -> Fault | Expired | None:
        """Return the event of this request: faults first, then the deadline, then none."""
        options: list[Fault | Expired] = []
        if self.faults_left:
            kinds = self.scenario.kinds
            if type(request) is not PutEntry:
                options += [kind for kind in kinds if kind in _AT_READ]
            elif request.entry.version in self.log:
                options += [kind for kind in kinds if kind in _AT_TAKEN_KEY]
            else:
                options += kinds
        if self.deadlines_left:
            options.append(_EXPIRED)
        if not options:
            return None
        choice = self.pick(len(options) + 1)
        if choice == len(options):
            return None
        event = options[choice]
        if event is _EXPIRED:
            self.deadlines_left -= 1
        else:
            self.faults_left -= 1
        return event

    def _put(self, entry: Entry, event: object) -> object:
        if self.sent.setdefault((entry.transaction, entry.version), entry) != entry:
            raise ViolationError(f"CMT-2: other bytes for one transaction and version: {entry}")
        if event is Fault.REFUSED:
            return _REFUSED
        if event is Fault.LATE_PUT:
            self.in_flight.append(entry)
            return _NO_ANSWER
        if event is Fault.LOST_REQUEST:
            return _NO_ANSWER
        won = entry.version not in self.log
        if won:
            self.log[entry.version] = entry
        if event is Fault.LOST_ANSWER:
            return _NO_ANSWER
        return _WRITTEN if won and event is not Fault.SDK_RETRY else _EXISTS

    def _read(self, request: ReadLog, event: object) -> object:
        if event is Fault.REFUSED:
            return _REFUSED
        if event is Fault.LOST_ANSWER:
            return _NO_ANSWER
        entries = self._tail(request.version)
        if not entries:
            return _MISSING
        if len(entries) > 1 and not request.whole and self.pick(2):
            return entries[:1]
        return entries

    def _tail(self, version: int) -> tuple[Entry, ...]:
        entries = []
        while version in self.log:
            entries.append(self.log[version])
            version += 1
        return tuple(entries)

    def _check_new_outcomes(self) -> None:
        for transaction in list(self.outcomes)[self.known :]:
            outcome = self.outcomes[transaction]
            if self.story is not None:
                self.story.append(f"{transaction}: {outcome}")
            if isinstance(outcome, Committed):
                entry = self.log.get(outcome.version)
                if entry is None or entry.transaction != transaction:
                    raise ViolationError(f"CMT-1: {transaction} {outcome}, but there is {entry}")
            elif isinstance(outcome, Unknown):
                self.watched.append((transaction, outcome.version))
        self.known = len(self.outcomes)
        self._check_lookups()

    def _check_lookups(self) -> None:
        """Check that the answer of a lookup never changes, and agrees with the final log."""
        for transaction, version in self.watched:
            for start in (version, None):
                answer = self._look_up(transaction, start)
                if not isinstance(answer, Unknown):
                    before = self.answered.setdefault(transaction, answer)
                    if before != answer:
                        raise ViolationError(f"CMT-9: {transaction} {before}, then {answer}")

    def _look_up(self, transaction: str, version: int | None) -> Resolution:
        entries = self._tail(version or 0)
        reply: Found | Missing = _MISSING
        if entries:
            reply = Found(tuple(Judged(entry.version, entry.transaction) for entry in entries))
        return self.scenario.resolve(transaction, version, reply)

    def _check_end(self) -> None:
        places: dict[str, int] = {}
        below: str | None = None
        for version in range(len(self.log)):
            entry = self.log.get(version)
            if entry is None:
                raise ViolationError(f"LOG-2: version {version} is missing from {sorted(self.log)}")
            if entry.transaction in places:
                raise ViolationError(
                    f"CMT-3: {entry.transaction} is at {places[entry.transaction]} and {version}"
                )
            if entry.previous != below:
                raise ViolationError(f"CMT-5: {entry} is based on {below}")
            places[entry.transaction] = version
            below = entry.transaction
        for index, plan in enumerate(self.scenario.writers):
            for place, transaction in enumerate(plan.transactions):
                self._check_outcome(index, place, transaction, places)
                if transaction in places:
                    self._check_order(plan, places[transaction])

    def _check_outcome(
        self, index: int, place: int, transaction: str, places: dict[str, int]
    ) -> None:
        """Check that the outcome of one attempt agrees with its place in the log (CMT-1)."""
        outcome = self.outcomes.get(transaction)
        version = places.get(transaction)
        plan = self.scenario.writers[index]
        if outcome is None:
            earlier = self.outcomes.get(plan.transactions[place - 1]) if place else None
            stopped = place > 0 and not isinstance(earlier, Committed)
            fine = index in self.crashed or (stopped and version is None)
        elif isinstance(outcome, Committed):
            fine = version == outcome.version
        elif isinstance(outcome, Rejected):
            met = index in self.disturbed or bool(plan.cannot_read & places.keys())
            fine = version is None and met
        elif isinstance(outcome, Conflicted):
            holder = self.log.get(outcome.conflict.winner_version)
            fine = version is None and holder is not None
            fine = fine and holder is not None and holder.transaction in plan.conflicts_with
        elif isinstance(outcome, AlreadyApplied):
            holder = self.log.get(outcome.version)
            fine = version is None and holder is not None
            fine = fine and holder is not None and holder.transaction in plan.same_application
        else:
            fine = index in self.disturbed and self._lookup_is_final(
                transaction, outcome.version, version
            )
        answer = self.answered.get(transaction)
        if answer is not None:
            fine = fine and isinstance(answer, Committed) == (version is not None)
        if not fine:
            raise ViolationError(
                f"CMT-1: {transaction} ends as {outcome}, looked up as {answer}, "
                f"and its place in the log is {version}"
            )

    def _lookup_is_final(self, transaction: str, contested: int, version: int | None) -> bool:
        answer = self._look_up(transaction, contested)
        if version is not None:
            return answer == Committed(version)
        if contested in self.log:
            return answer == NotCommitted(contested)
        return isinstance(answer, Unknown)

    def _check_order(self, plan: WriterPlan, version: int) -> None:
        """Check that no entry is based on an entry that conflicts with it."""
        entry = self.log[version]
        for between in range(entry.base + 1, version):
            if plan.verdict(self.log[between].transaction, between) is not None:
                raise ViolationError(f"CMT-6: {entry} is based on {self.log[between]}")
