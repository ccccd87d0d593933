"""One version of a table for a statement, and the files that the statement writes.

The files are removed if writing fails, if the transaction is given up, or if it certainly is not in
the table (CMT-1). They stay if the outcome is unknown. Of several attempts at one task, the files
of the successful one stay.

Removal is best effort. The store may refuse it, or the process may be killed. No entry names the
files that are left, and vacuum finds them by their folder.

On stores where creating a folder is expensive, a single file of a small write reuses a folder. It
is the folder of an earlier transaction of the same handle (DAT-1). It exists, its name is durable,
and no failure removes it. If it is missing after all, the write creates it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
from tablefmt.model.identity_columns import Claim, with_counters, without_identities
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.properties import get_property
from tablefmt.session.measurements import Measured
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import KeyNotFoundError, Store

ALL = ("",)
"""Prefixes of every name."""

FIRST = "0-"
"""Prefix of the names that a transaction's first write gives."""


class SimulatedKill(BaseException):
    """Ends a writer in tests like SIGKILL does: no handler of the writer may remove files."""


def shared_key_among(added: AddedFiles | None, transaction: str) -> str | None:
    """Return the transaction's own file in the folder of another one, among the files that it
    adds."""
    paths = () if added is None else added.columns["path"]
    return next((path for path in paths if shared_folder_transaction(path) == transaction), None)


