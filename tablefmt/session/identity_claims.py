"""Claims of numbers for the rows of identity columns.

A claim is an entry of its own, which raises the counter of the column. Entries are in one order, so
no two claims get the same numbers. A claim conflicts with no write, and no write with it. A handle
that claims again takes as many numbers as it used before. So many small appends need few claims.
Numbers that a handle does not use are never given. Spec: IDN-2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tablefmt.commit.commit_protocol import Committed, Conflicted, Rejected
from tablefmt.commit.driver import commit
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Plan, Staged, pending_of
from tablefmt.errors import CommitRejectedError, ConstraintViolationError
from tablefmt.model.identity_columns import CLAIM, IdentityColumn, identity_columns
from tablefmt.model.log_entry import Metadata, Operation, OperationClass, PartitionScope
from tablefmt.snapshot.head import check_writable
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.forks import ForkedLock, renew_after_fork
from tablefmt.store.object_store import Store

AHEAD_MAX = 1 << 16
"""Most numbers that a handle claims beyond those that a write needs."""

ATTEMPTS = 16
"""Most attempts of one claim."""


@dataclass(slots=True)
class _Held:
    """Numbers of one column that a handle claimed and did not use."""

    column: IdentityColumn
    left: list[range] = field(default_factory=list)
    used: int = 0


class IdentityClaims:
    """Numbers that one handle claims, or one task of a query. Thread-safe."""

    def __init__(
        self, place: Callable[[], tuple[Store, LogView]], environment: Environment
    ) -> None:
        """Create without claims.

        Args:
            place: gives the store of the table and its log.
            environment: clock, nonces and waiting.
        """
        self._place = place
        self._environment = environment
        self._held: dict[tuple[str, int], _Held] = {}
        self._lock = ForkedLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget all numbers: they belong to the parent process."""
        self._held = {}

    def __call__(self, column: IdentityColumn, count: int) -> Sequence[range]:
        """Return ranges of numbers that no other writer gets, `count` in all.

        Raises:
            ConstraintViolationError: no value is left.
            CommitRejectedError: the store refused the claim, or did not answer.
        """
        with self._lock:
            store, view = self._place()
            key = view.head.table, column.field.id
            held = self._held.get(key)
            if held is None or held.column.text != column.text:
                # The numbering changed (IDN-4), so numbers that were claimed before may not be
                # used.
                held = self._held[key] = _Held(column)
            short = count - sum(map(len, held.left))
            if short > 0:
                ahead = max(short, min(held.used, AHEAD_MAX))
                held.left.append(self._claimed(store, view, column, short, ahead))
            taken = _take(held.left, count)
            held.used += count
            return taken

    def _claimed(
        self, store: Store, view: LogView, column: IdentityColumn, least: int, wanted: int
    ) -> range:
        """Commit a claim. Claim only what is needed if the column ends before."""
        try:
            return claim(store, view, self._environment, column, wanted)
        except ConstraintViolationError:
            if least == wanted:
                raise
            return claim(store, view, self._environment, column, least)


def _take(left: list[range], count: int) -> list[range]:
    """Remove the first numbers from a list of ranges, and return them."""
    taken = []
    while count:
        first = left.pop(0)
        taken.append(first[:count])
        if len(first) > count:
            left.insert(0, first[count:])
        count -= len(taken[-1])
    return taken


def claim(
    store: Store, view: LogView, environment: Environment, column: IdentityColumn, count: int
) -> range:
    """Commit an entry that claims numbers, and return the numbers.

    An attempt with an unknown outcome may leave a gap, and another attempt follows.

    Raises:
        ConstraintViolationError: no value is left.
        CommitRejectedError: the store refused the entry, or did not answer.
        UnsupportedFeatureError: ENT-7, the table needs a newer writer.
    """
    reason = ""
    for _ in range(ATTEMPTS):
        check_writable(view.head)
        done = commit(store, _plan(view, environment, column, count), environment, view)
        outcome = done.outcome
        if isinstance(outcome, Committed):
            assert done.entry is not None
            application = done.entry.entry.application
            assert application is not None
            return range(application.version - count + 1, application.version + 1)
        if isinstance(outcome, Rejected):
            raise done.refused or CommitRejectedError(outcome.reason)
        if isinstance(outcome, Conflicted):
            # Another writer changed the metadata. The numbers are the same under any metadata.
            reason = outcome.conflict.reason
            view.refresh()
        else:
            reason = "the outcome of every attempt is unknown"
    raise CommitRejectedError(
        f"no numbers could be claimed for the identity column {column.field.name!r}: {reason}"
    )


def _plan(view: LogView, environment: Environment, column: IdentityColumn, count: int) -> Plan:
    head = view.head
    staged = Staged(
        transaction=environment.nonce(),
        operation=Operation(
            name=CLAIM,
            cls=OperationClass.MINOR_COMPACT,
            parameters={"column": column.field.name, "count": count},
        ),
        scope=PartitionScope(()),
        written_under=head.metadata,
        read_version=head.version,
        recorded=True,
        claims=(column.field.id, count),
    )
    return Plan(staged=staged, pending=pending_of(staged))


@dataclass(slots=True)
class WorkerClaims:
    """Claims of tasks that run in other processes: each process opens the table when it needs to.

    It travels to the workers with the store.
    """

    store: Store
    _claims: IdentityClaims | None = None

    def __call__(self, column: IdentityColumn, count: int) -> Sequence[range]:
        """Return numbers as `IdentityClaims` does."""
        if self._claims is None:
            view = LogView.open(self.store)
            self._claims = IdentityClaims(lambda: (self.store, view), SYSTEM)
        return self._claims(column, count)

    def __reduce__(self) -> tuple[type[WorkerClaims], tuple[Store]]:
        return WorkerClaims, (self.store,)


def worker_claims(store: Store, metadata: Metadata) -> WorkerClaims | None:
    """Return the claims for tasks that write a table; None without identity columns."""
    return WorkerClaims(store) if identity_columns(metadata) else None
