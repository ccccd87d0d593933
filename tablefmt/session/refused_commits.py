"""Refused commits of this process, by table, until one of its entries reports them. Spec: ENT-17.

A refusal makes no request. It is counted here and logged. The next commit of any handle of this
process takes the counts into its entry. A process that never commits again leaves only its log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from tablefmt.conflict.verdict import Conflict
from tablefmt.model.refusals import GROUPS_MAX, TEXT_MAX, Refusal, merged
from tablefmt.store.forks import ForkedLock, renew_after_fork

TABLES_MAX = 256
"""Maximum number of tables with counts. The one that was refused longest ago is forgotten first."""


def refusal_of(operation: str, lost: Conflict) -> Refusal:
    """Return one refused commit as a group. Pure."""
    return Refusal(
        operation[:TEXT_MAX],
        lost.winner_operation[:TEXT_MAX],
        lost.rule,
        lost.cell and lost.cell[:TEXT_MAX],
        lost.error.kind,
        times=1,
        last_winner=lost.winner_version,
    )


class RefusedCommits:
    """Counts of refused commits by the id of the table."""

    def __init__(self) -> None:
        self._lock = ForkedLock()
        self._tables: OrderedDict[str, dict[tuple[str, ...], Refusal]] = OrderedDict()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget the counts in a child: its parent reports them."""
        self._tables = OrderedDict()

    def note(self, table: str, refusals: Iterable[Refusal]) -> None:
        """Count refused commits of a table."""
        with self._lock:
            known = self._tables.pop(table, {})
            self._tables[table] = merged([*known.values(), *refusals])
            while len(self._tables) > TABLES_MAX:
                self._tables.popitem(last=False)

    def take(self, table: str) -> tuple[Refusal, ...]:
        """Return the counts for an entry, and forget them. The rest is for the next entry.

        The caller gives them back by `note` if no entry can have reported them.
        """
        if table not in self._tables:
            # Almost every commit: no lock.
            return ()
        with self._lock:
            groups = list(self._tables.pop(table, {}).values())
            if groups[GROUPS_MAX:]:
                self._tables[table] = merged(groups[GROUPS_MAX:])
        return tuple(groups[:GROUPS_MAX])


REFUSED_COMMITS = RefusedCommits()
"""Counts of this process."""
