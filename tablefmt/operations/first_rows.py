"""A table that is made with rows: the files first, then the table, then the commit of the files.

So rows that cannot be had or do not fit leave no table behind. Whoever comes between the last two
sees the table empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.bounds import stats_of
from tablefmt.data.write import write_data
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, TableExistsError
from tablefmt.model.arguments import check_flags, checked_names
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import create_as, definition, is_there, prepare
from tablefmt.session.context import TableContext
from tablefmt.session.files import TransactionFiles
from tablefmt.session.measurements import Measured
from tablefmt.session.options import CommitOptions
from tablefmt.session.receipt import Commit
from tablefmt.session.source import source_reader
from tablefmt.session.staging import commit_staged
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
        TableExistsError: before anything is read. InvalidRangeError: exist_ok.
        As `source_reader` and `create_with_rows`.
    """
    check_flags(exist_ok=exist_ok)
    if exist_ok:
        raise InvalidRangeError(
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
    measured = Measured.start(SYSTEM.monotonic, store)
    prepare(store)
    transaction = SYSTEM.nonce()
    with TransactionFiles(store, transaction).removed_on_failure():
        stats = stats_of(metadata)
        added = write_data(store, transaction, rows, metadata, stats, prefix="0-")
    return commit_first(
        store, metadata, transaction, added, options, exist_ok=exist_ok, measured=measured
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
        measured: since the work began.
        digest: of the content, where it is known.

    Raises:
        IdempotenceError: CFL-7, what another has applied meanwhile.
        TableExistsError, ProtocolChangedException: another one was made meanwhile; the files are
            removed. CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    try:
        context = create_as(store, metadata, exist_ok=exist_ok, checked=True)
        context.measured = measured
        if context.view.head.metadata != metadata:
            raise TableExistsError(store.uri, "made meanwhile, with other columns")
        # Who made it meanwhile may have been this very write.
        already = context.applied(options, digest, NAME)
    except Exception:
        TransactionFiles(store, transaction).discard()
        raise
    if already is not None:
        TransactionFiles(store, transaction).discard()
        return context, already
    version = context.view.head.version
    staged = append_files(transaction, added, metadata, read_version=version)
    return context, commit_staged(context, staged, options, digest)


def check_partitioning(there: Metadata, partition_by: Partitions) -> None:
    """Refuse another partitioning than the table's. Raises SchemaMismatchError."""
    names = checked_names(partition_by, "partition_by")
    known = there.partition_names
    if names and [n.casefold() for n in names] != [n.casefold() for n in known]:
        raise SchemaMismatchError(
            f"the table is partitioned by {', '.join(map(repr, known)) or 'nothing'}, not by "
            f"{', '.join(map(repr, names))}; leave partition_by out",
            names,
        )
