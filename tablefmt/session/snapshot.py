"""One version of a table as a statement sees it, and where the statement puts its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.bounds import stats_of
from tablefmt.data.write import write_data
from tablefmt.errors import ConstraintViolationError
from tablefmt.log.names import guest_key
from tablefmt.model.cached import cached_property
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.properties import get_property
from tablefmt.session.files import ALL, FIRST, TransactionFiles
from tablefmt.session.measurements import Measured
from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.state import Snapshot
from tablefmt.store.protocol import Store


class TransactionSnapshot:
    """A version that stays, whatever commits meanwhile; and the folder of one transaction."""

    def __init__(
        self,
        store: Store,
        view: LogView,
        version: int,
        transaction: str,
        measured: Measured | None = None,
        host: str | None = None,
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
        self._guest = None if host is None else guest_key(host, transaction)
        """Where a lone small file may go: the folder of an earlier transaction is there already."""
        self._writes = 0
        self.files_of: Callable[[TransactionSnapshot], TransactionFiles] | None = None
        """Gives the files of the transaction if an engine writes them; None: this process does."""

    @property
    def files(self) -> TransactionFiles:
        """The files that the transaction wrote, and what its engine left beside them."""
        if self.files_of is not None:
            return self.files_of(self)
        return TransactionFiles(self.store, self.transaction, guest=self._guest)

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
        self, reader: pa.RecordBatchReader, *, carried: bool = False, in_memory: bool = False
    ) -> AddedFiles | None:
        """Write rows, columns by name, to files of the transaction; None if there are none.

        Args:
            reader: the rows.
            carried: they are in the table as they are, so constraints were checked (DAT-13).
            in_memory: as of `write_data`.

        Raises:
            SchemaMismatchError, ConstraintViolationError: as `write_data`.
        """
        prefix = self.next_prefix()
        target = replace(self.target, constraints={}) if carried else self.target
        stats = stats_of(target)
        return write_data(
            self.store,
            self.transaction,
            reader,
            target,
            stats,
            prefix=prefix,
            guest=self._guest if prefix == FIRST else None,
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
