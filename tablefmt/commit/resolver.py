"""Asks of each winner whether the transaction may go on top of it, and follows those it may.

The metadata of a winner is all that is read: its entry, and its side files where the rules need
them. Each winner is judged once, in version order. Spec: CMT-6, CFL-1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tablefmt.commit.plan import Plan, is_overtaken
from tablefmt.conflict.check import check
from tablefmt.conflict.facts import PendingCommit, Winner
from tablefmt.conflict.rebase import follow
from tablefmt.conflict.verdict import Overtaken, RebasedOver, Verdict
from tablefmt.errors import CorruptEntryError
from tablefmt.log.header import EntryHeader
from tablefmt.log.names import entry_key
from tablefmt.log.side_files import read_deletes, read_side
from tablefmt.model.entry import NOT_LOGICAL, Entry, OperationClass, SideFile
from tablefmt.model.positions import Marks, delete_columns, marks_of
from tablefmt.snapshot.file_columns import added_table
from tablefmt.snapshot.head import dropped
from tablefmt.store.protocol import Store

_BY_ROWS = NOT_LOGICAL | {OperationClass.UPDATE}
"""Classes for which it matters what rows a winner took out."""


class ConflictResolver:
    """What one transaction has become on top of the winners so far."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self.pending: PendingCommit = plan.pending
        self.passed: list[RebasedOver] = []
        """The winners followed, with the rule that let each pass."""
        self._last = -1
        self._alike: dict[tuple[OperationClass, bool], RebasedOver] = {}

    @property
    def goes_by_headers(self) -> bool:
        """Whether of winners without metadata and protocol the class alone decides (CFL-3)."""
        facts = self.plan.pending
        says_more = facts.application is not None or facts.derived_from is not None
        return facts.floating and facts.granularity != "transaction" and not says_more

    def follow_headers(self, winners: Sequence[EntryHeader]) -> None:
        """Go on top of winners of which nothing but the outside is known."""
        for winner in winners:
            kind = (winner.cls, winner.blind)
            if kind not in self._alike:
                alike = Winner(winner.as_entry())
                assert check(alike, self.pending) is None, winner
                self.pending, self._alike[kind] = follow(alike, self.pending)
            allowed = self._alike[kind]
            self.passed.append(
                RebasedOver(winner.version, winner.operation, allowed.rule, allowed.cell)
            )
            self._last = winner.version

    def judge(self, entry: Entry) -> Verdict:
        """Return the verdict on an entry. If it is None, the transaction goes on top of the entry
        from now on. An entry that was judged before is skipped.

        Raises:
            CorruptTableError: what the winner says is damaged, or it dropped the table.
            StoreError: a side file cannot be read now.
        """
        if entry.version <= self._last:
            return None
        if entry.ends:
            raise dropped(entry.version)
        winner = self._winner(entry)
        verdict = check(winner, self.pending)
        if verdict is not None:
            return verdict
        self.pending, rebased = follow(winner, self.pending)
        self.passed.append(rebased)
        self._last = entry.version
        return Overtaken(entry.version) if is_overtaken(self.plan, self.pending) else None

    def _winner(self, entry: Entry) -> Winner:
        files = None
        if self.pending.reads and entry.add is not None and self.pending.metadata is not None:
            files = self._files(entry)
        deletes: Mapping[int, Marks] = {}
        if self.pending.cls in _BY_ROWS and entry.delete is not None:
            deletes = self._deletes(entry)
        return Winner(entry, files, deletes)

    def _files(self, entry: Entry) -> pa.Table:
        assert entry.add is not None
        assert self.pending.metadata is not None
        if isinstance(entry.add, SideFile):
            return read_side(self.store, entry.add)
        return added_table(entry.add, self.pending.metadata)

    def _deletes(self, entry: Entry) -> dict[int, Marks]:
        delete = entry.delete
        assert delete is not None
        try:
            if isinstance(delete, SideFile):
                return marks_of(read_deletes(self.store, delete))
            return marks_of(delete_columns(delete))
        except CorruptEntryError as error:
            key = error.key or entry_key(entry.version)
            raise CorruptEntryError(error.detail, key=key, rule=error.rule) from None
