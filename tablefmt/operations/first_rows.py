"""A table that is made with rows: the files first, then the table, then the commit of the files.

So rows that cannot be had or do not fit leave no table behind. Whoever comes between the last two
sees the table empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM
from tablefmt.commit.plan import Staged
from tablefmt.data.bounds import stats_of
from tablefmt.data.write import write_data
from tablefmt.errors import InvalidArgumentError, SchemaMismatchError, TableExistsError
from tablefmt.model.arguments import check_flags, checked_names
from tablefmt.model.case_folding import folded
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import create_as, definition, is_there, prepare
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
from tablefmt.session.files import TransactionFiles
from tablefmt.session.measurements import Measured
from tablefmt.session.options import CommitOptions
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.source import source_reader
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Begun, EngineRows, Statement
from tablefmt.store.clocks import Moment
from tablefmt.store.protocol import Store

Partitions = str | Sequence[str] | None
"""Names of columns, or one name; None: not said."""


def create_from(
    store: Store,
    data: Any,
    partition_by: Partitions = None,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    *,
    exist_ok: bool = False,
) -> TableContext:
    """`create` by rows in the place of a schema.

    Raises:
        TableExistsError: before anything is read. InvalidArgumentError: exist_ok.
        As `source_reader` and `create_with_rows`.
    """
    check_flags(exist_ok=exist_ok)
    if exist_ok:
        raise InvalidArgumentError(
            "exist_ok goes with a schema alone: whether the rows are there already is not known. "
            "tablefmt.write(data, uri) appends to a table that is there"
        )
    if is_there(store):
        raise TableExistsError(store.uri)
    made, _ = create_with_rows(
        store,
        source_reader(data),
        CommitOptions(),
        partition_by=partition_by,
        properties=properties,
        comment=comment,
    )
    return made


def create_with_rows(
    store: Store,
    rows: pa.RecordBatchReader,
    options: CommitOptions,
    *,
    partition_by: Partitions = None,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    exist_ok: bool = False,
) -> tuple[TableContext, Commit]:
    """Make a table with the columns of some rows, and append these. No table was there just now.

    Arguments as of `create` and `commit_first`.

    Raises:
        SchemaMismatchError: the columns are none that a table can have; SCH-5, a value of theirs.
        ConstraintViolationError: DAT-3. UnsafeStoreError. As `commit_first`.
    """
    metadata = definition(rows.schema, partition_by, properties, comment)

    def write(transaction: str) -> AddedFiles | None:
        stats = stats_of(metadata)
        return write_data(store, transaction, rows, metadata, stats, prefix="0-")

    return create_by(store, metadata, write, options, exist_ok=exist_ok)


def create_by(
    store: Store,
    metadata: Metadata,
    write: Callable[[str], AddedFiles | None],
    options: CommitOptions,
    *,
    exist_ok: bool,
    digest: str | None = None,
) -> tuple[TableContext, Commit]:
    """Make a table, and commit its first rows, whoever writes their files.

    Args:
        store: where. No table was there just now.
        metadata: the table's.
        write: writes the rows to the folder of a transaction, given its id.
        options, exist_ok, digest: as of `commit_first`.

    Raises:
        UnsafeStoreError. What `write` raises. As `commit_first`.
    """
    measured = Measured.start(SYSTEM.monotonic, store)
    prepare(store)
    transaction = SYSTEM.nonce()
    with TransactionFiles(store, transaction).removed_on_failure():
        added = write(transaction)
    return commit_first(
        store,
        metadata,
        transaction,
        added,
        options,
        exist_ok=exist_ok,
        measured=measured,
        digest=digest,
    )


def commit_first(
    store: Store,
    metadata: Metadata,
    transaction: str,
    added: AddedFiles | None,
    options: CommitOptions,
    *,
    exist_ok: bool,
    measured: Measured | None = None,
    began: Moment | None = None,
    digest: str | None = None,
) -> tuple[TableContext, Commit]:
    """Make a table, and commit files that were written before it was there.

    Args:
        store: where.
        metadata: the table's, and what the files were written under.
        transaction: whose folder they are in.
        added: the files; None for none.
        options: what every commit takes.
        exist_ok: append to a table that was made meanwhile, if it is of the same definition.
        measured: the measurement since the work began; None: another process began it.
        began: when that was.
        digest: of the content, where it is known.

    Raises:
        IdempotenceError: CFL-7, what another has applied meanwhile.
        TableExistsError, ProtocolChangedException: another one was made meanwhile; the files are
            removed. CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    with TransactionFiles(store, transaction).discarded_on_failure():
        context = create_as(store, metadata, exist_ok=exist_ok, checked=True)
        if context.view.head.metadata != metadata:
            raise TableExistsError(store.uri, "made meanwhile, with other columns")

    def stage(pinned: TransactionSnapshot, _: None) -> Staged:
        return append_files(transaction, added, metadata, read_version=pinned.version)

    # Who made it meanwhile may have been this very write.
    statement = Statement(name=NAME, stage=stage, engine=EngineRows(digest=digest))
    begun = Begun(
        transaction=transaction,
        version=context.view.head.version,
        measured=measured,
        began=began,
    )
    return context, autocommit(context, statement, options, begun=begun)


def check_partitioning(there: Metadata, partition_by: Partitions) -> None:
    """Refuse another partitioning than the table's. Raises SchemaMismatchError."""
    names = checked_names(partition_by, "partition_by")
    known = there.partition_names
    if names and [folded(n) for n in names] != [folded(n) for n in known]:
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, known)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )
