"""The files that a transaction wrote, while no entry names them: when they go, and how.

They go if what was to write them fails, if the transaction is given up, and if it certainly is not
in the table (CMT-1). They stay where the outcome is unknown. Of several attempts at one task, those
of the attempt that won stay. All of it is best effort: what is left by a store that refuses this
too, or by a process that is killed, is named by no entry, and vacuum finds it by its folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from tablefmt.commit.driver import Done
from tablefmt.commit.plan import Plan
from tablefmt.commit.results import Committed, Unknown
from tablefmt.errors import CommitRejectedError, StoreError
from tablefmt.log.names import data_folder, deletes_key, guest_of, side_key
from tablefmt.model.entry import AddedFiles
from tablefmt.store.protocol import KeyNotFoundError, Store

ALL = ("",)
"""Prefixes of every name."""

FIRST = "0-"
"""What the names begin with that a transaction's first write gives."""

_FAILURES = (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)
"""All that Python leaves a block with."""


def guest_among(added: object, transaction: str) -> str | None:
    """Of the files that a transaction adds, its own one in the folder of another."""
    paths = added.columns["path"] if isinstance(added, AddedFiles) else ()
    return next((path for path in paths if guest_of(path) == transaction), None)


class TransactionFiles:
    """What is in the store under the name of one transaction.

    An engine that leaves more than data files behind has a class of its own.
    """

    def __init__(
        self,
        store: Store,
        transaction: str,
        *,
        shared: bool = False,
        guest: str | None = None,
    ) -> None:
        self.store = store
        self.transaction = transaction
        self.folder = data_folder(transaction)
        self.shared = shared
        """Others write there now: a folder stays, though it be empty for a moment."""
        self.guest = guest
        """A file of it in the folder of another one, that may be there: of its first write."""

    def discard(self) -> None:
        """Remove all of it, side files too. For what certainly is not in the table."""
        if self.remove():
            delete_keys(self.store, [side_key(self.transaction), deletes_key(self.transaction)])

    def remove(self, prefixes: Sequence[str] = ALL, keep: Collection[str] = ()) -> bool:
        """Remove data files; whether all of them could be.

        Args:
            prefixes: what their names begin with, in the transaction's folder.
            keep: paths of some that stay.
        """
        names = tuple(self.folder + prefix for prefix in prefixes)
        try:
            if self.guest and self.guest not in keep and FIRST.startswith(tuple(prefixes)):
                self.store.delete(self.guest)
            for one in list(self.store.list_after(self.folder)):
                if one.key.startswith(names) and one.key not in keep:
                    self.store.delete(one.key)
            if not keep and not self.shared:
                self.store.remove_empty(self.folder)
        except (StoreError, KeyNotFoundError):
            return False
        return True

    def keep_winners(self, added: AddedFiles | None, prefix: str = "") -> None:
        """Remove what attempts at tasks wrote that lost: the files that are not in `added`.

        Args:
            added: what the attempts wrote that won; None: nothing.
            prefix: what the names of all files of those tasks begin with.
        """
        self.remove((prefix,), frozenset() if added is None else frozenset(added.columns["path"]))

    @contextmanager
    def removed_on_failure(self, prefixes: Sequence[str] = ALL) -> Iterator[None]:
        """Remove the data files whose names begin with `prefixes` if the block fails.

        Raises:
            CommitRejectedError: the store refused a file.
        """
        try:
            yield
        except _FAILURES as error:
            self.remove(prefixes)
            if isinstance(error, StoreError):
                raise CommitRejectedError(str(error).rstrip(".")) from error
            raise

    @contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Remove all of it if the block fails, side files too: the commit is not in the log."""
        try:
            yield
        except _FAILURES:
            self.discard()
            raise


def remove_leftovers(store: Store, plan: Plan, done: Done) -> None:
    """Remove what a commit wrote that no entry names, nor ever will (CMT-1).

    All files stay if the outcome is unknown: the entry may still arrive.
    """
    if isinstance(done.outcome, Unknown):
        return
    # An entry goes before the files that it names.
    delete_keys(store, done.left_out)
    if not isinstance(done.outcome, Committed):
        guest = guest_among(plan.staged.add, plan.transaction)
        TransactionFiles(store, plan.transaction, guest=guest).discard()


def delete_keys(store: Store, keys: Sequence[str]) -> None:
    """Delete objects, best effort, in order up to the first that cannot be."""
    try:
        for key in keys:
            store.delete(key)
    except StoreError:
        return
