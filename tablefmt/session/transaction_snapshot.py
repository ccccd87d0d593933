"""One version of a table as a statement sees it, and the files that the statement writes.

The files go if what was to write them fails, if the transaction is given up, and if it certainly is
not in the table (CMT-1). They stay where the outcome is unknown. Of several attempts at one task,
those of the attempt that won stay. All of it is best effort: what is left by a store that refuses
this too, or by a process that is killed, is named by no entry, and vacuum finds it by its folder.

On stores where a folder is work, the only file of a small write goes into the folder of a
transaction that was committed through the same handle (DAT-1): it is there, with its name durable,
and no failure removes it. A write that finds it gone makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.commit_protocol import Committed, Unknown
from tablefmt.commit.driver import Done
from tablefmt.commit.transaction_plan import Plan
from tablefmt.data.column_bounds import stats_of
from tablefmt.data.data_writer import write_data
from tablefmt.errors import CommitRejectedError, ConstraintViolationError, StoreError
from tablefmt.log.object_names import (
    data_folder,
    deletes_key,
    overflow_key,
    shared_folder_key,
    shared_folder_transaction,
)
from tablefmt.model.cached_property import cached_property
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.properties import get_property
from tablefmt.session.measurements import Measured
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import KeyNotFoundError, Store

ALL = ("",)
"""Prefixes of every name."""

FIRST = "0-"
"""What the names begin with that a transaction's first write gives."""

_FAILURES = (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)
"""All that Python leaves a block with."""


def shared_key_among(added: object, transaction: str) -> str | None:
    """Of the files that a transaction adds, its own one in the folder of another."""
    paths = added.columns["path"] if isinstance(added, AddedFiles) else ()
    return next((path for path in paths if shared_folder_transaction(path) == transaction), None)


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
        shared_key: str | None = None,
    ) -> None:
        self.store = store
        self.transaction = transaction
        self.folder = data_folder(transaction)
        self.shared = shared
        """Others write there now: a folder stays, though it be empty for a moment."""
        self.shared_key = shared_key
        """A file of it in the folder of another one, that may be there: of its first write."""

    def discard(self) -> None:
        """Remove all of it, side files too. For what certainly is not in the table."""
        if self.remove():
            delete_keys(self.store, [overflow_key(self.transaction), deletes_key(self.transaction)])

    def remove(self, prefixes: Sequence[str] = ALL, keep: Collection[str] = ()) -> bool:
        """Remove data files; whether all of them could be.

        Args:
            prefixes: what their names begin with, in the transaction's folder.
            keep: paths of some that stay.
        """
        names = tuple(self.folder + prefix for prefix in prefixes)
        try:
            if (
                self.shared_key
                and self.shared_key not in keep
                and FIRST.startswith(tuple(prefixes))
            ):
                self.store.delete(self.shared_key)
            for one in list(self.store.list_after(self.folder)):
                if one.key.startswith(names) and one.key not in keep:
                    self.store.delete(one.key)
            if not keep and not self.shared:
                self.store.remove_empty(self.folder)
        except (StoreError, KeyNotFoundError):
            return False
        return True

    def keep_only(self, added: AddedFiles | None, prefix: str = "") -> None:
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
        shared_key = shared_key_among(plan.staged.add, plan.transaction)
        TransactionFiles(store, plan.transaction, shared_key=shared_key).discard()


def delete_keys(store: Store, keys: Sequence[str]) -> None:
    """Delete objects, best effort, in order up to the first that cannot be."""
    try:
        for key in keys:
            store.delete(key)
    except StoreError:
        return


SHARED_FILES_MAX = 1000
"""Files in the folder of another transaction; then the next one has a folder of its own."""


class SharedFolders:
    """What one handle remembers of the folders that its commits made."""

    def __init__(self) -> None:
        self.open: str | None = None
        """The transaction whose folder takes more files; None: the next one makes its own."""
        self._shared_files = 0

    def take(self, transaction: str, added: AddedFiles) -> None:
        """Learn of files that were committed. Of threads at once any may be the one counted."""
        first = added.columns["path"][0]
        if shared_folder_transaction(first) == transaction:
            self._shared_files += 1
            if self._shared_files >= SHARED_FILES_MAX:
                self.open = None
        elif self.open is None and first.startswith(data_folder(transaction)):
            self.open, self._shared_files = transaction, 0