class TransactionFiles:
    """Objects in the store under the name of one transaction.

    An engine that leaves more than data files has its own subclass.
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
        """Other writers use the folder now, so it stays even if it is empty for a moment."""
        self.shared_key = shared_key
        """Key for the first small file, in the folder of an earlier transaction. The file may not
        exist."""

    def discard(self) -> None:
        """Remove all objects, overflow files too. The transaction must certainly not be in the
        table."""
        if self.remove():
            delete_keys(self.store, [overflow_key(self.transaction), deletes_key(self.transaction)])

    def remove(self, prefixes: Sequence[str] = ALL, keep: Collection[str] = ()) -> bool:
        """Remove data files. Return whether all could be removed.

        Args:
            prefixes: of their names in the transaction's folder.
            keep: paths of files that stay.
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
        """Remove the files of failed attempts at tasks, which are not in `added`.

        Args:
            added: the files of the successful attempts; None: no files.
            prefix: of the names of all files of those tasks.
        """
        self.remove((prefix,), frozenset() if added is None else frozenset(added.columns["path"]))

    @contextmanager
    def removed_on_failure(self, prefixes: Sequence[str] = ALL) -> Iterator[None]:
        """Remove the data files with these prefixes if the context fails.

        Raises:
            CommitRejectedError: the store refused a file.
        """
        try:
            yield
        except SimulatedKill:
            raise
        except BaseException as error:
            self.remove(prefixes)
            if isinstance(error, StoreError):
                raise CommitRejectedError(str(error).rstrip(".")) from error
            raise

    @contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Remove all objects if the context fails, overflow files too. The commit is not in the
        log."""
        try:
            yield
        except SimulatedKill:
            raise
        except BaseException:
            self.discard()
            raise


def remove_leftovers(store: Store, plan: Plan, done: Done) -> None:
    """Remove the objects of a commit that no entry names or will ever name (CMT-1).

    All objects stay if the outcome is unknown, because the entry may still arrive.
    """
    if isinstance(done.outcome, Unknown):
        return
    # Delete an entry before the files that it names.
    delete_keys(store, done.unneeded)
    if not isinstance(done.outcome, Committed):
        shared_key = shared_key_among(plan.staged.add, plan.transaction)
        TransactionFiles(store, plan.transaction, shared_key=shared_key).discard()


def delete_keys(store: Store, keys: Sequence[str]) -> None:
    """Delete objects in order, until one cannot be deleted."""
    try:
        for key in keys:
            store.delete(key)
    except StoreError:
        return


SHARED_FILES_MAX = 1000
"""Most files in the folder of another transaction. Then the next transaction makes its own
folder.
"""


class SharedFolders:
    """The data folder that small commits of one handle share."""

    def __init__(self) -> None:
        self.open: str | None = None
        """The transaction whose folder takes more files; None: the next one makes its own."""
        self._shared_files = 0

    def take(self, transaction: str, added: AddedFiles) -> None:
        """Count files that were committed. Concurrent threads may count in any order."""
        first = added.columns["path"][0]
        if shared_folder_transaction(first) == transaction:
            self._shared_files += 1
            if self._shared_files >= SHARED_FILES_MAX:
                self.open = None
        elif self.open is None and first.startswith(data_folder(transaction)):
            self.open, self._shared_files = transaction, 0


class TransactionSnapshot:
    """A fixed version of the table, unaffected by concurrent commits, and one transaction's
    folder."""

    def __init__(
        self,
        store: Store,
        view: LogView,
        version: int,
        transaction: str,
        measured: Measured | None = None,
        shared_folder: str | None = None,
        claim: Claim | None = None,
    ) -> None:
        self.store = store
        self.view = view
        self.version = version
        self.claim = claim
        """Claims numbers for identity columns (IDN-2)."""
        self.transaction = transaction
        self.measured = measured or Measured.start(lambda: 0.0, store)
        """Measurement of the work on it. Without one, no times are taken."""
        self.metadata: Metadata = view.metadata_at(version)
        self.target: Metadata = self.metadata
        """The metadata that files are written under, and that the commit gives the table."""
        self._shared_key = (
            None if shared_folder is None else shared_folder_key(shared_folder, transaction)
        )
        """Key for a single small file in the folder of an earlier transaction, which exists
        already."""
        self._writes = 0
        self.files_of: Callable[[TransactionSnapshot], TransactionFiles] | None = None
        """Gives the files of the transaction if an engine writes them; None: this process does."""

    @property
    def files(self) -> TransactionFiles:
        """The files that the transaction wrote, and other objects that its engine left."""
        if self.files_of is not None:
            return self.files_of(self)
        return TransactionFiles(self.store, self.transaction, shared_key=self._shared_key)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The state at `version`."""
        return self.view.snapshot(self.version)

    @property
    def evolved(self) -> Metadata | None:
        """The metadata to put into the entry; None if it is unchanged."""
        return None if self.target == self.metadata else self.target

    @property
    def counted_metadata(self) -> Metadata:
        """The metadata, whose identity columns skip all numbers that were claimed (IDN-5)."""
        return with_counters(self.metadata, self.view.read_head.applications)

    def property(self, name: str) -> str:
        """Return the table property in force at `version`."""
        return get_property(self.metadata.properties, name)

    def write(
        self,
        reader: pa.RecordBatchReader,
        *,
        copied: bool = False,
        updates: bool = False,
        in_memory: bool = False,
        partitioning: int | None = None,
    ) -> AddedFiles | None:
        """Write rows, columns by name, to files of the transaction. Return None if there are no
        rows.

        Args:
            reader: the rows.
            copied: the rows are unchanged rows of the table, so constraints were checked (DAT-13).
            updates: the rows are new versions of rows of the table (IDN-3).
            in_memory: as in `write_data`.
            partitioning: number of an older partitioning to write by; None: the current one.

        Raises:
            SchemaMismatchError, ConstraintViolationError: as `write_data`.
        """
        prefix = self.next_prefix()
        target = self.target
        if copied:
            target = replace(without_identities(target), constraints={})
        if partitioning is not None:
            target = target.partitioned_as(partitioning)
        stats = stats_of(target)
        added = write_data(
            self.store,
            self.transaction,
            reader,
            target,
            stats,
            prefix=prefix,
            shared_key=self._shared_key if prefix == FIRST else None,
            in_memory=in_memory,
            claim=self.claim,
            updates=updates,
        )
        return added if added is None or partitioning is None else added.numbered(partitioning)

    def next_prefix(self) -> str:
        """Return the name prefix for the files of one more write. Not thread safe."""
        self._writes += 1
        return f"{self._writes - 1}-"

    @contextmanager
    def staging(self) -> Iterator[None]:
        """If the context fails, remove the files that it wrote and reset `target`.

        Files of earlier contexts stay.

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
            # An engine names its files by itself. Its statement is the only one of a transaction.
            prefixes = [f"{number}-" for number in range(first, self._writes)] if first else ALL
            with self.files.removed_on_failure(prefixes):
                raise


class OtherVersionRead(Exception):
    """A query of a statement reads another version of the table than the transaction.

    The statement runs again on a snapshot of that version.
    """

    def __init__(self, version: int, *, wrote: bool) -> None:
        """`wrote`: the statement may have written files before it found out."""
        super().__init__(version)
        self.version = version
        self.wrote = wrote


def check_may_remove(metadata: Metadata) -> None:
    """Refuse to remove rows from an append-only table.

    Raises:
        ConstraintViolationError: property appendOnly.
    """
    if get_property(metadata.properties, "appendOnly") == "true":
        raise ConstraintViolationError(
            "the table is append-only, so rows cannot be removed or changed. To allow it, unset "
            "the property appendOnly: table.alter.unset_properties(['appendOnly'])"
        )


def live_rows(files: pa.Table) -> int:
    """Return the number of rows of live files that are not deleted."""
    return int(pc.sum(files["rows"]).as_py() or 0) - int(pc.sum(files["deleted"]).as_py() or 0)


def joined(parts: Iterable[AddedFiles | None]) -> AddedFiles | None:
    """Return the files of all parts in order. A column that a part lacks is unknown for its files.

    Files without the `updated` column hold no new versions of older rows.
    """
    known = [part for part in parts if part is not None]
    if len(known) <= 1:
        return known[0] if known else None
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for part in known for name in part.columns):
        absent = False if name == "updated" else None
        columns[name] = [v for p in known for v in p.columns.get(name, [absent] * len(p))]
    return AddedFiles(columns)