class TransactionSnapshot:
    """A version that stays, whatever commits meanwhile; and the folder of one transaction."""

    def __init__(
        self,
        store: Store,
        view: LogView,
        version: int,
        transaction: str,
        measured: Measured | None = None,
        shared_folder: str | None = None,
    ) -> None:
        self.store = store
        self.view = view
        self.version = version
        self.transaction = transaction
        self.measured = measured or Measured.start(lambda: 0.0, store)
        """What is done on it; without one, times are not taken."""
        self.metadata: Metadata = view.metadata_at(version)
        self.target: Metadata = self.metadata
        """What files are written under, and what the commit makes of the table's metadata."""
        self._shared_key = (
            None if shared_folder is None else shared_folder_key(shared_folder, transaction)
        )
        """Where a lone small file may go: the folder of an earlier transaction is there already."""
        self._writes = 0
        self.files_of: Callable[[TransactionSnapshot], TransactionFiles] | None = None
        """Gives the files of the transaction if an engine writes them; None: this process does."""

    @property
    def files(self) -> TransactionFiles:
        """The files that the transaction wrote, and what its engine left beside them."""
        if self.files_of is not None:
            return self.files_of(self)
        return TransactionFiles(self.store, self.transaction, shared_key=self._shared_key)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The state at `version`."""
        return self.view.snapshot(self.version)

    @property
    def evolved(self) -> Metadata | None:
        """What an entry says of the metadata: nothing where it stays."""
        return None if self.target == self.metadata else self.target

    def property(self, name: str) -> str:
        """The table property in force at `version`."""
        return get_property(self.metadata.properties, name)

    def write(
        self, reader: pa.RecordBatchReader, *, copied: bool = False, in_memory: bool = False
    ) -> AddedFiles | None:
        """Write rows, columns by name, to files of the transaction; None if there are none.

        Args:
            reader: the rows.
            copied: they are in the table as they are, so constraints were checked (DAT-13).
            in_memory: as of `write_data`.

        Raises:
            SchemaMismatchError, ConstraintViolationError: as `write_data`.
        """
        prefix = self.next_prefix()
        target = replace(self.target, constraints={}) if copied else self.target
        stats = stats_of(target)
        return write_data(
            self.store,
            self.transaction,
            reader,
            target,
            stats,
            prefix=prefix,
            shared_key=self._shared_key if prefix == FIRST else None,
            in_memory=in_memory,
        )

    def next_prefix(self) -> str:
        """What the names of the files of one more write begin with. Not for several threads."""
        self._writes += 1
        return f"{self._writes - 1}-"

    @contextmanager
    def staging(self) -> Iterator[None]:
        """If the block fails, remove the files that it wrote and take `target` back. Files of
        earlier blocks stay.

        Raises:
            CommitRejectedError: the store refused a file.
        """
        first, target = self._writes, self.target
        try:
            yield
        except BaseException as error:
            self.target = target
            if isinstance(error, OtherVersionRead) and not error.wrote:
                raise
            # An engine names its files by itself; its statement is the only one of a transaction.
            prefixes = [f"{number}-" for number in range(first, self._writes)] if first else ALL
            with self.files.removed_on_failure(prefixes):
                raise


class OtherVersionRead(Exception):
    """A query of a statement reads the table at another version than the pinned one.

    The statement is done again on a pin of that version.
    """

    def __init__(self, version: int, *, wrote: bool) -> None:
        """`wrote`: the statement may have written files before it found out."""
        super().__init__(version)
        self.version = version
        self.wrote = wrote


def check_may_remove(metadata: Metadata) -> None:
    """Refuse to take rows out of an append-only table.

    Raises:
        ConstraintViolationError: property appendOnly.
    """
    if get_property(metadata.properties, "appendOnly") == "true":
        raise ConstraintViolationError(
            "the table is append-only (property appendOnly): rows may be added, never replaced"
        )


def live_rows(files: pa.Table) -> int:
    """Rows of live files that are not gone."""
    return int(pc.sum(files["rows"]).as_py() or 0) - int(pc.sum(files["deleted"]).as_py() or 0)


def joined(parts: Sequence[AddedFiles | None]) -> AddedFiles | None:
    """The files of all parts in order; what a part does not say of its files is unknown.

    Files that are not said to hold new versions of rows hold none.
    """
    known = [part for part in parts if part is not None]
    if len(known) <= 1:
        return known[0] if known else None
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for part in known for name in part.columns):
        absent = False if name == "updated" else None
        columns[name] = [v for p in known for v in p.columns.get(name, [absent] * len(p))]
    return AddedFiles(columns)
